"""How many rows BLAS gets at a time, where it does small products in place.

Blocks begin at multiples of four rows, which OpenBLAS then takes together: others are slower, and summed in another
order, so that results would depend on where threads divide the rows.
"""

from __future__ import annotations

from functools import lru_cache

HEIGHT = 4
"""Rows that OpenBLAS takes together,"""
HEIGHTS = (12, HEIGHT)
"""and better more of them."""


@lru_cache(1 << 10)
def runs(rows: int, most: int) -> list[tuple[int, int, int]]:
    """Blocks of equally many rows, and the rest: where they begin, how many there are, their rows."""
    if not rows:
        return []
    size = _height(rows, most)
    count, rest = divmod(rows, size)
    if rest and size + rest <= most:
        count, rest = count - 1, rest + size
    runs = [(0, count, size)] if count else []
    return [*runs, (rows - rest, 1, rest)] if rest else runs


def _height(rows: int, most: int) -> int:
    """The rows of a block: many, but not much more than what is left for the last one."""
    if rows <= most:
        return rows
    for height in HEIGHTS:
        for size in range(most - most % height, height - 1, -height):
            rest = rows % size
            if not rest or 2 * rest >= max(size, 2 * HEIGHT) or size + rest <= most:
                return size
    return most


def whole(most: int) -> int:
    """Rows that OpenBLAS takes together, at most so many."""
    return most - most % min(most, HEIGHT)
