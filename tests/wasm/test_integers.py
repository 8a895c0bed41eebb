"""What becomes of products and convolutions of integers before they are fused, evaluated with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.legalization import ranges
from sardonyx.compiler.legalization.ranges import bounds, integers, largest_sum
from sardonyx.primitives import evaluation
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.recurrent_loop import rounded
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.symbolic import Guards
from sardonyx_wasm.device import blas
from sardonyx_wasm.legalization import integers as integers_
from tests.wasm import traces
from tests.wasm.traces import check

TARGETS = pytest.mark.parametrize("target", ["wasmtime", "v8"])
RNG = np.random.default_rng(0)


@pytest.fixture
def with_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    """BLAS takes products of any size."""
    monkeypatch.setattr(blas, "FEWEST", 0)


@pytest.fixture
def without_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    """BLAS takes none."""
    monkeypatch.setattr(blas, "FEWEST", 1 << 60)


def numbers(dtype: type[np.generic], *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


def centred(x: Array, zero: int | None) -> Array:
    wide = p.cast(x, dtypes.int32)
    return wide if zero is None else wide - zero


@TARGETS
@pytest.mark.parametrize("left", [np.int8, np.uint8])
@pytest.mark.parametrize("right", [np.int8, np.uint8])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 32, 20), (5, 33, 12), (7, 90, 25)])
def test_products_of_bytes(target: str, left: Any, right: Any, m: int, k: int, n: int) -> None:
    used = check(target, [numbers(left, m, k)], lambda x, w: p.matmul(x, w, dtypes.int32), numbers(right, k, n))
    assert "matmul_int8" in used
    assert "dot_general" not in used


def of_bytes(m: int, k: int = 70, right: Any = np.int8, middle: int = 0, target: str = "wasmtime") -> bool:
    """Whether rows of bytes and weights as training leaves them are multiplied as bytes."""
    w = np.clip(np.rint(RNG.normal(middle, 20, (k, 45))), middle - 128, middle + 127).astype(right)
    w[3, 4], w[k - 1, 44] = middle + 127, middle - 128
    return "matmul_quads" in check(target, [numbers(np.uint8, m, k)], lambda x, w: p.matmul(x, w, dtypes.int32), w)


FEW = pytest.mark.parametrize(
    ("target", "in_blocks", "m", "quads"),
    [
        *[("v8", True, 1, True), ("v8", True, 8, True), ("v8", False, 9, False)],
        *[("wasmtime", True, 1, True), ("wasmtime", True, 8, True), ("wasmtime", True, 9, False)],
        *[("wasmtime", False, 128, True), ("wasmtime", False, 129, False)],
    ],
)


@FEW
@pytest.mark.parametrize(("right", "middle"), [(np.int8, 0), (np.uint8, 128)])
@pytest.mark.usefixtures("with_blas")
def test_few_rows_of_bytes(
    monkeypatch: pytest.MonkeyPatch, target: str, in_blocks: bool, m: int, quads: bool, right: Any, middle: int
) -> None:
    monkeypatch.setattr(blas, "in_blocks", lambda: in_blocks)
    monkeypatch.setattr(integers_, "LIGHT", 0)
    assert of_bytes(m, right=right, middle=middle, target=target) == quads


@pytest.mark.parametrize(("right", "middle"), [(np.int8, 0), (np.uint8, 128)])
def test_bytes_of_matrices_that_are_too_large_to_evaluate(
    monkeypatch: pytest.MonkeyPatch, right: Any, middle: int
) -> None:
    monkeypatch.setattr(evaluation, "EVALUATE_LIMIT", 70 * 45 - 1)
    assert of_bytes(1, right=right, middle=middle)


@pytest.mark.parametrize(("m", "quads"), [(9, True), (166, True), (167, False)])
@pytest.mark.usefixtures("with_blas")
def test_light_products_are_not_handed_over(monkeypatch: pytest.MonkeyPatch, m: int, quads: bool) -> None:
    monkeypatch.setattr(blas, "in_blocks", lambda: True)
    assert of_bytes(m) == quads


@pytest.mark.parametrize(("m", "quads"), [(9, True), (256, True), (257, False)])
@pytest.mark.usefixtures("without_blas")
def test_rows_of_bytes_that_blas_leaves(m: int, quads: bool) -> None:
    assert of_bytes(m) == quads


@pytest.mark.parametrize(("depth", "quads"), [(1000, False), (1100, True)])
@pytest.mark.usefixtures("with_blas")
def test_bytes_are_sooner_than_two_products_of_floats(monkeypatch: pytest.MonkeyPatch, depth: int, quads: bool) -> None:
    monkeypatch.setattr(blas, "in_blocks", lambda: True)
    x, w = np.full((25, depth), 255, np.uint8), np.full((depth, 24), 64, np.int8)
    assert ("matmul_quads" in check("wasmtime", [x], lambda x, w: p.matmul(x, w, dtypes.int32), w)) == quads


@FEW
@pytest.mark.usefixtures("with_blas")
def test_few_rows_that_were_rounded(
    monkeypatch: pytest.MonkeyPatch, target: str, in_blocks: bool, m: int, quads: bool
) -> None:
    """Bytes less their zero point are multiplied as bytes, though they are floats."""
    monkeypatch.setattr(blas, "in_blocks", lambda: in_blocks)
    monkeypatch.setattr(integers_, "LIGHT", 0)
    x, w = RNG.normal(0.3, 1, (m, 70)).astype(np.float32), np.rint(RNG.normal(0, 20, (70, 45))).astype(np.int8)

    def function(x: Array, w: Array) -> Array:
        return p.matmul(rounded(x, [0, 1])[0], p.cast(w, dtypes.float32))

    assert ("matmul_quads" in check(target, [x], function, w)) == quads


@TARGETS
@pytest.mark.parametrize("zeros", [(128, 128), (255, None), (0, 3)])
def test_products_less_zero_points(target: str, zeros: Any) -> None:
    def function(x: Array, w: Array) -> Array:
        return p.matmul(centred(x, zeros[0]), centred(w, zeros[1]))

    used = check(target, [numbers(np.uint8, 2, 6, 40)], function, numbers(np.uint8, 40, 14))
    assert "matmul_int8" in used


@TARGETS
def test_products_of_what_is_not_constant(target: str) -> None:
    feeds = numbers(np.uint8, 3, 9, 20), numbers(np.int8, 3, 20, 15)
    used = check(target, feeds, lambda x, y: p.matmul(x, y, dtypes.int32))
    assert "matmul_int8" in used


@TARGETS
def test_large_integers_stay_what_they_are(target: str) -> None:
    used = check(target, [numbers(np.int32, 9, 20)], lambda x, w: p.matmul(x, w), numbers(np.int32, 20, 15))
    assert "matmul_int8" not in used


CONVOLUTIONS = pytest.mark.parametrize(
    ("x", "w", "strides", "dilations", "pads", "groups", "routine"),
    [
        ((2, 6, 9, 10), (12, 6, 2, 2), (1, 1), (1, 1), (1, 1), 1, "im2col"),
        ((1, 3, 9, 10), (8, 3, 3, 3), (2, 2), (1, 1), (1, 0), 1, "im2col"),
        ((1, 5, 9, 10), (7, 5, 2, 3), (1, 2), (2, 1), (0, 2), 1, "im2col"),
        ((2, 8, 9, 10), (12, 8, 1, 1), (1, 1), (1, 1), (0, 0), 1, "matmul_int8"),
        ((2, 7, 9, 10), (12, 7, 1, 1), (2, 2), (1, 1), (0, 0), 1, "matmul_int8"),
        ((1, 12, 9, 10), (12, 1, 3, 3), (1, 1), (1, 1), (1, 1), 12, "depthwise"),
        ((2, 6, 20), (12, 6, 3), (2,), (1,), (1,), 1, "im2col"),
        ((2, 16, 9, 10), (20, 16, 3, 3), (1, 1), (1, 1), (1, 1), 1, "conv_winograd_int8"),
        ((1, 17, 14, 13), (16, 17, 3, 3), (1, 1), (1, 1), (2, 0), 1, "conv_winograd_int8"),
        ((1, 16, 40, 30), (16, 16, 3, 3), (1, 1), (1, 1), (1, 1), 1, "conv_winograd_int8"),
        ((2, 16, 9, 10), (18, 16, 2, 2), (1, 1), (1, 1), (1, 1), 1, "im2col"),
        ((2, 16, 32, 16), (20, 16, 3, 3), (1, 1), (4, 2), (4, 2), 1, "conv_winograd_int8"),
    ],
)


def convolution(*params: Any) -> Any:
    *window, pads, groups = params
    return lambda x, w: p.conv_general(centred(x, 100), centred(w, None), *window, pads, pads, groups)


@TARGETS
@CONVOLUTIONS
@pytest.mark.usefixtures("without_blas")
def test_convolutions(
    target: str, x: Any, w: Any, strides: Any, dilations: Any, pads: Any, groups: int, routine: str
) -> None:
    function = convolution(strides, dilations, pads, groups)
    used = check(target, [numbers(np.uint8, *x)], function, numbers(np.int8, *w))
    assert routine in used
    assert ("im2col" in used) == (routine == "im2col")  # the others are Winograd's, or have one tap
    assert "conv_general" not in used


@TARGETS
@pytest.mark.parametrize(("channels", "taps", "depth"), [(1, 8, 8), (1, 9, 10), (3, 6, 18), (3, 5, 16), (3, 1, 4)])
@pytest.mark.usefixtures("without_blas")
def test_odd_channels_take_no_zeros_each(
    monkeypatch: pytest.MonkeyPatch, target: str, channels: int, taps: int, depth: int
) -> None:
    depths = []

    def product(a: np.ndarray, b: np.ndarray, shape: Any) -> np.ndarray:
        depths.append(a.shape[-1])
        return traces.matmul_int8(a, b, shape)

    monkeypatch.setitem(traces.ROUTINES, "matmul_int8", product)
    x, w = numbers(np.uint8, 2, channels, 50), numbers(np.int8, 16, channels, taps)
    check(target, [x], convolution((4,), (1,), (0,), 1), w)
    assert depths == [depth]


@TARGETS
@pytest.mark.parametrize(
    ("x", "w", "dilations", "pads", "routine"),
    [
        ((2, 16, 70), (20, 16, 3), (1,), (1,), "conv_winograd_int8"),
        ((1, 17, 90), (16, 17, 3), (7,), (14,), "conv_winograd_int8"),
        ((2, 16, 30, 9), (20, 16, 3, 1), (2, 1), (2, 0), "conv_winograd_int8"),
        ((1, 18, 7, 40), (16, 18, 1, 3), (1, 1), (0, 1), "conv_winograd_int8"),
        ((2, 16, 70), (20, 16, 4), (2,), (3,), "conv_winograd_int8"),
        ((2, 16, 70), (20, 16, 5), (1,), (2,), "conv_winograd_int8"),
        ((2, 17, 70), (20, 17, 6), (1,), (2,), "conv_line_int8"),
        ((1, 17, 90), (16, 17, 11), (3,), (15,), "conv_line_int8"),
        ((1, 16, 400), (16, 16, 7), (20,), (0,), "conv_line_int8"),
        ((2, 16, 30, 9), (20, 16, 13, 1), (2, 1), (2, 0), "conv_line_int8"),
        ((1, 18, 7, 40), (16, 18, 1, 9), (1, 4), (1, 3), "conv_line_int8"),
    ],
)
@pytest.mark.usefixtures("without_blas")
def test_taps_along_one_axis(target: str, x: Any, w: Any, dilations: Any, pads: Any, routine: str) -> None:
    function = convolution([1] * len(pads), dilations, pads, 1)
    used = check(target, [numbers(np.uint8, *x)], function, numbers(np.int8, *w))
    assert routine in used


@TARGETS
@pytest.mark.parametrize(
    ("x", "w", "strides", "dilations", "pads", "routine"),
    [
        ((2, 6, 20, 31), (20, 6, 5, 5), (1, 1), (1, 1), (2, 2), "conv_winograd_int8"),
        ((1, 8, 24, 33), (8, 8, 2, 11), (1, 1), (2, 1), (2, 5), "conv_line_int8"),
        ((2, 7, 20, 31), (20, 7, 5, 5), (1, 3), (1, 1), (2, 0), "conv_winograd_int8"),
        ((2, 7, 31, 20), (20, 7, 4, 7), (2, 1), (1, 2), (0, 6), "conv_line_int8"),
        ((2, 16, 30, 9), (16, 16, 3, 1), (1, 2), (1, 1), (1, 0), "conv_winograd_int8"),
        ((1, 4, 12, 40), (24, 4, 12, 3), (1, 1), (1, 1), (0, 1), "conv_winograd_int8"),  # all rows are seen
        ((1, 4, 22, 30), (1, 4, 5, 5), (1, 1), (1, 1), (2, 2), "conv_winograd_int8"),
        ((1, 5, 20, 33), (1, 5, 7, 3), (1, 2), (1, 1), (3, 1), "conv_line_int8"),
        ((1, 9, 20, 33), (6, 9, 3, 4), (2, 1), (1, 1), (1, 2), "conv_winograd_int8"),
        ((2, 9, 23, 30), (10, 9, 3, 3), (1, 1), (1, 1), (1, 1), "conv_winograd_int8"),
        ((1, 16, 23, 30), (6, 16, 3, 3), (1, 1), (2, 2), (1, 1), "matmul_int8"),  # neighbours see other elements
        ((2, 2, 20, 31), (20, 2, 3, 3), (1, 1), (1, 1), (1, 1), "matmul_int8"),  # few channels
    ],
)
@pytest.mark.usefixtures("without_blas")
def test_taps_of_an_axis_as_channels(
    target: str, x: Any, w: Any, strides: Any, dilations: Any, pads: Any, routine: str
) -> None:
    function = convolution(strides, dilations, pads, 1)
    used = check(target, [numbers(np.uint8, *x)], function, numbers(np.int8, *w))
    assert {routine, "im2col"} <= used


@pytest.mark.parametrize(("taps", "in_blocks", "tiles"), [(3, False, True), (3, True, False), (11, True, True)])
@pytest.mark.usefixtures("with_blas")
def test_fast_blas_is_faster_than_somewhat_fewer_multiplications(
    monkeypatch: pytest.MonkeyPatch, taps: int, in_blocks: bool, tiles: bool
) -> None:
    monkeypatch.setattr(blas, "in_blocks", lambda: in_blocks)
    x, w = numbers(np.uint8, 1, 64, 500), numbers(np.int8, 64, 64, taps)
    used = check("wasmtime", [x], convolution([1], [1], [1], 1), w)
    assert bool(used & {"conv_winograd_int8", "conv_line_int8"}) == tiles
    assert bool(used & {"matmul_panels", "conv_panels", "matmul"}) != tiles


@CONVOLUTIONS
@pytest.mark.usefixtures("with_blas")
def test_convolutions_by_blas(
    x: Any, w: Any, strides: Any, dilations: Any, pads: Any, groups: int, routine: str
) -> None:
    function = convolution(strides, dilations, pads, groups)
    used = check("wasmtime", [numbers(np.uint8, *x)], function, numbers(np.int8, *w))
    assert used & {"matmul_panels", "conv_panels", "matmul", "depthwise", "conv_winograd_int8"}
    assert ("conv_winograd_int8" in used) == (routine == "conv_winograd_int8")
    assert not used & {"matmul_int8", "conv_general", "conv_winograd"}


@pytest.mark.parametrize(
    ("in_blocks", "rows", "widened"), [(False, 32, True), (False, 33, False), (True, 1, True), (True, 2, False)]
)
@pytest.mark.usefixtures("with_blas")
def test_few_rows_of_bytes_that_do_not_suit_are_widened(
    monkeypatch: pytest.MonkeyPatch, in_blocks: bool, rows: int, widened: bool
) -> None:
    monkeypatch.setattr(blas, "in_blocks", lambda: in_blocks)
    x, w = numbers(np.uint8, rows, 200), numbers(np.int8, 200, 300)  # neighbours add up to more than 128 everywhere
    used = check("wasmtime", [x], lambda x, w: p.matmul(x, w, dtypes.int32), w)
    assert "matmul_quads" not in used
    assert ("matmul_int8" in used) == widened


@pytest.mark.parametrize(("depth", "routines"), [(500, 1), (600, 2), (2000, 4), (3000, 0)])
@pytest.mark.usefixtures("with_blas")
def test_sums_that_float32_lacks_are_split(depth: int, routines: int) -> None:
    x, w = np.full((40, depth), 255, np.uint8), np.full((depth, 24), -128, np.int8)
    x[:, ::7], w[::5] = 254, -127  # odd sums
    trace: list[str] = []
    used = check("wasmtime", [x], lambda x, w: p.matmul(x, w, dtypes.int32), w, names=trace)
    assert ("matmul_int8" in used) == (routines == 0)
    assert sum(name.startswith("matmul") for name in trace) == (routines or 1)


@pytest.mark.usefixtures("with_blas")
def test_convolutions_whose_sums_float32_lacks_are_split() -> None:
    x, w = np.full((1, 216, 6, 7), 255, np.uint8), np.full((8, 216, 2, 2), 127, np.int8)
    x[:, ::3] = 254
    names: list[str] = []
    check("wasmtime", [x], convolution((1, 1), (1, 1), (0, 0), 1), w, names=names)
    assert sum(name in ("conv_panels", "matmul") for name in names) == 2
    assert "matmul_int8" not in names


@pytest.mark.parametrize(("channels", "stays"), [(12, True), (1200, False)])
@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.usefixtures("with_blas")
def test_sums_that_floats_hold_stay_floats_in_images(rank: int, channels: int, stays: bool) -> None:
    """Up to what float32 holds, nothing is converted behind a product whose result has its channels last."""
    x, w = numbers(np.uint8, *(2, channels, 9, 10)[:rank]), np.full((8, channels, *[1] * (rank - 2)), 127, np.int8)
    window = [1] * (rank - 2), [1] * (rank - 2), [0] * (rank - 2)

    def function(x: Array, w: Array) -> Array:
        return p.cast(convolution(*window, 1)(x, w), dtypes.float32) * 0.5

    names: list[str] = []
    check("wasmtime", [x], function, w, names=names)
    products = [k for k, name in enumerate(names) if name in ("matmul", "conv_panels", "matmul_int8", "matmul_panels")]
    assert ("cast" in names[products[-1] :]) != stays


def test_products_of_floats_that_are_integers() -> None:
    def function(x: Array, w: Array) -> Array:
        return p.dot_general(p.cast(x, dtypes.float32) - 7.0, p.cast(w, dtypes.float32), ([1], [0]))

    assert "matmul_int8" in check("v8", [numbers(np.uint8, 30, 40)], function, numbers(np.int8, 40, 16))


def test_integers() -> None:
    trace = Trace(Guards())
    with trace:
        x = p.cast(trace.input(dtypes.uint8, (4,)), dtypes.float32)
        assert integers(p.reshape(x - 3.0, (2, 2))) == (-3, 252)
        assert integers(constant(np.array([-4.0, 9.0], np.float32))) == (-4, 9)
        assert integers(constant(np.array([-4.0, 9.5], np.float32))) is None
        assert integers(constant(np.array([np.nan], np.float32))) is None
        assert integers(x * 0.5) is None
        assert bounds(p.cast(x - 3.0, dtypes.int32)) == (-3, 252)
        w = constant(np.array([[1, -2], [100, 3]], np.int8))
        assert largest_sum(p.cast(x, dtypes.int32), p.cast(w, dtypes.int32), [0]) == 2 * 255 * 100
        wide = constant(np.array([[-2, 10000]] * 99, np.int16))
        assert largest_sum(p.cast(x, dtypes.int32), p.cast(wide, dtypes.int32), [0]) == 99 * 255 * 10000
        assert largest_sum(p.cast(x, dtypes.int32), p.cast(wide, dtypes.int32), [1]) == 255 * 10002


@pytest.mark.parametrize("block", [1, 1 << 18])
@pytest.mark.parametrize("axes", [[0], [1], [0, 1], [-2]])
def test_sums_of_what_is_left_of_weights(monkeypatch: pytest.MonkeyPatch, block: int, axes: list[int]) -> None:
    """However large they are, by blocks, and less their zero points."""
    monkeypatch.setattr(ranges, "_BLOCK", block)
    monkeypatch.setattr(ranges, "_CLOSE", 0)
    monkeypatch.setattr(evaluation, "EVALUATE_LIMIT", 0)
    monkeypatch.setattr(evaluation, "FOLD_LIMIT", 0)
    w = numbers(np.uint8, 999, 25)
    trace = Trace(Guards())
    with trace:
        x = trace.input(dtypes.uint8, (4,))
        sums = np.abs(w.astype(np.int64) - 120).sum(axis=tuple(axes))
        assert largest_sum(x, centred(constant(w), 120), axes) == 255 * sums.max()


def test_bounds() -> None:
    trace = Trace(Guards())
    with trace:
        x = trace.input(dtypes.uint8, (4,))
        wide = p.cast(x, dtypes.int32)
        assert bounds(wide - 3) == (-3, 252)
        assert bounds(p.pad(wide + wide, [1], [0], -1)) == (-1, 510)
        assert bounds(p.cast(wide - 128, dtypes.int8)) == (-128, 127)
        assert bounds(p.cast(wide - 3, dtypes.int8)) == (-128, 127)
        assert bounds(wide * wide) == (-(2**31), 2**31 - 1)
        assert bounds(constant(np.array([-4, 9]), dtypes.int32)) == (-4, 9)
        assert bounds(trace.input(dtypes.bool_, (2,))) == (0, 1)
