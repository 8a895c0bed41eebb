"""Hosts with fewer features run the same models: without relaxed SIMD, and without SIMD."""

from __future__ import annotations

import numpy as np
import pytest

import sardonyx
from sardonyx.demo import assets
from tests.engine.providers import NUMPY, WASM
from tests.models import assert_close, inputs, path, reference
from tests.support import require

require("wasm")


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
