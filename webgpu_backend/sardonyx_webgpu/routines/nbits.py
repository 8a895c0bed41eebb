"""Products with weights of 4 or 8 bits, which become floats where they are multiplied."""

from __future__ import annotations

from typing import Any

from sardonyx.code.kernel import Routine
from sardonyx_webgpu.code import Code
from sardonyx_webgpu.extents import call, constant, divided_up, size
from sardonyx_webgpu.routines import designs
from sardonyx_webgpu.routines.designs import SHARED
from sardonyx_webgpu.routines.frame import Frame
from sardonyx_webgpu.routines.matmul import by_slices, shared, slices, tiled


def matmul_nbits(routine: Routine) -> Code:
    """a [1, M, K] x words [K / P, N], scales [blocks, N] and zero points of uint8, if they differ, to [1, M, N]."""
    (batch, m, k), (lines, line) = routine.inputs[:2]
    n = routine.outputs[0][-1]
    frame = Frame(routine)
    given: dict[str, Any] = routine.attributes
    design = designs.of(given)
    count = 32 // given["bits"]
    words = given["chunk"] // count
    fours = [*([0] if frame.is_four(0) else []), *range(1, len(routine.inputs))]
    values: dict[str, Any] = {"LINE": line, "LINES": lines, "PER": count, "WORDS": words, "BITS": given["bits"]}
    values |= {"REPEAT": given["repeat"], "ZERO": given["zero"]}
    if design.kind == SHARED:
        return shared(frame, design, fours, "right_nbits", **values)
    values |= {"M": m, "N": n, "K": k, "DEEP": 0 in fours, "GUARDED": given["guarded"], "STEP": frame.step(0)}
    grid = [size(batch), divided_up(size(m), design.rows), divided_up(size(n), 4 * design.quads * design.across)]
    chunks = divided_up(divided_up(size(lines), words), slices(design))
    trips = call("mul", chunks, constant(words + 2))
    values |= {"LEFT": "left", **tiled(design, "sums_nbits")}
    return frame.code("matmul_nbits", grid, by_slices(trips, design), frame.is_multiple(n), fours, **values)
