"""The tuner: what is fastest is found once for sizes like these, and read back; a damaged entry counts as none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sardonyx import primitives as p
from sardonyx.common import cache
from sardonyx_webgpu import WebGpuProvider
from sardonyx_webgpu.routines.designs import SHARED, SPLIT, THREAD, Design, candidates, hardware, software
from sardonyx_webgpu.runtime import tuner
from sardonyx_webgpu.runtime.device import WebGpuDevice
from tests.support import require
from tests.webgpu.traced import evaluate

require("webgpu")

A, B = (np.random.default_rng(0).normal(size=shape).astype("f4") for shape in ((40, 128), (128, 48)))
WANTED = Design(SHARED, 4, 1, 8)
"""A candidate that is not the usual design."""


class Clock:
    """Says which candidates ran, and that one of them is fast."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fast: Design) -> None:
        self.tried: list[Design] = []
        found = tuner.Tuner._fastest

        def fastest(self_: tuner.Tuner, routine: Any, tried: list[Design], *rest: Any) -> Design:
            self.tried += tried
            found(self_, routine, tried, *rest)
            return fast

        monkeypatch.setattr(tuner.Tuner, "_fastest", fastest)


@pytest.fixture
def run(native: WebGpuDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], WebGpuDevice]:
    """Multiply on a new device that tunes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("SARDONYX_CACHE", "1")

    def multiply() -> WebGpuDevice:
        device = WebGpuDevice(native.gpu)
        device.tuner = tuner.Tuner(device)
        monkeypatch.setattr(WebGpuProvider, "device", lambda self, options: device)
        (found,), _ = evaluate(p.matmul, A, B)
        assert_allclose(found, A @ B, rtol=1e-4, atol=1e-4)
        return device

    return multiply


def chosen(device: WebGpuDevice) -> list[Design]:
    assert isinstance(device.tuner, tuner.Tuner)
    return list(device.tuner._chosen.values())


def test_the_choice_is_read_back(
    run: Callable[[], WebGpuDevice], native: WebGpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch, WANTED)
    assert chosen(run()) == [WANTED]
    assert len(clock.tried) > 3
    assert clock.tried[0] == (software if native.is_software else hardware)(1, 40, 128, 48)
    clock.tried.clear()
    assert chosen(run()) == [WANTED]
    assert clock.tried == []


@pytest.mark.parametrize("text", [b"", b"{", b'["rows", 3]', b"7", b'{"a": 1}'])
def test_what_is_damaged_is_ignored(
    run: Callable[[], WebGpuDevice], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: bytes
) -> None:
    clock = Clock(monkeypatch, WANTED)
    (key,) = run().tuner._chosen  # type: ignore[union-attr]
    cache.write(key, text)
    clock.tried.clear()
    assert chosen(run()) == [WANTED]
    assert clock.tried
    (path,) = (tmp_path / "sardonyx").glob("*.entry")
    path.write_bytes(b"not what was written")
    clock.tried.clear()
    assert chosen(run()) == [WANTED]
    assert clock.tried
    assert json.loads(bytes(cache.read(key) or b"")) == list(WANTED)


def test_candidates_are_measured(run: Callable[[], WebGpuDevice]) -> None:
    (design,) = chosen(run())
    assert design in candidates(1, 40, 128, 48)


def test_sizes_have_candidates_of_all_kinds() -> None:
    assert {design.kind for design in candidates(1, 512, 512, 512)} == {THREAD, SPLIT, SHARED}
    assert all(design.rows == 1 for design in candidates(1, 1, 512, 512))


def test_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SARDONYX_TUNE", raising=False)
    assert not tuner.is_wanted({})
    assert tuner.is_wanted({"tune": "1"})
    monkeypatch.setenv("SARDONYX_TUNE", "1")
    assert tuner.is_wanted({})
    assert not tuner.is_wanted({"tune": "0"})
