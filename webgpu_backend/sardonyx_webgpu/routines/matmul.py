"""Products of matrices: a thread makes a tile of the result in registers (sizes of tiles: `legalize`)."""

from __future__ import annotations

from sardonyx.compiler.kernel import Routine
from sardonyx_webgpu.code import Code, divided_up, size
from sardonyx_webgpu.routines.frame import Frame, product


def matmul(routine: Routine) -> Code:
    """a [*batch, M, K] x b [*batch or none, K, N] to [*batch, M, N]."""
    a, b = routine.inputs
    *batch, m, k = a
    n = b[-1]
    frame = Frame(routine)
    rows, quads = routine.attributes["tile"]
    deep, whole = frame.is_multiple(k), frame.is_multiple(n)
    fours = [number for number, four in ((0, deep), (1, whole)) if four]
    grid = [product(*batch), divided_up(size(m), rows), divided_up(size(n), 4 * quads)]
    turns = divided_up(size(k), 4 if deep else 1)
    values = {"M": m, "N": n, "K": k, "ROWS": rows, "QUADS": quads, "DEEP": deep, "WHOLE": whole}
    return frame.code("matmul", grid, turns, whole, fours, MATRIX="batch" if len(b) > 2 else "0", **values)
