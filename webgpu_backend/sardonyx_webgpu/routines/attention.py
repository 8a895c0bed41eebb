"""Attention in one pass over the keys, by a running softmax (Milakov and Gimelshein, 2018)."""

from __future__ import annotations

from typing import Any

from sardonyx.code.kernel import Routine
from sardonyx_webgpu.code import Code
from sardonyx_webgpu.extents import call, constant, divided_up, size
from sardonyx_webgpu.routines.designs import SHARED
from sardonyx_webgpu.routines.frame import Frame, product

THREADS = 64
"""Threads of a workgroup that share rows."""
MOST = 64
"""Fours of sums that a thread holds."""
DEEP = 2
"""Fours of a head that are multiplied without a loop."""


def attend(routine: Routine) -> Code:
    """q [B, H, S, D], k [B, G, T, D], v [B, G, T, E] and what is added or tested, [B, H, S, T], to [B, H, S, E]."""
    batch, _, queries, _ = routine.inputs[0]
    groups, keys = routine.inputs[1][1:3]
    given: dict[str, Any] = routine.attributes
    depth, width, share, causal = given["depth"], given["width"], given["share"], given["causal"]
    frame = Frame(routine)
    kind, most = given["design"]
    fours = [number for number in range(3) if frame.is_four(number)]
    values: dict[str, Any] = {"S": queries, "T": keys, "G": groups, "E": width, "SHARE": share}
    values |= {"FOURS": "attend_fours", "LINES": "attend_rows"}
    values |= {"CAUSAL": given["causal"] is not None, "OWN": causal["size"] if isinstance(causal, dict) else causal}
    values |= {"DOWNB": frame.step(1, -2), "DOWNC": frame.step(2, -2)}
    values |= {"names": "qkv", "letters": "abc", "four": [number in fours for number in range(3)]}
    values |= {"step": [frame.step(number) for number in range(3)], "wide": [depth, depth, width]}
    others = [name for name, is_given in (("BIAS", given["biased"]), ("MASK", given["masked"])) if is_given]
    values |= {"BIASED": given["biased"], "MASKED": given["masked"]}
    for number, name in enumerate(others, 3):
        values |= {name: "abcdefgh"[number], f"STEP{name}": frame.step(number)}
    deep, wide = -(-depth // 4), -(-width // 4)
    whole, lines = frame.is_multiple(width), product(share, queries)
    if kind == SHARED:
        grid = [size(batch), size(groups), divided_up(lines, most)]
        slices = THREADS // wide
        turns = deep + THREADS + -(-THREADS // slices) + 3
        trips = call("mul", divided_up(size(keys), THREADS), constant(turns))
        trips = call("add", trips, constant(most * -(-(deep + wide * slices) // THREADS) + 2))
        values |= {"ROWS": most, "DEPTH": deep, "WIDE": wide, "SLICES": slices, "THREADS": THREADS}
        return frame.code("attend_shared", grid, trips, whole, fours, threads=THREADS, **values)
    few, quads = _divisor(deep, DEEP), _divisor(wide, MOST)
    rows = min(most, max(1, MOST // quads))
    grid = [size(batch), size(groups), divided_up(lines, rows), constant(wide // quads)]
    trips = call("mul", divided_up(size(keys), 4), constant(deep // few + 7))
    trips = call("add", trips, constant(rows + 1))
    values |= {"ROWS": rows, "QUADS": quads, "DEEP": few, "PARTS": deep // few}
    return frame.code("attend", grid, trips, whole, fours, **values)


def _divisor(number: int, most: int) -> int:
    """The largest divisor up to `most`."""
    return next(k for k in range(min(number, most), 0, -1) if number % k == 0)
