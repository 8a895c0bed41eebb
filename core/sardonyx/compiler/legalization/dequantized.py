"""Dequantized weights of products: (number - zero point) * scale, as they are stored.

The constant operand of a product is followed back through movement to that multiplication. Its axes, split where blocks
are, then lie in the rows and columns of a matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.common.record import record
from sardonyx.compiler.legalization.channels_last import are_floats
from sardonyx.compiler.rewriting import Rewriter
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.binding import constant
from sardonyx.sizes.symbolic import Size, product, same_shape


@record(frozen=True)
class Dequantized:
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


class Multiplied(NamedTuple):
    """A product of a matrix a [M, K] and weights whose `rows` and `columns` are these axes of their numbers."""

    a: Array
    weights: Dequantized
    rows: list[int]
    columns: list[int]

    @property
    def depth(self) -> int:
        """K."""
        return prod(int(self.weights.numbers.shape[axis]) for axis in self.rows)

    @property
    def width(self) -> int:
        """The number of columns."""
        return prod(int(self.weights.numbers.shape[axis]) for axis in self.columns)

    def inner(self) -> list[int]:
        """The last axes of the rows along which scales and zero points stay the same."""
        inner: list[int] = []
        for axis in reversed(self.rows):
            if not self.weights.same_along(axis):
                break
            inner.insert(0, axis)
        return inner


def multiplied(rewriter: Rewriter, equation: Equation) -> Multiplied | None:
    """What a dot_general multiplies, if those are floats and dequantized weights."""
    a, b = equation.inputs
    params = equation.params
    if not are_floats(a, b, *equation.outputs):
        return None
    if params["batch"][0] or b.value is not None or not rewriter.is_constant(b):
        return None
    if (weights := dequantized(b)) is None:
        return None
    pairs = sorted(zip(*params["contract"], strict=True))
    free = [axis for axis in range(b.rank) if axis not in params["contract"][1]]
    rows = [axis for _, place in pairs for axis in weights.axes[place]]
    columns = [axis for place in free for axis in weights.axes[place]]
    rows = [axis for axis in range(weights.numbers.rank) if axis not in (*rows, *columns)] + rows  # of size 1
    left = [axis for axis in range(a.rank) if axis not in params["contract"][0]]
    lines = p.transpose(a, [*left, *(axis for axis, _ in pairs)])
    depth = prod(int(weights.numbers.shape[axis]) for axis in rows)  # a number, though that of `a` may be open
    matrix = p.reshape(lines, [product([a.shape[axis] for axis in left]), depth])
    return Multiplied(matrix, weights, rows, columns)


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
