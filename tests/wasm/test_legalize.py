"""What legalization makes of convolutions and products, evaluated with NumPy, is what they were before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.legalization.filtering import Filter, filters
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.symbolic import Guards
from sardonyx_wasm.device import blas
from sardonyx_wasm.legalization import legalize

TARGETS = pytest.mark.parametrize("target", ["wasmtime", "v8"])

pytestmark = pytest.mark.usefixtures("in_place")


def unpacked(b: np.ndarray, n: int) -> np.ndarray:
    """Panels [..., ceil(N / nr), K, nr] as [..., K, N]."""
    *outer, panels, k, nr = b.shape
    flat = np.moveaxis(b, -3, -2).reshape(*outer, k, panels * nr)
    assert not flat[..., n:].any()
    return flat[..., :n]


def windows(x: np.ndarray, shape: Sequence[int], kernel: Any, strides: Any, dilations: Any) -> np.ndarray:
    """What the taps of each place see, [B, *sizes, C, taps] of x [B, *spatial, C]."""
    span = [(n - 1) * step + 1 for n, step in zip(kernel, dilations, strict=True)]
    seen = sliding_window_view(x, span, tuple(range(1, x.ndim - 1)))
    seen = seen[(slice(None), *(slice(None, None, step) for step in (*strides, 1, *dilations)))]
    seen = seen[tuple(slice(size) for size in shape[:-1])]
    return seen.reshape(*seen.shape[: x.ndim], prod(kernel))


def in_groups(x: np.ndarray, shape: Any, groups: int, window: Any) -> np.ndarray:
    """What the taps see as [..., groups, C / groups, taps]."""
    return windows(x, shape, **window).reshape(*shape[:-1], groups, x.shape[-1] // groups, -1)


def conv_packed(x: np.ndarray, w: np.ndarray, shape: Any, groups: int, m: int, nr: int, **window: Any) -> np.ndarray:
    channels, made = x.shape[-1] // groups, m // groups
    taps = prod(window["kernel"])
    kernels = unpacked(w.reshape(groups, -1, taps * channels, nr), made).reshape(groups, taps, channels, made)
    return np.einsum("...gct,gtcm->...gm", in_groups(x, shape, groups, window), kernels).reshape(shape)


def conv_grouped(x: np.ndarray, w: np.ndarray, shape: Any, groups: int, **window: Any) -> np.ndarray:
    parts, lines, channels, taps, lanes = w.shape
    kernels = w.transpose(0, 4, 2, 1, 3).reshape(groups, parts // groups * lanes, channels, lines * taps)
    return np.einsum("...gct,gmct->...gm", in_groups(x, shape, groups, window), kernels).reshape(shape)


def tiles(x: np.ndarray, line: Filter, count: int, axis: int) -> np.ndarray:
    """What the tiles along an axis of x see, on two axes instead."""
    number = np.arange(count)
    first = (number + number // line.dilation * ((line.outputs - 1) * line.dilation)) * line.stride
    seen = np.take(x, first[:, None] + np.arange(line.span) * line.dilation, axis)
    assert first.size == 0 or x.shape[axis] == first[-1] + (line.span - 1) * line.dilation + 1
    return seen


def winograd_input(x: np.ndarray, counts: Sequence[int], **window: Any) -> np.ndarray:
    lines = filters(window)
    seen = tiles(tiles(x, lines[1], counts[1], 2), lines[0], counts[0], 1)
    b, d = (np.array(line.matrices()[0]) for line in lines)
    return np.einsum("ik,bhkwlc,jl->bhwijc", b, seen, d)


def winograd_output(planes: np.ndarray, shape: Any, **window: Any) -> np.ndarray:
    lines = down, across = filters(window)
    a, c = (np.array(line.matrices()[2]) for line in lines)
    blocks = np.einsum("ik,bhwklc,jl->bhiwjc", a, planes, c)
    for axis, line in ((3, across), (1, down)):  # outputs of tiles that are neighbours lie side by side
        split = [*blocks.shape[:axis], -1, line.dilation, *blocks.shape[axis + 1 :]]
        joined = [*blocks.shape[:axis], -1, *blocks.shape[axis + 2 :]]
        blocks = np.moveaxis(blocks.reshape(split), axis + 1, axis + 2).reshape(joined)
    return blocks[:, : shape[1], : shape[2]]


def conv_panels(
    x: np.ndarray, w: np.ndarray, shape: Any, n: int, nr: int, groups: int = 1, **window: Any
) -> np.ndarray:
    seen = in_groups(x, shape, groups, window).swapaxes(-1, -2).reshape(*shape[:-1], groups, -1)
    kernels = unpacked(w, n // groups).reshape(groups, -1, n // groups)
    return np.einsum("...gk,gkm->...gm", seen, kernels).reshape(shape)


def conv_winograd(x: np.ndarray, u: np.ndarray, shape: Any, n: int, nr: int, **window: Any) -> np.ndarray:
    down, across = filters(window)
    counts = down.tiles(shape[1]), across.tiles(shape[2])
    v = winograd_input(x, counts, **window)
    which = [np.minimum(np.arange(line.places), line.weights - 1) for line in (down, across)]
    matrices = unpacked(u, n).reshape(down.weights, across.weights, -1, n)[np.ix_(*which)]
    return winograd_output(np.einsum("bhwpqk,pqkn->bhwpqn", v, matrices), shape, **window)


REFERENCES: dict[str, Callable[..., np.ndarray]] = {
    "matmul": lambda a, b, shape: np.matmul(a, b),
    "matmul_packed": lambda a, b, shape, n, nr: np.matmul(a, unpacked(b, n)),
    "matmul_panels": lambda a, b, shape, n, nr: np.matmul(a, unpacked(b, n)),
    "conv_packed": conv_packed,
    "conv_grouped": conv_grouped,
    "conv_panels": conv_panels,
    "conv_winograd": conv_winograd,
    "depthwise": lambda x, w, shape, **window: np.einsum("...ct,tc->...c", windows(x, shape, **window), w),
    "im2col": lambda x, shape, **window: windows(x, shape, **window).swapaxes(-1, -2).reshape(shape),
}


def evaluate(trace: Trace, feeds: Sequence[np.ndarray], used: set[str]) -> np.ndarray:
    """The trace's output, and the names of the primitives that made it."""
    known = {array: feed.astype(np.float64) for array, feed in zip(trace.inputs, feeds, strict=True)}
    for equation in trace.equations:
        name = equation.primitive.name
        used.add(name)
        operands = [known[x] if x.value is None else x.value.astype(np.float64) for x in equation.inputs]
        (output,) = equation.outputs
        if name == "cast":
            known[output] = operands[0]
        elif name in REFERENCES:
            known[output] = REFERENCES[name](*operands, shape=output.shape, **equation.params)
        else:
            known[output] = equation.primitive.numpy(*operands, **equation.params)[0]
        assert known[output].shape == output.shape, name
    return known[trace.outputs[0]]


