"""Hosts with fewer features run the same models: without relaxed SIMD, and without SIMD."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import sardonyx
from sardonyx.demo import assets
from sardonyx_wasm import _device
from sardonyx_wasm.hosts import host
from tests.engine.providers import NUMPY, WASM
from tests.models import assert_close, inputs, path, reference
from tests.support import require

require("wasm")


@pytest.fixture(params=[["relaxed-simd", "simd", "threads"], ["simd", "threads"], []], ids="+".join)
def features(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[frozenset[str]]:
    few = frozenset(request.param) & host().features
    monkeypatch.setattr(host(), "features", few)
    _device.cache_clear()
    yield few
    _device.cache_clear()


def test_a_small_model(features: frozenset[str]) -> None:
    model = assets() / "digits.onnx"
    x = np.random.default_rng(0).random((3, 1, 28, 28), np.float32)
    found, expected = (
        sardonyx.InferenceSession(model, providers=[provider]).run(None, {"image": x})[0] for provider in (WASM, NUMPY)
    )
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("id", ["ppocr2-cls", "minilm-l3"])
def test_real_models(id: str, features: frozenset[str]) -> None:
    session = sardonyx.InferenceSession(path(id), providers=[WASM])
    assert_close(id, session.run(None, inputs(id)), reference(id))
