"""Scalar functions at their edges, and the element types that NumPy lacks, bit by bit."""

from __future__ import annotations

import itertools
import math
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from sardonyx import InferenceSession
from sardonyx import primitives as p
from sardonyx.code import scalar
from sardonyx.code.special import erf
from sardonyx.common import dtypes
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.formats import decode, encode
from sardonyx.sizes.symbolic import Guards
from tests.compiler.accuracy import ACCURACY, GUARD, LIBRARY, ROUNDED, samples, truth, ulps
from tests.engine.graphs import model
from tests.engine.providers import PROVIDERS, require_provider
from tests.support.exact import reference

INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
MINIFLOATS = {
    dtypes.bfloat16: ml_dtypes.bfloat16,
    dtypes.float8e4m3fn: ml_dtypes.float8_e4m3fn,
    dtypes.float8e4m3fnuz: ml_dtypes.float8_e4m3fnuz,
    dtypes.float8e5m2: ml_dtypes.float8_e5m2,
    dtypes.float8e5m2fnuz: ml_dtypes.float8_e5m2fnuz,
    dtypes.float8e8m0: ml_dtypes.float8_e8m0fnu,
    dtypes.float4e2m1: ml_dtypes.float4_e2m1fn,
    dtypes.float6e2m3: ml_dtypes.float6_e2m3fn,
    dtypes.float6e3m2: ml_dtypes.float6_e3m2fn,
}


@pytest.mark.parametrize(("dtype", "ulps"), [(np.float64, 4.0), (np.float32, 2.1), (np.float16, 0.51)])
def test_erf(dtype: type[np.floating], ulps: float) -> None:
    x = np.concatenate([np.linspace(-6.5, 6.5, 100001), np.geomspace(1e-7, 6, 10001)]).astype(dtype)
    exact = np.array([math.erf(value) for value in x.tolist()])
    error = np.abs(erf(x).astype(np.float64) - exact) / np.spacing(np.abs(exact).astype(dtype)).astype(np.float64)
    assert error.max() <= ulps
    edges = np.array([np.inf, -np.inf, np.nan, 0, -0.0], dtype)
    np.testing.assert_array_equal(erf(edges), np.array([1, -1, np.nan, 0, -0.0], dtype))
    assert np.signbit(erf(edges)[4])


def test_erf_into_any_memory() -> None:
    x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
    out = np.empty((4, 3), np.float32).T
    assert erf(x, out=out) is out
    np.testing.assert_array_equal(out, erf(x))
    wide = np.empty((2, 3, 4), np.float32)
    np.testing.assert_array_equal(erf(x, out=wide), np.stack([erf(x), erf(x)]))
    inside = x.copy()
    np.testing.assert_array_equal(erf(inside, out=inside), erf(x))


def edges(dtype: np.dtype[Any]) -> np.ndarray:
    """Values of a type at which something may go wrong."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        numbers = [0, 1, 2, 3, 7, 8, 31, 63, limits.max, limits.max - 1, limits.min, limits.min + 1, limits.max // 2]
        return np.array([*numbers, *([-1, -2, -7, -8] if limits.min else [])], dtype)
    limit = np.finfo(dtype)
    numbers = [0, 0.5, 1, 1.5, 2.5, 3, 1 / 3, 100, limit.max, limit.tiny, limit.smallest_subnormal, np.inf, np.nan]
    return np.array([*numbers, *(-number for number in numbers)], dtype)


TYPES = [*map(np.dtype, [np.bool_, *INTEGERS, np.float16, np.float32, np.float64])]
SIGNLESS = {"min", "max", "sign"}
"""Functions that may give either zero."""


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", sorted(scalar.FUNCTIONS.keys() - {*ROUNDED}))
def test_exact_functions(name: str, dtype: np.dtype[Any]) -> None:
    """Every bit is that of Python's integers, or of IEEE 754."""
    function = scalar.FUNCTIONS[name]
    if dtypes.of(dtype).kind not in function.kinds:
        return
    grids = [x.ravel() for x in np.meshgrid(*[edges(dtype)] * min(function.arity, 2))]
    operands = [np.arange(grids[0].size) % 3 == 0, *grids] if name == "where" else grids
    with np.errstate(all="ignore"):
        found = function.numpy(*operands)
    wanted = reference(name, *operands)
    np.testing.assert_array_equal(found, wanted, strict=True)
    if dtype.kind == "f" and found.dtype == dtype and name not in SIGNLESS:
        known = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(wanted[known]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(ACCURACY))
def test_functions_are_as_exact_as_those_of_numpy(name: str, dtype: str, rng: np.random.Generator) -> None:
    x = samples(name, dtype, rng)[::7]
    if name == "sigmoid":
        x = x[~(x < -np.log(np.finfo(dtype).max))]  # of less the reciprocal is infinite
    with np.errstate(all="ignore"):
        assert ulps(scalar.FUNCTIONS[name].numpy(x), truth(name, x)) <= LIBRARY + GUARD


