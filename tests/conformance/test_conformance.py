"""ONNX's backend cases on every provider: what `expected.json` says passes must pass, and the other way round."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.conformance import expectation
from tests.conformance.cases import Outcome, cases
from tests.engine.providers import NUMPY, WASM, WEBGPU, require_provider

pytestmark = pytest.mark.slow
Recorder: TypeAlias = Callable[[str, object], None]
SAMPLE = 20
"""On the slower providers one of so many cases runs every time, all of them nightly."""


@pytest.mark.parametrize("provider", [NUMPY])
@pytest.mark.parametrize("sizes", ["declared", "unknown"])
def test_all(provider: str, sizes: str, tmp_path: Path, record_property: Recorder) -> None:
    check(provider, 1, sizes, tmp_path / "outcomes.json", record_property)


@pytest.mark.parametrize("provider", [WASM, WEBGPU])
def test_sample(provider: str, tmp_path: Path, record_property: Recorder) -> None:
    check(provider, SAMPLE, "declared", tmp_path / "outcomes.json", record_property)


@pytest.mark.nightly
@pytest.mark.parametrize("provider", [WASM, WEBGPU])
@pytest.mark.parametrize("sizes", ["declared", "unknown"])
def test_all_compiled(provider: str, sizes: str, tmp_path: Path, record_property: Recorder) -> None:
    check(provider, 1, sizes, tmp_path / "outcomes.json", record_property)


def check(provider: str, every: int, sizes: str, file: Path, record_property: Recorder) -> None:
    """Run every n-th case in a process of its own, and assert that what passes is what is expected to."""
    require_provider(provider)
    command = ["-m", "tests.conformance", "--provider", provider, *["--unknown-sizes"] * (sizes == "unknown")]
    written = ["--every", str(every), "--json", str(file)]
    done = subprocess.run([sys.executable, *command, *written], capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stderr
    outcomes = {name: Outcome(**outcome) for name, outcome in json.loads(file.read_text()).items()}
    counts = expectation.summary(outcomes.values())
    record_property("summary", f"ONNX's cases on {provider}, {sizes} sizes: {counts}")
    assert len(outcomes) == len(cases()[::every])
    differences = expectation.differences(expectation.label(provider, sizes == "unknown"), outcomes)
    assert not differences, "\n".join([*differences, f"to regenerate: python {' '.join(command)} --write"])


def test_expected_names_every_case() -> None:
    assert list(expectation.load()) == [case.name for case in cases()]
