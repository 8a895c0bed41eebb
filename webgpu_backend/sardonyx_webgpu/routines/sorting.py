"""Runs of keys in order: a thread finds the places of a few keys by looking at their group, or that of one by
searching other runs."""

from __future__ import annotations

from typing import Any

from sardonyx.code.kernel import Routine
from sardonyx.code.program import Expression
from sardonyx_webgpu.code import Code
from sardonyx_webgpu.extents import call, constant, divided_up, size
from sardonyx_webgpu.routines.frame import Frame

_SEARCH = 34
"""Turns in which a key is found among as many as there can be."""
_RUNS = 4
_OWN = 4
"""Keys of a thread: each other key of the group is loaded once for all of them."""


def sort_runs(routine: Routine) -> Code:
    """Keys [lines, n] in groups to their first ones in order: see `primitives`."""
    lines, n = routine.inputs[0]
    group, keep = routine.attributes["group"], routine.attributes["keep"]
    room = routine.outputs[0][1]
    length = size(n) if keep == group else call("mul", divided_up(size(n), group), constant(group))
    values = {"N": n, "ROOM": room, "GROUP": group, "KEEP": keep, "ALL": keep == group}
    values |= {"CHOSEN": len(routine.inputs) > 1, "OWN": _OWN}
    return _code(routine, "sort_runs", [size(lines), divided_up(length, _OWN)], group + 2, **values)


def merge_runs(routine: Routine) -> Code:
    """Keys [lines, n] in runs to runs of four times that."""
    lines, n = routine.inputs[0]
    values = {"N": n, "RUN": routine.attributes["run"]["size"], "RUNS": _RUNS}
    return _code(routine, "merge_runs", [size(lines), size(n)], _RUNS * _SEARCH, **values)


def _code(routine: Routine, name: str, grid: list[Expression], trips: int, **values: Any) -> Code:
    wide = routine.reads[0] == "uint64"
    return Frame(routine).code(name, grid, constant(trips), KEY="vec2<u32>" if wide else "u32", WIDE=wide, **values)
