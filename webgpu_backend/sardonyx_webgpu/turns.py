"""How often the loops of a program turn: some drivers end them all after a while, without a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sardonyx.compiler.program import Expression, Program, Statement
from sardonyx_webgpu.grid import evaluate


def turns(program: Program, params: Sequence[Any]) -> int:
    """How often all loops of one thread turn at most, their ends included, as drivers count them.

    Where only data tell how often a loop turns, as often as the loop around it: insertion sort does no more.
    """
    return _turns(program.body, params, 1)


def _turns(body: Sequence[Statement], params: Sequence[Any], around: int) -> int:
    total = 0
    for statement in body:
        match statement:
            case ["for", _, count, block]:
                times = max(0, evaluate(count, params)) if _is_size(count) else around
                total += times * (1 + _turns(block, params, times)) + 1
            case ["while", _, block]:
                total += around * (1 + _turns(block, params, around)) + 1
            case ["if", _, yes, no]:
                total += max(_turns(yes, params, around), _turns(no, params, around))
    return total


def _is_size(code: Expression) -> bool:
    """Whether constants and parameters alone tell a number."""
    if code[0] in ("const", "param"):
        return True
    return code[0] not in ("var", "load", "grid") and all(_is_size(part) for part in code[2:])
