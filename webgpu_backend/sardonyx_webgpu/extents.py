"""How far grids and loops go: arithmetic on integers, over constants and the parameters of a code."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from sardonyx.code.program import Expression

FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.floordiv,
    "rem": operator.mod,
    "min": min,
    "max": max,
}


def evaluate(extent: Expression, params: Sequence[Any]) -> int:
    """The number that an extent is for these parameters; nothing in it is negative.

    >>> evaluate(["add", "int32", ["param", "int32", 1], ["const", "int32", 3]], [10, 20])
    23
    """
    function, _, *details = extent
    if function == "const":
        return int(details[0])
    if function == "param":
        return int(params[details[0]])
    return FUNCTIONS[function](*(evaluate(part, params) for part in details))


def compiled(extents: Sequence[Expression]) -> Callable[[Sequence[Any]], tuple[int, ...]]:
    """What `evaluate` gives for each extent, as one function of the parameters: a token of a language model asks a
    thousand times.

    >>> compiled([["add", "int32", ["param", "int32", 1], ["const", "int32", 3]], constant(2)])([10, 20])
    (23, 2)
    """
    text = f"lambda p: ({''.join(map(_python, extents))})"
    function: Callable[[Sequence[Any]], tuple[int, ...]] = eval(text, {"__builtins__": {}, **FUNCTIONS})
    return function


def _python(extent: Expression) -> str:
    """An extent in Python, and a comma."""
    function, _, *details = extent
    if function == "const":
        return f"{int(details[0])},"
    if function == "param":
        return f"p[{int(details[0])}],"
    if function not in FUNCTIONS:
        raise ValueError(f"an extent has no {function!r}")
    return f"{function}({''.join(map(_python, details))}),"


def constant(number: int) -> Expression:
    return ["const", "int32", number]


def size(value: int | str) -> Expression:
    """A size of a Kernel or Routine: an integer, or "p3" for the fourth parameter.

    >>> size("p3"), size(8)
    (['param', 'int32', 3], ['const', 'int32', 8])
    """
    return ["param", "int32", int(value[1:])] if isinstance(value, str) else constant(value)


def call(function: str, a: Expression, b: Expression) -> Expression:
    """An expression of int32; of constants, the number."""
    code = [function, "int32", a, b]
    return constant(evaluate(code, ())) if a[0] == b[0] == "const" else code


def divided_up(value: Expression, number: int) -> Expression:
    """value / number, rounded up."""
    return call("div", call("add", value, constant(number - 1)), constant(number)) if number > 1 else value
