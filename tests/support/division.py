"""How the WebAssembly backend divides a launch among threads, as numbers: what its driver and its products do.

`tests/wasm/test_ceilings.py` compares the ranges with those that a module takes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from sardonyx_wasm.drivers.synchronize import MOST, RANGES


def value(size: Any, params: Sequence[int]) -> int:
    """The value of what `Code` has for its units, or for where ranges of them begin.

    >>> value(3, ()), value("p1", (5, 7)), value(["mul", "int32", ["param", "int32", 0], ["const", "int32", 2]], (5,))
    (3, 7, 10)
    """
    if isinstance(size, int):
        return size
    if isinstance(size, str):
        return params[int(size[1:])]
    operands: list[Any]
    name, _, *operands = size
    if name == "const":
        return int(operands[0])
    if name == "param":
        return params[int(operands[0])]
    return _FUNCTIONS[name](*[value(operand, params) for operand in operands])


_FUNCTIONS: dict[str, Callable[..., int]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x // y,
    "min": min,
    "max": max,
    "eq": lambda x, y: int(x == y),
    "where": lambda condition, yes, no: yes if condition else no,
}


def ranges(units: int, align: int, threads: int) -> list[range]:
    """The ranges of units that so many threads take.

    >>> ranges(9, 1, 2), ranges(100, 16, 1)
    ([range(0, 2), range(2, 4), range(4, 6), range(6, 9)], [range(0, 100)])
    """
    groups = -(-units // align)
    count = min(groups, RANGES * threads if threads > 1 else 1, MOST)
    ends = [min(groups * number // count * align, units) for number in range(count + 1 if count else 0)]
    return [range(*pair) for pair in pairwise(ends)]


def longest(costs: Sequence[float], threads: int) -> float:
    """How long the last of so many threads takes that take turns of these costs: its own first, then what is left.

    >>> longest([2, 2, 2, 3], 2), longest([1, 1, 1, 9], 2), longest([5], 4)
    (5.0, 10.0, 5.0)
    """
    left = dict(enumerate(costs))
    free = [(0.0, thread) for thread in range(threads)]
    while left:
        begun, thread = heapq.heappop(free)
        first = len(costs) * thread // threads
        mine = min(left, key=lambda number: (number - first) % len(costs))
        heapq.heappush(free, (begun + left.pop(mine), thread))
    return max(free)[0]
