"""Programs as WGSL compute shaders: one thread for each point of the grid.

A shader has its buffers in group 0, all of them `read_write`, since WebGPU lets no dispatch bind one buffer both ways;
in group 1 its parameters. It is valid for naga and for Tint, under WebGPU's default limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from textwrap import indent
from typing import Any

from sardonyx.compiler.program import Expression, Program, Statement
from sardonyx.compiler.transcendental import Function
from sardonyx.errors import EngineError
from sardonyx_webgpu import prelude
from sardonyx_webgpu.expression import Printer, variable
from sardonyx_webgpu.gpu import Shader
from sardonyx_webgpu.values import WGSL, Kind, kind

WORKGROUP = 64
"""Threads of a workgroup; a program without a grid has one thread."""


def shader(program: Program, same: Sequence[int] = ()) -> Shader:
    """The shader of a program.

    `same` gives for each buffer the first one that lies at the same place: WebGPU refuses two bindings of one range
    of memory in a dispatch that writes it, so those buffers share a binding.
    """
    same = same or range(len(program.reads) + len(program.writes))
    return _Writer(program, same).shader()


class _Writer:
    def __init__(self, program: Program, same: Sequence[int]) -> None:
        self.program = program
        self.same = same
        self.kinds = [kind(dtype) for dtype in (*program.reads, *program.writes)]
        self.written = {same[k] for k in range(len(program.reads), len(same))}
        self.loaded: set[int] = set()
        for k, first in enumerate(same):
            if self.kinds[k] != self.kinds[first]:
                raise EngineError(f"{program.name}: buffers {first} and {k} lie at one place, but differ in dtype")

    def shader(self) -> Shader:
        printer = Printer(self._load)
        main = self._main(printer)
        functions = _functions(printer.written)
        accessors = "".join(self._accessors(k) for k in sorted({*self.loaded, *self._stored()}))
        body = "\n".join(part for part in (accessors, *functions, main) if part)
        parts = [f"// {_one_line(self.program.name)}\n{self._bindings(main)}", *prelude.needed(body), body]
        return Shader(self.program.name, "\n".join(parts), len(set(self.same)))

    def _bindings(self, main: str) -> str:
        lines = []
        for binding, k in enumerate(sorted(set(self.same))):
            element = self.kinds[k].element
            element = f"atomic<{element}>" if self._is_atomic(k) else element
            lines.append(f"@group(0) @binding({binding}) var<storage, read_write> b{k}: array<{element}>;\n")
        if "params[" in main:
            words = -(-self.program.params // 4)
            lines.append(f"@group(1) @binding(0) var<uniform> params: array<vec4<i32>, {words}>;\n")
        return "".join(lines)

    def _is_atomic(self, k: int) -> bool:
        """Whether threads may write different parts of a word."""
        return k in self.written and self.kinds[k].stored < 32

    def _stored(self) -> set[int]:
        return {k for k in self.written if self.kinds[k].stored < 32}

    def _load(self, buffer: int, index: str) -> str:
        buffer = self.same[buffer]
        held = self.kinds[buffer]
        if held.stored >= 32:
            return f"b{buffer}[{index}]"
        self.loaded.add(buffer)
        return f"load_b{buffer}({index})"

    def _accessors(self, k: int) -> str:
        """Functions that load and store parts of words."""
        held = self.kinds[k]
        text = ""
        if k in self.loaded:
            word = f"atomicLoad(&b{k}[{_word('i', held)}])" if self._is_atomic(k) else f"b{k}[{_word('i', held)}]"
            bits = f"extractBits({word}, {_shift('i', held)}, {held.stored}u)"
            text += f"fn load_b{k}(i: i32) -> {held.wgsl} {{\n    return {held.from_bits(bits)};\n}}\n"
        if k in self.written:
            mask = f"{(1 << held.stored) - 1:#x}u"
            text += (
                f"fn store_b{k}(i: i32, x: {held.wgsl}) {{\n"
                f"    let shift = {_shift('i', held)};\n"
                f"    atomicAnd(&b{k}[{_word('i', held)}], ~({mask} << shift));\n"
                f"    atomicOr(&b{k}[{_word('i', held)}], ({held.to_bits('x')} & {mask}) << shift);\n}}\n"
            )
        return text

    def _main(self, printer: Printer) -> str:
        program = self.program
        used = sorted({code[2] for code in _walk([*program.grid, *program.body]) if code[0] == "param"})
        lines = [f"let p{k} = params[{k // 4}].{'xyzw'[k % 4]};" for k in used]
        if program.grid:
            lines += _points(printer, program.grid)
        lines += _Body(printer, self._store, program.body).lines(program.body)
        threads = WORKGROUP if program.grid else 1
        inputs = ", ".join(f"@builtin({name}) {word}: {wgsl}" for name, word, wgsl in _BUILTINS) if program.grid else ""
        return f"@compute @workgroup_size({threads})\nfn main({inputs}) {_block(lines)}\n"

    def _store(self, buffer: int, index: str, value: str) -> str:
        buffer = self.same[buffer]
        if self.kinds[buffer].stored >= 32:
            return f"b{buffer}[{index}] = {value};"
        return f"store_b{buffer}({index}, {value});"


_BUILTINS = [
    ("workgroup_id", "group", "vec3<u32>"),
    ("num_workgroups", "groups", "vec3<u32>"),
    ("local_invocation_index", "thread", "u32"),
]


def _points(printer: Printer, grid: Sequence[Expression]) -> list[str]:
    """The statements that give a thread its place in the grid, and send those beyond it home."""
    lines, extents = printer.print(*grid)
    lines += [f"let n{axis} = u32({extent});" for axis, extent in enumerate(extents)]
    lines.append(f"let point = (group.y * groups.x + group.x) * {WORKGROUP}u + thread;")
    lines.append(f"if (point >= {' * '.join(f'n{axis}' for axis in range(len(grid)))}) {{ return; }}")
    rest = "point"
    for axis in range(len(grid) - 1, 0, -1):
        lines.append(f"let g{axis} = i32({rest} % n{axis});")
        lines.append(f"let rest{axis} = {rest} / n{axis};")
        rest = f"rest{axis}"
    return [*lines, f"let g0 = i32({rest});"]


class _Body:
    """The statements of one function."""

    def __init__(self, printer: Printer, store: Callable[[int, str, str], str], body: Sequence[Statement]) -> None:
        self.printer = printer
        self.store = store
        self.mutable = {statement[1] for statement in _statements(body) if statement[0] == "set"}
        self.loops = 0

    def lines(self, body: Sequence[Statement]) -> list[str]:
        return [line for statement in body for line in self._statement(statement)]

    def _statement(self, statement: Statement) -> list[str]:
        match statement:
            case ["let", name, value]:
                lines, (text,) = self.printer.print(value)
                keyword = "var" if name in self.mutable else "let"
                return [*lines, f"{keyword} {variable(name)} = {text};"]
            case ["set", name, value]:
                lines, (text,) = self.printer.print(value)
                return [*lines, f"{variable(name)} = {text};"]
            case ["store", buffer, index, value]:
                lines, (place, text) = self.printer.print(index, value)
                return [*lines, self.store(buffer, place, text)]
            case ["return", value]:
                lines, (text,) = self.printer.print(value)
                return [*lines, f"return {text};"]
            case ["for", name, count, body]:
                lines, (text,) = self.printer.print(count)
                if count[0] not in ("const", "param"):
                    lines.append(f"let count{self.loops} = {text};")
                    text = f"count{self.loops}"
                    self.loops += 1
                k = variable(name)
                return [*lines, f"for (var {k} = 0; {k} < {text}; {k}++) {_block(self.lines(body))}"]
            case ["while", condition, body]:
                lines, (text,) = self.printer.print(condition)
                lines.append(f"if (!({text})) {{ break; }}")
                return [f"loop {_block([*lines, *self.lines(body)])}"]
            case ["if", condition, yes, no]:
                lines, (text,) = self.printer.print(condition)
                otherwise = f" else {_block(self.lines(no))}" if no else ""
                return [*lines, f"if ({text}) {_block(self.lines(yes))}{otherwise}"]
        raise EngineError(f"a program has no statement {statement[0]!r}")


def _functions(wanted: dict[str, Function]) -> list[str]:
    """The functions that a shader brings along, as they are written in the language of programs."""

    def impossible(*parameters: object) -> str:
        raise EngineError("a function of scalars has no buffers")

    texts = []
    for function in wanted.values():
        params = ", ".join(f"{variable(name)}: {WGSL[kind(dtype).family]}" for name, dtype in function.params)
        lines = _Body(Printer(impossible), impossible, function.body).lines(function.body)
        texts.append(f"fn {function.name}({params}) -> {WGSL[kind(function.dtype).family]} {_block(lines)}\n")
    return texts


def _block(lines: Iterable[str]) -> str:
    return "{\n" + indent("".join(f"{line}\n" for line in lines), "    ") + "}"


def _word(index: str, held: Kind) -> str:
    return f"{index} >> {2 if held.stored == 8 else 1}u"


def _shift(index: str, held: Kind) -> str:
    return f"(u32({index}) & 3u) * 8u" if held.stored == 8 else f"(u32({index}) & 1u) * 16u"


def _one_line(name: str) -> str:
    return " ".join(name.split())


def _statements(body: Iterable[Statement]) -> Iterable[Statement]:
    """All statements, nested ones too."""
    for statement in body:
        yield statement
        for part in statement:
            if isinstance(part, list) and part and isinstance(part[0], list):
                yield from _statements(part)


def _walk(codes: Iterable[list[Any]]) -> Iterable[list[Any]]:
    """All statements and expressions, nested ones too, without recursion, each object once."""
    stack = [*codes]
    seen: set[int] = set()
    while stack:
        code = stack.pop()
        if id(code) not in seen:
            seen.add(id(code))
            if code and not isinstance(code[0], list):
                yield code
            stack += [part for part in code if isinstance(part, list)]
