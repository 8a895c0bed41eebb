"""Winograd's transforms: a thread makes a tile, for four channels (`sardonyx.compiler.legalization.filtering`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sardonyx.code.kernel import Routine
from sardonyx.compiler.legalization.filtering import filters, weight_transform
from sardonyx_webgpu.code import Code
from sardonyx_webgpu.extents import constant, divided_up, size
from sardonyx_webgpu.routines.frame import Frame, Size, product, told


def winograd_input(routine: Routine) -> Code:
    """x [B, H, W, C] to [places, tiles, N]; N is C, filled up with zeros to a multiple of four."""
    ((_, high, wide, channels),) = routine.inputs
    n = routine.outputs[0][-1]
    frame = Frame(routine)
    lines, counts = filters(routine.attributes), told(routine.attributes["tiles"])
    whole = frame.is_multiple(channels)
    values: dict[str, Any] = {
        "span": [line.span for line in lines],
        "places": [line.places for line in lines],
        "outputs": [line.outputs for line in lines],
        "apart": told(routine.attributes["apart"]),
        "low": told(routine.attributes["low"]),
        "down": _times(lines[0].matrices()[0], "x{k}"),
        "across": _times(lines[1].matrices()[0], "d{p}_{k}"),
        "H": high,
        "W": wide,
        "C": channels,
        "N": n,
        "WHOLE": whole,
    }
    return _code(frame, counts, n, lines[1].span, [0] if whole else [], True, values)


def winograd_weights(routine: Routine) -> Code:
    """w [N, C, taps] to [places, C, N]."""
    ((maps, channels, taps),) = routine.inputs
    frame = Frame(routine)
    matrix = weight_transform(*filters(routine.attributes), repeated=True).astype(np.float32).tolist()
    values = {"N": maps, "C": channels, "K": taps, "TAPS": len(matrix[0]), "PLACES": len(matrix)}
    values["made"] = _times(matrix, "w{k}")
    return frame.code("winograd_weights", [size(channels), size(maps)], constant(0), **values)


def winograd_output(routine: Routine) -> Code:
    """y [places, tiles, N] to [B, rows, columns, M]; the last tiles may hang over."""
    ((_, _, n),) = routine.inputs
    _, rows, columns, m = routine.outputs[0]
    frame = Frame(routine)
    lines, counts = filters(routine.attributes), told(routine.attributes["tiles"])
    values: dict[str, Any] = {
        "outputs": [line.outputs for line in lines],
        "places": [line.places for line in lines],
        "apart": told(routine.attributes["apart"]),
        "down": _times(lines[0].matrices()[2], "y{k}_{p}"),
        "across": _times(lines[1].matrices()[2], "d{p}_{k}"),
        "HIGH": rows,
        "WIDE": columns,
        "M": m,
        "N": n,
    }
    return _code(frame, counts, n, 0, [0], frame.is_multiple(m), values)


def _code(
    frame: Frame, counts: Sequence[Size], n: Size, turns: int, fours: Sequence[int], whole: bool, values: dict[str, Any]
) -> Code:
    batch, down, across = counts
    name = frame.routine.primitive
    grid = [product(batch, down, across), divided_up(size(n), 4)]
    return frame.code(name, grid, constant(turns + 1), whole, fours, BATCH=batch, DOWN=down, ACROSS=across, **values)


def _times(matrix: Sequence[Sequence[float]], term: str) -> Callable[..., str]:
    """The text of a row of the matrix times a vector, whose elements `term` names by k, and by a place p."""
    return lambda row, p=0: _sum(matrix[row], [term.format(k=k, p=p) for k in range(len(matrix[row]))])


def _sum(factors: Sequence[float], names: Sequence[str]) -> str:
    text = ""
    for factor, name in zip(factors, names, strict=True):
        if factor:
            term = name if abs(factor) == 1 else f"{abs(factor)!r} * {name}"
            text += (" - " if factor < 0 else " + " if text else "") + term
    return text.strip() or "vec4f()"