def check(
    target: str,
    shapes: Sequence[Sequence[int]],
    function: Callable[..., Array],
    constants: Sequence[np.ndarray] = (),
    dtype: dtypes.DType = dtypes.float32,
) -> set[str]:
    """Compare before and after; gives the names of the primitives in use, none of which narrows float64."""
    rng = np.random.default_rng(0)
    feeds = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    trace = Trace(Guards())
    with trace:
        inputs = [trace.input(dtype, tuple(shape)) for shape in shapes]
        trace.give([function(*inputs, *(constant(x.astype(dtype.storage)) for x in constants))])
    expected = evaluate(trace, feeds, set())
    used: set[str] = set()
    legalize(trace, {-1}, target)
    found = evaluate(trace, feeds, used)
    narrow = [x for equation in trace.equations for x in equation.outputs if x.dtype is not dtype]
    assert dtype is not dtypes.float64 or not narrow
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    return used


TYPES = pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])


def conv(strides: Any = (1, 1), dilations: Any = (1, 1), low: Any = (1, 1), high: Any = (1, 1), groups: int = 1) -> Any:
    return lambda x, w: p.conv_general(x, w, strides, dilations, low, high, groups)


W = np.random.default_rng(1).standard_normal((40, 40, 3, 3)).astype(np.float32)


