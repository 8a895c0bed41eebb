"""Kernels as codes: by fours where their elements lie side by side, else as programs, a thread for each element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sardonyx.code import loops
from sardonyx.code.kernel import Kernel, Routine, Rows
from sardonyx.code.program import Program
from sardonyx_webgpu.bindings import Bindings
from sardonyx_webgpu.code import Code, constant, divided_up, size
from sardonyx_webgpu.folds import of_fold
from sardonyx_webgpu.gpu import Shader
from sardonyx_webgpu.lanes import LANES, Lanes
from sardonyx_webgpu.rows import of_rows
from sardonyx_webgpu.shading import Shading, points
from sardonyx_webgpu.turns import turns_of
from sardonyx_webgpu.values import WGSL, kind
from sardonyx_webgpu.wgsl import shader


def lower(code: Any, software: bool = False) -> Code:
    """What the device runs for a Program, a Kernel, a Routine, Rows, or a Code of a bundle.

    Where threads are those of a processor, each does more on its own: `software` says so.
    """
    if isinstance(code, Code):
        return code.software or code if software else code
    if isinstance(code, Kernel):
        return of_kernel(code)
    if isinstance(code, Rows):
        return of_rows(code, code.wide and not software)
    if isinstance(code, Routine):
        from sardonyx_webgpu.routines import of_routine

        return of_routine(code, software)
    return of_program(code)


def of_program(program: Program) -> Code:
    """The code of a program."""

    def write(same: Sequence[int], half: bool) -> Shader:
        return shader(program, same, half)

    same = tuple(range(len(program.reads) + len(program.writes)))
    return Code(program.name, program.key, program.params, program.grid, turns_of(program), same, write)


def of_kernel(kernel: Kernel) -> Code:
    """The code of a kernel."""
    if kernel.folds:
        return of_fold(kernel)
    if len(kernel.stores) != 1 or not (lanes := Lanes(kernel)).is_aligned:
        return of_program(loops.program(kernel))
    grid = [size(extent) for extent in kernel.space]
    grid[-1] = divided_up(grid[-1], LANES)

    buffers = (*kernel.reads, *kernel.writes)

    def write(same: Sequence[int], half: bool) -> Shader:
        fours = {*lanes.buffers(), lanes.buffer}
        bindings = Bindings(kernel.name, buffers, len(kernel.reads), same, half, fours)
        shading = Shading(kernel.name, kernel.params, bindings)
        printer = shading.printer()
        lines = shading.params([*grid, *lanes.expressions()])
        lines += points(printer, grid, LANES)
        lines += lanes.given(shading, printer)
        more, place = lanes.target(printer)
        vector = f"vec4<{WGSL[kind(lanes.dtype).family]}>({', '.join(lanes.calls('element'))})"
        lines += [*more, shading.bindings.store4(lanes.buffer, f"({place}) >> 2u", vector)]
        return shading.finish(lanes.element(shading, "element"), shading.entry(lines))

    return Code(kernel.name, kernel.key, kernel.params, grid, constant(0), tuple(range(len(buffers))), write)
