"""What surrounds the template of a routine: its buffers, its grid, and how results are put, epilogue included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from sardonyx.compiler.kernel import Kernel, Routine
from sardonyx.compiler.program import Expression
from sardonyx_webgpu import template
from sardonyx_webgpu.bindings import Bindings
from sardonyx_webgpu.code import WORKGROUP, Code, constant, size
from sardonyx_webgpu.gpu import Shader
from sardonyx_webgpu.lanes import LANES, Lanes
from sardonyx_webgpu.shading import Shading, groups, points
from sardonyx_webgpu.statements import block
from sardonyx_webgpu.values import WGSL, kind

Size: TypeAlias = int | str


class Frame:
    """A routine being written, whose template has a function `unit` of the thread's place in the grid.

    It loads its operands by `load_a`, `load_b`, ..., and by `load4_a`, ... those that lie in fours; it puts results at
    their places in row-major order by `put(at, x)`, `put4(at, vec4)`, and `put_row(at, room, vec4)`, which leaves out
    what there is no `room` for. Further results have `put_1(at, x)`, ...; `made(at)` is what has been put of the
    first one. Sizes are what it is told by names.
    """

    def __init__(self, routine: Routine) -> None:
        self.routine = routine
        self.output = len(routine.reads)
        self.lanes: Lanes | None = None
        self.dtype: str = routine.writes[0]
        if routine.epilogue is not None:
            self.lanes = Lanes(Kernel.from_json(routine.epilogue), len(routine.inputs))
            self.dtype = next((node[1] for node in self.lanes.kernel.nodes if node[0] == "acc"), "float32")

    def is_multiple(self, *sizes: Size) -> bool:
        """Whether all sizes are known to be multiples of four."""
        multiples = self.routine.multiples
        return not any((value if isinstance(value, int) else multiples[int(value[1:])]) % LANES for value in sizes)

    def code(
        self,
        name: str,
        grid: Sequence[Expression],
        turns: Expression,
        whole: bool = False,
        fours: Sequence[int] = (),
        workgroups: bool = False,
        **values: Any,
    ) -> Code:
        """The code of a template, with this grid and so many turns of loops.

        Inputs in `fours` lie in fours, and so do results if they are `whole`. With `workgroups` a place in the grid
        is that of a workgroup: all its threads call `unit`, whose last parameter then is the thread's number, in
        uniform control flow.
        """
        routine = self.routine
        buffers = (*routine.reads, *routine.writes)
        whole = whole and (self.lanes is None or self.lanes.is_aligned)
        wide = {*fours, *([self.output] if whole else [])}
        if whole and self.lanes is not None:
            wide |= self.lanes.buffers()

        def write(same: Sequence[int]) -> Shader:
            bindings = Bindings(routine.name, buffers, len(routine.reads), same, wide)
            shading = Shading(routine.name, routine.params, bindings)
            names = {key: text(value) for key, value in values.items()}
            body = template.fill(template.source(name), **names)
            places = [*(f"g{axis}" for axis in range(len(grid))), *(["i32(thread)"] if workgroups else [])]
            where = groups(shading.printer(), grid) if workgroups else points(shading.printer(), grid)
            lines = [*shading.params(grid), *where, f"unit({', '.join(places)});"]
            loads = self._loads(bindings, fours)
            if "made(" in body:
                load = f"return {bindings.load(self.output, 'at')};"
                loads.append(f"fn made(at: i32) -> {bindings.kinds[self.output].wgsl} {block([load])}\n")
            return shading.finish(*loads, *self._puts(shading, whole), body, shading.entry(lines))

        same = tuple(range(len(buffers)))
        threads = [*grid, constant(WORKGROUP)] if workgroups else [*grid]
        return Code(routine.name, routine.key, routine.params, threads, turns, same, write)

    def _loads(self, bindings: Bindings, fours: Sequence[int]) -> list[str]:
        parts = []
        for k in range(len(self.routine.inputs)):
            letter, wgsl = "abcdefgh"[k], bindings.kinds[k].wgsl
            load = f"return {bindings.load(k, 'i')};"
            parts.append(f"fn load_{letter}(i: i32) -> {wgsl} {block([load])}\n")
            if k in fours:
                load = f"return {bindings.load4(k, 'i')};"
                parts.append(f"fn load4_{letter}(i: i32) -> vec4<{wgsl}> {block([load])}\n")
        return parts

    def _puts(self, shading: Shading, whole: bool) -> list[str]:
        bindings, outputs = shading.bindings, range(self.output, self.output + len(self.routine.writes))
        parts = [] if self.lanes is None else [self.lanes.element(shading, "element")]
        parts.append(self._put(shading, whole))
        if kind(self.dtype).stored < 64:
            parts += self._puts_of_four(whole)
        for number, k in enumerate(outputs[1:], 1):
            store = bindings.store(k, "at", "x")
            parts.append(f"fn put_{number}(at: i32, x: {bindings.kinds[k].wgsl}) {block([store])}\n")
        return parts

    def _puts_of_four(self, whole: bool) -> list[str]:
        vector = f"vec4<{WGSL[kind(self.dtype).family]}>"
        lanes = [f"put(at + {lane}, x[{lane}]);" for lane in range(LANES)]
        parts = [] if whole else [f"fn put4(at: i32, x: {vector}) {block(lanes)}\n"]
        inside = [f"if ({lane} < room) {{ {text} }}" for lane, text in enumerate(lanes)]
        some = ["if (0 < room) { put4(at, x); }"] if whole else inside
        return [*parts, f"fn put_row(at: i32, room: i32, x: {vector}) {block(some)}\n"]

    def _put(self, shading: Shading, whole: bool) -> str:
        """`put4` where results are `whole`, else `put`."""
        count, wgsl = (LANES, WGSL[kind(self.dtype).family]) if whole else (1, WGSL[kind(self.dtype).family])
        head = f"fn put4(at: i32, x: vec4<{wgsl}>) " if whole else f"fn put(at: i32, x: {wgsl}) "
        if self.lanes is None:
            return head + block([self._store(shading, whole, "at", "x")]) + "\n"
        lanes, printer = self.lanes, shading.printer()
        space = [size(extent) for extent in lanes.kernel.space]
        lines, extents = printer.print(*space)
        lines = [*shading.params([*space, *lanes.expressions()]), *lines]
        rest = "at"
        for axis in range(len(extents) - 1, 0, -1):
            lines += [f"let g{axis} = {rest} % {extents[axis]};", f"let rest{axis} = {rest} / {extents[axis]};"]
            rest = f"rest{axis}"
        lines += [f"let g0 = {rest};"] if extents else []
        lines += [f"let v{k} = x;" for k, node in enumerate(lanes.kernel.nodes) if node[0] == "acc"]
        lines += lanes.given(shading, printer, count)
        more, place = lanes.target(printer)
        calls = lanes.calls("element", count)
        value = f"vec4<{WGSL[kind(lanes.dtype).family]}>({', '.join(calls)})" if whole else calls[0]
        return head + block([*lines, *more, self._store(shading, whole, place, value)]) + "\n"

    def _store(self, shading: Shading, whole: bool, place: str, value: str) -> str:
        if whole:
            return shading.bindings.store4(self.output, f"({place}) >> 2u", value)
        return shading.bindings.store(self.output, place, value)


def text(value: Any) -> Any:
    """What a template gets: of a size that is a parameter, where that lies."""
    if isinstance(value, str) and value[:1] == "p" and value[1:].isdecimal():
        return f"params[{int(value[1:]) // 4}].{'xyzw'[int(value[1:]) % 4]}"
    return [text(item) for item in value] if isinstance(value, (list, tuple)) else value


def told(value: Any) -> Size:
    """A size among the attributes of a routine."""
    found: Size = value["size"] if isinstance(value, dict) else value
    return found


def product(*sizes: Size) -> Expression:
    """Sizes multiplied."""
    result = constant(1)
    for value in sizes:
        result = size(value) if result == constant(1) else ["mul", "int32", result, size(value)]
    return result