@TYPES
@TARGETS
@pytest.mark.parametrize(
    ("x", "w", "options", "routine"),
    [
        ([2, 24, 9, 10], W[:20, :24], {}, "conv_winograd"),
        ([1, 40, 12, 10], W, {}, "conv_winograd"),
        ([2, 5, 9, 10], W[:7, :5], {}, ""),
        ([2, 5, 9, 10], W[:7, :5], {"strides": (2, 3), "dilations": (2, 1), "low": (0, 2), "high": (3, 1)}, ""),
        ([3, 8, 9, 10], W[:12, :4], {"groups": 2}, "conv_packed"),
        ([2, 10, 9, 10], W[:20, :2], {"groups": 5, "strides": (2, 1)}, "conv_grouped"),
        ([2, 16, 9, 10], W[:8, :8], {"groups": 2}, "conv_grouped"),
        ([6, 16, 9, 10], W[:32, :4, :1, :1], {"groups": 4}, "conv_packed"),
        ([1, 12, 9, 10], W[:12, :1], {"groups": 12}, "depthwise"),
        ([1, 12, 9, 10], W[:12, :1], {"groups": 12, "strides": (2, 2), "low": (0, 1)}, "depthwise"),
        ([1, 6, 9, 10], W[:12, :1], {"groups": 6}, "depthwise"),
        ([3, 8, 9, 10], W[:12, :8, :1, :1], {"low": (0, 0), "high": (0, 0)}, ""),
        ([3, 8, 9, 10], W[:12, :8, :1, :1], {"low": (0, 0), "high": (0, 0), "strides": (2, 2)}, ""),
        ([1, 80, 28, 29], np.tile(W, (3, 2, 1, 1)), {"strides": (2, 2)}, "conv_winograd"),
        ([1, 40, 30, 21], W, {"dilations": (2, 3), "low": (2, 3), "high": (2, 3)}, "conv_winograd"),
        ([1, 40, 50, 1], W[..., :1], {"low": (1, 0), "high": (1, 0)}, "conv_winograd"),
        ([1, 40, 50, 9], W, {"low": (1, -3), "high": (-9, -2)}, "conv_winograd"),
        ([1, 16, 40, 29], np.tile(W[:8, :16], (1, 1, 1, 7)), {"low": (1, 9), "high": (1, 11)}, ""),
        ([1, 6, 29, 31], W[:1, :6], {}, "reshape"),
        ([1, 6, 61, 1], W[:2, :6, :, :1], {"low": (1, 0), "high": (1, 0), "strides": (2, 1)}, "reshape"),
    ],
)
def test_convolutions(
    target: str, x: list[int], w: np.ndarray, options: dict[str, Any], routine: str, dtype: dtypes.DType
) -> None:
    used = check(target, [x], conv(**options), [w], dtype)
    assert "conv_general" not in used
    if dtype is dtypes.float64 and routine in ("conv_winograd", "conv_grouped"):
        assert used & {"conv_packed", "conv_panels", "im2col"}
        return
    native = {"conv_packed": {"conv_panels"}} if target == "wasmtime" else {}
    if target == "wasmtime" and w.shape[1] > 4:
        native["conv_grouped"] = {"conv_panels"}
    assert native.get(routine, {routine}) & used or not routine


@TARGETS
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("batch", "border", "stride"), [(2, 1, 1), (1, 0, 2)])
def test_an_axis_that_is_seen_whole_is_one_of_channels(
    target: str, axis: int, batch: int, border: int, stride: int
) -> None:
    size, taps = [180, 180], [3, 3]
    size[axis] = taps[axis] = 30
    w = np.random.default_rng(3).standard_normal((40, 16, *taps)).astype(np.float32)
    borders, strides = [border, border], [stride, stride]
    borders[axis] = 0
    used = check(target, [[batch, 16, *size]], conv(low=borders, high=borders, strides=strides), [w])
    assert "conv_winograd" in used
    assert not used & {"im2col", "conv_packed", "conv_panels"}


@pytest.mark.parametrize("in_blocks", [False, True])
def test_what_windows_see_is_never_all_there_natively(in_blocks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "in_blocks", lambda: in_blocks)
    w = np.random.default_rng(3).standard_normal((40, 6, 7, 7)).astype(np.float32)
    used = check("wasmtime", [[2, 6, 60, 50]], conv(low=[3, 0], high=[1, 2], strides=[5, 4]), [w])
    assert "conv_panels" in used
    assert "im2col" not in used


