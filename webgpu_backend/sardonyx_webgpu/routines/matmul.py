"""Products of matrices: a thread makes a tile of the result in registers (sizes of tiles: `legalize`)."""

from __future__ import annotations

from sardonyx.compiler.kernel import Routine
from sardonyx_webgpu.code import Code, divided_up, size
from sardonyx_webgpu.routines.frame import Frame


def matmul(routine: Routine) -> Code:
    """a [B, M, K] x b [B, K, N] to [B, M, N]. Both are loaded by fours along K where both lie so."""
    (batch, m, k), (_, _, n) = routine.inputs
    frame = Frame(routine)
    rows, quads = routine.attributes["tile"]
    deep, whole = frame.is_four(0), frame.is_multiple(n)
    along = deep and frame.is_four(1, -2)
    if along:
        rows, quads = min(rows, 4), 1
    fours = [number for number, four in ((0, deep), (1, along or frame.is_four(1))) if four]
    grid = [size(batch), divided_up(size(m), rows), divided_up(size(n), 4 * quads)]
    turns = divided_up(size(k), 4 if deep else 1)
    values = {"M": m, "N": n, "K": k, "ROWS": rows, "QUADS": quads, "ALONG": along, "DEEP": deep, "WHOLE": 1 in fours}
    values |= {"STEP": frame.step(0), "DOWN": frame.step(1, -2), "ACROSS": frame.step(1)}
    return frame.code("matmul", grid, turns, whole, fours, **values)
