"""Bias and activation come after the largest of a window is found, where that gives the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sardonyx import primitives as p
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from tests.wasm.traces import check

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 5, 11, 9)).astype(np.float32)
BIAS = RNG.standard_normal((1, 5, 1, 1)).astype(np.float32)
WINDOW: dict[str, Any] = {"window": (3, 2), "strides": (2, 2), "dilations": (1, 1), "low": (1, 0), "high": (2, 1)}


def pool(x: Array, function: str = "max", **changes: Any) -> Array:
    return p.reduce_window(x, function, **{**WINDOW, **changes})


def relu(x: Array) -> Array:
    return p.maximum(x, 0.0)


def primitives(function: Callable[..., Array], *arrays: np.ndarray, weights: tuple[np.ndarray, ...] = (BIAS,)) -> str:
    """The names in order; a window is called so whether it is a kernel, or a routine between reshapes."""
    names: list[str] = []
    check("wasmtime", arrays, function, *weights, names=names)
    return " ".join({"pool": "reduce_window"}.get(name, name) for name in names if name != "reshape")


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, -0.0])
def test_rising_functions_come_later(special: float) -> None:
    x = X.copy()
    x[0, :, 3:6, 2] = special
    later = "reduce_window elementwise elementwise"
    assert primitives(lambda x, b: pool(relu(x + b)), x) == later
    assert primitives(lambda x, b: pool(p.minimum(b + x, 1.0)), x) == later


def test_windows_go_through_joined_channels() -> None:
    both = primitives(lambda x, y, b: pool(p.concat([relu(x + b), y], 1)), X, X[:, :2] * 2)
    assert both == "reduce_window elementwise elementwise reduce_window concat"


@pytest.mark.parametrize(
    "function",
    [
        lambda x, b: pool(x * b),
        lambda x, b: pool(x + constant(np.arange(9, dtype=np.float32))),
        lambda x, b: pool(relu(x + b), "min"),
        lambda x, b: pool(relu(x + b), dilations=(2, 1)),
        lambda x, b: pool(relu(x + b), low=(3, 0)),
        lambda x, b: pool(relu(x + b), strides=(1, 1)),
        lambda x, b: pool(p.concat([x, x + b], 2)),
        lambda x, b: pool(x + x),
    ],
)
def test_others_stay(function: Callable[..., Array]) -> None:
    assert primitives(function, X).endswith("reduce_window")


def test_what_others_read_stays() -> None:
    def twice(x: Array, b: Array) -> Array:
        y = relu(x + b)
        return pool(y) + p.unsqueeze(p.reduce(y, "max", [2, 3]), [2, 3])

    assert "elementwise elementwise reduce_window" in primitives(twice, X)


def test_infinite_numbers_stay() -> None:
    infinite = np.where(BIAS > 0, np.inf, BIAS).astype(np.float32)
    assert primitives(lambda x, b: pool(x + b), X, weights=(infinite,)) == "elementwise reduce_window"


def test_integers_stay() -> None:
    x = RNG.integers(-100, 100, X.shape).astype(np.int32)
    bias = np.full((1, 5, 1, 1), 2**31 - 50, np.int32)
    assert primitives(lambda x, b: pool(x + b), x, weights=(bias,)) == "elementwise reduce_window"
