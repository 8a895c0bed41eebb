"""Updates in the order of their slots: a thread for each slot finds them, one for each element combines them."""

from __future__ import annotations

from sardonyx.code.kernel import Routine
from sardonyx_webgpu.code import Code
from sardonyx_webgpu.extents import call, constant, divided_up, size
from sardonyx_webgpu.routines.frame import Frame
from sardonyx_webgpu.wgsl import functions
from sardonyx_webgpu.wgsl.line import LANES
from sardonyx_webgpu.wgsl.values import WGSL, kind

_SEARCH = 34
"""Turns in which an update is found among as many as there can be."""


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
    dtype, steps = routine.reads[0], routine.attributes["unrolled"]
    frame = Frame(routine)
    whole = frame.is_multiple(width) and kind(dtype).stored < 64
    x, y = ([f"{name}[{lane}]" for lane in range(LANES)] if whole else [name] for name in "xy")
    combined = [
        functions.apply(routine.attributes["reduction"], dtype, dtype, pair)
        for pair in map(list, zip(x, y, strict=True))
    ]
    trips = call("add", divided_up(size(routine.attributes["most"]["size"]), steps), constant(1))
    values = {"WIDTH": width, "STEPS": steps, "WHOLE": whole, "COMBINED": ", ".join(combined)}
    values["TYPE"] = f"vec4<{WGSL[kind(dtype).family]}>" if whole else ""
    grid = [size(slots), divided_up(size(width), LANES) if whole else size(width)]
    return frame.code("scatter", grid, trips, whole, [0, 1] if whole else [], **values)
