"""Integers of 8 bits on the NumPy provider: products as floats, functions as tables, bit for bit those without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.testing import assert_array_equal
from onnx import TensorProto, helper

import sardonyx
from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.live import live_equations
from sardonyx.numpy_backend import integers
from sardonyx.numpy_backend.codegen import source
from sardonyx.numpy_backend.pieces import BLOCK_BYTES
from sardonyx.plans.epochs import code_of
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.symbolic import Guards


def check(function: Callable[..., Array], *feeds: np.ndarray, weights: tuple[np.ndarray, ...] = ()) -> list[Any]:
    """Compare a trace's output before and after; gives the equations afterwards."""
    trace = Trace(Guards())
    with trace:
        inputs = [trace.input(dtypes.of(x.dtype), x.shape) for x in feeds]
        output = function(*inputs, *(constant(w) for w in weights))
    trace.outputs = [output]
    before = evaluate(trace, feeds)
    integers.rewrite(trace, {equation.origin for equation in trace.equations})
    assert_array_equal(evaluate(trace, feeds), before)
    return live_equations(trace)


def evaluate(trace: Trace, feeds: tuple[np.ndarray, ...]) -> np.ndarray:
    known = dict(zip(trace.inputs, feeds, strict=True))
    for equation in trace.equations:
        operands = [known[x] if x.value is None else x.value for x in equation.inputs]
        with np.errstate(all="ignore"):
            results = equation.primitive.numpy(*operands, **equation.params)
        known.update(zip(equation.outputs, results, strict=True))
    return known[trace.outputs[0]]


