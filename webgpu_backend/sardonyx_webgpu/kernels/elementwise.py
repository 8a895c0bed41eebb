"""Kernels without folds: by fours where elements lie side by side, else as programs, a thread for each element."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.code import loops
from sardonyx.code.kernel import Kernel
from sardonyx_webgpu.code import Code
from sardonyx_webgpu.extents import constant, divided_up, size
from sardonyx_webgpu.gpu.interface import Shader
from sardonyx_webgpu.kernels.programs import of_program
from sardonyx_webgpu.wgsl.bindings import Bindings
from sardonyx_webgpu.wgsl.lanes import Lanes
from sardonyx_webgpu.wgsl.line import LANES
from sardonyx_webgpu.wgsl.shading import Shading, points
from sardonyx_webgpu.wgsl.values import WGSL, kind


def of_elementwise(kernel: Kernel) -> Code:
    """The code of a kernel without folds."""
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
        lines += lanes.arguments(shading, printer)
        more, place = lanes.target(printer)
        vector = f"vec4<{WGSL[kind(lanes.dtype).family]}>({', '.join(lanes.calls('element'))})"
        lines += [*more, shading.bindings.store4(lanes.buffer, f"({place}) >> 2u", vector)]
        return shading.finish(lanes.element(shading, "element"), shading.entry(lines))

    return Code(kernel.name, kernel.key, kernel.params, grid, constant(0), tuple(range(len(buffers))), write)
