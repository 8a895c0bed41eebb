"""Legalization of products with dequantized weights: (number - zero point) * scale stays as small as it is stored.

The constant operand of a product is followed back through movement to that multiplication. Its axes, split where blocks
are, then lie in the rows and columns of a matrix; along the rows scales must stay the same for whole blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from sardonyx import dtypes
from sardonyx import primitives as p
from sardonyx.array import Array, Equation, constant
from sardonyx.legalization.channels_last import are_floats
from sardonyx.symbolic import Size, hint, product, same_shape

from . import blas, unpacked
from . import primitives as own
from .driver import FEW, HOSTED, SCRATCH
from .legalizer import Legalizer
from .products import in_panels
from .ranges import bounds
from .routines.nbits import DEEPEST, LONGEST

FEWEST = 1 << 12
"""Matrices of fewer numbers become floats."""
SHORT = 64
"""The blocks that a whole column is split into."""
_GREATEST = 1 << 14
_SHIFTS = np.array([[0, 16], [4, 20], [8, 24], [12, 28]])
"""Where the numbers of k = 0, 1; 2, 3; ... lie in a word of eight."""


class Dequantized(NamedTuple):
    """(numbers - zeros) * scales of integers, where the latter two broadcast, and what movement made of the axes."""

    numbers: Array
    zeros: Array
    scales: Array
    axes: list[list[int]]

    def matrix(self, x: Array, rows: Sequence[int], columns: Sequence[int], inner: Sequence[int] = ()) -> Array:
        """The matrix of what belongs to the numbers, without the `inner` axes along which it stays the same."""
        shape = self.numbers.shape
        wide = p.reshape(x, [*[1] * (len(shape) - x.rank), *x.shape])
        full = [1 if axis in inner else int(size) for axis, size in enumerate(shape)]
        sizes = [prod(full[axis] for axis in axes) for axes in (rows, columns)]
        return p.reshape(p.transpose(p.broadcast_to(wide, full), [*rows, *columns]), sizes)

    def same_along(self, axis: int) -> bool:
        """Whether scales and zero points do not change along an axis."""
        place = axis - len(self.numbers.shape)
        return all(x.rank < -place or x.shape[place] == 1 for x in (self.zeros, self.scales))


def dot_general(legalizer: Legalizer, equation: Equation) -> bool:
    """dot_general of floats and dequantized weights -> matmul_nbits"""
    a, b = equation.inputs
    (output,) = equation.outputs
    params = equation.params
    if not (are_floats(a, b) and params["dtype"].is_float):
        return False
    if params["batch"][0] or b.value is not None or not legalizer.is_constant(b):
        return False
    weights = dequantized(b)
    pairs = sorted(zip(*params["contract"], strict=True))
    free = [axis for axis in range(b.rank) if axis not in params["contract"][1]]
    if weights is None:
        return False
    rows = [axis for _, place in pairs for axis in weights.axes[place]]
    columns = [axis for place in free for axis in weights.axes[place]]
    rows = [axis for axis in range(weights.numbers.rank) if axis not in (*rows, *columns)] + rows  # of size 1
    left = [axis for axis in range(a.rank) if axis not in params["contract"][0]]
    matrix = p.reshape(
        p.transpose(p.cast(a, dtypes.float32), [*left, *(axis for axis, _ in pairs)]),
        [product([a.shape[axis] for axis in left]), product([a.shape[axis] for axis, _ in pairs])],
    )
    made = matmul(legalizer, matrix, weights, rows, columns)
    if made is not None:
        legalizer.define_reshaped(output, p.cast(made, output.dtype))
    return made is not None


def matmul(
    legalizer: Legalizer, a: Array, weights: Dequantized, rows: Sequence[int], columns: Sequence[int]
) -> Array | None:
    """The product of a [M, K] and the matrix of weights, None where `matmul_nbits` cannot do it."""
    inner: list[int] = []
    for axis in reversed(rows):
        if not weights.same_along(axis):
            break
        inner.insert(0, axis)
    shape = [int(size) for size in weights.numbers.shape]
    depth, n, size = (prod(shape[axis] for axis in axes) for axes in (rows, columns, inner))
    block = _block(depth, size)
    low, high = bounds(weights.numbers)
    least, most = bounds(weights.zeros)
    padded = -(-depth // block) * block if block else 0
    few = depth * n < FEWEST or padded > DEEPEST
    if not block or few or high - low > 255 or least < -_GREATEST or most > _GREATEST:
        return None
    bits = 4 if high - low < 16 else 8
    base = low if bits == 4 else low + 128
    numbers = weights.matrix(p.cast(weights.numbers, dtypes.int32) - base, rows, columns)
    zeros = weights.matrix(p.cast(weights.zeros, dtypes.int32) - base, rows, columns, inner)
    scales = weights.matrix(p.cast(weights.scales, dtypes.float32), rows, columns, inner)
    repeat = -(-size // block)
    nr = legalizer.width
    operands = [
        p.pad(a, [0, 0], [0, padded - depth]),
        _packed(p.pad(numbers, [0, 0], [padded - depth, 0]), bits, nr),
        in_panels(_repeated(scales, repeat), nr),
        p.cast(in_panels(_repeated(zeros, repeat), nr), dtypes.int16),
    ]
    attributes = {"bits": bits, "block": block}
    if legalizer.target == "wasmtime" and (panel := _width_for_blas(a.shape[0], padded, n, nr)):
        attributes[HOSTED] = panel
    return legalizer.record(own.MATMUL_NBITS, operands, attributes, dtypes.float32, (a.shape[0], n))


def _width_for_blas(rows: Size, depth: int, columns: int, nr: int) -> int:
    """The columns of a panel of floats where BLAS pays, else 0: a whole number of panels of nr."""
    if hint(rows) <= FEW or hint(rows) * depth * columns < blas.FEWEST:
        return 0
    width = blas.panel_width(depth, 1 << 20) or unpacked.ROOM // (4 * depth)
    return max(1, min(width, SCRATCH // (4 * depth)) // nr) * nr


def _block(depth: int, size: int) -> int:
    """The numbers of a block of the routine where scales stay the same for `size` numbers, 0 if it cannot have them."""
    if size == depth and size % 8:
        return SHORT
    return next((block for block in range(min(size, LONGEST) & -8, 0, -8) if size % block == 0), 0)


def _repeated(x: Array, times: int) -> Array:
    rows, columns = x.shape
    return p.reshape(p.broadcast_to(p.unsqueeze(x, [1]), [rows, times, columns]), [rows * times, columns])


def _packed(numbers: Array, bits: int, nr: int) -> Array:
    """[K, N] -> [panels, K / 8, nr] words of eight numbers of 4 bits, [panels, K / 2, nr, 2] numbers of 8"""
    panels = in_panels(numbers, nr)
    count, depth, _ = panels.shape
    if bits == 8:
        return p.cast(p.transpose(p.reshape(panels, [count, depth // 2, 2, nr]), [0, 1, 3, 2]), dtypes.int8)
    eight = p.reshape(p.cast(panels, dtypes.uint32), [count, depth // 8, 4, 2, nr])
    shifts = constant(_SHIFTS[:, :, None], dtypes.uint32)
    return p.sum_(p.shift_left(eight, shifts), [2, 3])


# ---- following back


def dequantized(x: Array) -> Dequantized | None:
    """What an Array is made of by movement, if it is (number - zero point) * scale."""
    moves: list[Equation] = []
    while x.equation is not None and x.equation.params.get("function") != "mul":
        name = x.equation.primitive.name
        if name not in ("reshape", "transpose") and not (name == "cast" and x.equation.inputs[0].dtype.is_float):
            return None
        moves.append(x.equation)
        x = x.equation.inputs[0]
    if x.equation is None:
        return None
    axes = [[axis] for axis in range(x.rank)]
    for move in reversed(moves):
        if move.primitive.name == "transpose":
            axes = [axes[axis] for axis in move.params["perm"]]
        elif move.primitive.name == "reshape":
            merged = _merged([axis for group in axes for axis in group], x.shape, move.outputs[0].shape)
            if merged is None:
                return None
            axes = merged
    for difference, scales in (x.equation.inputs, x.equation.inputs[::-1]):
        found = _difference(difference)
        if found is not None and same_shape(found[0].shape, x.shape):
            return Dequantized(*found, scales, axes)
    return None


def _merged(axes: Sequence[int], sizes: Sequence[Size], shape: Sequence[Size]) -> list[list[int]] | None:
    """The axes, of these sizes, that each axis of a reshaped Array consists of; those of size 1 are left out."""
    left = [axis for axis in axes if sizes[axis] != 1]
    groups: list[list[int]] = []
    for size in shape:
        groups.append([])
        while prod(int(sizes[axis]) for axis in groups[-1]) != size:
            if not left:
                return None
            groups[-1].append(left.pop(0))
    return None if left else groups


def _difference(x: Array) -> tuple[Array, Array] | None:
    """The numbers and zero points whose difference, as floats, an Array is."""
    x = _uncast(x)
    if x.equation is not None and x.equation.params.get("function") == "sub":
        numbers, zeros = map(_whole, x.equation.inputs)
        return None if numbers is None or zeros is None else (numbers, zeros)
    numbers = _whole(x)
    return None if numbers is None else (numbers, constant(np.zeros((), np.int32), dtypes.int32))


def _uncast(x: Array) -> Array:
    """What became a float."""
    while x.equation is not None and x.equation.primitive.name == "cast" and x.dtype.is_float:
        x = x.equation.inputs[0]
    return x


def _whole(x: Array) -> Array | None:
    """An Array of integers, or of floats that are integers for certain, as integers."""
    x = _uncast(x)
    if x.dtype.is_int:
        return x
    if x.value is None or not x.dtype.is_native or not (np.rint(x.value) == x.value).all():
        return None
    return constant(x.value.astype(np.int32), dtypes.int32) if np.abs(x.value).max(initial=0) < 2**31 else None
