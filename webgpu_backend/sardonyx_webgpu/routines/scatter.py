"""Updates in the order of their slots: a thread for each slot finds them, one for each element combines them."""

from __future__ import annotations

from sardonyx.compiler.kernel import Routine
from sardonyx_webgpu import functions
from sardonyx_webgpu.code import Code, call, constant, divided_up, size
from sardonyx_webgpu.routines.frame import Frame

_SEARCH = 34
"""Turns in which an update is found among as many as there can be."""
_STEPS = 8
"""Updates in a turn: loops have to be short on some drivers."""


def first(routine: Routine) -> Code:
    """Slots in order [count] to where each begins [slots]."""
    return _find(routine, False)


def last(routine: Routine) -> Code:
    """Slots in order [count], and numbers [count], to the number of the last update of each slot [slots]."""
    return _find(routine, True)


def _find(routine: Routine, is_last: bool) -> Code:
    values = {"COUNT": routine.inputs[0][0], "LAST": is_last}
    return Frame(routine).code("updates", [size(routine.outputs[0][0])], constant(_SEARCH), **values)


def combine(routine: Routine) -> Code:
    """x [slots, width] and updates [count, width] to [slots, width]: see `primitives`."""
    slots, width = routine.inputs[0]
    dtype = routine.reads[0]
    combined = functions.apply(routine.attributes["reduction"], dtype, dtype, ["x", "load_b(update)"])
    turns = divided_up(size(routine.attributes["most"]["size"]), _STEPS)
    values = {"WIDTH": width, "STEPS": _STEPS, "COMBINED": combined}
    return Frame(routine).code("scatter", [size(slots), size(width)], call("add", turns, constant(1)), **values)
