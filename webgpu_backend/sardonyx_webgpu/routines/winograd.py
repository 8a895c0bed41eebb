"""Winograd's transforms: a thread makes a tile, for four channels (`sardonyx.compiler.legalization.filtering`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sardonyx.code.kernel import Routine
from sardonyx.compiler.legalization.filtering import filters
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
        "stride": [line.stride for line in lines],
        "apart": told(routine.attributes["apart"]),
        "low": told(routine.attributes["low"]),
        "down": _first(lines[0].matrices()[0], "x"),
        "across": _second(lines[1].matrices()[0]),
        "H": high,
        "W": wide,
        "C": channels,
        "N": n,
        "WHOLE": whole,
    }
    return _code(frame, counts, n, [0] if whole else [], True, values)


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
        "down": _first(lines[0].matrices()[2], "y"),
        "across": _second(lines[1].matrices()[2]),
        "HIGH": rows,
        "WIDE": columns,
        "M": m,
        "N": n,
    }
    return _code(frame, counts, n, [0], frame.is_multiple(m), values)


def _code(
    frame: Frame, counts: Sequence[Size], n: Size, fours: Sequence[int], whole: bool, values: dict[str, Any]
) -> Code:
    batch, down, across = counts
    name = frame.routine.primitive
    grid = [product(batch, down, across), divided_up(size(n), 4)]
    return frame.code(name, grid, constant(0), whole, fours, BATCH=batch, DOWN=down, ACROSS=across, **values)


def _first(matrix: Sequence[Sequence[float]], name: str) -> Callable[[int, int], str]:
    """The text of an element of the matrix times a plane."""
    return lambda row, column: _sum(matrix[row], [f"{name}{k}_{column}" for k in range(len(matrix[row]))])


def _second(matrix: Sequence[Sequence[float]]) -> Callable[[int, int], str]:
    """The text of an element of that plane d times the matrix transposed."""
    return lambda row, column: _sum(matrix[column], [f"d{row}_{k}" for k in range(len(matrix[column]))])


def _sum(factors: Sequence[float], names: Sequence[str]) -> str:
    text = ""
    for factor, name in zip(factors, names, strict=True):
        if factor:
            term = name if abs(factor) == 1 else f"{abs(factor)!r} * {name}"
            text += (" - " if factor < 0 else " + " if text else "") + term
    return text.strip() or "vec4f()"
