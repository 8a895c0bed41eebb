"""Size expressions of a plan, compiled to one Python function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sardonyx.sizes.polynomial import evaluate

Evaluator = Callable[[Mapping[str, int]], tuple[Any, ...]]


def symbols_of(expression: Any) -> set[str]:
    """The symbols in an expression."""
    if isinstance(expression, int):
        return set()
    symbols: set[str] = set()
    seen: set[int] = set()
    stack = [expression]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            symbols.add(item)
        elif isinstance(item, list) and id(item) not in seen:  # lists stand in several
            seen.add(id(item))
            stack += item[1:]
    return symbols


def compile_all(expressions: Sequence[Any]) -> Evaluator:
    """A function from symbols to the values of all expressions; equal ones are computed once.

    >>> compile_all([1, "?n0", ["floordiv", "s", 2]])({"?n0": 5, "s": 7})
    (1, 5, 3)
    """
    if all(isinstance(expression, int) for expression in expressions):
        values = tuple(expressions)
        return lambda symbols: values
    compiled: list[Evaluator] = []
    seen: list[bool] = []

    def evaluator(values: Mapping[str, int]) -> tuple[Any, ...]:
        if not seen:  # most plans are bound once, and a walk is less work than to compile
            seen.append(True)
            computed: dict[int, int] = {}
            return tuple(evaluate(expression, values, computed) for expression in expressions)
        if not compiled:
            compiled.append(_compile(expressions))
        return compiled[0](values)

    return evaluator


def _compile(expressions: Sequence[Any]) -> Evaluator:
    symbols = sorted(set().union(*map(symbols_of, expressions)))
    names = {symbol: f"x{k}" for k, symbol in enumerate(symbols)}
    lines = ["def evaluate(symbols):"]
    lines += [f"    {name} = symbols[{symbol!r}]" for symbol, name in names.items()]
    temporaries: dict[str, str] = {}
    items = []
    for expression in expressions:
        text = _rename(expression, names)
        if isinstance(expression, list) and text not in temporaries:
            temporaries[text] = f"t{len(temporaries)}"
            lines.append(f"    {temporaries[text]} = {text}")
        items.append(temporaries.get(text, text))
    lines.append(f"    return ({', '.join(items)},)")
    scope: dict[str, Any] = {"div": _divide, "mod": _remainder}
    exec("\n".join(lines), scope)
    evaluator: Evaluator = scope["evaluate"]
    return evaluator


def _divide(a: int, b: int) -> int:
    return a // b if b else 0


def _remainder(a: int, b: int) -> int:
    return a % b if b else 0


def _rename(expression: Any, names: Mapping[str, str]) -> str:
    """Python source with the operators that need care as calls."""
    if isinstance(expression, str):
        return names[expression]
    if isinstance(expression, int):
        return f"({expression})" if expression < 0 else str(expression)
    name, *rest = expression
    parts = [_rename(item, names) for item in rest]
    if name in ("min", "max"):
        return f"{name}({', '.join(parts)})"
    if name in ("floordiv", "mod"):
        number = rest[1]
        if isinstance(number, int) and number > 0:
            return f"({parts[0]} {'//' if name == 'floordiv' else '%'} {number})"
        return f"{'div' if name == 'floordiv' else 'mod'}({parts[0]}, {parts[1]})"
    return f"({f' {name} '.join(parts)})"
