"""How many workgroups a program's grid takes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from sardonyx.code.program import Expression, Program
from sardonyx.errors import EPFail
from sardonyx_webgpu.code import WORKGROUP, Code

FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.floordiv,
    "rem": operator.mod,
    "min": min,
    "max": max,
}


def evaluate(code: Expression, params: Sequence[Any]) -> int:
    """An extent of a grid: arithmetic on constants and parameters, none of it negative.

    >>> evaluate(["add", "int32", ["param", "int32", 1], ["const", "int32", 3]], [10, 20])
    23
    """
    function, _, *details = code
    if function == "const":
        return int(details[0])
    if function == "param":
        return int(params[details[0]])
    return FUNCTIONS[function](*(evaluate(part, params) for part in details))


def portions(code: Code, params: Sequence[Any], most: float) -> list[Sequence[Any]]:
    """The parameters of the dispatches of a code, in none of which the loops of a thread turn more than `most` times,
    if they can be cut so."""
    if code.steps is None:
        return [params]
    steps = evaluate(code.steps, params)
    count = steps
    while count > 1 and evaluate(code.turns, [*params, 0, count]) > most:
        count = -(-count // 2)
    firsts = range(0, max(1, steps), max(1, count))
    return [[*params, first, min(count, steps - first)] for first in firsts]


def workgroups(code: Program | Code, params: Sequence[Any], most: int) -> tuple[int, int]:
    """The dispatch in two dimensions, of at most `most` workgroups each; (0, 0) where the grid is empty."""
    if not code.grid:
        return 1, 1
    points = 1
    for extent in code.grid:
        points *= max(0, evaluate(extent, params))
    groups = -(-points // WORKGROUP)
    rows = -(-groups // most)
    columns = -(-groups // rows) if rows else 0
    if rows * columns * WORKGROUP >= 1 << 32:
        raise EPFail(f"WebGpuExecutionProvider: {code.name!r} has {points:,} points; a dispatch has 2^32 threads")
    return columns, rows
