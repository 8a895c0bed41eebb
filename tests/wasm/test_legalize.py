"""What legalization makes of convolutions and products, evaluated with NumPy, is what they were before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from sardonyx import dtypes
from sardonyx import primitives as p
from sardonyx.array import Array, Trace, constant
from sardonyx.symbolic import Guards
from sardonyx_wasm.legalize import legalize
from sardonyx_wasm.routines.filtering import POINTS

TARGETS = pytest.mark.parametrize("target", ["wasmtime", "v8"])


def unpacked(b: np.ndarray, n: int) -> np.ndarray:
    """Panels [..., ceil(N / nr), K, nr] as [..., K, N]."""
    *outer, panels, k, nr = b.shape
    flat = np.moveaxis(b, -3, -2).reshape(*outer, k, panels * nr)
    assert not flat[..., n:].any()
    return flat[..., :n]


def windows(x: np.ndarray, shape: Sequence[int], kernel: Any, strides: Any, dilations: Any) -> np.ndarray:
    """What the taps of each place see, [B, Ho, Wo, C, kh, kw] of x [B, H, W, C]."""
    span = [(n - 1) * step + 1 for n, step in zip(kernel, dilations, strict=True)]
    seen = sliding_window_view(x, span, (1, 2))[..., :: dilations[0], :: dilations[1]]
    return seen[:, :: strides[0], :: strides[1]][:, : shape[1], : shape[2]]


def conv_packed(x: np.ndarray, w: np.ndarray, shape: Any, groups: int, m: int, nr: int, **window: Any) -> np.ndarray:
    channels, made = x.shape[3] // groups, m // groups
    taps = prod(window["kernel"])
    kernels = unpacked(w.reshape(groups, -1, taps * channels, nr), made).reshape(groups, taps, channels, made)
    seen = windows(x, shape, **window).reshape(*shape[:3], groups, channels, taps)
    return np.einsum("bhwgct,gtcm->bhwgm", seen, kernels).reshape(shape)


def transforms(m: int) -> tuple[np.ndarray, np.ndarray]:
    """B' and A' of Toom and Cook for the points of the routines."""
    points = [0.0, *(sign * point for point in POINTS[m] for sign in (1, -1))]
    basis = [np.poly(points[:k] + points[k + 1 :])[::-1] for k in range(len(points))]
    b = np.array([*(np.append(row, 0.0) for row in basis), np.poly(points)[::-1]])
    a = np.array([[point**k for point in points] + [float(k == m - 1)] for k in range(m)])
    return b, a


def winograd_input(x: np.ndarray, shape: Any, m: int) -> np.ndarray:
    b, _ = transforms(m)
    tiles = sliding_window_view(x, (m + 2, m + 2), (1, 2))[:, ::m, ::m]
    return np.einsum("ik,bhwckl,jl->bhwijc", b, tiles, b).reshape(shape)


def winograd_output(y: np.ndarray, shape: Any, m: int) -> np.ndarray:
    _, a = transforms(m)
    batch, height, width, made = shape
    tiles = (batch, -(-height // m), -(-width // m))
    blocks = np.einsum("ik,bhwklc,jl->bhiwjc", a, y.reshape(*tiles, m + 2, m + 2, made), a)
    return blocks.reshape(batch, tiles[1] * m, tiles[2] * m, made)[:, :height, :width]


def matmul_batched(a: np.ndarray, b: np.ndarray, shape: Any, n: int, nr: int = 0) -> np.ndarray:
    return np.einsum("tpk,pkn->tpn", a, unpacked(b, n) if nr else b)


def conv_panels(x: np.ndarray, w: np.ndarray, shape: Any, n: int, nr: int, **window: Any) -> np.ndarray:
    seen = np.moveaxis(windows(x, shape, **window), 3, -1)
    return seen.reshape(*shape[:3], -1) @ unpacked(w, n)


def conv_winograd(x: np.ndarray, u: np.ndarray, shape: Any, m: int, n: int, nr: int) -> np.ndarray:
    tiles = shape[0] * -(-shape[1] // m) * -(-shape[2] // m)
    places = (m + 2) ** 2
    v = winograd_input(x, (tiles, places, x.shape[3]), m)
    return winograd_output(matmul_batched(v, u, (tiles, places, n), n, nr), shape, m)


REFERENCES: dict[str, Callable[..., np.ndarray]] = {
    "matmul": lambda a, b, shape: np.matmul(a, b),
    "matmul_packed": lambda a, b, shape, n, nr: np.matmul(a, unpacked(b, n)),
    "matmul_panels": lambda a, b, shape, n, nr: np.matmul(a, unpacked(b, n)),
    "matmul_batched": matmul_batched,
    "conv_packed": conv_packed,
    "conv_panels": conv_panels,
    "conv_winograd": conv_winograd,
    "depthwise": lambda x, w, shape, **window: np.einsum(
        "bhwct,tc->bhwc", windows(x, shape, **window).reshape(*shape, -1), w
    ),
    "im2col": lambda x, shape, **window: np.moveaxis(windows(x, shape, **window), 3, -1).reshape(shape),
    "winograd_input": winograd_input,
    "winograd_output": winograd_output,
}


def evaluate(trace: Trace, feeds: Sequence[np.ndarray], used: set[str]) -> np.ndarray:
    """The trace's output, and the names of the primitives that made it."""
    known = {id(array): feed.astype(np.float64) for array, feed in zip(trace.inputs, feeds, strict=True)}
    for equation in trace.equations:
        name = equation.primitive.name
        used.add(name)
        operands = [known[id(x)] if x.value is None else x.value.astype(np.float64) for x in equation.inputs]
        (output,) = equation.outputs
        if name == "cast":
            known[id(output)] = operands[0]
        elif name in REFERENCES:
            known[id(output)] = REFERENCES[name](*operands, shape=output.shape, **equation.params)
        else:
            known[id(output)] = equation.primitive.numpy(*operands, **equation.params)[0]
        assert known[id(output)].shape == output.shape, name
    return known[id(trace.outputs[0])]


