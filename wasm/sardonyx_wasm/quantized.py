"""Legalization of products and convolutions of integers: of how many bits are they, and which routine is exact?

Zero points are subtracted before a product, so its operands are int32 that came from 8 bits. `bounds` follows them back
to where their range is known: numbers that fit 16 bits are what `matmul_int8` multiplies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sardonyx import dtypes
from sardonyx import primitives as p
from sardonyx.array import Array, Equation, constant
from sardonyx.symbolic import Size, hint, product

from . import primitives as own
from .routines.integer import WIDTH

if TYPE_CHECKING:
    from .legalize import _Legalizer

Range: TypeAlias = tuple[int, int]

DEEPEST = 16
"""Equations that `bounds` goes back at most."""
FEWEST = 512
"""Products of fewer multiplications stay generated kernels."""
ROWS = 4
"""From so many rows on it pays to pack a matrix that is not constant."""

_MOVES = frozenset({"reshape", "transpose", "broadcast", "slice", "flip", "gather"})
_NARROW = frozenset({"int", "uint", "bool"})


def _masked(x: Range, y: Range) -> Range | None:
    """Of x & y: at most what is not negative."""
    tops = [high for low, high in (x, y) if low >= 0]
    return (0, min(tops)) if tops else None


_ARITHMETIC: dict[str, Callable[[Range, Range], Range | None]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "sub": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "and": _masked,
}


def bounds(x: Array, depth: int = DEEPEST) -> Range:
    """The least and greatest value that an integer Array may have, as far as its type and origin tell."""
    dtype = x.dtype
    signed = dtype.kind == "int"
    bits = 1 if dtype is dtypes.bool_ else dtype.bits
    widest = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    if x.value is not None and dtype.is_native:
        return (int(x.value.min()), int(x.value.max())) if x.value.size else (0, 0)
    found = widest if x.equation is None or not depth else _origin(x.equation, depth - 1) or widest
    return found if widest[0] <= found[0] and found[1] <= widest[1] else widest


def _origin(equation: Equation, depth: int) -> Range | None:
    """The range of what an equation gives before it is wrapped to its type, if that is known."""
    name, inputs = equation.primitive.name, equation.inputs
    if name in _MOVES or (name == "cast" and inputs[0].dtype.kind in _NARROW):
        return bounds(inputs[0], depth)
    if name in ("pad", "concat"):
        ranges = [bounds(x, depth) for x in inputs]
        ranges += [(int(equation.params["value"]),) * 2] if name == "pad" else []
        return min(low for low, _ in ranges), max(high for _, high in ranges)
    if name == "bitcast" and inputs[0].dtype.kind == equation.outputs[0].dtype.kind:
        return bounds(inputs[0], depth)
    if name == "elementwise" and equation.params["function"] in _ARITHMETIC:
        return _ARITHMETIC[equation.params["function"]](*(bounds(x, depth) for x in inputs))
    return None


def _fits(x: Array, dtype: dtypes.DType) -> bool:
    low, high = bounds(x)
    least = -(1 << (dtype.bits - 1)) if dtype.kind == "int" else 0
    return least <= low and high < least + (1 << dtype.bits)


def _type_of(b: Array) -> dtypes.DType:
    """The least type for a packed operand."""
    return next(dtype for dtype in (dtypes.int8, dtypes.uint8, dtypes.int16) if _fits(b, dtype))


def _is_small(dtype: dtypes.DType, *operands: Array) -> bool:
    return dtype is dtypes.int32 and all(x.dtype.is_int and _fits(x, dtypes.int16) for x in operands)


def dot_general(legalizer: _Legalizer, equation: Equation) -> bool:
    """dot_general of small integers -> matmul_int8"""
    a, b = equation.inputs
    (output,) = equation.outputs
    if not _is_small(equation.params["dtype"], a, b):
        return False
    left, right = ([*sides] for sides in equation.params["batch"])
    contract = equation.params["contract"]
    rows = [axis for axis in range(a.rank) if axis not in (*left, *contract[0])]
    columns = [axis for axis in range(b.rank) if axis not in (*right, *contract[1])]
    batch, m, k = ([a.shape[axis] for axis in axes] for axes in (left, rows, contract[0]))
    n = [b.shape[axis] for axis in columns]
    work = hint(product([*batch, *m, *k, *n]))
    if work < FEWEST or not (legalizer.is_constant(b) or hint(product(m)) >= ROWS):
        return False
    first = p.reshape(p.transpose(a, [*left, *rows, *contract[0]]), [*batch, product(m), product(k)])
    second = p.reshape(p.transpose(b, [*right, *contract[1], *columns]), [*batch, product(k), product(n)])
    legalizer.define_reshaped(output, matmul(legalizer, first, second))
    return True


def matmul(legalizer: _Legalizer, a: Array, b: Array) -> Array:
    """The product of matrices of small integers, or of stacks of them."""
    *batch, k, n = b.shape
    half = (k + 1) // 2
    zeros, odd = [0] * len(batch), 2 * half - k
    wide = p.pad(p.cast(a, dtypes.int16), [0] * a.rank, [0] * (a.rank - 1) + [odd])
    panels = (n + WIDTH - 1) // WIDTH
    packed = p.pad(p.cast(b, _type_of(b)), [*zeros, 0, 0], [*zeros, odd, panels * WIDTH - n])
    outer = len(batch)
    packed = p.reshape(packed, [*batch, half, 2, panels, WIDTH])
    packed = p.transpose(packed, [*range(outer), outer + 2, outer, outer + 3, outer + 1])
    return legalizer.record(own.MATMUL_INT8, [wide, packed], {}, dtypes.int32, (*a.shape[:-1], n))


def conv_general(legalizer: _Legalizer, equation: Equation) -> bool:
    """conv_general of small integers -> matmul_int8 of columns; with groups, that of floats where it is exact"""
    x, w = equation.inputs
    (output,) = equation.outputs
    params = equation.params
    known = all(isinstance(size, int) for size in w.shape) and hint(output.size) > 0
    if not (known and x.rank in (3, 4) and _is_small(output.dtype, x, w) and set(params["spread"]) == {1}):
        return False
    image, kernel = legalizer.last(x), w
    lines = [params["strides"], params["dilations"], params["low"]]
    if flat := x.rank == 3:  # an image of one column: units are rows
        image = p.reshape(image, [*image.shape[:2], 1, image.shape[2]])
        kernel = p.reshape(kernel, [*w.shape, 1])
        lines = [[*line, fill] for fill, line in zip((1, 1, 0), lines, strict=True)]
    shape = [output.shape[0], *output.shape[2:], *([1] * flat), output.shape[1]]
    if _winograd_pays(x, w, params):
        made = _by_winograd(legalizer, image, kernel, shape, params["low"])
    elif params["groups"] == 1:
        made = _by_columns(legalizer, image, kernel, shape, *lines)
    elif _in_floats(x, w):
        image, kernel = p.cast(image, dtypes.float32), p.cast(kernel, dtypes.float32)
        made = p.cast(legalizer.convolve(image, kernel, shape, params["groups"], *lines), dtypes.int32)
    else:
        return False
    legalizer.define_last(output, p.reshape(made, [*made.shape[:2], made.shape[3]]) if flat else made)
    return True


def _in_floats(x: Array, w: Array) -> bool:
    """Whether all sums of a convolution are integers that float32 has."""
    largest = [max(map(abs, bounds(operand))) for operand in (x, w)]
    return prod(map(int, w.shape[1:])) * prod(largest) <= 1 << 24


def _by_columns(
    legalizer: _Legalizer, image: Array, w: Array, shape: Sequence[Size], strides: Any, dilations: Any, low: Any
) -> Array:
    """One product with all that the windows of [B, H, W, C] see, side by side (im2col)."""
    from .legalize import _bordered, _trimmed

    made, channels, *taps = map(int, w.shape)
    odd = channels % 2
    image, low = _trimmed(p.pad(p.cast(image, dtypes.int16), [0] * 4, [0, 0, 0, odd]), low)
    seen = [
        (size - 1) * stride + (n - 1) * step + 1
        for size, n, stride, step in zip(shape[1:3], taps, strides, dilations, strict=True)
    ]
    padded = _bordered(image, low, seen)
    depth = prod(taps) * (channels + odd)
    if prod(taps) == 1:
        columns = p.slice_(padded, [0] * 4, [*shape[:3], depth], [1, *strides, 1])
    else:
        window = {"kernel": tuple(taps), "strides": tuple(strides), "dilations": tuple(dilations)}
        columns = legalizer.record(own.IM2COL, [padded], window, dtypes.int16, (*shape[:3], depth))
    kernel = p.pad(p.transpose(w, [2, 3, 1, 0]), [0] * 4, [0, 0, odd, 0])
    rows, matrix = p.reshape(columns, [product(shape[:3]), depth]), p.reshape(kernel, [depth, made])
    return p.reshape(matmul(legalizer, rows, matrix), shape)


# ---- Winograd's algorithm, on integers

_TILE = ((0, 2, "sub"), (1, 2, "add"), (2, 1, "sub"), (1, 3, "sub"))
"""The rows of B' of F(2x2, 3x3): an element of a tile, and another that is added or subtracted."""
_WEIGHTS = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]])
"""2 G, so that all is integers: four times the results."""
_RESULTS = np.array([[1, 1, 1, 0], [0, 1, -1, -1]])
"""A'."""
CHANNELS = 16
"""From so many channels on, on both sides, the algorithm pays."""


