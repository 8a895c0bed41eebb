"""Size expressions of a plan, compiled to one Python function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx.common.cached import cached_property
from sardonyx.sizes.expression import evaluate

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


class Values:
    """The values of many expressions, few of which differ: each different one is computed once.

    >>> values = Values(["s", 7, ["*", 2, "s"], 7, "s"])
    >>> values.distinct({"s": 3}), values.places
    ((3, 7, 6), [0, 1, 2, 1, 0])
    """

    def __init__(self, expressions: Iterable[Any]) -> None:
        numbered: dict[Any, int] = {}
        texts: dict[int, str] = {}
        different: list[Any] = []
        self.places: list[int] = []
        """For each expression, which of the different ones it is."""
        for expression in expressions:
            key = expression
            if isinstance(expression, list):  # lists stand in several
                key = texts.get(id(expression)) or texts.setdefault(id(expression), repr(expression))
            place = numbered.setdefault(key, len(different))
            if place == len(different):
                different.append(expression)
            self.places.append(place)
        self.distinct = compile_all(different)
        """Gives the values of the different ones."""

    def array(self, distinct: Sequence[int]) -> np.ndarray | None:
        """The values of all expressions, of those of the different ones; None where 64 bits are too few."""
        try:
            found: np.ndarray = np.array(distinct, np.int64)[self._places]
        except OverflowError:
            return None
        return found

    @cached_property
    def _places(self) -> np.ndarray:
        return np.array(self.places, np.int64)


class Fit:
    """Whether tensors of some shapes are what a plan is for, and what its symbols then are.

    `ports` are the shapes that it is for, over no other symbols; `symbols` says for each where it stands: number and
    axis; `guards` that speak of others are left out.
    """

    def __init__(
        self,
        ports: Sequence[Sequence[Any]],
        symbols: Mapping[str, Sequence[Sequence[int]]],
        guards: Iterable[Sequence[Any]],
    ) -> None:
        self._ports = ports
        self._places = symbols
        self._guards = [guard for guard in guards if symbols_of(guard[0]) <= symbols.keys()]
        self._asked = False

    def __call__(self, shapes: Sequence[tuple[int, ...]]) -> dict[str, int] | None:
        """The symbols, in the order of the plan; None where the plan is not for these shapes."""
        if self._asked:
            return self._compiled(shapes)
        self._asked = True  # most plans are asked once, and a walk is less work than to compile
        return self._walk(shapes)

    def _walk(self, shapes: Sequence[tuple[int, ...]]) -> dict[str, int] | None:
        symbols = {}
        for name, places in self._places.items():
            sizes = {shapes[k][axis] for k, axis in places if axis < len(shapes[k])}
            if len(sizes) != 1:
                return None
            symbols[name] = sizes.pop()
        computed: dict[int, int] = {}
        for port, shape in zip(self._ports, shapes, strict=True):
            if tuple([evaluate(size, symbols, computed) for size in port]) != shape:
                return None
        return None if self.broken(symbols) else symbols

    def broken(self, symbols: Mapping[str, int]) -> Sequence[Any] | None:
        """The first guard that does not hold for these numbers of symbols."""
        for guard in self._guards:
            value = evaluate(guard[0], symbols)
            if (value == 0 if guard[1] == "==" else value >= 0) != guard[2]:
                return guard
        return None

    @cached_property
    def _compiled(self) -> Callable[[Sequence[tuple[int, ...]]], dict[str, int] | None]:
        names = {symbol: f"x{k}" for k, symbol in enumerate(self._places)}
        lines = ["def fit(shapes):"]
        tests = []
        for symbol, places in self._places.items():
            known = [(k, axis) for k, axis in places if axis < len(self._ports[k])]
            if not known:
                return lambda shapes: None
            k, axis = known[0]
            lines += [f"    shape = shapes[{k}]", f"    if len(shape) != {len(self._ports[k])}: return None"]
            lines.append(f"    {names[symbol]} = shape[{axis}]")
            stray = [(k, axis) for k, axis in known if self._ports[k][axis] != symbol]
            tests += [f"shapes[{k}][{axis}] == {names[symbol]}" for k, axis in stray]
        for expression, relation, truth in self._guards:  # they cost less than shapes
            test = f"{_rename(expression, names)} {'==' if relation == '==' else '>='} 0"
            lines.append(f"    if {'not ' if truth else ''}({test}): return None")
        wanted: dict[str, str] = {}
        ports = ["(" + "".join([f"{_rename(size, names)}, " for size in port]) + ")" for port in self._ports]
        for text in ports:
            if text not in wanted:
                wanted[text] = f"p{len(wanted)}"
                lines.append(f"    {wanted[text]} = {text}")
        lines.append(f"    if shapes != [{', '.join([wanted[text] for text in ports])}]: return None")
        lines += [f"    if not ({test}): return None" for test in tests]
        lines.append(f"    return {{{', '.join([f'{symbol!r}: {name}' for symbol, name in names.items()])}}}")
        scope: dict[str, Any] = {"div": _divide, "mod": _remainder}
        exec("\n".join(lines), scope)
        fit: Callable[[Sequence[tuple[int, ...]]], dict[str, int] | None] = scope["fit"]
        return fit


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
