"""Integers that floats hold: what a kernel rounds, narrows to an integer and widens again stays a float.

Quantizing rounds, moves by a zero point, bounds, and converts; dequantizing converts back and moves back. Where one
kernel does both, the conversions are for nothing, and both moves are one with the bounds.

    cast(float32, cast(uint8, y)) -> y
    cast(float32, cast(int32, cast(uint8, min(max(r + z, 0), 255))) - z) -> min(max(r, -z), 255 - z)

`y` and `r` are whole numbers, and `y` within the bounds of the integers; what is read from memory is whole where what
made it rounded it. A NaN, which no integer holds, stays one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any, Protocol, TypeAlias

from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.primitives.array import Array

EXACT = float(1 << 24)
"""Whole numbers up to here are float32."""
DEEPEST = 16
"""Nodes that are gone back at most."""
LOOKED_AT = 1 << 16
"""Elements of a constant up to which its least and greatest are looked for."""
Span: TypeAlias = tuple[float, float]

_MOVES = frozenset({"reshape", "transpose", "broadcast", "slice", "flip"})
_ROUNDED = frozenset({"round", "floor", "ceil", "trunc"})
_MEETS: dict[str, Callable[[Span, Span], Span]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "sub": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "mul": lambda x, y: _ends([a * b for a in x for b in y]),
    "max": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "min": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
}


class Nodes(Protocol):
    """What this module needs of a KernelBuilder."""

    nodes: list[tuple[str, str, tuple[int, ...], Any]]
    reads: list[Array]

    def cast(self, node: int, dtype: DType) -> int: ...

    def const(self, value: Any, dtype: DType) -> int: ...

    def call(self, function: str, *operands: int) -> int: ...


def as_float(b: Nodes, node: int) -> int | None:
    """A node of float32 that has the numbers of this one, an integer made of such; None where there is none."""
    found = _Search(b).float_of(node, DEEPEST)
    return None if found is None or b.nodes[found][0] == "const" else found


def moved(b: Nodes, function: str, one: int, other: int) -> int | None:
    """A sum or difference of float32 with fewer steps: of whole numbers that are bounded, and a whole number.

    min(max(r + z, low), high) - z -> min(max(r, low - z), high - z)
    """
    if function not in ("add", "sub") or b.nodes[one][1] != "float32" or b.nodes[other][0] != "const":
        return None
    inner, numbers = one, [float(b.nodes[other][3])]
    for name in ("min", "max"):
        found = _with_number(b, inner, name)
        if found is None:
            return None
        inner = found[0]
        numbers.append(found[1])
    if not all(number.is_integer() for number in numbers) or _Search(b).span(inner, DEEPEST) is None:
        return None
    return _moved(b, function, one, other)


class _Search:
    """What is found of the nodes on the way back from one of them; each is looked at once."""

    def __init__(self, b: Nodes) -> None:
        self._b = b
        self._spans: dict[int, Span | None] = {}
        self._floats: dict[int, int | None] = {}
        self._arrays: dict[Array, Span | None] = {}

    def float_of(self, node: int, depth: int) -> int | None:
        """A node of float32 with the numbers of an integer."""
        if node not in self._floats:
            self._floats[node] = self._float_of(node, depth)
        return self._floats[node]

    def _float_of(self, node: int, depth: int) -> int | None:
        b = self._b
        function, name, operands, detail = b.nodes[node]
        dtype = dtypes.by_name(name)
        if dtype.kind not in ("int", "uint") or dtype.bits > 32 or not depth:
            return None
        if function == "const":
            return b.const(float(detail), dtypes.float32) if abs(detail) <= EXACT else None
        if function == "cast":
            (source,) = operands
            span = self.span(source, depth)
            if span is None or not _holds(dtype, span):
                return None
            return source if b.nodes[source][1] == "float32" else self.float_of(source, depth - 1)
        span = self.span(node, depth)
        if span is None or max(map(abs, span)) > EXACT:
            return None
        if function == "load":
            return b.cast(node, dtypes.float32)
        if function not in ("add", "sub", "mul"):
            return None
        one = self.float_of(operands[0], depth - 1)
        other = None if one is None else self.float_of(operands[1], depth - 1)
        if one is None or other is None:
            return None
        return b.call(function, one, other) if function == "mul" else _moved(b, function, one, other)

    def span(self, node: int, depth: int) -> Span | None:
        """The least and greatest number that a node may have, if all of them are whole."""
        if node not in self._spans:
            self._spans[node] = self._span(node, depth)
        return self._spans[node]

    def _span(self, node: int, depth: int) -> Span | None:
        function, name, operands, detail = self._b.nodes[node]
        dtype = dtypes.by_name(name)
        widest = _widest(dtype)
        if not depth:
            return widest
        found: Span | None = None
        if function == "const":
            found = _number(detail)
        elif function == "load":
            found = self._read(self._b.reads[detail[0]], depth)
        elif function in _ROUNDED:
            found = (-inf, inf)
        elif function == "cast":
            found = self.span(operands[0], depth - 1)
        elif function in _MEETS:
            one = self.span(operands[0], depth - 1)
            other = None if one is None else self.span(operands[1], depth - 1)
            found = None if one is None or other is None else _MEETS[function](one, other)
        if widest is None:
            return found
        return found if found is not None and _holds(dtype, found) else widest

    def _read(self, array: Array, depth: int) -> Span | None:
        """The bounds of an Array that is read: of a small constant of integers, or of what floats were rounded to."""
        if array not in self._arrays:
            self._arrays[array] = self._span_of(array, depth)
        return self._arrays[array]

    def _span_of(self, array: Array, depth: int) -> Span | None:
        if array.dtype.is_int:
            known = array.value is not None and array.value.size <= LOOKED_AT
            if not known:
                return None
            from sardonyx.compiler.legalization.ranges import bounds  # which few models need

            return bounds(array)
        if array.dtype.kind != "float" or not array.dtype.is_native:
            return None
        if array.value is not None:
            return _number(array.value) if array.value.size == 1 else None
        if array.equation is None or not depth:
            return None
        inputs = array.equation.inputs
        name, function = array.equation.primitive.name, array.equation.params.get("function")
        if name in _MOVES:
            return self._read(inputs[0], depth - 1)
        if name != "elementwise" or function not in _MEETS:
            return (-inf, inf) if name == "elementwise" and function in _ROUNDED else None
        one = self._read(inputs[0], depth - 1)
        other = None if one is None else self._read(inputs[1], depth - 1)
        return None if one is None or other is None else _MEETS[function](one, other)


def _moved(b: Nodes, function: str, one: int, other: int) -> int:
    """A sum or difference of floats; if the first is bounded and the other a number, the bounds are moved."""
    if b.nodes[other][0] != "const":
        return b.call(function, one, other)
    by = float(b.nodes[other][3]) * (1 if function == "add" else -1)
    inner, limits = one, []
    for name in ("min", "max"):
        found = _with_number(b, inner, name)
        if found is None:
            return b.call(function, one, other)
        inner, limit = found
        limits.append(limit)
    found = _with_number(b, inner, "add")
    inner, by_before = found or (inner, 0.0)
    total = by_before + by
    moved = b.call("add", inner, b.const(total, dtypes.float32)) if total else inner
    high, low = (b.const(limit + by, dtypes.float32) for limit in limits)
    return b.call("min", b.call("max", moved, low), high)


def _with_number(b: Nodes, node: int, name: str) -> tuple[int, float] | None:
    """The operand of a node of this function whose other operand is a finite number, and that."""
    function, _, operands, _ = b.nodes[node]
    if function != name or b.nodes[operands[1]][0] != "const":
        return None
    number = float(b.nodes[operands[1]][3])
    return (operands[0], number) if abs(number) <= EXACT else None


def _ends(numbers: Sequence[float]) -> Span:
    return min(numbers), max(numbers)


def _number(detail: Any) -> Span | None:
    """A constant, if it is a whole number."""
    value = float(detail)
    return (value, value) if value == value and abs(value) != inf and value == int(value) else None


def _widest(dtype: DType) -> Span | None:
    """The bounds of an integer type; None for others."""
    if dtype.kind == "int":
        return -float(1 << (dtype.bits - 1)), float((1 << (dtype.bits - 1)) - 1)
    return (0.0, float((1 << dtype.bits) - 1)) if dtype.kind == "uint" else None


def _holds(dtype: DType, span: Span) -> bool:
    """Whether an integer type has these numbers, and float32 too."""
    widest = _widest(dtype)
    return widest is not None and widest[0] <= span[0] and span[1] <= widest[1] and max(map(abs, span)) <= EXACT