@pytest.mark.parametrize("name", sorted(name for name, function in scalar.FUNCTIONS.items() if function.arity < 3))
def test_into_columns(name: str, rng: np.random.Generator) -> None:
    """Operands and results with gaps between them."""
    function = scalar.FUNCTIONS[name]
    for dtype in (np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_):
        if dtypes.of(np.dtype(dtype)).kind not in function.kinds:
            continue
        for gap, wide in itertools.product((1, 2, 3, 4, 8), (1, 2, 4, 8)):
            columns = [(rng.integers(0, 3, (33, gap)) / 2).astype(dtype)[:, :1] for _ in range(function.arity)]
            if dtype in (np.float32, np.float64):
                columns[0][3:5] = [[np.nan], [-np.inf]]
            wanted = reference(name, *columns)
            found = np.zeros((33, wide), wanted.dtype)[:, :1]
            with np.errstate(all="ignore"):
                function.numpy(*columns, out=found)
            np.testing.assert_allclose(found, wanted, rtol=1e-6, err_msg=f"{dtype.__name__} {gap} {wide}")


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_division(dtype: type[np.integer]) -> None:
    """Quotients are truncated and wrap, remainders have the sign of the dividend, by zero both are 0."""
    limits = np.iinfo(dtype)
    values = [limits.min, limits.min // 2, limits.max, limits.max - 1, 0, 1, 2, 7]
    values += [-1, -2, -7] if limits.min else []
    a, b = (grid.ravel() for grid in np.meshgrid(np.array(values, dtype), np.array(values, dtype)))
    with np.errstate(all="ignore"):
        quotient, rest = scalar.FUNCTIONS["div"].numpy(a, b), scalar.FUNCTIONS["rem"].numpy(a, b)
    assert quotient.dtype == rest.dtype == dtype
    for x, y, found, left in zip(a.tolist(), b.tolist(), quotient.tolist(), rest.tolist(), strict=True):
        exact = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) if y else 0
        assert found == (limits.min if exact > limits.max else exact)
        assert left == (x - exact * y if y else 0)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts(dtype: type[np.integer]) -> None:
    """Bits that leave are gone; by the width or more, or by less than nothing, all of them."""
    width = np.dtype(dtype).itemsize * 8
    value = np.iinfo(dtype).max - 5
    places = np.array([0, 1, width - 1, width, width + 1, 100], dtype)
    left = scalar.FUNCTIONS["shl"].numpy(np.full(places.shape, value, dtype), places)
    right = scalar.FUNCTIONS["shr"].numpy(np.full(places.shape, value, dtype), places)
    assert right.tolist() == [value >> k if k < width else 0 for k in places.tolist()]
    assert [item % 2**width for item in left.tolist()] == [(value << k) % 2**width for k in places.tolist()]
    if np.iinfo(dtype).min:
        assert scalar.FUNCTIONS["shl"].numpy(np.array([value], dtype), np.array([-1], dtype)).tolist() == [0]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("source", [np.float16, np.float32, np.float64])
def test_float_to_integer(source: type[np.floating], dtype: type[np.integer]) -> None:
    limits = np.iinfo(dtype)
    x = np.array([np.nan, np.inf, -np.inf, -0.9, 2.9], source)
    assert scalar.cast(x, np.dtype(dtype)).tolist() == [0, limits.max, limits.min, 0, 2]


def test_sizes() -> None:
    """On sizes the same functions leave expressions, and no guard where signs are known."""
    guards = Guards()
    with guards:
        size = p.sizes([guards.symbol("n", 7), 5])
        found = [p.maximum(size, 2), p.minimum(size, 2), size / 2, size % 2]
        assert not len(guards)
        found.append(-size / 2)
        assert len(guards) == 1
    shown = [str(array.sizes.tolist()) for array in found if array.sizes is not None]
    assert shown == ["[max(2, n), 5]", "[min(2, n), 2]", "[n//2, 2]", "[n%2, 1]", "[-1*(n//2), -2]"]


@pytest.mark.parametrize("dtype", MINIFLOATS, ids=str)
def test_decode(dtype: dtypes.DType) -> None:
    codes = np.arange(2**dtype.bits).astype(dtype.storage)
    found = decode(Array(dtype, codes.shape, codes)).value
    np.testing.assert_array_equal(found, codes.view(MINIFLOATS[dtype]).astype(np.float32))


