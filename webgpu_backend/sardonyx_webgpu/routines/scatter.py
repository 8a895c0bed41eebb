"""Updates in the order of their slots: a thread makes an element of the result, and finds its updates by searching."""

from __future__ import annotations

from sardonyx.compiler.kernel import Routine
from sardonyx_webgpu import functions
from sardonyx_webgpu.code import Code, call, constant, divided_up, size
from sardonyx_webgpu.routines.frame import Frame

_SEARCH = 34
_STEPS = 8
"""Updates in a turn: loops have to be short on some drivers."""


def combine(routine: Routine) -> Code:
    """x [slots, width] and updates [count, width] in the order of slots to [slots, width]: see `primitives`."""
    slots, width = routine.inputs[0]
    reduction = routine.attributes["reduction"]
    last = reduction == "none"
    turns = constant(_SEARCH)
    if not last:
        turns = call("add", turns, divided_up(size(routine.attributes["most"]["size"]), _STEPS))
    dtype = routine.reads[0]
    values = {"WIDTH": width, "COUNT": routine.inputs[1][0], "STEPS": _STEPS, "LAST": last}
    values["COMBINED"] = "y" if last else functions.apply(reduction, dtype, dtype, ["x", "y"])
    return Frame(routine).code("scatter", [size(slots), size(width)], turns, **values)
