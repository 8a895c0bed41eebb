"""The dispatches of a code: how many workgroups its grid takes, and its steps in portions that drivers let end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sardonyx.errors import EPFail
from sardonyx_webgpu.code import WORKGROUP, Code
from sardonyx_webgpu.extents import evaluate


def portions(code: Code, params: Sequence[Any], most: float) -> list[Sequence[Any]]:
    """The parameters of the dispatches of a code, in none of which the loops of a thread turn more than `most` times,
    if they can be cut so."""
    if code.steps is None:
        return [params]
    steps = evaluate(code.steps, params)
    count = steps
    while count > 1 and code.turns([*params, 0, count])[0] > most:
        count = -(-count // 2)
    firsts = range(0, max(1, steps), max(1, count))
    return [[*params, first, min(count, steps - first)] for first in firsts]


def workgroups(name: str, extents: Sequence[int], most: int) -> tuple[int, int]:
    """The dispatch of a code in two dimensions, of at most `most` workgroups each, for the extents of its grid; (0, 0)
    where that is empty."""
    if not extents:
        return 1, 1
    points = 1
    for extent in extents:
        points *= max(0, extent)
    groups = -(-points // WORKGROUP)
    rows = -(-groups // most)
    columns = -(-groups // rows) if rows else 0
    if rows * columns * WORKGROUP >= 1 << 32:
        raise EPFail(f"WebGpuExecutionProvider: {name!r} has {points:,} points; a dispatch has 2^32 threads")
    return columns, rows