V = np.random.default_rng(2).standard_normal((20, 20, 3, 3, 3)).astype(np.float32)


@TARGETS
@pytest.mark.parametrize(
    ("x", "w", "options", "routine"),
    [
        ([2, 20, 4, 9, 10], V, {}, "winograd"),
        ([2, 20, 4, 9, 10], V, {"strides": (2, 1, 1), "dilations": (2, 1, 1), "low": (2, 1, 1)}, "winograd"),
        ([2, 20, 4, 9, 10], V[:, :, :1], {"low": (0, 1, 1), "high": (0, 1, 1)}, "winograd"),
        ([2, 3, 4, 9, 10], V[:12, :3], {"strides": (2, 2, 2)}, "packed"),
        ([2, 3, 4, 9, 10], V[:12, :3], {"strides": (1, 2, 3), "dilations": (2, 1, 2), "low": (1, 0, 3)}, "packed"),
        ([2, 3, 9, 4, 5], V[:12, :3, :, :1, :1], {"low": (1, 0, 0), "high": (2, 0, 0)}, "packed"),
        ([2, 5, 9, 4, 5], V[:12, :5], {"low": (-1, 0, -2), "high": (0, 1, 2)}, "packed"),
        ([2, 12, 4, 5, 6], V[:12, :1], {"groups": 12}, "depthwise"),
        ([2, 12, 4, 5, 6], V[:12, :1, :1], {"groups": 12, "low": (0, 1, 1), "high": (0, 1, 1)}, "depthwise"),
        ([2, 6, 4, 5, 6], V[:12, :1], {"groups": 6, "strides": (2, 1, 2)}, "depthwise"),
        ([2, 8, 4, 5, 6], V[:8, :4], {"groups": 2}, "conv_grouped"),
        ([2, 8, 4, 5, 6], V[:20, :4], {"groups": 2}, "packed"),
        ([2, 8, 4, 5, 6], V[:12, :8, :1, :1, :1], {"low": (0, 0, 0), "high": (0, 0, 0)}, "matmul"),
        ([2, 8, 4, 5, 6], V[:12, :8, :1, :1, :1], {"strides": (2, 2, 2), "low": (0, 0, 0), "high": (0, 0, 0)}, ""),
    ],
)
def test_volumes(target: str, x: list[int], w: np.ndarray, options: dict[str, Any], routine: str) -> None:
    ones = {"strides": (1, 1, 1), "dilations": (1, 1, 1), "low": (1, 1, 1), "high": (1, 1, 1)}
    used = check(target, [x], conv(**(ones | options)), [w])
    assert "conv_general" not in used
    if target == "wasmtime" and routine == "packed":
        assert used & {"conv_panels", "im2col"}
    else:
        assert any(routine in name for name in used)


