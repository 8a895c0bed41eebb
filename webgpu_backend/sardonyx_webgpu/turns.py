"""How often the loops of a program turn: some drivers end them all after a while, without a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sardonyx.code.program import Expression, Program, Statement
from sardonyx_webgpu.grid import evaluate


def turns(program: Program, params: Sequence[Any]) -> int:
    """How often all loops of one thread turn at most, their ends included, as drivers count them.

    Where only data tell how often a loop turns, as often as the loop around it: insertion sort does no more.
    """
    return evaluate(turns_of(program), params)


def turns_of(program: Program) -> Expression:
    """The same as an expression over the program's parameters."""
    return _turns(program.body, _number(1))


def _turns(body: Sequence[Statement], around: Expression) -> Expression:
    total = _number(0)
    for statement in body:
        match statement:
            case ["for", _, count, block]:
                total = _call(
                    "add", total, _loop(block, _call("max", count, _number(0)) if _is_size(count) else around)
                )
            case ["while", _, block]:
                total = _call("add", total, _loop(block, around))
            case ["if", _, yes, no]:
                total = _call("add", total, _call("max", _turns(yes, around), _turns(no, around)))
    return total


def _loop(block: Sequence[Statement], times: Expression) -> Expression:
    return _call("add", _call("mul", times, _call("add", _number(1), _turns(block, times))), _number(1))


def _number(value: int) -> Expression:
    return ["const", "int32", value]


def _call(function: str, a: Expression, b: Expression) -> Expression:
    code = [function, "int32", a, b]
    return _number(evaluate(code, ())) if a[0] == b[0] == "const" else code


def _is_size(code: Expression) -> bool:
    """Whether constants and parameters alone tell a number."""
    if code[0] in ("const", "param"):
        return True
    return code[0] not in ("var", "load", "grid") and all(_is_size(part) for part in code[2:])
