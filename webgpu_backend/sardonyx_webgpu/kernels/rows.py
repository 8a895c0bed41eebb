"""Rows as shaders: a thread for each row, or for rows that are `wide` a workgroup, whose threads share its elements.

Elements go by fours where they lie side by side: so do the partial results of a fold, which are merged at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.code.kernel import Kernel, Rows
from sardonyx.code.program import Expression, Value
from sardonyx_webgpu.code import WORKGROUP, Code
from sardonyx_webgpu.extents import call, constant, size
from sardonyx_webgpu.gpu.interface import Shader
from sardonyx_webgpu.kernels.accumulator import Accumulator, place, variable_of
from sardonyx_webgpu.wgsl.bindings import Bindings
from sardonyx_webgpu.wgsl.expression import Printer, variable
from sardonyx_webgpu.wgsl.line import LANES, Line, expressions, row_variable
from sardonyx_webgpu.wgsl.shading import Shading, points
from sardonyx_webgpu.wgsl.statements import block
from sardonyx_webgpu.wgsl.values import WGSL, kind

GATHERED = 8
"""Threads that gather the partial results of a workgroup, each those of so many."""


def of_rows(rows: Rows, shared: bool) -> Code:
    """The code of Rows; `shared` says whether a workgroup takes each row."""
    parts = _parts(rows, shared)
    grid = [size(extent) for extent in rows.rows]
    buffers = (*rows.reads, *rows.writes)

    def write(same: Sequence[int], half: bool) -> Shader:
        fours, used = set().union(*(part.fours() for part in parts)), parts
        if {same[k] for part in parts for k in part.singly()} & {same[k] for k in fours}:
            fours, used = set(), _parts(rows, shared, plain=True)
        bindings = Bindings(rows.name, buffers, len(rows.reads), same, half, fours)
        shading = Shading(rows.name, rows.params, bindings)
        printer = shading.printer()
        lines = shading.params([*grid, *(code for part in used for code in part.codes())])
        if grid:
            lines += points(printer, grid, together=shared)
        stored: set[int] = set()
        for part in used:
            if shared and stored & part.loaded():
                lines.append("storageBarrier();")
                stored = set()
            lines += part.lines(shading, printer, _wanted(used, part.number))
            stored |= part.stored()
        functions = [text for part in used for text in part.functions(shading)]
        declared = [text for part in used for text in part.declared()]
        return shading.finish(*declared, *functions, shading.entry(lines, shared or bool(grid)))

    trips = constant(0)
    for part in parts:
        trips = call("add", trips, part.trips())
    key = f"{rows.key} shared" if shared else rows.key
    extents = [*grid, constant(WORKGROUP)] if shared else grid
    return Code(rows.name, key, rows.params, extents, trips, tuple(range(len(buffers))), write)


def _parts(rows: Rows, shared: bool, plain: bool = False) -> list[_Part]:
    return [_Part(number, kernel, len(rows.rows), shared, plain) for number, kernel in enumerate(rows.parts())]


def _wanted(parts: Sequence[_Part], number: int) -> list[int]:
    """The nodes of a part that later ones use."""
    nodes = {
        detail[1]
        for part in parts
        for function, _, _, detail in part.kernel.nodes
        if function == "row" and detail[0] == number
    }
    return sorted(nodes)


class _Part:
    """One kernel of Rows; the first `rows` axes of its space are the row's. If `plain`, nothing goes by fours."""

    def __init__(self, number: int, kernel: Kernel, rows: int, shared: bool, plain: bool) -> None:
        self.number = number
        self.plain = plain
        self.kernel = kernel
        self.shared = shared
        self.depths = kernel.depths()
        self.extents = [size(extent) for extent in (*kernel.space, *kernel.reduce)]
        self.axes = list(range(rows, len(self.extents)))
        self.folds = [Accumulator(function, dtype) for function, dtype, _ in kernel.folds]
        depth = 1 if kernel.folds else 0
        self.inner = [store for store in kernel.stores if self.depths[store[2]] == depth and self.axes]
        self.outer = [store for store in kernel.stores if store not in self.inner]
        roots = [*(node for _, _, node in kernel.folds), *(node for _, _, node in self.inner)]
        self.roots = list(dict.fromkeys(roots))
        self.line = Line(kernel, self.axes[-1] if self.axes else -1, self.roots)
        self.whole = bool(self.axes) and self.line.is_multiple(self._last)
        self.vectors = [store for store in self.inner if self.whole and self.line.stores_fours(store[1], store[2])]
        self.lanes = self._lanes()

    @property
    def _last(self) -> int | str:
        extent: int | str = (*self.kernel.space, *self.kernel.reduce)[-1]
        return extent

    def _lanes(self) -> int:
        """How many elements a thread takes at once."""
        short = not self.axes or (isinstance(self._last, int) and self._last < LANES)
        if self.plain or short or any(extra for _, (_, _, extra), _ in self.inner):
            return 1
        return LANES if not self.shared or self.vectors or self.line.fours else 1

    def fours(self) -> set[int]:
        """The buffers that are loaded and stored by fours."""
        if self.lanes == 1:
            return set()
        return self.line.buffers() | {buffer for buffer, _, _ in self.vectors}

    def singly(self) -> set[int]:
        """The buffers to which single elements are stored."""
        return self.stored() - {buffer for buffer, _, _ in self.vectors if self.lanes > 1}

    def loaded(self) -> set[int]:
        return {detail[0] for function, _, _, detail in self.kernel.nodes if function == "load"}

    def stored(self) -> set[int]:
        return {buffer for buffer, _, _ in self.kernel.stores}

    def codes(self) -> list[Expression]:
        """All that is computed in the entry point."""
        codes = expressions(self.kernel)
        outer = [code for code, depth in zip(codes, self.depths, strict=True) if depth != 1]
        outer = outer if self.folds or not self.axes else []
        return [*self.extents, *self.line.expressions(), *outer]

    def functions(self, shading: Shading) -> list[str]:
        return [self.line.function(shading, self._name(root), root) for root in self.roots]

    def _name(self, root: int) -> str:
        return f"element{self.number}_{self.roots.index(root)}"

    def _array(self, fold: int, level: int, k: int) -> str:
        return f"part{self.number}_{fold}_{level}_{k}"

    def declared(self) -> list[str]:
        """The memory of the workgroup."""
        if not self.shared:
            return []
        return [
            f"var<workgroup> {self._array(number, level, k)}: array<{shared.wgsl}, {count}>;\n"
            for number, fold in enumerate(self.folds)
            for level, count in enumerate((WORKGROUP, GATHERED))
            for k, shared in enumerate(fold.shared())
        ]

    def trips(self) -> Expression:
        """How often the loops of a thread turn."""
        if not self.axes:
            return constant(0)
        step = self.lanes * (WORKGROUP if self.shared else 1)
        total = call("add", call("div", self.extents[-1], constant(step)), constant(LANES + 2))
        for axis in reversed(self.axes[:-1]):
            extent = call("max", self.extents[axis], constant(0))
            total = call("add", call("mul", extent, call("add", total, constant(1))), constant(1))
        return call("add", total, constant(2 * WORKGROUP // GATHERED)) if self.shared and self.folds else total

    # ---- statements

    def lines(self, shading: Shading, printer: Printer, wanted: Sequence[int]) -> list[str]:
        """What the entry point does for this part; `wanted` nodes become variables of the row."""
        names = [variable(row_variable(self.number, node)) for node in wanted]
        types = [WGSL[kind(self.kernel.nodes[node][1]).family] for node in wanted]
        declared = [f"var {name}: {wgsl};" for name, wgsl in zip(names, types, strict=True)]
        lines = []
        for number, fold in enumerate(self.folds):
            for lane in range(self.lanes):
                lines += fold.start(printer, self._state(number, lane))
        if self.axes:
            lines += self._loops(shading, printer, self.axes)
        elif self.folds:
            element = [*self.line.shares(printer), *self._elements(shading, printer, 1)]
            lines.append(f"if (thread == 0u) {block(element)}" if self.shared else block(element))
        for number, fold in enumerate(self.folds):
            lines += self._merged(printer, number, fold)
        for number, node in enumerate(self.kernel.nodes):
            if node[0] == "acc":
                more, text = self.folds[node[3]].result(printer, self._state(node[3], 0))
                lines += [*more, f"let v{number} = {text};"]
        codes = expressions(self.kernel)
        more, texts = printer.print(*(codes[node] for node in wanted))
        lines += [*more, *(f"{name} = {text};" for name, text in zip(names, texts, strict=True))]
        for buffer, index, node in self.outer:
            more, (text,) = printer.print(codes[node])
            at, where = self.line.place(printer, index)
            store = [*more, *at, shading.bindings.store(buffer, where, text)]
            lines += [f"if (thread == 0u) {block(store)}"] if self.shared else store
        return [*declared, block(lines)]

    def _state(self, fold: int, lane: int) -> str:
        return f"a{fold}_{lane}"

    def _loops(self, shading: Shading, printer: Printer, axes: Sequence[int]) -> list[str]:
        axis, *inside = axes
        lines, (extent,) = printer.print(self.extents[axis])
        if inside:
            body = self._loops(shading, printer, inside)
            return [*lines, f"for (var g{axis} = 0; g{axis} < {extent}; g{axis}++) {block(body)}"]
        lines += self.line.shares(printer)
        first, threads = ("i32(thread)", WORKGROUP) if self.shared else ("0", 1)
        if self.lanes > 1:
            step = f"q += {threads}" if self.shared else "q++"
            body = [f"let g{axis} = {LANES} * q;", *self._elements(shading, printer, LANES)]
            lines.append(f"for (var q = {first}; q < {extent} / {LANES}; {step}) {block(body)}")
            first = f"({extent} & {-LANES}) + {first}" if self.shared else f"{extent} & {-LANES}"
        if self.lanes == 1 or not self.whole:
            step = f"g{axis} += {threads}" if self.shared else f"g{axis}++"
            body = self._elements(shading, printer, 1)
            lines.append(f"for (var g{axis} = {first}; g{axis} < {extent}; {step}) {block(body)}")
        return lines

    def _elements(self, shading: Shading, printer: Printer, count: int) -> list[str]:
        """What is done with so many neighbours."""
        lines = self.line.loads(shading, printer, count)
        for number, root in enumerate(self.roots):
            calls = self.line.calls(self._name(root), count)
            lines += [f"let v_e{number}_{lane} = {text};" for lane, text in enumerate(calls)]
        for store in self.inner:
            buffer, index, node = store
            at, where = self.line.place(printer, index)
            lines += at
            values = [f"v_e{self.roots.index(node)}_{lane}" for lane in range(count)]
            if count > 1 and store in self.vectors:
                vector = f"vec4<{WGSL[kind(self.kernel.nodes[node][1]).family]}>({', '.join(values)})"
                lines.append(shading.bindings.store4(buffer, f"({where}) >> 2u", vector))
            else:
                stride = dict(index[1]).get(self.axes[-1], 0)
                _, (step,) = printer.print(size(stride))
                moved = [f"{where} + {lane} * {step}" if lane else where for lane in range(count)]
                lines += [shading.bindings.store(buffer, at, value) for at, value in zip(moved, values, strict=True)]
        for number, (fold, (_, dtype, node)) in enumerate(zip(self.folds, self.kernel.folds, strict=True)):
            for lane in range(count):
                other = [variable_of(dtype, f"e{self.roots.index(node)}_{lane}")]
                if fold.finds:
                    other.append(place(self.axes, [Value(self.extents[axis]) for axis in self.axes], lane))
                lines += fold.merge(printer, self._state(number, lane), other)
        return lines

    def _merged(self, printer: Printer, number: int, fold: Accumulator) -> list[str]:
        """Merge what lanes and threads have folded into the first lane's state of every thread."""
        result = self._state(number, 0)
        lines = []
        for lane in range(1, self.lanes):
            lines += fold.merge(printer, result, fold.state(self._state(number, lane)))
        if not self.shared:
            return lines
        many, few = ([self._array(number, level, k) for k in range(len(fold.dtypes))] for level in range(2))
        texts = fold.texts(result)
        put = [shared.put(text) for shared, text in zip(fold.shared(), texts, strict=True)]
        inner = self._gathered(printer, fold, result, many, f"thread + {GATHERED}u", WORKGROUP, GATHERED)
        inner += [f"{array}[thread] = {text};" for array, text in zip(few, put, strict=True)]
        return [
            *lines,
            *(f"{array}[thread] = {text};" for array, text in zip(many, put, strict=True)),
            "workgroupBarrier();",
            f"if (thread < {GATHERED}u) {block(inner)}",
            "workgroupBarrier();",
            *(
                f"{text} = {shared.got(f'{array}[0]')};"
                for shared, array, text in zip(fold.shared(), few, texts, strict=True)
            ),
            *self._gathered(printer, fold, result, few, "1u", GATHERED, 1),
        ]

    def _gathered(
        self, printer: Printer, fold: Accumulator, state: str, arrays: Sequence[str], first: str, count: int, step: int
    ) -> list[str]:
        names = [f"v_part_{k}" for k in range(len(arrays))]
        body = [
            f"let {name} = {shared.got(f'{array}[j]')};"
            for shared, name, array in zip(fold.shared(), names, arrays, strict=True)
        ]
        other = [variable_of(dtype, f"part_{k}") for k, dtype in enumerate(fold.dtypes)]
        body += fold.merge(printer, state, other)
        return [f"for (var j = {first}; j < {count}u; j += {step}u) {block(body)}"]
