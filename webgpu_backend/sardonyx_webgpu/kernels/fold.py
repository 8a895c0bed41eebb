"""Kernels with a fold as shaders: a thread makes four neighbours where those lie side by side, else one element."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.code.kernel import Kernel, Rows
from sardonyx.code.program import Value
from sardonyx_webgpu.code import Code
from sardonyx_webgpu.extents import call, constant, divided_up, size
from sardonyx_webgpu.gpu.interface import Shader
from sardonyx_webgpu.kernels.accumulator import Accumulator, place, variable_of
from sardonyx_webgpu.kernels.rows import of_rows
from sardonyx_webgpu.wgsl.bindings import Bindings
from sardonyx_webgpu.wgsl.expression import Printer
from sardonyx_webgpu.wgsl.lanes import Lanes
from sardonyx_webgpu.wgsl.line import LANES, Line
from sardonyx_webgpu.wgsl.shading import Shading, points
from sardonyx_webgpu.wgsl.statements import block
from sardonyx_webgpu.wgsl.values import WGSL, kind


def of_fold(kernel: Kernel) -> Code:
    """The code of a kernel with a fold."""
    across = _Across.of(kernel)
    if across is not None:
        return across.code()
    parts = [list(part) for part in (kernel.space, kernel.reduce, kernel.folds, kernel.nodes, kernel.stores)]
    head = kernel.name, kernel.reads, kernel.writes, kernel.params
    return of_rows(Rows(*head, kernel.space, (parts,), False, kernel.multiples), shared=False)


class _Across:
    """A kernel whose elements lie side by side along the last axis of its space, as does what it folds."""

    def __init__(self, kernel: Kernel, lanes: Lanes, line: Line) -> None:
        self.kernel = kernel
        self.lanes = lanes
        self.line = line
        ((function, self.dtype, self.node),) = kernel.folds
        self.fold = Accumulator(function, self.dtype)
        self.grid = [size(extent) for extent in kernel.space]
        self.grid[-1] = divided_up(self.grid[-1], LANES)
        self.extents = [size(extent) for extent in kernel.reduce]

    @classmethod
    def of(cls, kernel: Kernel) -> _Across | None:
        """Where a kernel is such a one, what writes it."""
        if len(kernel.folds) != 1 or len(kernel.stores) != 1 or not kernel.space or not kernel.reduce:
            return None
        ((_, _, node),) = kernel.folds
        lanes, line = Lanes(kernel), Line(kernel, len(kernel.space) - 1, [node])
        narrow = all(kind(kernel.nodes[number][1]).stored < 64 for number in lanes.results)
        return cls(kernel, lanes, line) if line.fours and narrow and lanes.is_aligned else None

    def code(self) -> Code:
        kernel, lanes = self.kernel, self.lanes
        buffers = (*kernel.reads, *kernel.writes)

        def write(same: Sequence[int], half: bool) -> Shader:
            fours = {*self.line.buffers(), *lanes.buffers(), lanes.buffer}
            bindings = Bindings(kernel.name, buffers, len(kernel.reads), same, half, fours)
            shading = Shading(kernel.name, kernel.params, bindings)
            printer = shading.printer()
            codes = [*self.grid, *self.extents, *self.line.expressions(), *lanes.expressions()]
            lines = [*shading.params(codes), *points(printer, self.grid, LANES)]
            for lane in range(LANES):
                lines += self.fold.start(printer, f"a{lane}")
            lines += self._loops(shading, printer, 0)
            lines += self._results(printer)
            lines += lanes.arguments(shading, printer)
            more, where = lanes.target(printer)
            vector = f"vec4<{WGSL[kind(lanes.dtype).family]}>({', '.join(lanes.calls('element'))})"
            lines += [*more, shading.bindings.store4(lanes.buffer, f"({where}) >> 2u", vector)]
            functions = [self.line.function(shading, "part", self.node), lanes.element(shading, "element")]
            return shading.finish(*functions, shading.entry(lines))

        trips = constant(0)
        for extent in reversed(self.extents):
            times = call("max", extent, constant(0))
            trips = call("add", call("mul", times, call("add", trips, constant(1))), constant(1))
        return Code(kernel.name, kernel.key, kernel.params, self.grid, trips, tuple(range(len(buffers))), write)

    def _loops(self, shading: Shading, printer: Printer, depth: int) -> list[str]:
        first = len(self.kernel.space)
        if depth < len(self.extents):
            lines, (extent,) = printer.print(self.extents[depth])
            axis = f"g{first + depth}"
            body = self._loops(shading, printer, depth + 1)
            return [*lines, f"for (var {axis} = 0; {axis} < {extent}; {axis}++) {block(body)}"]
        lines = [*self.line.shares(printer), *self.line.loads(shading, printer)]
        lines += [f"let v_e{lane} = {text};" for lane, text in enumerate(self.line.calls("part"))]
        for lane in range(LANES):
            other = [variable_of(self.dtype, f"e{lane}")]
            if self.fold.finds:
                other.append(place(range(first, first + len(self.extents)), [Value(code) for code in self.extents]))
            lines += self.fold.merge(printer, f"a{lane}", other)
        return lines

    def _results(self, printer: Printer) -> list[str]:
        """The statements that name what the four folds give."""
        lines, texts = [], []
        for lane in range(LANES):
            more, text = self.fold.result(printer, f"a{lane}")
            lines += more
            texts.append(text)
        wgsl = self.fold.wgsl()[-1]
        return [*lines, *(f"let v{number} = vec4<{wgsl}>({', '.join(texts)});" for number in self.lanes.results)]
