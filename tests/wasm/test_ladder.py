"""Hosts with fewer features run the same models: without relaxed SIMD, and without SIMD."""

from __future__ import annotations

import numpy as np
import pytest

import sardonyx
from sardonyx.demo import assets
from tests.engine.graphs import model
from tests.engine.providers import NUMPY, WASM
from tests.models import assert_close, inputs, path, reference
from tests.support import require

require("wasm")


def test_a_small_model(features: frozenset[str]) -> None:
    digits = assets() / "digits.onnx"
    x = np.random.default_rng(0).random((3, 1, 28, 28), np.float32)
    found, expected = (
        sardonyx.InferenceSession(digits, providers=[provider]).run(None, {"image": x})[0] for provider in (WASM, NUMPY)
    )
    np.testing.assert_allclose(found, expected, atol=1e-6)


WINDOWS = """
g (float[N, 1, H, W] x) => (float[N, 1, A, B] y, int64[N, 1, A, B] places) {
  y, places = MaxPool <kernel_shape = [3, 2]> (x)
}
"""


def test_the_place_of_the_largest_in_a_window_is_that_of_the_first_nan(features: frozenset[str]) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (9, 1, 5, 6)).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    number = np.arange(x.size).reshape(x.shape)
    found, places = sardonyx.InferenceSession(model(WINDOWS), providers=[WASM]).run(None, {"x": x})
    for n, _, i, j in np.ndindex(*places.shape):
        window = np.s_[n, 0, i : i + 3, j : j + 2]
        np.testing.assert_array_equal(found[n, 0, i, j], x[window].max())
        assert places[n, 0, i, j] == number[window].flat[x[window].argmax()]


@pytest.mark.parametrize("id", ["ppocr2-cls", "minilm-l3"])
def test_real_models(id: str, features: frozenset[str]) -> None:
    session = sardonyx.InferenceSession(path(id), providers=[WASM])
    assert_close(id, session.run(None, inputs(id)), reference(id))
