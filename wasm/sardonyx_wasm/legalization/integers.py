"""Legalization of products and convolutions of integers: of how many bits are they, and which routine is exact?

Zero points are subtracted before a product, so its operands are int32 that came from 8 bits. `bounds` follows them back
to where their range is known: numbers that fit 16 bits are what `matmul_int8` multiplies. Where float32 holds all sums,
products of floats are exact as well, natively by BLAS.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from math import prod
from typing import Any

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.legalization.ranges import bounds, fits, integers, largest_sum, least
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.binding import constant
from sardonyx.sizes.symbolic import Size, hint, product

from .. import primitives as own
from ..device import blas
from . import products, winograd
from .convolutions import bordered, convolve, trimmed
from .legalizer import EXACT, Legalizer
from .products import in_pairs
from .quads import in_quads
from .tiling import Window

FEWEST = 512
"""Products of fewer multiplications stay generated kernels."""
ROWS = 4
"""From so many rows on it pays to pack a matrix that is not constant."""
MANY = 24
"""From so many rows on V8 is faster with a packed matrix of int16, however small its numbers are."""
SHORT = 8
"""Up to so many rows, bytes are multiplied as they are, since reading a constant matrix is what takes time."""
PACKED = 128
"""The same natively, where BLAS puts the matrix into an order of its own each time."""
TALL = 256
"""The same natively, where BLAS would do several products, or none: so many rows stay in the cache."""
SOONER = {True: 1, False: 32}
"""Up to so many rows bytes are widened to 16 bits sooner than BLAS multiplies floats: with AVX-512, or without."""
LIGHT = 1 << 19
"""Up to so many multiplications, it takes longer to hand a product to BLAS than to do it."""
MOST = 4
"""Products of floats that may take the place of one of integers, each of a part of the sums."""

_CONVERTED = frozenset({"broadcast", "cast", "reshape"})
_MIDDLE = 128
"""What makes bytes without a sign such with one."""


def _is_small(dtype: dtypes.DType, *operands: Array) -> bool:
    return dtype is dtypes.int32 and all(x.dtype.is_int and fits(bounds(x), dtypes.int16) for x in operands)


def dot_general(legalizer: Legalizer, equation: Equation) -> bool:
    """dot_general of small integers -> matmul_int8 or, natively, products of floats"""
    a, b = equation.inputs
    return _is_small(equation.params["dtype"], a, b) and _dot_general(legalizer, equation, a, b)


def dot_general_of_floats(legalizer: Legalizer, equation: Equation) -> bool:
    """dot_general of floats that are small integers -> matmul_int8, or matmul_quads"""
    a, b = equation.inputs
    if equation.params["dtype"] is not dtypes.float32 or not legalizer.is_constant(b):
        return False
    if not all(least(integers(x)) for x in (a, b)):
        return False
    if legalizer.target == "wasmtime":
        return _dot_general(legalizer, equation, a, b, only_quads=True)
    first, second = (p.cast(x, dtypes.int32) for x in (a, b))
    if largest_sum(first, second, equation.params["contract"][1]) >= 1 << 31:
        return False
    return _dot_general(legalizer, equation, first, second)


def _dot_general(legalizer: Legalizer, equation: Equation, a: Array, b: Array, only_quads: bool = False) -> bool:
    (output,) = equation.outputs
    left, right = ([*sides] for sides in equation.params["batch"])
    contract = equation.params["contract"]
    rows = [axis for axis in range(a.rank) if axis not in (*left, *contract[0])]
    columns = [axis for axis in range(b.rank) if axis not in (*right, *contract[1])]
    batch, m, k = ([a.shape[axis] for axis in axes] for axes in (left, rows, contract[0]))
    n = [b.shape[axis] for axis in columns]
    work = hint(product([*batch, *m, *k, *n]))
    if work < FEWEST or not (legalizer.is_constant(b) or hint(product(m)) >= ROWS) or hint(product(n)) == 1:
        return False
    first = p.reshape(p.transpose(a, [*left, *rows, *contract[0]]), [*batch, product(m), product(k)])
    depth = product([b.shape[axis] for axis in contract[1]])  # that of a, which may have the name of an open size
    second = p.reshape(p.transpose(b, [*right, *contract[1], *columns]), [*batch, depth, product(n)])
    parts = int(work >= blas.FEWEST) if only_quads else _parts(legalizer, work, a, b, contract[1], product(k))
    is_known = legalizer.is_constant(b) and all(isinstance(size, int) for size in b.shape)
    suits = not batch and is_known and _suits_quads(legalizer, hint(product(m)), work, parts)
    result = _by_quads(legalizer, first, second) if suits else None
    if result is None and only_quads:
        return False
    if not batch and is_known and hint(product(m)) <= SOONER[blas.in_blocks()]:
        parts = 0
    if result is None and parts:
        result = _by_floats(
            first, second, (-1, -2), parts, lambda x, y: products.matmul(legalizer, x, y, dtypes.float32)
        )
        if parts == 1:
            legalizer.largest[result] = EXACT
    elif result is None:
        result = matmul(legalizer, first, second)
    legalizer.define_reshaped(output, p.cast(result, output.dtype))
    return True


def _suits_quads(legalizer: Legalizer, rows: int, work: int, parts: int) -> bool:
    """Whether bytes as they are would be multiplied sooner than numbers of 16 bits, or than BLAS does so many parts."""
    if legalizer.target == "v8":
        return rows <= SHORT
    if parts != 1:
        return rows <= TALL
    return work <= LIGHT or rows <= (SHORT if blas.in_blocks() else PACKED)


def _by_quads(legalizer: Legalizer, a: Array, b: Array) -> Array | None:
    """The product of rows of bytes and a constant matrix of 8 bits; None if they are none, or quads do not suit it."""
    found = _bytes(a)
    if found is None:
        return None
    rows, zero = found
    is_unsigned = b.dtype is dtypes.uint8
    quads = in_quads(p.cast(b, dtypes.int32) - _MIDDLE if is_unsigned else b)
    if quads is None:
        return None
    (depth, columns), first = b.shape, [0] * (rows.rank - 1)
    inputs = [p.pad(rows, [0, *first], [*first, -depth % 4]), quads.panels, quads.sums, zero, quads.starts]
    inputs.append(quads.elements)
    result = legalizer.record(own.MATMUL_QUADS, inputs, {}, dtypes.int32, (*rows.shape[:-1], columns))
    if is_unsigned:
        result = result + p.sum_(p.cast(rows, dtypes.int32) - zero, [-1], keepdims=True) * _MIDDLE
    return result


def _bytes(x: Array) -> tuple[Array, Array] | None:
    """The bytes, and the zero point that is subtracted from them, of which integers or floats are made."""
    if x.dtype is dtypes.uint8:
        return x, constant(0, dtypes.int32)
    equation = x.equation
    if equation is None:
        return None
    if equation.primitive.name == "reshape":
        found = _bytes(equation.inputs[0])
        return found and (p.reshape(found[0], x.shape), found[1])
    if equation.primitive.name == "cast":
        return _bytes(equation.inputs[0]) if x.dtype.kind in ("int", "float") and x.dtype.bits >= 32 else None
    if equation.params.get("function") != "sub":
        return None
    left, right = equation.inputs
    found = _bytes(left) if left.shape == x.shape else None
    while right.dtype.bits > 8 and right.equation is not None and right.equation.primitive.name in _CONVERTED:
        right = right.equation.inputs[0]
    if found is None or right.size != 1 or not right.dtype.is_int or right.dtype.bits > 8:
        return None
    return found[0], p.cast(p.reshape(right, ()), dtypes.int32) + found[1]


def _parts(legalizer: Legalizer, work: int, x: Array, w: Array, axes: Collection[int], size: Size) -> int:
    """How many products of floats, each exact, BLAS does sooner than one of integers is done here; 0 for none.

    Each has a part of an axis of this size, all of which are whole numbers of what sums along these axes of w take.
    """
    is_sized = all(isinstance(w.shape[axis], int) for axis in axes)
    if not is_sized or legalizer.target != "wasmtime" or work < blas.FEWEST:
        return 0
    if largest_sum(x, w, axes) <= EXACT:
        return 1
    depth = prod(int(w.shape[axis]) for axis in axes)
    most = EXACT // max(1, prod(max(map(abs, bounds(operand))) for operand in (x, w)))  # terms of a sum
    each = most * int(size) // depth
    return parts if each and (parts := -(-int(size) // each)) <= MOST else 0


def _by_floats(
    x: Array, w: Array, axes: tuple[int, int], parts: int, multiply: Callable[[Array, Array], Array]
) -> Array:
    """The int32 sum of products of float32, each of a part of these axes of x and w."""

    def multiplied(x: Array, w: Array) -> Array:
        return p.cast(multiply(p.cast(x, dtypes.float32), p.cast(w, dtypes.float32)), dtypes.int32)

    def part(x: Array, axis: int, begin: int, end: int) -> Array:
        return p.slice_axis(x, axis % x.rank, begin, end - begin)

    if parts == 1:
        return multiplied(x, w)
    ends = [int(w.shape[axes[1]]) * k // parts for k in range(parts + 1)]
    first, *others = (multiplied(part(x, axes[0], *line), part(w, axes[1], *line)) for line in pairwise(ends))
    return sum(others, first)


def matmul(legalizer: Legalizer, a: Array, b: Array) -> Array:
    """The product of matrices of small integers, or of stacks of them."""
    *batch, k, n = b.shape
    wide = p.pad(p.cast(a, dtypes.int16), [0] * a.rank, [0] * (a.rank - 1) + [k % 2])
    often = legalizer.target == "v8" and hint(product(a.shape[len(batch) : -1])) >= MANY
    dtype = dtypes.int16 if often else least(bounds(b))
    assert dtype is not None
    panels = in_pairs(p.cast(b, dtype))
    return legalizer.record(own.MATMUL_INT8, [wide, panels], {}, dtypes.int32, (*a.shape[:-1], n))


def conv_general(legalizer: Legalizer, equation: Equation) -> bool:
    """conv_general of small integers -> matmul_int8 of columns; with groups, that of floats where it is exact"""
    x, w = equation.inputs
    (output,) = equation.outputs
    params = equation.params
    is_sized = all(isinstance(size, int) for size in w.shape) and hint(output.size) > 0
    if not (is_sized and x.rank in (3, 4) and _is_small(output.dtype, x, w) and set(params["spread"]) == {1}):
        return False
    image, kernel = legalizer.last(x), w
    lines = [params["strides"], params["dilations"], params["low"]]
    if flat := x.rank == 3:  # an image of one column: units are rows
        image = p.reshape(image, [*image.shape[:2], 1, image.shape[2]])
        kernel = p.reshape(kernel, [*w.shape, 1])
        lines = [[*line, fill] for fill, line in zip((1, 1, 0), lines, strict=True)]
    shape = [output.shape[0], *output.shape[2:], *([1] * flat), output.shape[1]]
    axes, groups = range(1, w.rank), params["groups"]
    work = hint(output.size) * prod(int(w.shape[axis]) for axis in axes)
    largest = largest_sum(x, w, axes)
    parts = _parts(legalizer, work, x, w, axes, w.shape[1]) if groups == 1 else largest <= EXACT
    strides, dilations, low = lines
    high, wide = map(int, kernel.shape[2:])
    window = Window((high, wide), (strides[0], strides[1]), (dilations[0], dilations[1]))
    way = winograd.fastest(x, kernel, shape, window, largest, by_blas=parts > 0) if groups == 1 else None
    if way:
        result = winograd.convolve(legalizer, image, kernel, shape, window, low, way)
    elif parts:

        def multiply(x: Array, w: Array) -> Array:
            return convolve(legalizer, x, w, shape, groups, strides, dilations, low, exact=True)

        result = _by_floats(image, kernel, (3, 1), parts, multiply)
        legalizer.largest[result] = largest
    elif groups > 1:
        return False
    else:
        result = _by_columns(legalizer, image, kernel, shape, *lines)
    legalizer.define_last(output, p.reshape(result, [*result.shape[:2], result.shape[3]]) if flat else result)
    return True


def _by_columns(
    legalizer: Legalizer, image: Array, w: Array, shape: Sequence[Size], strides: Any, dilations: Any, low: Any
) -> Array:
    """One product with all that the windows of [B, H, W, C] see, side by side (im2col)."""
    features, channels, *taps = map(int, w.shape)
    image, low = trimmed(p.cast(image, dtypes.int16), low)
    seen = [
        (size - 1) * stride + (n - 1) * step + 1
        for size, n, stride, step in zip(shape[1:3], taps, strides, dilations, strict=True)
    ]
    padded = bordered(image, low, seen)
    depth = prod(taps) * channels
    odd = depth % 2
    if prod(taps) == 1:
        columns = p.slice_(padded, [0] * 4, [*shape[:3], depth], [1, *strides, 1])
        columns = p.pad(columns, [0] * 4, [0, 0, 0, odd])
    else:
        window = {"kernel": tuple(taps), "strides": tuple(strides), "dilations": tuple(dilations)}
        columns = legalizer.record(own.IM2COL, [padded], window, dtypes.int16, (*shape[:3], depth + odd))
    matrix = p.reshape(p.transpose(w, [2, 3, 1, 0]), [depth, features])
    return matmul(legalizer, columns, p.pad(matrix, [0, 0], [odd, 0]))
