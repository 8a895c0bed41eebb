"""Expressions of a Program in WGSL: a tree becomes a text, after `let` statements for what it shares."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from sardonyx.code.approximation import Approximation
from sardonyx.code.program import Expression
from sardonyx.common.record import field, record
from sardonyx_webgpu.wgsl import functions
from sardonyx_webgpu.wgsl.values import bare, fill, literal

DEPTH = 20
"""How deep operations nest in one line: compilers limit it, and readers do too."""


def variable(name: str) -> str:
    """A variable's name in WGSL: apart from keywords, and from the names that the printer gives."""
    return name if re.fullmatch("v[0-9]+|x|y", name) else f"v_{name}"


@record
class _Node:
    """An operation of an expression; equal ones are one node."""

    code: Expression
    operands: tuple[int, ...]
    uses: int = 0
    depth: int = 0
    text: str = ""

    @property
    def is_constant(self) -> bool:
        return bool(self.code[0] == "const")

    @property
    def is_name(self) -> bool:
        return self.code[0] in ("const", "param", "grid", "var")


@record
class Printer:
    """Prints the expressions of one function. `load` gives the text of a load; `written` gathers what is called."""

    load: Callable[[int, str], str]
    written: dict[str, Approximation] = field(default_factory=dict)
    _names: int = 0

    def print(self, *codes: Expression) -> tuple[list[str], list[str]]:
        """The `let` statements that some expressions need, and the texts of the expressions."""
        nodes: list[_Node] = []
        roots = _intern(codes, nodes)
        for root in roots:
            nodes[root].uses += 1
        lines: list[str] = []
        for node in nodes:
            operands = [nodes[k] for k in node.operands]
            if operands and all(operand.is_constant for operand in operands):
                # Overflow and the like in constant expressions are errors; what a `let` names is not constant.
                for operand in operands:
                    self._name(operand, lines)
            node.text = self._text(node, operands)
            node.depth = 1 + max((operand.depth for operand in operands), default=0)
            if not node.is_name and (node.uses > 1 or node.depth > DEPTH):
                self._name(node, lines)
        return lines, [bare(nodes[root].text) for root in roots]

    def _name(self, node: _Node, lines: list[str]) -> None:
        if not re.fullmatch(r"t\d+", node.text):
            name = f"t{self._names}"
            self._names += 1
            lines.append(f"let {name} = {bare(node.text)};")
            node.text, node.depth = name, 0

    def _text(self, node: _Node, operands: Sequence[_Node]) -> str:
        function, dtype, *details = node.code
        texts = [operand.text for operand in operands]
        match function:
            case "const":
                return literal(dtype, details[0])
            case "param":
                return f"p{details[0]}"
            case "grid":
                return f"g{details[0]}"
            case "var":
                return variable(details[0])
            case "load":
                return self.load(details[0], bare(texts[0]))
        of = operands[-1].code[1]
        if function == "cast":
            return functions.cast(dtype, of, texts[0])
        if function == "bitcast":
            return functions.bitcast(dtype, of, texts[0])
        if own := functions.written(function, of):
            self.written[own.name] = own
        if function in _BY_CONSTANT and dtype in ("int32", "uint32") and operands[1].is_constant:
            number = operands[1].code[2]
            if 0 < number < (32 if function in ("shl", "shr") else 1 << 31):
                template = "int_left({0}, {1})" if (function, dtype) == ("rem", "int32") else _BY_CONSTANT[function]
                return fill(template, texts[0], str(number), u="u" if dtype == "uint32" else "")
        return functions.apply(function, dtype, of, texts)


_BY_CONSTANT = {"div": "({0} / {1}{u})", "rem": "({0} % {1}{u})", "shl": "({0} << {1}u)", "shr": "({0} >> {1}u)"}
"""Integer functions by a constant that needs no guard; see `int_left` for remainders of signed integers."""


def _intern(codes: Sequence[Expression], nodes: list[_Node]) -> list[int]:
    """Append the operations of expressions, operands first, without recursion: expressions may be deep."""
    interned: dict[Any, int] = {}
    numbers: dict[int, int] = {}
    stack = [(code, False) for code in reversed(codes)]
    while stack:
        code, ready = stack.pop()
        if id(code) in numbers:
            continue
        parts = _operands(code)
        if not ready:
            stack.append((code, True))
            stack += [(part, False) for part in reversed(parts)]
            continue
        operands = tuple(numbers[id(part)] for part in parts)
        details = tuple(map(str, code[: len(code) - len(parts)]))
        key = (details, operands)
        if key not in interned:
            interned[key] = len(nodes)
            nodes.append(_Node(code, operands))
            for operand in operands:
                nodes[operand].uses += 1
        numbers[id(code)] = interned[key]
    return [numbers[id(code)] for code in codes]


def _operands(code: Expression) -> list[Expression]:
    if code[0] in ("const", "param", "grid", "var"):
        return []
    return code[3:] if code[0] == "load" else code[2:]
