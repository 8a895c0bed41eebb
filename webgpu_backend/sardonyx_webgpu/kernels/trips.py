"""How often the loops of a program turn: some drivers end them all after a while, without a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sardonyx.code.program import Expression, Program, Statement
from sardonyx_webgpu.extents import call, constant, evaluate


def trips(program: Program, params: Sequence[Any]) -> int:
    """How often all loops of one thread turn at most, their ends included, as drivers count them.

    Where only data tell how often a loop trips, as often as the loop around it: insertion sort does no more.
    """
    return evaluate(trips_of(program), params)


def trips_of(program: Program) -> Expression:
    """The same as an expression over the program's parameters."""
    return _trips(program.body, constant(1))


def _trips(body: Sequence[Statement], around: Expression) -> Expression:
    total = constant(0)
    for statement in body:
        match statement:
            case ["for", _, count, block]:
                total = call("add", total, _loop(block, call("max", count, constant(0)) if _is_size(count) else around))
            case ["while", _, block]:
                total = call("add", total, _loop(block, around))
            case ["if", _, yes, no]:
                total = call("add", total, call("max", _trips(yes, around), _trips(no, around)))
    return total


def _loop(block: Sequence[Statement], times: Expression) -> Expression:
    return call("add", call("mul", times, call("add", constant(1), _trips(block, times))), constant(1))


def _is_size(code: Expression) -> bool:
    """Whether constants and parameters alone tell a number."""
    if code[0] in ("const", "param"):
        return True
    return code[0] not in ("var", "load", "grid") and all(_is_size(part) for part in code[2:])
