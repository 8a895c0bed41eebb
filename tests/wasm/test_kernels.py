"""Generated SIMD kernels do what the primitives do, whatever range of their units is run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.primitives.array import Array
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.expression import evaluate
from sardonyx.sizes.symbolic import Guards
from sardonyx_wasm import kernels
from sardonyx_wasm.generator import Generator
from sardonyx_wasm.hosts import host
from sardonyx_wasm.kernels.graph import Graph
from sardonyx_wasm.kernels.strategy import choose
from tests.support import require
from tests.support.division import value
from tests.wasm.kernels import Expression, check, check_sizes, kernel_of, normal

require("wasm")


def reduction(function: str, axes: Sequence[int], factor: float | None = None) -> Expression:
    """What reduces an Array, and multiplies the result."""
    return lambda x: p.reduce(x, function, axes) if factor is None else p.reduce(x, function, axes) * factor


SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 33, 100]


@pytest.mark.parametrize("n", SIZES)
def test_chain(n: int) -> None:
    check(lambda x, y: p.maximum(x + y, 0.0), normal(n), normal(n, seed=1))


@pytest.mark.parametrize("n", SIZES)
def test_broadcasts(n: int) -> None:
    x = normal(6, n)
    check(lambda x, y: x * y, x, normal(n))
    check(lambda x, y: x * y, x, normal(6, 1))
    check(lambda x, y: x * y, normal(1, n), normal(6, 1))
    check(lambda x, y: x * y - 1.0, normal(3, n, 5), normal(n, 1))


PMIN = b"\xfd\xea\x01"
BOUNDS = pytest.mark.parametrize(
    ("low", "high", "dtype", "again"),
    [
        *[(-128, 127, "int8", 0), (-3.5, 126.5, "int8", 0), (-129, 127, "int8", 1), (-9, 128, "int8", 1)],
        *[(-(2**15), 2**15 - 1, "int16", 0), (-(2**15), 2**15, "int16", 1), (-5, 255, "uint8", 1)],
    ],
)


@BOUNDS
@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
@pytest.mark.parametrize("n", SIZES)
def test_what_is_bounded_saturates(low: float, high: float, dtype: str, again: int, source: str, n: int) -> None:
    """Also where its own dtype rounds a bound; NaN is 0."""
    edges = [low, high, low - 1, high + 1, 0.5, 1.5, -2.5, -200, 300, 3e4, np.nan, np.inf, -np.inf]
    x, short = np.resize(np.array(edges, source), n), dtypes.by_name(dtype)
    bounded = np.nan_to_num(np.clip(x, *np.array([low, high], source)).astype(np.float64))
    limits = np.iinfo(dtype)
    expected = np.clip(np.trunc(bounded), limits.min, limits.max).astype(dtype)
    check(lambda x: p.cast(p.minimum(p.maximum(x, low), high), short), x, expected=expected)

    def moved(x: Array) -> Array:
        whole = p.cast(p.cast(p.minimum(p.maximum(x, low), high), short), dtypes.int32)
        return p.cast(whole - 7, dtypes.int16)

    check(moved, x, expected=(expected.astype(np.int32) - 7).astype(np.int16))


@BOUNDS
def test_what_is_bounded_is_not_bounded_again(low: float, high: float, dtype: str, again: int) -> None:
    def bounds(is_bounded: bool) -> int:
        trace = Trace(Guards())
        with trace:
            x = trace.input(dtypes.float32, (64,))
            bounded = p.minimum(p.maximum(x, low), high) if is_bounded else x
            output = p.cast(bounded, dtypes.by_name(dtype))
        kernel, *_ = kernel_of(output, trace.equations)
        unit = Generator(host().features, "v8")
        unit.module.export(kernels.write(unit, kernel).function)
        return unit.module.to_bytes().count(PMIN)

    assert bounds(True) == bounds(False) * (1 + again)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_floats_saturate_to_short_integers(dtype: str, n: int) -> None:
    """In vectors, and side by side where several fill one; NaN is 0."""
    limits = np.iinfo(dtype)
    edges = [limits.min, limits.max, limits.min - 1, limits.max + 1, limits.max - 0.5, -0.5, 1.5, -1.5]
    x = np.resize(np.array([*edges, np.nan, np.inf, -np.inf, 3e9, -3e9, 2.0**31], np.float32), n)
    whole = np.trunc(np.nan_to_num(x.astype(np.float64), posinf=1e30, neginf=-1e30))
    expected = np.clip(whole, limits.min, limits.max).astype(dtype)
    check(lambda x: p.cast(x, dtypes.by_name(dtype)), x, expected=expected)
    rows, wanted = (np.stack([array, array[::-1], array]) for array in (x, expected))
    check(lambda x: p.cast(x + 0.0, dtypes.by_name(dtype)), rows, expected=wanted)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", ["uint8", "float16"])
def test_one_side_is_computed_for_several_vectors(dtype: str, n: int) -> None:
    """Vectors that are stored together wait for one another, also where a scalar chooses what is computed of them."""
    to = dtypes.by_name(dtype)
    for chosen in (False, True):
        check(
            lambda c, x, y: p.where(c, p.cast((x + 3.0) * 9.0, to), p.cast((y - 1.0) * 7.0 + 90.0, to)),
            np.array(chosen),
            normal(n),
            normal(n, seed=1),
            rtol=1e-3,
        )


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("target", ["wasmtime", "v8"])
def test_functions_of_several_vectors(n: int, target: str) -> None:
    """For V8 they are computed step by step for all of them."""
    check(lambda x: p.sigmoid(x) * x, normal(n), target=target)
    check(lambda x, y: p.tanh(p.erf(x) * y) + p.exp(y), normal(3, n), normal(3, 1, seed=1), target=target)
    check(lambda x: p.exp(x) ** 1.5, normal(2, n), target=target)
    check(lambda x: p.log(p.reduce(p.exp(x), "sum", [1])), normal(3, n), target=target)
    check(lambda x: p.reduce(p.cos(x), "max", [0]), normal(3, n), target=target)
    check(lambda x: p.erf(x) * 0.5, normal(n, dtype="float16"), target=target)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("m", [1, 3, 4, 5, 17, 20])
def test_transposes(n: int, m: int) -> None:
    check(lambda x: p.transpose(x, [1, 0]), normal(n, m))
    check(lambda x: p.transpose(x, [0, 2, 1]) * 2.0, normal(3, n, m))
    check(lambda x, y: p.transpose(x, [0, 2, 1, 3]) + y, normal(2, n, 5, m), normal(m))
    check(lambda x, y: p.transpose(x, [0, 2, 3, 1]) + y, normal(2, n, 5, m), normal(n))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("low", "high"), [(1, 0), (0, 2), (2, 3), (9, 5)])
def test_borders_along_lanes(n: int, low: int, high: int) -> None:
    check(lambda x: p.pad(x, [low], [high], 1.5) * 2.0, normal(n))
    check(lambda x, y: p.pad(x * y, [0, low], [0, high]), normal(3, n), normal(n, seed=1))
    check(lambda x: p.pad(p.transpose(x, [1, 2, 0]), [1, low, 0], [2, high, 0]), normal(3, 4, n))
    check(lambda x: p.pad(p.transpose(x, [0, 2, 1]), [0, 1, low], [0, 0, high]), normal(2, n, 6))
    check(
        lambda x: p.slice_(p.pad(x, [1, low], [1, high]), [0, 0], [3, (n + low + high + 1) // 2], [1, 2]), normal(2, n)
    )


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("function", ["sum", "prod", "max", "min"])
def test_reductions(n: int, function: str) -> None:
    for axes in ([1], [0], [0, 1]):
        check(reduction(function, axes, 3.0), normal(7, n), rtol=1e-5)
    for axes in ([1], [0, 2], [0], [2], [0, 1, 2]):
        check(reduction(function, axes), normal(5, n, 6), rtol=1e-5)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("function", ["argmax", "argmin"])
def test_positions(n: int, function: str) -> None:
    x = np.round(normal(7, n))
    x[3] = -np.inf
    for axis in (0, 1):
        check(reduction(function, [axis]), x)
    check(reduction(function, [0]), normal(n, 6, dtype="int64"))
    y = normal(6, n)
    y[2, n // 2] = np.nan
    y[4, :] = np.nan
    check(reduction(function, [1]), y)
    check(reduction(function, [0]), y)


# ---- dtypes

DTYPES = ["float16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [3, 8, 17])
def test_dtypes(dtype: str, n: int) -> None:
    x, y = normal(5, n, dtype=dtype), normal(n, dtype=dtype, seed=1)
    check(lambda x, y: p.maximum(x + y, 1) * x, x, y)
    check(lambda x, y: p.where(x > y, x, y), x, y)
    check(lambda x, y: x > y, x, y)
    check(lambda x: p.transpose(x, [1, 0]), x)
    check(lambda x: p.transpose(x, [1, 0]), normal(9, n, dtype=dtype))
    for axis in (0, 1):
        check(reduction("sum", [axis]), x, rtol=1e-5, atol=1e-2 if dtype == "float16" else 1e-6)
        check(reduction("max", [axis]), x)
        check(reduction("argmin", [axis]), x)
    check(lambda x: p.cast(x, dtypes.float32) * 0.5, x)
    check(lambda x: p.cast(x * 100.0, dtypes.by_name(dtype)), normal(4, n))


@pytest.mark.parametrize("n", [1, 4, 7, 32])
def test_bool(n: int) -> None:
    x, y = normal(6, n, dtype="bool"), normal(6, n, dtype="bool", seed=1)
    check(lambda x, y: x & ~y, x, y)
    check(lambda x: p.transpose(x, [1, 0]), x)
    check(lambda c, x: p.where(c, x, -1.0), x, normal(6, n))
    check(lambda c, x: p.where(c, x, -1.0), x[:, :1].copy(), normal(6, n))
    for axes in ([0], [1], [0, 1]):
        check(reduction("any", axes), x)
        check(reduction("all", axes), x)
        check(reduction("any", axes), normal(6, n) > 3.0)


# ---- movement


@pytest.mark.parametrize("n", [5, 8, 18])
def test_slices(n: int) -> None:
    x = normal(7, n, 6)
    check(lambda x: p.slice_axis(x, 1, 1, n - 2) + 1.0, x)
    check(lambda x: p.slice_axis(x, 2, 1, 4), x)
    check(lambda x: p.slice_axis(x, 2, 0, 3, 2), x)
    check(lambda x: p.slice_axis(p.transpose(x, [0, 2, 1]), 2, 1, (n - 1) // 2, 2), x)
    check(lambda x: p.slice_axis(p.reshape(x, [42 * n]), 0, 1, 2 * n, 3), x)
    check(lambda x: p.slice_axis(p.reshape(x, [42 * n]), 0, 1, 2 * n, 2), normal(7, n, 6, dtype="int16"))
    check(lambda x: p.flip(x, [2]), x)
    check(lambda x: p.flip(x, [0, 1]), x)
    check(lambda x: p.flip(p.transpose(x, [2, 0, 1]), [2]), x)
    check(lambda x: p.reduce(p.flip(x, [2]), "sum", [1]), x)


@pytest.mark.parametrize("n", [3, 6, 17])
def test_borders(n: int) -> None:
    x = normal(2, n, 5)
    check(lambda x: p.pad(x, [0, 1, 2], [0, 2, 1], 3.0), x)
    check(lambda x: p.pad(x, [0, 2, 0], [0, 1, 0], 3.0) * 2.0, x)
    check(lambda x: p.pad(p.exp(x) + x * x, [0, 2, 0], [0, 1, 0], 3.0), x)
    check(lambda x: p.reduce(p.pad(x, [0, 1, 2], [0, 2, 1], 3.0), "sum", [1]), x, rtol=1e-5)
    check(lambda x: p.transpose(p.pad(x, [0, 1, 2], [0, 2, 1], 3.0), [2, 0, 1]), x)


def test_lanes_are_along_an_image_inside_of_its_border() -> None:
    """Not along the batch, which is the only axis where an index is not clamped, and has one image."""
    trace = Trace(Guards())
    with trace:
        batch = trace.guards.symbol("batch", 1)
        image = trace.input(dtypes.float32, (batch, 24, 24, 3))
        padded = p.pad(image, [0, 3, 3, 0], [0, 2, 2, 0])
    kernel, _, _ = kernel_of(padded, trace.equations)
    assert kernel.space == ("p0", *kernel.space[1:3], 3)
    assert choose(Graph(kernel), "wasmtime").lanes == 2


@pytest.mark.parametrize("n", [3, 6, 17])
def test_reshapes(n: int) -> None:
    check(lambda x: p.transpose(p.reshape(p.transpose(x, [1, 0]), [5, n, 4]), [2, 0, 1]), normal(4 * n, 5))
    check(lambda x: p.reshape(p.transpose(x, [1, 0]), [4, n]), normal(n, 4))
    check(lambda x: p.reshape(p.transpose(p.reshape(x, [n, 2, 6]), [0, 2, 1]), [n * 3, 4]), normal(n, 12))
    check(lambda x, y: p.reshape(x, [n, 12]) + y, normal(3 * n, 4), normal(n, 1))
    check(lambda x: p.reshape(p.transpose(x, [3, 0, 1, 2]), [n, 3, 2, 17]), normal(2, 3, 17, n))


@pytest.mark.parametrize("n", [3, 6, 17])
def test_gathers(n: int) -> None:
    x = normal(9, n)
    rows = np.array([3, 0, 8, 8, 100, -5, 2], np.int64)
    check(lambda x, i: p.gather(x, [i], [0]) * 2.0, x, rows)
    check(lambda x, i: p.gather(x, [i], [1], 1), x, np.arange(2 * n) % n)
    check(lambda x, i: p.gather(x, [p.cast(i, dtypes.int32)], [0]), normal(9, dtype="int16"), rows)
    check(lambda x, i, j: p.gather(x, [i, j], [0, 1]), x, rows, rows)
    check(lambda x, i: p.reduce(p.gather(x, [i], [0]), "sum", [0]), x, rows)
    check(lambda x, i: p.reduce(p.gather(x, [i], [0]), "sum", [1]), x, rows, rtol=1e-5)


def test_nothing() -> None:
    check(lambda x: x + 1.0, normal(7, 0))
    check(lambda x: p.transpose(x, [1, 0]), normal(0, 9))
    check(reduction("sum", [1]), normal(9, 0, 5))
    check(reduction("argmax", [1]), normal(9, 0))


def test_indices() -> None:
    check(lambda x: p.iota((7, 9), 1, dtypes.float32) + x, normal(7, 1))
    check(lambda x: p.where(p.iota((7, 9), 1) > p.iota((7, 9), 0), 0.0, x), normal(7, 9))
    check(lambda x: p.full((3, 18), 2.5, dtypes.float32) * x, normal(1))


# ---- windows, products


@pytest.mark.parametrize("function", ["max", "sum"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_windows(function: str, stride: int) -> None:
    def pool(x: Array) -> Array:
        return p.reduce_window(x, function, [3, 2], [stride, stride], [1, 2], [1, 1], [1, 0])

    check(pool, normal(1, 3, 9, 14), rtol=1e-5)
    for channels in (3, 6, 16, 37):
        x = normal(2, 7, 6, channels)
        check(lambda x: p.transpose(pool(p.transpose(x, [0, 3, 1, 2])), [0, 2, 3, 1]), x, rtol=1e-5)


def test_window_of_nan() -> None:
    x = normal(1, 8, 8, 5)
    x[0, 3, 4, 1] = x[0, 0, 0, 4] = np.nan

    def pool(x: Array) -> Array:
        return p.reduce_window(x, "max", [3, 3], [1, 1], [1, 1], [1, 1], [1, 1])

    check(lambda x: p.transpose(pool(p.transpose(x, [0, 3, 1, 2])), [0, 2, 3, 1]), x)
    check(reduction("max", [3]), x)
    check(reduction("min", [1]), x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8"])
def test_products(dtype: str) -> None:
    for m, k, n in ((1, 1, 1), (3, 5, 7), (8, 70, 18), (17, 33, 4), (5, 130, 1)):
        x, y = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype, seed=1)
        check(lambda x, y: p.matmul(x, y), x, y, rtol=1e-4, atol=1e-5)
        z = np.ascontiguousarray(y.T)
        check(lambda x, z: p.matmul(x, p.transpose(z, [1, 0])), x, z, rtol=1e-4, atol=1e-5)
    x, y = normal(2, 3, 5, 6, dtype=dtype), normal(2, 3, 6, 9, dtype=dtype)
    check(lambda x, y: p.matmul(x, y), x, y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions(groups: int, stride: int) -> None:
    x, w = normal(2, 4, 7, 11), normal(6, 4 // groups, 3, 3)
    check(
        lambda x, w: p.conv_general(x, w, [stride, stride], [1, 1], [1, 1], [1, 1], groups), x, w, rtol=1e-4, atol=1e-5
    )
    check(lambda x, w: p.conv_general(x, w, [1, 1], [1, 1], [1, 0], [1, 1], groups, [2, 2]), x, w, rtol=1e-4, atol=1e-5)


def test_long_sums_are_exact_enough() -> None:
    """No worse than 16 running sums, pairwise."""
    x = np.random.default_rng(0).random((3, 100_003), np.float32)
    total = x.sum(1, dtype=np.float64).astype(np.float32)
    check(reduction("sum", [1]), x, rtol=2e-6, expected=total)
    y = np.tile(x.T, (1, 2))
    check(reduction("sum", [0]), y, rtol=2e-6, expected=np.tile(total, 2))


# ---- sizes that only the run tells


SMALL = [{"n": n, "m": m} for n in (0, 1, 2, 3, 4, 7, 16, 21) for m in (0, 1, 3, 4, 9)]


@pytest.mark.parametrize(
    ("expression", "units", "align"),
    [
        (lambda x: p.exp(p.pad(x, [0, 1, 2], [0, 1, 0])), 7, 1),
        (lambda x: p.pad(x, [0, 1, 0], [0, 2, 0]), 8, 1),
        (lambda x: p.transpose(x, [0, 2, 1]), 1, 1),
        (lambda x: p.reduce(x, "sum", [1]), 6, 16),
    ],
)
def test_a_batch_of_one_is_divided_along_the_next_axis(expression: Expression, units: int, align: int) -> None:
    trace = Trace(Guards())
    with trace:
        x = trace.input(dtypes.float32, tuple(trace.guards.symbol(name, 8) for name in "bhw"))
        kernel, params, _ = kernel_of(expression(x), trace.equations)
    code = kernels.write(Generator(host().features, "wasmtime"), kernel)
    for batch, expected in ((1, (units, align)), (3, (3, 1))):
        numbers = [evaluate(size.json(), {"b": batch, "h": 5, "w": 6}) for size in params]
        assert (value(code.units, numbers), value(code.align, numbers)) == expected
    check_sizes(expression, [("b", "h", "w")], [{"b": b, "h": 5, "w": w} for b in (0, 1, 3) for w in (1, 3, 6, 40)])


def test_sizes() -> None:
    check_sizes(lambda x, y: p.exp(x) * y, [("n", "m"), ("m",)], SMALL)
    check_sizes(lambda x: p.transpose(x, [1, 0]), [("n", "m")], SMALL)
    check_sizes(lambda x: p.transpose(x, [0, 2, 1]), [(3, "n", "m")], SMALL)
    for function in ("sum", "max", "argmax"):
        check_sizes(reduction(function, [0]), [("n", "m")], SMALL)
        check_sizes(reduction(function, [1]), [("n", "m")], SMALL)
    check_sizes(reduction("sum", [0, 2]), [("n", 3, "m")], SMALL)
    check_sizes(lambda x, y: p.matmul(x, y), [(5, "n"), ("n", "m")], SMALL)


# ---- anything


UNARY: dict[str, Expression] = {
    "neg": lambda x: -x,
    "abs": p.absolute,
    "sqrt_abs": lambda x: p.sqrt(p.absolute(x)),
    "scale": lambda x: x * 1.5 - 0.25,
    "sign": p.sign,
    "half": lambda x: p.cast(p.cast(x, dtypes.float16), dtypes.float32),
}
BINARY: dict[str, Expression] = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "max": p.maximum,
    "where": lambda x, y: p.where(x > 0.25, x, y),
    "less": lambda x, y: p.cast(x < y, dtypes.float32) + x,
}

EXTENTS = st.sampled_from([1, 2, 3, 4, 5, 8, 9, 17])


@st.composite
def expressions(draw: st.DrawFn) -> tuple[list[np.ndarray], list[tuple[str, Any]]]:
    """Operands and the steps of a stack machine that make one kernel of them."""
    shape = draw(st.lists(EXTENTS, min_size=1, max_size=4))
    rank = len(shape)
    arrays: list[np.ndarray] = []
    steps: list[tuple[str, Any]] = []
    for at in range(draw(st.integers(1, 3))):
        sizes = [1 if at and draw(st.integers(0, 3)) == 0 else size for size in shape]
        perm = list(draw(st.permutations(range(rank)))) if draw(st.booleans()) else list(range(rank))
        arrays.append(normal(*(sizes[axis] for axis in perm), seed=at))
        steps.append(("push", (at, [perm.index(axis) for axis in range(rank)])))
        unary = st.tuples(st.just("unary"), st.sampled_from(sorted(UNARY)))
        steps += draw(st.lists(unary, max_size=2))
        if at:
            steps.append(("binary", draw(st.sampled_from(sorted(BINARY)))))
    moves = st.tuples(st.sampled_from(["flip", "pad", "slice", "merge", "step"]), st.integers(0, 3))
    steps += draw(st.lists(st.tuples(st.just("move"), moves), max_size=2))
    if draw(st.booleans()):
        axes = draw(st.sets(st.integers(0, rank - 1), min_size=1))
        steps.append(("reduce", (draw(st.sampled_from(["sum", "max", "min"])), sorted(axes))))
        steps.append(("unary", "scale"))
    return arrays, steps


def _move(x: Array, what: str, axis: int) -> Array:
    axis %= x.rank
    size = int(x.shape[axis])
    low = [int(k == axis) for k in range(x.rank)]
    if what == "flip":
        return p.flip(x, [axis])
    if what == "pad":
        return p.pad(x, low, [2 * k for k in low], 0.5)
    if what == "slice":
        return p.slice_axis(x, axis, size // 3, size - size // 3)
    if what == "step":
        return p.slice_axis(x, axis, 0, -(-size // 2), 2)
    return p.reshape(x, x.shape[::-1])


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(expressions())
def test_anything(case: tuple[list[np.ndarray], list[tuple[str, Any]]]) -> None:
    arrays, steps = case

    def expression(*inputs: Array) -> Array:
        stack: list[Array] = []
        for what, detail in steps:
            if what == "push":
                at, perm = detail
                stack.append(p.transpose(inputs[at], perm))
            elif what == "unary":
                stack.append(UNARY[detail](stack.pop()))
            elif what == "binary":
                y = stack.pop()
                stack.append(BINARY[detail](stack.pop(), y))
            elif what == "move":
                stack.append(_move(stack.pop(), *detail))
            else:
                stack.append(p.reduce(stack.pop(), detail[0], detail[1]))
        return stack.pop() + 1.0

    check(expression, *arrays, rtol=1e-5, atol=1e-4)
