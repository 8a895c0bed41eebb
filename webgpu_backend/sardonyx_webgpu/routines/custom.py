"""Functions of WGSL that come with a custom operator: a thread for each element."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sardonyx.code.kernel import Routine
from sardonyx.code.program import const
from sardonyx.common.record import replace
from sardonyx_webgpu.code import Code
from sardonyx_webgpu.extents import constant
from sardonyx_webgpu.routines.frame import Frame, Size, product, text
from sardonyx_webgpu.wgsl.shading import Shading
from sardonyx_webgpu.wgsl.statements import block
from sardonyx_webgpu.wgsl.values import WGSL, kind

_TYPES = {"float": "float32", "int": "int32", "bool": "bool"}
"""What numbers of Python are to the function."""


def apply(routine: Routine) -> Code:
    """Operands that broadcast to elements: see core's `shader_map`."""

    def functions(shading: Shading) -> list[str]:
        return [_given(routine), _of_place(routine, shading)]

    grid = [product(*routine.outputs[0])]
    named = replace(routine, name=routine.attributes["function"])
    return Frame(named).code("custom", grid, constant(0), functions=functions)


def _given(routine: Routine) -> str:
    """The function, as its author wrote it."""
    attributes = routine.attributes
    numbers = [_TYPES[type(value).__name__] for value in attributes["values"].values()]
    types = [WGSL[kind(dtype).family] for dtype in (*routine.reads[: len(routine.inputs)], *numbers)]
    names = [*attributes["names"], *attributes["values"]]
    params = ", ".join(f"{name}: {wgsl}" for name, wgsl in zip(names, types, strict=True))
    body = attributes["body"]
    lines = body.splitlines() if re.search(r"\breturn\b", body) else [f"return {body.strip()};"]
    return f"fn custom({params}) -> {WGSL[kind(routine.writes[0]).family]} {block(lines)}\n"


def _of_place(routine: Routine, shading: Shading) -> str:
    """The function that gives the element at a place."""
    shape: Sequence[Size] = routine.outputs[0]
    lines, rest = [], "at"
    for axis in range(len(shape) - 1, 0, -1):
        lines += [f"let g{axis} = {rest} % {text(shape[axis])};", f"let rest{axis} = {rest} / {text(shape[axis])};"]
        rest = f"rest{axis}"
    lines += [f"let g0 = {rest};"] if shape else []
    arguments = []
    for letter, own in zip("abcdefgh", routine.inputs):
        axes = range(len(shape) - len(own), len(shape))
        places = [_coordinate(axis, size, shape[axis]) for axis, size in zip(axes, own, strict=True)]
        arguments.append(f"load_{letter}(at_{letter}({', '.join(places)}))")
    for value in routine.attributes["values"].values():
        more, (number,) = shading.printer().print(const(_TYPES[type(value).__name__], value).code)
        lines += more
        arguments.append(number)
    result = WGSL[kind(routine.writes[0]).family]
    lines.append(f"return custom({', '.join(arguments)});")
    return f"fn of_place(at: i32) -> {result} {block(lines)}\n"


def _coordinate(axis: int, own: Size, whole: Size) -> str:
    """Where along an axis an operand is read, which may be broadcast along it."""
    if own == whole:
        return f"g{axis}"
    return "0" if own == 1 else f"select(g{axis}, 0, {text(own)} == 1)"
