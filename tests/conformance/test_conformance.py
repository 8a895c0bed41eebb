"""ONNX's backend cases on every provider: what `expected.json` says passes must pass, and the other way round."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance import expectation
from tests.conformance.cases import Outcome, cases
from tests.engine.providers import NUMPY, WASM, WEBGPU, require_provider

SAMPLE = 20


@pytest.mark.parametrize(
    ("provider", "every"),
    [
        pytest.param(NUMPY, 1, id="numpy", marks=pytest.mark.slow),
        pytest.param(WASM, SAMPLE, id="wasm-sample", marks=pytest.mark.slow),
        pytest.param(WEBGPU, SAMPLE, id="webgpu-sample", marks=pytest.mark.slow),
        pytest.param(WASM, 1, id="wasm", marks=pytest.mark.nightly),
        pytest.param(WEBGPU, 1, id="webgpu", marks=pytest.mark.nightly),
    ],
)
def test_provider(provider: str, every: int, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    require_provider(provider)
    file = tmp_path / "outcomes.json"
    command = ["-m", "tests.conformance", "--provider", provider, "--every", str(every), "--json", str(file)]
    subprocess.run([sys.executable, *command], check=True, capture_output=True)
    outcomes = {name: Outcome(**outcome) for name, outcome in json.loads(file.read_text()).items()}
    record_property("summary", f"ONNX's cases on {provider}: {expectation.summary(outcomes.values())}")
    assert len(outcomes) == len(cases()[::every])
    differences = expectation.differences(provider, outcomes)
    assert not differences, "\n".join([*differences, "to regenerate: python -m tests.conformance --write"])


def test_expected_names_every_case() -> None:
    assert list(expectation.load()) == [case.name for case in cases()]
