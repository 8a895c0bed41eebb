"""Functions of the rows of matrices, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable

from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import sizes
from sardonyx.primitives.control import loop
from sardonyx.primitives.elementwise import iota
from sardonyx.primitives.indexing import gather
from sardonyx.primitives.movement import reshape, slice_axis

MOST_ELEMENTS = 1 << 19
"""Elements of the intermediate results that `by_rows` allows at a time."""


def by_rows(x: Array, elements: int, function: Callable[[Array], Array]) -> Array:
    """`function(x)`, row by row the same as for all rows at once, for as many rows at a time as memory allows.

    `elements` counts what an intermediate result of the function has for one row; the result has x's rows first.
    """
    rows, block = x.shape[0], max(1, MOST_ELEMENTS // max(1, elements))
    if rows <= block:
        return function(x)
    blocks = (rows + (block - 1)) // block

    def of_block(number: Array, going: Array) -> list[Array]:
        places = number * block + iota((block,), 0)  # those behind the last row give it again
        return [going, function(gather(x, [places], [0]))]

    (stacked,) = loop(reshape(sizes([blocks]), ()), None, [], of_block)
    return slice_axis(reshape(stacked, (blocks * block, *stacked.shape[2:])), 0, 0, rows)
