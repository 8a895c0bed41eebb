"""Windows along one axis after the other, and what becomes of reduce_window."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sardonyx
from sardonyx.primitives.window import REDUCE_WINDOW
from tests.engine.graphs import model
from tests.support import require
from tests.wasm.compiled import Array, Compiled, run

require("wasm")
TARGETS = pytest.mark.parametrize("target", ["v8", "wasmtime"])
FUNCTIONS = pytest.mark.parametrize("function", ["max", "min", "sum"])
WINDOWS = [
    {"window": (3, 3), "strides": (1, 1), "dilations": (1, 1), "low": (1, 1)},
    {"window": (5, 4), "strides": (2, 3), "dilations": (1, 1), "low": (2, 0)},
    {"window": (2, 3), "strides": (3, 2), "dilations": (4, 3), "low": (3, 5)},
    {"window": (1, 7), "strides": (1, 1), "dilations": (1, 2), "low": (0, 6)},
    {"window": (4, 1), "strides": (1, 2), "dilations": (3, 1), "low": (9, 0)},
]


def numbers(*shape: int) -> Array:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def expected(x: Array, function: str, high: tuple[int, int], **window: Any) -> Array:
    """By NumPy, of x with its channels last."""
    values = REDUCE_WINDOW.numpy(x.transpose(0, 3, 1, 2).astype(np.float64), function, high=high, **window)[0]
    return values.transpose(0, 2, 3, 1).astype(np.float32)


def pooled(x: Array, function: str, high: tuple[int, int], window: dict[str, Any], **more: Any) -> None:
    wanted = expected(x, function, high, **window)
    attributes = {"function": function, **window}
    (found,) = run("pool", [x], [("float32", wanted.shape)], attributes, **more)
    assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@TARGETS
@FUNCTIONS
@pytest.mark.parametrize("window", WINDOWS)
def test_sizes(target: str, function: str, window: dict[str, Any]) -> None:
    for rows, columns, channels in itertools.product((6, 17), (13, 20), (1, 2, 3, 4, 7, 17)):
        for high in ((0, 0), (2, 5)):
            pooled(numbers(2, rows, columns, channels), function, high, window, target=target, pieces=3)


@TARGETS
@FUNCTIONS
def test_open_sizes(target: str, function: str) -> None:
    for window, channels in itertools.product(WINDOWS[:3], (1, 6)):
        shape = (3, 14, 19, channels)
        x = numbers(*shape)
        wanted = expected(x, function, (1, 1), **window)
        sizes = [3, 14, 19, *wanted.shape[1:3]]
        named = (("p0", "p1", "p2", channels),), (("p0", "p3", "p4", channels),)
        attributes = {"function": function, **window}
        made = Compiled("pool", (["float32"], ["float32"]), *named, 5, attributes, target)
        (found,) = made.run([x], [wanted.shape], sizes, pieces=2)
        assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@TARGETS
@pytest.mark.parametrize("channels", [1, 5, 64, 2000])
def test_long_rows_are_folded_in_blocks(target: str, channels: int) -> None:
    columns = 40_000 // channels
    for window in WINDOWS[:3]:
        if channels * ((window["window"][1] - 1) * window["dilations"][1] + 1) <= 1 << 13:
            pooled(numbers(1, 4, columns, channels), "max", (9, 9), window, target=target)


@TARGETS
@pytest.mark.parametrize("function", ["max", "min"])
@pytest.mark.parametrize("channels", [1, 4])
def test_a_nan_is_handed_on(target: str, function: str, channels: int) -> None:
    x = numbers(1, 9, 11, channels)
    x[0, 3, 4, -1] = np.nan
    for window in WINDOWS[:2]:
        wanted = expected(x, function, (1, 1), **window)
        attributes = {"function": function, **window}
        (found,) = run("pool", [x], [("float32", wanted.shape)], attributes, target=target)
        assert_array_equal(found, wanted)
        assert np.isnan(found).any()
        assert not np.isnan(found).all()


@pytest.mark.parametrize(
    ("shape", "text", "taken"),
    [
        ((2, 8, 20, 21), "y = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)", True),
        ((2, 8, 20, 21), "y = AveragePool <kernel_shape = [5, 5], pads = [2, 2, 2, 2]> (x)", True),
        ((2, 8, 50), "y = MaxPool <kernel_shape = [7], strides = [2]> (x)", True),
        ((2, 8, 20, 21), "y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)", False),
        ((2, 4, 9, 10, 11), "y = MaxPool <kernel_shape = [3, 3, 3]> (x)", False),
    ],
)
@pytest.mark.parametrize("conv", [False, True])
def test_models(shape: tuple[int, ...], text: str, taken: bool, conv: bool) -> None:
    """Of an image that a convolution made, whose channels are last, and of one as it comes."""
    taps = [shape[1], shape[1], *[1] * (len(shape) - 2)]
    weights = f"float{taps} {{{', '.join(map(str, numbers(shape[1] ** 2).tolist()))}}}"
    made_of = f"w = Constant <value = {weights}> ()  c = Conv (x, w)  {text.replace('(x)', '(c)')}" if conv else text
    made = model(f"g (float{[*shape]} x) => (float y) {{ {made_of} }}")
    x = numbers(*shape)
    session = sardonyx.InferenceSession(made, providers=["WasmExecutionProvider"])
    wanted = onnxruntime.InferenceSession(made, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    assert_allclose(session.run(None, {"x": x})[0], wanted[0], rtol=1e-4, atol=1e-4)
    assert any(code.get("primitive") == "pool" for code in session.plans[0].codes) == taken
