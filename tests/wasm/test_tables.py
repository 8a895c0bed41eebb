"""Functions of 8 bits become tables before a trace is fused, evaluated with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.live import live_equations
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.symbolic import Guards
from sardonyx_wasm.legalization import legalize
from tests.wasm.traces import check

TARGETS = pytest.mark.parametrize("target", ["wasmtime", "v8"])
RNG = np.random.default_rng(0)


def random(dtype: Any, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


def dequantized(x: Array, zero: int, scale: float) -> Array:
    return p.cast(p.cast(x, dtypes.int32) - zero, dtypes.float32) * scale


def quantized(x: Array, zero: int, scale: float, dtype: dtypes.DType = dtypes.uint8) -> Array:
    low = 0 if dtype is dtypes.uint8 else -128
    moved = p.round_even(x / scale) + float(zero)
    return p.cast(p.minimum(p.maximum(moved, float(low)), float(low + 255)), dtype)


def activation(x: Array, dtype: dtypes.DType = dtypes.uint8) -> Array:
    """x times HardSigmoid(x), both quantized."""
    floats = dequantized(x, 100, 0.05)
    gate = quantized(p.minimum(p.maximum(floats / 6.0 + 0.5, 0.0), 1.0), 0, 1 / 255)
    return quantized(floats * dequantized(gate, 0, 1 / 255), 10, 0.03, dtype)


def requantized(sums: Array, bias: Any, scale: Any, zero: int, dtype: dtypes.DType = dtypes.uint8) -> Array:
    scaled = p.cast(sums + constant(bias), dtypes.float32) * constant(scale)
    low = 0 if dtype is dtypes.uint8 else -128
    moved = p.round_even(scaled) + float(zero)
    return p.cast(p.minimum(p.maximum(moved, float(low)), float(low + 255)), dtype)


def convolved(x: Array, zero: int, w: np.ndarray, **params: Any) -> Array:
    ones = (1, 1)
    pads = (w.shape[2] // 2,) * 2
    wide = p.cast(x, dtypes.int32) - zero
    weights = p.cast(constant(w), dtypes.int32)
    return p.conv_general(wide, weights, params.get("strides", ones), ones, pads, pads, params.get("groups", 1))


def names_of(target: str, feeds: list[np.ndarray], function: Callable[..., Array]) -> list[str]:
    names: list[str] = []
    check(target, feeds, function, names=names)
    return names


@TARGETS
@pytest.mark.parametrize("source", [np.uint8, np.int8])
@pytest.mark.parametrize("dtype", [dtypes.uint8, dtypes.int8])
def test_activations(target: str, source: Any, dtype: dtypes.DType) -> None:
    names = names_of(target, [random(source, 3, 7, 5)], lambda x: activation(x, dtype))
    assert names == ["lookup"]


def test_what_is_cheap_stays() -> None:
    assert "lookup" not in names_of("v8", [random(np.uint8, 3, 7)], lambda x: dequantized(x, 3, 0.5))


def test_what_depends_on_two_tensors_stays() -> None:
    feeds = [random(np.uint8, 3, 7), random(np.uint8, 3, 7)]

    def function(x: Array, y: Array) -> Array:
        return quantized(dequantized(x, 3, 0.5) * dequantized(y, 5, 0.1) / 3.0, 7, 0.2)

    assert "lookup" not in names_of("v8", feeds, function)


def test_vectors_are_no_numbers() -> None:
    vector = np.linspace(0.1, 2, 5, dtype=np.float32)
    names = names_of(
        "v8", [random(np.uint8, 3, 5)], lambda x: quantized(dequantized(x, 3, 0.5) * constant(vector), 7, 1)
    )
    assert "lookup" not in names


def test_what_follows_reads_bytes() -> None:
    """The sum of two activations takes those, not floats."""
    feeds = [random(np.uint8, 4, 6), random(np.uint8, 4, 6)]

    def function(x: Array, y: Array) -> Array:
        return dequantized(activation(x), 3, 0.5) + dequantized(activation(y), 4, 0.25)

    assert names_of("v8", feeds, function).count("lookup") == 2


LAYERS = pytest.mark.parametrize(
    ("shape", "w", "params"),
    [
        ((1, 16, 6, 5), (24, 16, 1, 1), {}),
        ((2, 7, 6, 5), (8, 7, 3, 3), {}),
        ((1, 16, 7, 5), (16, 1, 3, 3), {"groups": 16}),
        ((1, 20, 7, 6), (20, 1, 5, 5), {"groups": 20, "strides": (2, 1)}),
        ((1, 18, 8, 6), (16, 18, 3, 3), {}),
    ],
)


@TARGETS
@LAYERS
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("dtype", [dtypes.uint8, dtypes.int8])
def test_layers(target: str, shape: Any, w: Any, params: Any, per_channel: bool, dtype: dtypes.DType) -> None:
    """A convolution, an activation, and another convolution that wants a border."""
    weights = random(np.int8, *w)
    size = (w[0], 1, 1) if per_channel else ()
    bias = RNG.integers(-500, 500, (1, *size) if size else ()).astype(np.int32)
    scale = RNG.uniform(1e-3, 4e-3, size).astype(np.float32)
    taps = random(np.int8, w[0], 1, 3, 3)

    def function(x: Array) -> Array:
        y = activation(requantized(convolved(x, 90, weights, **params), bias, scale, 12, dtype))
        return convolved(y, 10, taps, groups=w[0])

    names = names_of(target, [random(np.uint8, *shape)], function)
    assert names.count("requantize") == 1
    assert not {"lookup", "round", "div"} & {*names}
    assert "pad" not in names[names.index("requantize") :]


@TARGETS
def test_products(target: str) -> None:
    w = random(np.int8, 40, 30)
    bias = RNG.integers(-500, 500, 30).astype(np.int32)
    scale = RNG.uniform(1e-3, 4e-3, 30).astype(np.float32)

    def function(x: Array) -> Array:
        return requantized(p.matmul(x, constant(w), dtypes.int32), bias, scale, 3)

    assert "requantize" in names_of(target, [random(np.uint8, 9, 40)], function)


@TARGETS
def test_several_readers_share_the_bytes(target: str) -> None:
    w = random(np.int8, 16, 16, 1, 1)

    def function(x: Array) -> Array:
        y = requantized(convolved(x, 90, w), np.zeros((), np.int32), np.float32(0.002), 12)
        return p.concat([activation(y), y], 1)

    names = names_of(target, [random(np.uint8, 1, 16, 5, 4)], function)
    assert (names.count("requantize"), names.count("lookup")) == (1, 1)


@pytest.mark.parametrize("scale", [np.float32(np.inf), np.float32(np.nan)])
def test_scales_that_are_no_numbers_are_left_alone(scale: np.float32) -> None:
    trace = Trace(Guards())
    with trace:
        x = trace.input(dtypes.uint8, (9, 40))
        sums = p.matmul(x, constant(random(np.int8, 40, 30)), dtypes.int32)
        trace.give([requantized(sums, np.zeros((), np.int32), scale, 3)])
    legalize(trace, {-1}, "v8")
    assert "requantize" not in [equation.primitive.name for equation in live_equations(trace)]


def test_other_nodes_are_left_alone() -> None:
    trace = Trace(Guards())
    with trace:
        trace.give([activation(trace.input(dtypes.uint8, (3, 7)))])
    legalize(trace, {5}, "v8")
    assert "lookup" not in [equation.primitive.name for equation in live_equations(trace)]


def test_a_border_whose_width_only_the_run_tells_stays() -> None:
    guards = Guards()
    trace = Trace(guards)
    with trace:
        width = guards.symbol("n", 2)
        bytes_ = activation(trace.input(dtypes.uint8, (2, 3, 4, 5)))
        trace.give([p.pad(bytes_, [0, 0, 0, 0], [0, 0, 0, width])])
    legalize(trace, {-1}, "v8")
    assert [equation.primitive.name for equation in live_equations(trace)] == ["lookup", "pad"]
