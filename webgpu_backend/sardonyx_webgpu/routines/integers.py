"""Products of bytes: exact, four at once by `dot4I8Packed`, or as floats while float32 holds their sums."""

from __future__ import annotations

from typing import Any

from sardonyx.code.kernel import Routine
from sardonyx_webgpu.code import Code
from sardonyx_webgpu.extents import call, constant, divided_up, size
from sardonyx_webgpu.routines import designs
from sardonyx_webgpu.routines.frame import Frame
from sardonyx_webgpu.routines.matmul import by_slices, slices, tiled

EXACT = {True: 256, False: 64}
"""Words of four bytes, signed or not, whose products add up to what float32 holds: 2 ** 24."""


def matmul_int8(routine: Routine) -> Code:
    """a [B, M, K] of bytes x words [B, K / 4, N] to int32 [B, M, N]."""
    batch, m, _ = routine.inputs[0]
    _, lines, line = routine.inputs[1]
    n = routine.outputs[0][-1]
    frame = Frame(routine)
    design = designs.of(routine.attributes)
    signed = routine.attributes["signed"]
    words = EXACT[signed]
    values: dict[str, Any] = {"M": m, "N": n, "LINE": line, "LINES": lines, "WORDS": words}
    values |= {"PACKED": design.packed, "SIGNED": signed, "FLIPPED": signed and routine.reads[0] == "uint8"}
    values |= {"TYPE": "i32" if signed else "u32", "DOT": "dot4I8Packed" if signed else "dot4U8Packed"}
    grid = [size(batch), divided_up(size(m), design.rows), divided_up(size(n), 4 * design.quads * design.across)]
    trips = divided_up(size(lines), slices(design))
    if not design.packed:
        trips = call("add", trips, call("mul", constant(2), divided_up(size(lines), words)))
    values |= tiled(design, "sums_int8", "vec4<i32>")
    return frame.code("matmul_int8", grid, by_slices(trips, design), frame.is_multiple(n), [0, 1], **values)