@pytest.mark.parametrize("dtype", [dtype for dtype in MINIFLOATS if dtype is not dtypes.float8e8m0], ids=str)
def test_encode(dtype: dtypes.DType) -> None:
    """All values, those in the middle between two, and random ones round to nearest even."""
    codes = np.arange(2**dtype.bits).astype(dtype.storage)
    with np.errstate(invalid="ignore"):
        values = np.sort(codes.view(MINIFLOATS[dtype]).astype(np.float64))
    values = values[np.isfinite(values)]
    random = np.random.default_rng(0).uniform(-1, 1, 1000) * np.exp2(np.random.default_rng(1).uniform(-20, 3, 1000))
    inside = np.concatenate([values, (values[1:] + values[:-1]) / 2, np.clip(random, values[0], values[-1])])
    inside = inside.astype(np.float32)
    found = encode(constant(inside), dtype).value
    np.testing.assert_array_equal(found, inside.astype(MINIFLOATS[dtype]).view(dtype.storage))
    limits = encode(constant(np.array([np.inf, -1e30], np.float32)), dtype)
    if dtype is not dtypes.bfloat16:
        assert decode(limits).value.tolist() == [values[-1], values[0]]


@pytest.mark.parametrize("dtype", [dtypes.uint4, dtypes.int4, dtypes.uint2, dtypes.int2], ids=str)
def test_small_integers(dtype: dtypes.DType) -> None:
    x = np.arange(-20, 20)
    found = p.cast(p.cast(constant(x), dtype), dtypes.int64).value
    low = -(2 ** (dtype.bits - 1)) if dtype.kind == "int" else 0
    assert found is not None
    assert found.tolist() == [(item - low) % 2**dtype.bits + low for item in x.tolist()]


def test_small_arguments() -> None:
    """Functions that vanish at 0 are right to the last digits beside it."""
    x = constant(np.array([1e-7, -1e-5, 1e-3], np.float32))
    exact = np.array([1e-7, -1e-5, 1e-3], np.float32).astype(np.float64)
    for name in ("sinh", "tanh", "asinh", "atanh", "sin", "tan", "asin", "atan"):
        reference = getattr(np, name.replace("as", "arcs").replace("at", "arct"))(exact)
        np.testing.assert_allclose(getattr(p, name)(x).value, reference, rtol=3e-7)


def test_bfloat16_everywhere() -> None:
    """Primitives that compute do so on the values, not on the bits that store them."""
    x = p.cast(constant(np.array([1, 2, 3], np.float32)), dtypes.bfloat16)
    place = constant(np.array([0, 0, 1]))
    found = {
        "pad": p.pad(x, [1], [0], 0.5),
        "full": p.full([2], 1.5, dtypes.bfloat16),
        "scatter": p.scatter(x, x, [place], [0], "add"),
        "window": p.reduce_window(x, "sum", [2], [1], [1], [0], [0]),
        "mean": p.mean(x),
        "running": p.cumulative(x, "sum", 0),
        "sorted": p.sort(x, 0, descending=True)[0],
        "product": p.matmul(x, x),
    }
    assert {array.dtype for array in found.values()} == {dtypes.bfloat16}
    values = {name: p.cast(array, dtypes.float32).value for name, array in found.items()}
    assert {name: value.tolist() for name, value in values.items() if value is not None} == {
        "pad": [0.5, 1, 2, 3],
        "full": [1.5, 1.5],
        "scatter": [4, 5, 3],
        "window": [3, 5],
        "mean": 2,
        "running": [1, 3, 6],
        "sorted": [3, 2, 1],
        "product": 14,
    }


NEVER_ZERO = {
    "x - x": "y = Sub (x, x)",
    "x + -x": "z = Neg (x) y = Add (x, z)",
    "x * 0": "z = Constant <value_float = 0.0> () y = Mul (x, z)",
    "-0 * x": "z = Constant <value_float = -0.0> () y = Mul (z, x)",
    "0 / x": "z = Constant <value_float = 0.0> () y = Div (z, x)",
    "leaky": "y = LeakyRelu <alpha = 0.0> (x)",
}


@pytest.mark.parametrize("body", NEVER_ZERO.values(), ids=NEVER_ZERO)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_nan_and_infinities_do_not_vanish(provider: str, body: str) -> None:
    """Compilers of shaders take some expressions for zero that are not for all numbers."""
    require_provider(provider)
    source = model(f"g (float[7] x) => (float[7] y) {{ {body} }}")
    x = np.array([-np.inf, np.inf, np.nan, 1, -2, 0, -0.0], np.float32)
    (found,) = InferenceSession(source, providers=[provider]).run(None, {"x": x})
    with np.errstate(all="ignore"):
        (wanted,) = ReferenceEvaluator(onnx.load_from_string(source)).run(None, {"x": x})
    np.testing.assert_array_equal(found, wanted)
    there = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[there]), np.signbit(wanted[there]))