def numbers(dtype: Any, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.random.default_rng(0).integers(info.min, info.max, shape, endpoint=True).astype(dtype)


def products(equations: list[Any]) -> set[str]:
    names = ("dot_general", "conv_general")
    return {x.dtype.name for equation in equations if equation.primitive.name in names for x in equation.inputs}


def scaled(total: Array, bias: int) -> Array:
    return p.round_even(p.cast(total + bias, dtypes.float32) * 0.013)


@pytest.mark.parametrize(
    ("depth", "bias", "expected"), [(90, 7, "float32"), (90, 1 << 25, "float32"), (600, 7, "int32")]
)
def test_products_are_of_floats_where_those_are_exact(depth: int, bias: int, expected: str) -> None:
    def function(x: Array, w: Array) -> Array:
        return scaled(p.matmul(p.cast(x, dtypes.int32) - 9, p.cast(w, dtypes.int32)), bias)

    x, w = np.full((5, depth), 255, np.uint8), np.full((depth, 8), -128, np.int8)
    x[:, ::7], w[::5] = 254, -127
    equations = check(function, x, weights=(w,))
    assert products(equations) == {expected}
    widened = [x.inputs[0].dtype.name for x in equations if x.primitive.name == "cast" and x.outputs[0].dtype.is_float]
    assert ("int32" in widened) == (expected == "int32" or bias > integers.EXACT)


@pytest.mark.parametrize("groups", [1, 4])
def test_convolutions(groups: int) -> None:
    def function(x: Array, w: Array) -> Array:
        wide, taps = p.cast(x, dtypes.int32) - 3, p.cast(w, dtypes.int32)
        ones, pads = (1, 1), ((1, 0), (1, 2))
        return scaled(p.conv_general(wide, taps, ones, ones, *pads, groups), -40)

    w = numbers(np.int8, 8, 4 // groups, 3, 3)
    assert products(check(function, numbers(np.uint8, 2, 4, 7, 6), weights=(w,))) == {"float32"}


@pytest.mark.parametrize(
    ("channels", "groups", "bias", "expected"),
    [
        (58, 1, 0, {"float32"}),
        (58, 1, -1000, {"float32"}),
        (59, 1, 12345, {"float32"}),
        (120, 1, 7, {"int32"}),  # half of the channels is too much, too
        (116, 2, 7, {"int32"}),
    ],
)
def test_convolutions_whose_halves_alone_are_exact(channels: int, groups: int, bias: int, expected: set[str]) -> None:
    def total(x: Array, w: Array) -> Array:
        wide, taps = p.cast(x, dtypes.int32) - 1, p.cast(w, dtypes.int32)
        return p.conv_general(wide, taps, (1, 1), (1, 1), (1, 0), (1, 2), groups)

    random = np.random.default_rng(5)
    w = np.where(random.random((4, channels // groups, 3, 3)) < 0.2, 127, -128).astype(np.int8)
    x = np.where(random.random((2, channels, 5, 4)) < 0.03, 7, 255).astype(np.uint8)
    equations = check(lambda x, w: scaled(total(x, w), bias), x, weights=(w,))
    assert products(equations) == expected
    assert sum(each.primitive.name == "conv_general" for each in equations) == (2 if expected == {"float32"} else 1)
    check(total, x, weights=(w,))


@pytest.mark.parametrize(
    ("zero", "bias", "expected"),
    [(9, 5, False), (200, 5, False), (200, -(1 << 21), False), (200, 1 << 23, True), (300, 5, True)],
)
def test_sums_of_weights_are_taken_away_from_floats(zero: int, bias: int, expected: bool) -> None:
    """How large they are is looked at; the last difference may be one that float32 rounds, as it does int32."""

    def function(x: Array, w: Array) -> Array:
        wide = p.cast(w, dtypes.int32)
        centred = p.matmul(p.cast(x, dtypes.int32), wide) - p.sum_(wide * zero, [0], keepdims=True)
        return p.cast(centred + bias if bias != 5 else centred, dtypes.float32)

    random = np.random.default_rng(1)
    x = np.where(random.random((3, 500)) < 0.05, 0, 255).astype(np.uint8)
    w = np.where(random.random((500, 140)) < 0.5, -127, 126).astype(np.int8)
    w[:, :70] = -128
    equations = check(function, x, weights=(w,))
    assert products(equations) == {"float32"}
    widened = [each for each in equations if each.primitive.name == "cast" and each.outputs[0] in equations[-1].outputs]
    assert bool(widened) is expected


def test_weights_that_cancel_are_one_product() -> None:
    """What can be summed up counts, not how many channels there are."""

    def function(x: Array, w: Array) -> Array:
        return scaled(p.conv_general(p.cast(x, dtypes.int32), p.cast(w, dtypes.int32), (1,), (1,), (0,), (0,), 1), 1)

    equations = check(function, numbers(np.uint8, 1, 900, 5), weights=(np.ones((3, 900, 1), np.int8),))
    assert sum(each.primitive.name == "conv_general" for each in equations) == 1


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_functions_of_bytes_are_tables(dtype: Any) -> None:
    def function(x: Array) -> Array:
        wide = (p.cast(x, dtypes.float32) - 3.0) * 0.05
        swish = p.round_even(wide * p.sigmoid(wide) / 0.031) + 5.0
        return p.cast(p.minimum(p.maximum(swish, 0.0), 255.0), dtypes.uint8)

    names = [equation.primitive.name for equation in check(function, np.arange(256).astype(np.uint8).view(dtype))]
    assert "gather" in names


def test_what_is_short_or_reads_others_is_no_table() -> None:
    x, y = numbers(np.uint8, 4, 5), numbers(np.uint8, 4, 5)
    assert all(e.primitive.name != "gather" for e in check(lambda x: p.cast(x, dtypes.float32) * 0.5, x))

    def both(x: Array, y: Array) -> Array:
        total = p.cast(x, dtypes.float32) * 0.5 + p.cast(y, dtypes.float32) * 0.25
        return p.cast(p.minimum(p.maximum(p.round_even(p.sigmoid(total) * 9.0) + 1.0, 0.0), 255.0), dtypes.uint8)

    assert all(equation.primitive.name != "gather" for equation in check(both, x, y))


@pytest.mark.parametrize(("low", "high"), [(-128, 127), (-128, 128), (-129, 127)])
def test_bounds_are_one_call_and_what_they_leave_is_converted(low: int, high: int) -> None:
    """Numbers that are not, and those beyond what the type has."""
    x = np.array([np.nan, -np.inf, -300, -0.5, 4.7, 127.9, 300, np.inf], np.float32)
    model = bounded(x, low, high)
    session = sardonyx.InferenceSession(model.SerializeToString(), providers=["NumpyExecutionProvider"])
    (found,) = session.run(None, {"x": x})
    assert found.tolist() == [0, -128, -128, 0, 4, 127, 127, 127]
    (text,) = (source(code_of(code)) for code in session.plans[0].codes)
    assert "np.clip(" in text
    assert ("narrowed(" in text) == (low == -128 and high == 127)


def test_what_has_one_element_is_computed_once_for_all_blocks() -> None:
    x = np.random.default_rng(0).uniform(-1, 2, (300, 700)).astype(np.float32)
    assert x.nbytes > 2 * BLOCK_BYTES
    nodes = [helper.make_node("Neg", ["s"], ["e"]), helper.make_node("Mul", ["x", "e"], ["m"])]
    nodes.append(helper.make_node("Floor", ["m"], ["y"]))
    given = [helper.make_tensor_value_info(key, TensorProto.FLOAT, shape) for key, shape in (("x", x.shape), ("s", []))]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)
    model = helper.make_model(helper.make_graph(nodes, "scaled", given, [output]), ir_version=8)
    session = sardonyx.InferenceSession(model.SerializeToString(), providers=["NumpyExecutionProvider"])
    scale = np.float32(0.3)
    (found,) = session.run(None, {"x": x, "s": scale})
    assert_array_equal(found, np.floor(x * -scale))
    (text,) = (source(code_of(code)) for code in session.plans[0].codes)
    before, inside = text.split("for out, ")
    assert "f_neg(" in before
    assert "f_neg(" not in inside


def bounded(x: np.ndarray, low: int, high: int) -> onnx.ModelProto:
    """A model that bounds and converts to int8."""
    nodes = [
        helper.make_node("Clip", ["x", "low", "high"], ["bounded"]),
        helper.make_node("Cast", ["bounded"], ["y"], to=TensorProto.INT8),
    ]
    constants = [
        helper.make_tensor(key, TensorProto.FLOAT, [], [number]) for key, number in (("low", low), ("high", high))
    ]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)
    result = helper.make_tensor_value_info("y", TensorProto.INT8, x.shape)
    graph = helper.make_graph(nodes, "bounds", [given], [result], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
