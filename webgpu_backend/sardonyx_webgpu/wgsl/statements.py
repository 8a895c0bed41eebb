"""Statements of programs in WGSL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from textwrap import indent
from typing import Any

from sardonyx.code.program import Statement
from sardonyx.errors import EngineError
from sardonyx_webgpu.wgsl.expression import Printer, variable


class Body:
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
                return [*lines, f"for (var {k} = 0; {k} < {text}; {k}++) {block(self.lines(body))}"]
            case ["while", condition, body]:
                lines, (text,) = self.printer.print(condition)
                lines.append(f"if (!({text})) {{ break; }}")
                return [f"loop {block([*lines, *self.lines(body)])}"]
            case ["if", condition, yes, no]:
                lines, (text,) = self.printer.print(condition)
                otherwise = f" else {block(self.lines(no))}" if no else ""
                return [*lines, f"if ({text}) {block(self.lines(yes))}{otherwise}"]
        raise EngineError(f"a program has no statement {statement[0]!r}")


def block(lines: Iterable[str]) -> str:
    return "{\n" + indent("".join(f"{line}\n" for line in lines), "    ") + "}"


def _statements(body: Iterable[Statement]) -> Iterable[Statement]:
    """All statements, nested ones too."""
    for statement in body:
        yield statement
        for part in statement:
            if isinstance(part, list) and part and isinstance(part[0], list):
                yield from _statements(part)


def walk(codes: Iterable[list[Any]]) -> Iterable[list[Any]]:
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
