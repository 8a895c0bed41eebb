"""Integers that floats hold: conversions vanish where nothing is lost, and stay where something is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

import sardonyx
from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.finish import finish
from sardonyx.compiler.lower import KernelBuilder
from sardonyx.primitives.array import Array
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.symbolic import Guards

SIZE = 64


def functions_of(
    function: Callable[..., Array],
    dtype: dtypes.DType = dtypes.float32,
    before: Callable[[Array], Array] | None = None,
) -> list[str]:
    """What the kernel computes that gives a function of one tensor, and of what another kernel made of it `before`."""
    trace = Trace(Guards({}))
    with trace:
        x = trace.input(dtype, (SIZE,))
        read = [x] if before is None else [x, before(x)]
        y = function(*read)
        trace.outputs = [y]
    builder = KernelBuilder(
        lambda array: any(array is one for one in read) or (array.value is not None and array.value.size > 1)
    )
    place = builder.axis(SIZE)
    node = builder.element(y, (place,))
    builder.writes.append(y)
    builder.stores.append((0, place, node))
    return [function for function, *_ in finish(builder, "kernel")[0].nodes if function not in ("const", "load")]


def quantized(x: Array, zero: int, dtype: dtypes.DType = dtypes.uint8) -> Array:
    low = -128 if dtype is dtypes.int8 else 0
    moved = p.round_even(x) + p.constant(float(zero), dtypes.float32)
    return p.cast(p.minimum(p.maximum(moved, float(low)), float(low + 255)), dtype)


def centred(x: Array, zero: int) -> Array:
    return p.cast(p.cast(x, dtypes.int32) - p.constant(zero, dtypes.int32), dtypes.float32)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: centred(quantized(x, 9), 9), ["round", "max", "min"]),
        (lambda x: centred(quantized(x, -5, dtypes.int8), -5), ["round", "max", "min"]),
        (lambda x: centred(quantized(x, 9), 4), ["round", "add", "max", "min"]),
        (lambda x: p.cast(quantized(x, 9), dtypes.float32), ["round", "add", "max", "min"]),
        (lambda x: p.cast(p.cast(p.round_even(x), dtypes.uint8), dtypes.float32), ["round", "cast", "cast"]),
        (
            lambda x: p.cast(p.cast(p.minimum(p.maximum(x, 0.0), 255.0), dtypes.uint8), dtypes.float32),
            ["max", "min", "cast", "cast"],
        ),
        (
            lambda x: p.cast(p.cast(quantized(x, 9), dtypes.int8), dtypes.float32),
            ["round", "add", "max", "min", "cast", "cast", "cast"],
        ),
    ],
)
def test_conversions_vanish_where_numbers_are_whole_and_fit(
    function: Callable[[Array], Array], expected: list[str]
) -> None:
    assert functions_of(function) == expected


@pytest.mark.parametrize(
    ("before", "is_whole"),
    [
        (lambda x: p.round_even(-x), True),
        (lambda x: p.minimum(p.maximum(p.round_even(-x), 0.0), 255.0), True),
        (lambda x: p.reshape(p.round_even(x) * 2.0 + 3.0, [SIZE]), True),
        (p.absolute, False),
        (lambda x: p.round_even(x) + 0.5, False),
        (lambda x: p.round_even(x) + x, False),
    ],
)
def test_what_another_kernel_rounded_is_whole(before: Callable[[Array], Array], is_whole: bool) -> None:
    """As the zero points of DynamicQuantizeLinear are."""

    def function(x: Array, zero: Array) -> Array:
        bounded = p.minimum(p.maximum(p.round_even(x) + zero, 0.0), 255.0)
        return p.cast(p.cast(bounded, dtypes.uint8), dtypes.float32)

    conversions = [] if is_whole else ["cast", "cast"]
    assert functions_of(function, before=before) == ["round", "add", "max", "min", *conversions]


@pytest.mark.parametrize(
    ("inner", "by", "expected"),
    [
        (p.round_even, 7.0, ["round", "max", "min"]),
        (p.round_even, 5.0, ["round", "add", "max", "min"]),
        (p.round_even, 0.5, ["round", "add", "max", "min", "sub"]),
        (p.absolute, 7.0, ["abs", "add", "max", "min", "sub"]),
    ],
)
def test_moves_there_and_back_are_one(inner: Callable[[Array], Array], by: float, expected: list[str]) -> None:
    found = functions_of(lambda x: p.minimum(p.maximum(inner(x) + 7.0, 0.0), 255.0) - by)
    assert found == expected


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(dtypes.uint8, ["cast", "sub"]), (dtypes.int16, ["cast", "sub"]), (dtypes.int32, ["sub", "cast"])],
)
def test_few_bits_that_were_read_are_floats_at_once(dtype: dtypes.DType, expected: list[str]) -> None:
    def function(x: Array) -> Array:
        return p.cast(p.cast(x, dtypes.int32) - p.constant(3, dtypes.int32), dtypes.float32)

    assert functions_of(function, dtype) == expected


@pytest.mark.parametrize(("largest", "exact"), [(127, True), (1 << 20, False)])
def test_products_with_constants_are_those_of_floats_where_they_are_exact(largest: int, exact: bool) -> None:
    factors = np.linspace(-largest, largest, SIZE).astype(np.int32)

    def function(x: Array) -> Array:
        centre = p.cast(x, dtypes.int32) - p.constant(3, dtypes.int32)
        return p.cast(centre * p.constant(factors, dtypes.int32), dtypes.float32)

    found = functions_of(function, dtypes.uint8)
    assert [each for each in found if each != "cast"] == ["sub", "mul"]
    assert (found[-1] == "cast") is not exact


TEXT = """<ir_version: 9, opset_import: ["": 19]> g (float[5,24] x, float[24] k) => (float[5,24] y)
<float s = {0.05}, uint8 z = {115}, float t = {0.07}, int8 w = {-7}> {
  q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) a = Add(d, k)
  r = QuantizeLinear(a, t, w) e = DequantizeLinear(r, t, w) b = Mul(e, k)
  u = QuantizeLinear(b, s, z) y = DequantizeLinear(u, s, z) }"""


@pytest.mark.parametrize("provider", ["NumpyExecutionProvider", "WasmExecutionProvider"])
def test_chains_of_rounding_have_the_numbers_of_the_reference(provider: str) -> None:
    model = parser.parse_model(TEXT)
    random = np.random.default_rng(0)
    x = random.normal(0, 6, (5, 24)).astype(np.float32)
    x[0, :4] = [1e7, -1e7, 0.025, -0.0]
    feeds = {"x": x, "k": random.normal(1, 0.5, 24).astype(np.float32)}
    (expected,) = ReferenceEvaluator(model).run(None, feeds)
    (found,) = sardonyx.InferenceSession(model.SerializeToString(), providers=[provider]).run(None, feeds)
    np.testing.assert_array_equal(found, expected)


def test_the_model_is_valid() -> None:
    onnx.checker.check_model(parser.parse_model(TEXT), full_check=True)