def _winograd_pays(x: Array, w: Array, params: dict[str, Any]) -> bool:
    """Whether this is a 3 x 3 convolution of enough channels, four times whose results fit 32 bits."""
    made, channels, *taps = map(int, w.shape)
    ones = {*params["strides"], *params["dilations"], params["groups"]} == {1}
    if not ones or taps != [3, 3] or min(made, channels) < CHANNELS:
        return False
    largest = [max(map(abs, bounds(operand))) for operand in (x, w)]
    return max(largest) <= 256 and 4 * 9 * channels * prod(largest) < 1 << 31


def _by_winograd(legalizer: _Legalizer, image: Array, w: Array, shape: Sequence[Size], low: Sequence[Size]) -> Array:
    """A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks" (2015): tiles of 2 x 2, exact here."""
    from .legalize import _bordered, _trimmed

    made, channels = int(w.shape[0]), int(w.shape[1])
    tiles = [(size + 1) // 2 for size in shape[1:3]]
    image, low = _trimmed(p.cast(image, dtypes.int16), low)
    padded = _bordered(image, low, [2 * count + 2 for count in tiles])
    sizes = [shape[0], *tiles, channels]

    def combined(rows: Sequence[Any], row: tuple[int, int, str]) -> Any:
        return p.elementwise(row[2], rows[row[0]], rows[row[1]])

    seen = [[p.slice_(padded, [0, y, x, 0], sizes, [1, 2, 2, 1]) for x in range(4)] for y in range(4)]
    across = [[combined(line, row) for row in _TILE] for line in seen]
    count = product(sizes[:3])
    places = [combined([line[x] for line in across], row) for row in _TILE for x in range(4)]
    v = p.concat([p.reshape(place, [1, count, channels]) for place in places], 0)
    transform = constant(np.kron(_WEIGHTS, _WEIGHTS).T, dtypes.int32)
    flat = p.reshape(p.cast(w, dtypes.int32), [made * channels, 9])
    u = p.reshape(p.cast(p.matmul(flat, transform), dtypes.int16), [made, channels, 16])
    y = matmul(legalizer, v, p.transpose(u, [2, 1, 0]))
    parts = []
    for signs in np.kron(_RESULTS, _RESULTS).tolist():
        total: Array | None = None
        for k, sign in enumerate(signs):
            if sign:
                place = p.reshape(p.slice_axis(y, 0, k, 1), [*sizes[:3], made])
                total = place if total is None else p.elementwise("add" if sign > 0 else "sub", total, place)
        assert total is not None
        parts.append(p.unsqueeze(p.shift_right(total, 2), [3]))
    together = p.reshape(p.concat(parts, 3), [*sizes[:3], 2, 2, made])
    wide = p.reshape(p.transpose(together, [0, 1, 3, 2, 4, 5]), [shape[0], 2 * tiles[0], 2 * tiles[1], made])
    return p.slice_(wide, [0, 0, 0, 0], shape)
