"""Non-maximum suppression: a workgroup for each class of an image, whose candidates come in blocks, sorted."""

from __future__ import annotations

from sardonyx.compiler.kernel import Routine
from sardonyx_webgpu.code import WORKGROUP, Code, call, constant, divided_up, size
from sardonyx_webgpu.routines.frame import Frame

_STEPS = 16
"""Boxes in a turn: loops have to be short on some drivers."""


def suppress(routine: Routine) -> Code:
    """Sides, scores, their order, and limits to the chosen boxes [images, classes, room]: see `primitives`."""
    images, classes, boxes = routine.inputs[1]
    room = routine.outputs[0][2]
    blocks = divided_up(size(boxes), WORKGROUP)
    chosen = divided_up(call("min", size(room), size(boxes)), _STEPS)
    each = call("add", chosen, constant(2 * WORKGROUP + 4))
    turns = call("add", call("mul", blocks, each), divided_up(size(room), WORKGROUP))
    values = {"CLASSES": classes, "BOXES": boxes, "ROOM": room, "STEPS": _STEPS, "THREADS": WORKGROUP}
    grid = [size(images), size(classes)]
    return Frame(routine).code("suppression", grid, call("add", turns, constant(4)), threads=WORKGROUP, **values)
