"""Convolutions of images with their channels last: a thread makes a tile of the result in registers."""

from __future__ import annotations

from math import prod
from typing import Any

from sardonyx.code.kernel import Routine
from sardonyx_webgpu.code import Code
from sardonyx_webgpu.extents import call, constant, divided_up, size
from sardonyx_webgpu.routines import windows
from sardonyx_webgpu.routines.frame import Frame, product, told


def conv(routine: Routine) -> Code:
    """x [B, *size, C] * w [*taps, C / groups, N] to [B, *out, M]; N is M, filled up to a multiple of four."""
    image, (*taps, channels, n) = routine.inputs
    batch, *out, m = routine.outputs[0]
    frame = Frame(routine)
    attributes = routine.attributes
    design = windows.of(attributes)
    rows, quads = design.rows, design.quads
    kind, spread = attributes["groups"], attributes["spread"]
    deep = kind != "mixed" and frame.is_multiple(channels, image[-1])
    places = product(batch)
    for extent, step in zip(out, spread, strict=True):
        places = call("mul", places, divided_up(size(extent), step))
    columns = divided_up(size(n), 4 * quads)
    if kind == "whole":
        groups = call("div", size(image[-1]), size(channels))
        columns = call("mul", groups, divided_up(call("div", size(m), groups), 4 * quads))
    trips = constant(0)
    for count in [divided_up(size(channels), (4 if deep else 1) * design.channels), *map(size, reversed(taps))]:
        trips = call("add", call("mul", count, call("add", trips, constant(1))), constant(1))
    trips = call("add", trips, constant(rows + 1 + design.slices * rows * quads))
    values: dict[str, Any] = {
        "out": out,
        "size": image[1:-1],
        "taps": taps,
        "stride": told(attributes["strides"]),
        "step": told(attributes["dilations"]),
        "low": told(attributes["low"]),
        "spread": spread,
        "apart": [prod(spread[k + 1 :]) for k in range(len(out))],
        "EXTENT": " * ".join(f"extent{k}()" for k in range(len(out))),
        "PARAMETERS": ", ".join(f"phase{k}: i32" for k in range(len(out))),
        "PHASES": ", ".join(f"phase{k}" for k in range(len(out))),
        "AXES": len(out),
        "BATCH": batch,
        "C": image[-1],
        "M": m,
        "N": n,
        "CHANNELS": channels,
        "GROUPED": kind != "one",
        "MIXED": kind == "mixed",
        "ROWS": rows,
        "QUADS": quads,
        "DEEP": deep,
        "SPLIT": design.slices > 1,
        "BESIDE": design.across,
        "THREADS": design.threads,
        "begin": [f"slice / {design.channels}" if design.taps > 1 and k == design.axis else 0 for k in range(len(out))],
        "pace": [design.taps if k == design.axis else 1 for k in range(len(out))],
        "BEGIN": f"(slice % {design.channels})" if design.channels > 1 else 0,
        "PACE": design.channels,
    }
    grid = [constant(prod(spread)), divided_up(places, rows), divided_up(columns, design.across)]
    fours, threads = [0, 1] if deep else [1], design.threads if design.slices > 1 else 0
    return frame.code("conv", grid, trips, frame.is_multiple(m), fours, threads=threads, **values)


def depthwise(routine: Routine) -> Code:
    """x [B, H, W, C] * w [kh, kw, N] to [B, *out, M], M being a multiple of C; N is M, filled up to one of four."""
    image, (*_, n) = routine.inputs
    batch, *out, m = routine.outputs[0]
    frame = Frame(routine)
    attributes = routine.attributes
    tile, multiplier = attributes["design"], attributes["multiplier"]
    high, wide = attributes["kernel"]
    whole = frame.is_multiple(m)
    steps = list(zip(tile, attributes["strides"], (high, wide), attributes["dilations"], strict=True))
    values: dict[str, Any] = {
        "stride": attributes["strides"],
        "step": attributes["dilations"],
        "low": told(attributes["low"]),
        "seen": _span(*steps[1]),
        "AGES": -(-_span(1, *steps[0][1:]) // steps[0][1]),
        "HIGH": high,
        "WIDE": wide,
        "H": image[1],
        "W": image[2],
        "C": image[3],
        "DOWN": out[0],
        "ACROSS": out[1],
        "M": m,
        "N": n,
        "ROWS": tile[0],
        "COLUMNS": tile[1],
        "MULTIPLIER": multiplier,
        "WHOLE": whole,
    }
    grid = [size(batch), *(divided_up(size(x), y) for x, y in zip(out, tile, strict=True)), divided_up(size(m), 4)]
    fours = [0, 1] if whole and multiplier == 1 else [1]
    return frame.code("depthwise", grid, constant(high + tile[0] + values["AGES"] + 1), whole, fours, **values)


def _span(count: int, stride: int, taps: int, step: int) -> int:
    """The elements that so many places see."""
    return (count - 1) * stride + (taps - 1) * step + 1
