"""How many columns BLAS gets at a time, where it copies what it multiplies."""

from __future__ import annotations

from functools import cache

from sardonyx.host.products import FEW

_LARGE = 1 << 17  # elements of a matrix that takes long to copy
_NEAR, _NARROWEST = 256, 128  # columns of a part of it, for each of which the left side is copied
_FEWEST, _MOST = 4, 16  # parts that are best, and that there are


def broad(rows: int, depth: int, columns: int) -> int:
    """The columns of panels that threads divide, each of which is copied once, if the right side is the larger one.

    They are all equal. A vector's product has one panel.

    >>> broad(64, 384, 1536), broad(64, 64, 64), broad(64, 512, 1009), broad(3136, 576, 512), broad(1, 384, 1536)
    (256, 64, 1009, 512, 1536)
    """
    return columns if rows <= FEW or not is_heavy(rows, depth, columns) else _broad(depth, columns)


def is_heavy(rows: int, depth: int, columns: int) -> bool:
    """Whether two threads that divide the rows read more than those that divide the columns."""
    return depth * columns >= 2 * rows * (depth + columns)


@cache
def _broad(depth: int, columns: int) -> int:
    if depth * columns < _LARGE:
        return columns
    counts = [count for count in range(2, _MOST + 1) if columns % count == 0 and columns >= count * _NARROWEST]
    near = max(_FEWEST, columns // _NEAR)
    return columns // min(counts, key=lambda count: (count % 2, abs(count - near)), default=1)
