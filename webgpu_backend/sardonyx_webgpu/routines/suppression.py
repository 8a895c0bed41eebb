"""Non-maximum suppression: a workgroup for each class of an image, whose candidates come in blocks, sorted."""

from __future__ import annotations

from sardonyx.code.kernel import Routine
from sardonyx.code.program import Expression
from sardonyx_webgpu.code import WORKGROUP, Code
from sardonyx_webgpu.extents import call, constant, divided_up, size
from sardonyx_webgpu.routines.frame import Frame

_STEPS = 16
"""Boxes in a turn: loops have to be short on some drivers."""


def suppress(routine: Routine) -> Code:
    """Sides, scores, their order, and limits to the chosen boxes [images, classes, room]: see `primitives`."""
    images, classes, boxes = routine.inputs[1]
    room = routine.outputs[0][2]
    blocks = divided_up(size(boxes), WORKGROUP)
    trips = call("add", _compared(blocks, call("min", size(room), size(boxes))), divided_up(size(room), WORKGROUP))
    values = {"CLASSES": classes, "BOXES": boxes, "ROOM": room, "STEPS": _STEPS, "THREADS": WORKGROUP}
    grid = [size(images), size(classes)]
    return Frame(routine).code("suppression", grid, call("add", trips, constant(4)), threads=WORKGROUP, **values)


def _compared(blocks: Expression, most: Expression) -> Expression:
    """The trips in which a thread compares a box of each block with those chosen before, and with others in the block:
    so many boxes have been chosen at most, one of each that came before."""
    triangle = call("div", call("mul", most, most), constant(2 * WORKGROUP))
    chosen = divided_up(call("sub", call("mul", blocks, most), triangle), _STEPS)
    return call("add", chosen, call("mul", blocks, constant(2 * WORKGROUP + 5)))