def check(
    target: str, shapes: Sequence[Sequence[int]], function: Callable[..., Array], constants: Sequence[np.ndarray] = ()
) -> set[str]:
    """Compare before and after; gives the names of the primitives in use."""
    rng = np.random.default_rng(0)
    feeds = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    trace = Trace(Guards())
    with trace:
        inputs = [trace.input(dtypes.float32, tuple(shape)) for shape in shapes]
        trace.give([function(*inputs, *map(constant, constants))])
    expected = evaluate(trace, feeds, set())
    used: set[str] = set()
    legalize(trace, {-1}, target)
    found = evaluate(trace, feeds, used)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    return used


def conv(strides: Any = (1, 1), dilations: Any = (1, 1), low: Any = (1, 1), high: Any = (1, 1), groups: int = 1) -> Any:
    return lambda x, w: p.conv_general(x, w, strides, dilations, low, high, groups)


W = np.random.default_rng(1).standard_normal((40, 40, 3, 3)).astype(np.float32)


@TARGETS
@pytest.mark.parametrize(
    ("x", "w", "options", "routine"),
    [
        ([2, 24, 9, 10], W[:20, :24], {}, "winograd_input"),
        ([1, 40, 6, 5], W, {}, "winograd_input"),
        ([2, 5, 9, 10], W[:7, :5], {}, ""),
        ([2, 5, 9, 10], W[:7, :5], {"strides": (2, 3), "dilations": (2, 1), "low": (0, 2), "high": (3, 1)}, ""),
        ([1, 8, 9, 10], W[:12, :4], {"groups": 2}, "conv_packed"),
        ([1, 12, 9, 10], W[:12, :1], {"groups": 12}, "depthwise"),
        ([1, 12, 9, 10], W[:12, :1], {"groups": 12, "strides": (2, 2), "low": (0, 1)}, "depthwise"),
        ([1, 6, 9, 10], W[:12, :1], {"groups": 6}, "depthwise"),
        ([3, 8, 9, 10], W[:12, :8, :1, :1], {"low": (0, 0), "high": (0, 0)}, ""),
        ([3, 8, 9, 10], W[:12, :8, :1, :1], {"low": (0, 0), "high": (0, 0), "strides": (2, 2)}, ""),
    ],
)
def test_convolutions(target: str, x: list[int], w: np.ndarray, options: dict[str, Any], routine: str) -> None:
    used = check(target, [x], conv(**options), [w])
    assert "conv_general" not in used
    native = {"winograd_input": "conv_winograd"} if target == "wasmtime" else {}
    assert native.get(routine, routine) in used or not routine


@TARGETS
def test_of_one_dimension(target: str) -> None:
    used = check(target, [[2, 5, 20]], conv((2,), (2,), (3,), (1,)), [W[:7, :5, 0]])
    assert "conv_general" not in used


@TARGETS
@pytest.mark.parametrize(
    ("kernel", "spread", "low", "high"),
    [
        ((2, 2), (2, 2), (1, 1), (1, 1)),
        ((3, 3), (2, 2), (1, 1), (2, 2)),
        ((3, 2), (1, 3), (2, 0), (2, 4)),
        ((1, 1), (2, 2), (0, 0), (1, 0)),
    ],
)
def test_transposed(target: str, kernel: Any, spread: Any, low: Any, high: Any) -> None:
    w = W[:6, :5, : kernel[0], : kernel[1]]
    used = check(
        target, [[2, 5, 7, 6]], lambda x, w: p.conv_general(x, w, (1, 1), (1, 1), low, high, spread=spread), [w]
    )
    assert "conv_general" not in used


@TARGETS
def test_between_convolutions_channels_stay_last(target: str) -> None:
    def block(x: Array, a: Array, b: Array) -> Array:
        first = p.maximum(conv()(x, a), 0.0)
        window = p.reduce_window(first, "max", (2, 2), (1, 1), (1, 1), (0, 0), (1, 1))
        both = p.concat([first + window, first], 1)
        return p.maximum(conv()(both, b), 0.0) + p.slice_(both, [0, 0, 0, 0], [1, 24, 9, 10])

    check(target, [[1, 40, 9, 10]], block, [W[:12], W[:24, :24]])


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
def test_products(target: str, a: list[int], b: list[int], contract: Any, batch: Any) -> None:
    used = check(target, [a, b], lambda x, y: p.dot_general(x, y, contract, batch))
    assert "dot_general" not in used


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
