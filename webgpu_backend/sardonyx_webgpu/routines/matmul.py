"""Products of matrices: a thread makes a tile of the result in registers (sizes of tiles: `designs`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sardonyx.code.kernel import Routine
from sardonyx.code.program import Expression
from sardonyx_webgpu.code import Code
from sardonyx_webgpu.extents import call, constant, divided_up, size
from sardonyx_webgpu.routines import designs
from sardonyx_webgpu.routines.designs import SHARED, SLICED, SPLIT, Design
from sardonyx_webgpu.routines.frame import Frame


def matmul(routine: Routine) -> Code:
    """a [B, M, K] x b [B, K, N] to [B, M, N]. Both are loaded by fours along K where both lie so."""
    (batch, m, k), (_, _, n) = routine.inputs
    frame = Frame(routine)
    design = designs.of(routine.attributes)
    deep, whole = frame.is_four(0), frame.is_multiple(n)
    along = deep and frame.is_four(1, -2)
    if design.kind == SHARED:
        wide = frame.is_four(1)
        fours = [number for number, four in ((0, deep), (1, wide or along)) if four]
        line, aside = frame.step(1, -2), frame.step(1)
        return shared(frame, design, fours, "right", WIDE=wide, LINE=line, ASIDE=aside)
    if along:
        design = design._replace(rows=min(design.rows, 4), quads=1)
    rows, quads = design.rows, design.quads
    fours = [number for number, four in ((0, deep), (1, along or frame.is_four(1))) if four]
    values = {"M": m, "N": n, "K": k, "ALONG": along, "DEEP": deep, "WHOLE": 1 in fours}
    values |= {"STEP": frame.step(0), "DOWN": frame.step(1, -2), "ACROSS": frame.step(1)}
    grid = [size(batch), divided_up(size(m), rows), divided_up(size(n), 4 * quads * design.across)]
    trips = divided_up(size(k), (4 if deep else 1) * slices(design))
    values |= tiled(design, "sums")
    return frame.code("matmul", grid, by_slices(trips, design), whole, fours, **values)


def slices(design: Design) -> int:
    """The parts that sums are split into."""
    return SLICED // design.across if design.kind == SPLIT else 1


def tiled(design: Design, sums: str, vector: str = "vec4f") -> dict[str, Any]:
    """What the template `tile` is told, and the frame, where the template `sums` makes the sums of a tile."""
    shares = design.kind == SPLIT
    return {
        "TILE": "tile",
        "SUMS": sums,
        "VECTOR": vector,
        "ROWS": design.rows,
        "QUADS": design.quads,
        "BESIDE": design.across,
        "SPLIT": shares,
        "SLICES": slices(design),
        "THREADS": SLICED,
        "threads": SLICED if shares else 0,
    }


def by_slices(trips: Expression, design: Design) -> Expression:
    """The trips of loops, with those that add up what threads have summed, or put what they have."""
    more = slices(design) * -(-design.rows * design.quads * design.across // SLICED) + 2
    return call("add", trips, constant(more if design.kind == SPLIT else design.rows + 1))


def shared(frame: Frame, design: Design, fours: Sequence[int], right: str, **values: Any) -> Code:
    """The code of a product of which workgroups load tiles; the template `right` gives four columns of a row."""
    batch, m, k = frame.routine.inputs[0]
    n = frame.routine.outputs[0][-1]
    side, threads = design.across, design.across**2
    down, across = side * design.rows, side * design.quads
    values |= {"M": m, "N": n, "K": k, "ROWS": design.rows, "QUADS": design.quads, "SIDE": side, "THREADS": threads}
    values |= {"DOWN": down, "ACROSS": across, "DEEP": 0 in fours, "STEP": frame.step(0), "GUARDED": True}
    values |= {"LEFT": "left", "RIGHT": right}
    grid = [size(batch), divided_up(size(m), down), divided_up(size(n), 4 * across)]
    loads = -(-4 * down // threads) + -(-16 * across // threads)
    trips = call("mul", divided_up(size(k), 16), constant(loads + 8))
    return frame.code("matmul_shared", grid, trips, frame.is_multiple(n), fours, threads=threads, **values)