@TARGETS
def test_planes_that_are_large_are_not_gathered(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sardonyx.compiler.legalization.volumes.GATHERED", 1000)
    used = check(target, [[2, 20, 4, 9, 10]], conv((1,) * 3, (1,) * 3, (1,) * 3, (1,) * 3), [V])
    assert used & {"conv_packed", "conv_panels", "im2col"}  # im2col where BLAS is given whole products
    assert "concat" not in used


@TARGETS
def test_of_one_dimension(target: str) -> None:
    used = check(target, [[2, 5, 20]], conv((2,), (2,), (3,), (1,)), [W[:7, :5, 0]])
    assert "conv_general" not in used


@TYPES
@TARGETS
@pytest.mark.parametrize(
    ("kernel", "spread", "low", "high", "together"),
    [
        ((2, 2), (2, 2), (1, 1), (1, 1), True),
        ((3, 3), (2, 2), (1, 1), (2, 2), False),
        ((3, 2), (1, 3), (2, 0), (2, 4), False),
        ((1, 1), (2, 2), (0, 0), (1, 0), False),
        ((2, 2, 2), (2, 2, 2), (1, 1, 1), (1, 1, 1), True),
        ((3, 1, 2), (2, 1, 3), (1, 0, 2), (2, 0, 3), False),
    ],
)
def test_transposed(
    target: str, kernel: Any, spread: Any, low: Any, high: Any, together: bool, dtype: dtypes.DType
) -> None:
    """Phases of the outputs that see the same elements are made together."""
    ones, taps = (1,) * len(kernel), tuple(map(slice, kernel))
    w = (W if len(kernel) == 2 else V)[(slice(6), slice(5), *taps)]
    x = [2, 5, 7, 6, 4][: w.ndim]
    used = check(target, [x], lambda x, w: p.conv_general(x, w, ones, ones, low, high, spread=spread), [w], dtype)
    assert "conv_general" not in used
    assert ("concat" in used) != together


@TARGETS
@pytest.mark.parametrize(
    ("spread", "dilations"),
    [((2, 2), (2, 2)), ((2, 3), (3, 2)), ((4, 2), (2, 6)), ((1, 2), (3, 1)), ((6, 2), (4, 5))],
)
@pytest.mark.parametrize("low", [(0, 0), (3, 1), (-1, 4)])
def test_transposed_with_taps_apart(target: str, spread: Any, dilations: Any, low: Any) -> None:
    def transposed(x: Array, w: Array) -> Array:
        return p.conv_general(x, w, (1, 1), dilations, low, (9, 9), spread=spread)

    used = check(target, [[2, 5, 7, 6]], transposed, [W[:6, :5]])
    assert "conv_general" not in used


@TARGETS
def test_between_convolutions_channels_stay_last(target: str) -> None:
    def block(x: Array, a: Array, b: Array) -> Array:
        first = p.maximum(conv()(x, a), 0.0)
        window = p.reduce_window(first, "max", (2, 2), (1, 1), (1, 1), (0, 0), (1, 1))
        both = p.concat([first + window, first], 1)
        return p.maximum(conv()(both, b), 0.0) + p.slice_(both, [0, 0, 0, 0], [1, 24, 9, 10])

    check(target, [[1, 40, 9, 10]], block, [W[:12], W[:24, :24]])


@TYPES
@TARGETS
@pytest.mark.parametrize(
    ("a", "b", "contract", "batch"),
    [
        ([7, 16], [16, 20], ([1], [0]), ([], [])),
        ([3, 7, 16], [3, 16, 20], ([2], [1]), ([0], [0])),
        ([3, 16, 7], [20, 3, 16], ([1], [2]), ([0], [1])),
        ([3, 4, 5, 6], [5, 6, 9], ([2, 3], [0, 1]), ([], [])),
    ],
)
def test_products(target: str, a: list[int], b: list[int], contract: Any, batch: Any, dtype: dtypes.DType) -> None:
    used = check(target, [a, b], lambda x, y: p.dot_general(x, y, contract, batch), dtype=dtype)
    assert "dot_general" not in used


@TARGETS
def test_elements_become_float64_before_they_are_multiplied(target: str) -> None:
    trace = Trace(Guards())
    with trace:
        a, b = (trace.input(dtypes.float32, shape) for shape in ((7, 16), (16, 20)))
        trace.give([p.dot_general(a, b, ([1], [0]), dtype=dtypes.float64)])
    legalize(trace, {-1}, target)
    (product,) = (equation for equation in trace.equations if equation.primitive.name == "matmul")
    assert [x.dtype for x in product.inputs] == [dtypes.float64] * 2


@TARGETS
def test_weights_are_packed(target: str) -> None:
    w = W.reshape(-1)[: 30 * 50].reshape(30, 50)
    used = check(target, [[8, 30]], lambda x, w: p.dot_general(x, w, ([1], [0])), [w])
    assert ("matmul_packed" in used) == (target == "v8")


@TARGETS
def test_one_column_is_a_sum_along_lines(target: str) -> None:
    w = W.reshape(-1)[:64].reshape(64, 1)
    for shape, axis, stays in (([40, 64], 1, True), ([64, 40], 0, False), ([4096, 64], 1, False)):
        used = check(target, [shape], lambda x, w, axis=axis: p.dot_general(x, w, ([axis], [0])), [w])
        assert ("dot_general" in used) == stays, shape
