"""Expressions: the data form of sizes, an integer, a symbol, or a nested list over `+ * floordiv mod min max`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

_TEXT = {"+": " + ", "*": "*", "floordiv": "//", "mod": "%"}


def to_text(expression: Any, inner: bool = False) -> str:
    """Python source of an expression; `min` and `max` are Python's own.

    >>> to_text(["+", 3, ["floordiv", "s", ["*", 2, "t"]]])
    '3 + (s//(2*t))'
    """
    if not isinstance(expression, list):
        return str(expression)
    name, *arguments = expression
    if name in ("min", "max"):
        return f"{name}({', '.join(map(to_text, arguments))})"
    parts = [to_text(argument, True) for argument in arguments]
    if name in ("floordiv", "mod") and isinstance(arguments[1], list) and arguments[1][0] == "*":
        parts[1] = f"({parts[1]})"
    text = _TEXT[name].join(parts)
    return f"({text})" if inner and name != "*" else text


_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "*": operator.mul,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
}


def evaluate(expression: Any, symbols: Mapping[str, int], computed: dict[int, int] | None = None) -> int:
    """The value of an expression. `computed` holds values of lists: with it each list is evaluated once.

    >>> evaluate(["+", 1, ["*", 2, "s"]], {"s": 3})
    7
    """
    if isinstance(expression, int):
        return expression
    if isinstance(expression, str):
        return symbols[expression]
    if computed is not None and id(expression) in computed:
        return computed[id(expression)]
    name, first, *rest = expression
    result = evaluate(first, symbols, computed)
    for item in rest:
        result = _OPERATORS[name](result, evaluate(item, symbols, computed))
    if computed is not None:
        computed[id(expression)] = result
    return result
