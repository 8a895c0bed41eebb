"""What surrounds the template of a routine: its buffers, its grid, and how results are put, epilogue included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from sardonyx.code.kernel import Kernel, Routine
from sardonyx.code.program import Expression
from sardonyx_webgpu.code import WORKGROUP, Code
from sardonyx_webgpu.extents import constant, size
from sardonyx_webgpu.gpu.interface import Shader
from sardonyx_webgpu.routines import template
from sardonyx_webgpu.wgsl.bindings import Bindings
from sardonyx_webgpu.wgsl.lanes import Lanes
from sardonyx_webgpu.wgsl.line import LANES
from sardonyx_webgpu.wgsl.shading import Shading, points
from sardonyx_webgpu.wgsl.statements import block
from sardonyx_webgpu.wgsl.values import WGSL, kind

Size: TypeAlias = int | str


class Frame:
    """A routine being written, whose template has a function `unit` of the thread's place in the grid.

    It loads its operands by `load_a`, `load_b`, ..., and by `load4_a`, ... those that lie in fours, or `word_a`, ... if
    they are bytes, from where `at_a` of an index says; from there a template may go by steps along axes in which views
    are linear. It puts results at their places in row-major order by `put(at, x)`, `put4(at, vec4)`, and
    `put_row(at, room, column, vec4)`, which leaves out what there is no `room` for; a `Column`, from `of_column(place)`
    along the last axis, has what is the same for all rows. Further results have `put_1(at, x)`, ...; `made(at)`,
    `made_1(at)`, ... are what has been put of each. Sizes are what it is told by names.
    """

    def __init__(self, routine: Routine) -> None:
        self.routine = routine
        self.output = len(routine.reads)
        self.lanes: Lanes | None = None
        self.dtype: str = routine.writes[0]
        if routine.epilogue is not None:
            self.lanes = Lanes(Kernel.from_json(routine.epilogue), len(routine.inputs), numbered=True)
            self.dtype = next((node[1] for node in self.lanes.kernel.nodes if node[0] == "acc"), "float32")

    def is_multiple(self, *sizes: Size) -> bool:
        """Whether all sizes are known to be multiples of four."""
        multiples = self.routine.multiples
        return not any((value if isinstance(value, int) else multiples[int(value[1:])]) % LANES for value in sizes)

    def view(self, operand: int) -> Any:
        """`[nodes, Index]` of an operand that is a view, or None."""
        return self.routine.views[operand] if self.routine.views else None

    def step(self, operand: int, axis: int = -1) -> Size:
        """The stride of an operand along one of its last two axes."""
        shape: list[Size] = self.routine.inputs[operand]
        if (view := self.view(operand)) is None:
            return 1 if axis == -1 else shape[-1]
        strides: dict[int, Size] = dict(view[1][1])
        return strides.get(len(shape) + axis, 0)

    def is_four(self, operand: int, axis: int = -1) -> bool:
        """Whether an operand lies in fours along an axis."""
        shape = self.routine.inputs[operand]
        if not self.is_multiple(shape[axis]) or self.step(operand, axis) != 1:
            return False
        if (view := self.view(operand)) is None:
            return axis == -1
        offset, axes, extra = view[1]
        others = [stride for number, stride in axes if number != len(shape) + axis]
        return self.is_multiple(offset, *others, *(stride for _, stride in extra))

    def code(
        self,
        name: str,
        grid: Sequence[Expression],
        trips: Expression,
        whole: bool = False,
        fours: Sequence[int] = (),
        functions: Callable[[Shading], Sequence[str]] = lambda _: (),
        threads: int = 0,
        steps: Size | None = None,
        **values: Any,
    ) -> Code:
        """The code of a template, with this grid and so many trips of loops.

        Inputs in `fours` lie in fours, and so do results if they are `whole`. `functions` are what else the template
        calls. With `threads` a workgroup of so many has a place in the grid: all of them call `unit`, in uniform
        control flow, and its last parameter is the thread's number. With `steps` the template does $COUNT of them, 0
        for all, from $FIRST on, and `trips` are those of `taken` steps.
        """
        routine = self.routine
        params = routine.params
        if steps is not None:
            values |= {"FIRST": f"p{params}", "COUNT": f"p{params + 1}"}
            params += 2
        buffers = (*routine.reads, *routine.writes)
        whole = whole and (self.lanes is None or self.lanes.is_aligned)
        wide = {*fours, *([self.output] if whole else [])}
        if whole and self.lanes is not None:
            wide |= self.lanes.buffers()

        def write(same: Sequence[int], half: bool) -> Shader:
            bindings = Bindings(routine.name, buffers, len(routine.reads), same, half, wide)
            shading = Shading(routine.name, params, bindings)
            names = {key: text(value) for key, value in values.items()}
            body = template.fill(template.source(name), **names)
            places = [*(f"g{axis}" for axis in range(len(grid))), *(["i32(thread)"] if threads else [])]
            lines = [*shading.params(grid), *points(shading.printer(), grid, together=threads > 0)]
            lines.append(f"unit({', '.join(places)});")
            own = [*self._places(shading), *self._loads(bindings, fours)]
            own += self._mades(bindings, body)
            own += [*self._puts(shading, whole, body), *functions(shading)]
            return shading.finish(*own, body, shading.entry(lines, threads=threads or WORKGROUP))

        same = routine.same or tuple(range(len(buffers)))
        units = [*grid, constant(WORKGROUP)] if threads else [*grid]
        counted = None if steps is None else size(steps)
        return Code(routine.name, routine.key, params, units, trips, same, write, steps=counted)

    @property
    def taken(self) -> Expression:
        """How many steps a dispatch does of a code that has steps."""
        return size(f"p{self.routine.params + 1}")

    def _places(self, shading: Shading) -> list[str]:
        """The functions `at_a`, ... from indices to places in buffers."""
        parts = []
        for k, shape in enumerate(self.routine.inputs):
            axes = [["var", "int32", f"v{axis}"] for axis in range(len(shape))]
            if (view := self.view(k)) is None:
                place = constant(0)
                for axis, extent in zip(axes, shape, strict=True):
                    place = axis if place == constant(0) else add(multiply(place, size(extent)), axis)
            else:
                place = _place(view, axes)
            lines, (text,) = shading.printer().print(place)
            params = ", ".join(f"v{axis}: i32" for axis in range(len(shape)))
            body = block([*shading.params([place]), *lines, f"return {text};"])
            parts.append(f"fn at_{'abcdefgh'[k]}({params}) -> i32 {body}\n")
        return parts

    def _loads(self, bindings: Bindings, fours: Sequence[int]) -> list[str]:
        parts = []
        for k in range(len(self.routine.inputs)):
            letter, wgsl = "abcdefgh"[k], bindings.kinds[k].wgsl
            load = f"return {bindings.load(k, 'i')};"
            parts.append(f"fn load_{letter}(i: i32) -> {wgsl} {block([load])}\n")
            if k in fours:
                load = f"return {bindings.load4(k, 'i')};"
                parts.append(f"fn load4_{letter}(i: i32) -> vec4<{wgsl}> {block([load])}\n")
            if k in fours and bindings.kinds[k].stored == 8:
                load = f"return {bindings.word(k, 'i')};"
                parts.append(f"fn word_{letter}(i: i32) -> u32 {block([load])}\n")
        return parts

    def _mades(self, bindings: Bindings, body: str) -> list[str]:
        """The functions that load what has been put, as far as they are called."""
        parts = []
        for k in range(len(self.routine.writes)):
            name = f"made_{k}" if k else "made"
            if f"{name}(" in body:
                load = f"return {bindings.load(self.output + k, 'at')};"
                parts.append(f"fn {name}(at: i32) -> {bindings.kinds[self.output + k].wgsl} {block([load])}\n")
        return parts

    def _puts(self, shading: Shading, whole: bool, body: str) -> list[str]:
        bindings, outputs = shading.bindings, range(self.output, self.output + len(self.routine.writes))
        parts = [] if self.lanes is None else [self.lanes.element(shading, "element")]
        if "put_row(" in body:
            parts += [self._column(shading, whole), self._put(shading, whole, True), self._put_row(whole)]
        else:
            parts.append(self._put(shading, whole, False))
        for number, k in enumerate(outputs[1:], 1):
            store = bindings.store(k, "at", "x")
            parts.append(f"fn put_{number}(at: i32, x: {bindings.kinds[k].wgsl}) {block([store])}\n")
        return parts

    @property
    def _wgsl(self) -> str:
        return WGSL[kind(self.dtype).family]

    def _has_columns(self) -> bool:
        """Whether the last axis of what is done to the result is that of the result."""
        space = self.lanes.kernel.space if self.lanes is not None else ()
        return bool(space) and space[-1] == self.routine.outputs[0][-1]

    def _alike(self, whole: bool) -> list[int]:
        return self.lanes.alike() if self.lanes is not None and whole and self._has_columns() else []

    def _column(self, shading: Shading, whole: bool) -> str:
        """The struct of what is the same for all rows, and the function that loads it."""
        names = [f"v{number}" for number in self._alike(whole)]
        members, lines = ["at: i32"], []
        if self.lanes is not None and names:
            axis = self.lanes.axis
            others = set(self.lanes.fours) - set(self._alike(whole))
            members += [f"v{k}: vec4<{WGSL[kind(self.lanes.kernel.nodes[k][1]).family]}>" for k in self._alike(whole)]
            lines = [*shading.params(self.lanes.expressions()), f"let g{axis} = at;", "let v_at = at;"]
            lines += self.lanes.loads(shading, shading.printer(), loaded=others)
        body = block([*lines, f"return Column({', '.join(['at', *names])});"])
        return f"struct Column {{ {', '.join(members)} }}\n\nfn of_column(at: i32) -> Column {body}\n"

    def _put_row(self, whole: bool) -> str:
        lanes = [f"put(at + {lane}, Column(column.at + {lane}), x[{lane}]);" for lane in range(LANES)]
        inside = [f"if ({lane} < room) {{ {text} }}" for lane, text in enumerate(lanes)]
        some = ["if (0 < room) { put4(at, column, x); }"] if whole else inside
        return f"fn put_row(at: i32, room: i32, column: Column, x: vec4<{self._wgsl}>) {block(some)}\n"

    def _put(self, shading: Shading, whole: bool, in_column: bool) -> str:
        """`put4` where results are `whole`, else `put`; their Column is known if they are `in_column`."""
        count, x = (LANES, f"vec4<{self._wgsl}>") if whole else (1, self._wgsl)
        params = "at: i32, column: Column" if in_column else "at: i32"
        head = f"fn put{'4' if whole else ''}({params}, x: {x}) "
        if self.lanes is None:
            return head + block([self._store(shading, whole, "at", "x")]) + "\n"
        lanes, printer = self.lanes, shading.printer()
        space = [size(extent) for extent in lanes.kernel.space]
        lines, extents = printer.print(*space)
        lines = [*shading.params([*space, *lanes.expressions()]), *lines, "let v_at = at;"]
        in_column &= self._has_columns()
        rest = "at"
        for axis in range(len(extents) - 1, 0, -1):
            lines.append(f"let rest{axis} = i32(u32({rest}) / u32({extents[axis]}));")
            is_known = in_column and axis == lanes.axis
            lines.append(f"let g{axis} = {'column.at' if is_known else f'{rest} - rest{axis} * {extents[axis]}'};")
            rest = f"rest{axis}"
        lines += [f"let g0 = {rest};"] if extents else []
        lines += [f"let v{k} = x;" for k, node in enumerate(lanes.kernel.nodes) if node[0] == "acc"]
        alike = self._alike(whole) if in_column else []
        lines += [f"let v{number} = column.v{number};" for number in alike]
        lines += lanes.arguments(shading, printer, count, alike)
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


def told(values: Sequence[Any]) -> list[Size]:
    """Sizes among the attributes of a routine."""
    return [value["size"] if isinstance(value, dict) else value for value in values]


def add(a: Expression, b: Expression) -> Expression:
    return b if a == constant(0) else a if b == constant(0) else ["add", "int32", a, b]


def multiply(a: Expression, b: Expression) -> Expression:
    return a if b == constant(1) else ["mul", "int32", a, b]


def _place(view: Any, axes: Sequence[Expression]) -> Expression:
    """Where an element of a view is."""
    nodes, index = view
    codes: list[Expression] = []

    def total(index: Any) -> Expression:
        offset, strides, extra = index
        result = constant(0)
        for axis, stride in strides:
            result = add(result, multiply(axes[axis], size(stride)))
        for node, stride in extra:
            result = add(result, multiply(codes[node], size(stride)))
        return add(result, size(offset))

    for function, dtype, operands, detail in nodes:
        codes.append(total(detail) if function == "index" else [function, dtype, *(codes[k] for k in operands)])
    return total(index)


def product(*sizes: Size) -> Expression:
    """Sizes multiplied."""
    result = constant(1)
    for value in sizes:
        result = size(value) if result == constant(1) else ["mul", "int32", result, size(value)]
    return result
