"""Programs as WGSL compute shaders: one thread for each point of the grid."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.code.program import Program
from sardonyx_webgpu.code import Code
from sardonyx_webgpu.gpu.interface import Shader
from sardonyx_webgpu.kernels.trips import trips_of
from sardonyx_webgpu.wgsl.bindings import Bindings
from sardonyx_webgpu.wgsl.shading import Shading, points
from sardonyx_webgpu.wgsl.statements import Body


def of_program(program: Program) -> Code:
    """The code of a program."""

    def write(same: Sequence[int], half: bool) -> Shader:
        return shader(program, same, half)

    same = tuple(range(len(program.reads) + len(program.writes)))
    return Code(program.name, program.key, program.params, program.grid, trips_of(program), same, write)


def shader(program: Program, same: Sequence[int] = (), half: bool = False) -> Shader:
    """The shader of a program; `same` and `half` are what Bindings has."""
    bindings = Bindings(program.name, (*program.reads, *program.writes), len(program.reads), same, half)
    shading = Shading(program.name, program.params, bindings)
    printer = shading.printer()
    lines = shading.params([*program.grid, *program.body])
    if program.grid:
        lines += points(printer, program.grid)
    lines += Body(printer, bindings.store, program.body).lines(program.body)
    return shading.finish(shading.entry(lines, bool(program.grid)))
