"""What values integers can have, as far as their types and where they come from tell.

A primitive of a provider may have a method `bounds` that tells those of an equation's result, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import prod
from typing import TypeAlias

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.evaluation import columns_of

Range: TypeAlias = tuple[int, int]

DEEPEST = 12
"""Equations that `bounds` goes back at most."""

_MOVES = frozenset({"reshape", "transpose", "broadcast", "slice", "flip", "gather"})
_NARROW = frozenset({"int", "uint", "bool"})
_CLOSE = 1 << 22
_BLOCK = 1 << 18  # elements that are summed in one go


def _masked(x: Range, y: Range) -> Range | None:
    """Of x & y: at most what is not negative."""
    tops = [high for low, high in (x, y) if low >= 0]
    return (0, min(tops)) if tops else None


_ARITHMETIC: dict[str, Callable[[Range, Range], Range | None]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "sub": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "and": _masked,
}


def bounds(x: Array, depth: int = DEEPEST) -> Range:
    """The least and greatest value that an integer Array may have, as far as its type and origin tell."""
    dtype = x.dtype
    signed = dtype.kind == "int"
    bits = 1 if dtype is dtypes.bool_ else dtype.bits
    widest = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    if x.value is not None and dtype.is_native:
        return (int(x.value.min()), int(x.value.max())) if x.value.size else (0, 0)
    found = widest if x.equation is None or not depth else _origin(x.equation, depth - 1) or widest
    return found if widest[0] <= found[0] and found[1] <= widest[1] else widest


def _origin(equation: Equation, depth: int) -> Range | None:
    """The range of what an equation gives before it is wrapped to its type, if that is known."""
    name, inputs = equation.primitive.name, equation.inputs
    if name in _MOVES or (name == "cast" and inputs[0].dtype.kind in _NARROW):
        return bounds(inputs[0], depth)
    if name == "cast":
        return integers(inputs[0], depth)
    told: Callable[[Equation], Range | None] | None = getattr(equation.primitive, "bounds", None)
    if told is not None:
        return told(equation)
    if name in ("pad", "concat"):
        ranges = [bounds(x, depth) for x in inputs]
        ranges += [(int(equation.params["value"]),) * 2] if name == "pad" else []
        return min(low for low, _ in ranges), max(high for _, high in ranges)
    if name == "bitcast" and inputs[0].dtype.kind == equation.outputs[0].dtype.kind:
        return bounds(inputs[0], depth)
    if name == "elementwise" and equation.params["function"] in _ARITHMETIC:
        return _ARITHMETIC[equation.params["function"]](*(bounds(x, depth) for x in inputs))
    return None


def integers(x: Array, depth: int = DEEPEST) -> Range | None:
    """The least and greatest value of an Array of integers, which may be stored as floats; None if it has others."""
    if x.dtype.kind in _NARROW:
        return bounds(x)
    if x.value is not None:
        return (int(x.value.min()), int(x.value.max())) if x.dtype.is_native and _are_whole(x.value) else None
    if x.equation is None or not depth:
        return None
    name, function = x.equation.primitive.name, x.equation.params.get("function")
    if name == "cast" or name in _MOVES:
        return integers(x.equation.inputs[0], depth - 1)
    if function not in ("add", "sub") or (right := integers(x.equation.inputs[1], depth - 1)) is None:
        return None
    left = integers(x.equation.inputs[0], depth - 1)
    return None if left is None else _ARITHMETIC[function](left, right)


def _are_whole(values: np.ndarray) -> bool:
    """Whether floats are integers, of which there is one at least."""
    return values.size > 0 and all(bool((np.rint(x) == x).all()) for x in (values.reshape(-1)[:64], values))


def fits(numbers: Range, dtype: DType) -> bool:
    """Whether a type has these numbers.

    >>> fits((-128, 127), dtypes.int8), fits((-1, 255), dtypes.uint8)
    (True, False)
    """
    first = -(1 << (dtype.bits - 1)) if dtype.kind == "int" else 0
    return first <= numbers[0] and numbers[1] < first + (1 << dtype.bits)


def least(numbers: Range | None) -> DType | None:
    """The least type that has these numbers, of 16 bits at most.

    >>> least((0, 255)), least((-255, 255)), least((0, 1 << 16))
    (uint8, int16, None)
    """
    types = (dtypes.int8, dtypes.uint8, dtypes.int16)
    return None if numbers is None else next((dtype for dtype in types if fits(numbers, dtype)), None)


def largest_sum(x: Array, w: Array, axes: Collection[int]) -> int:
    """How large the sums of products of x and what lies along these axes of w can be, either way."""
    most = max(map(abs, bounds(x)))
    widest = most * prod(int(w.shape[axis]) for axis in axes) * max(map(abs, bounds(w)))
    if widest < _CLOSE or (read := columns_of(uncast(w))) is None:
        return widest
    columns, along = int(w.shape[-1]), tuple(axis % w.rank for axis in axes)
    step = max(1, _BLOCK * columns // max(1, int(w.size)))
    parts = (read(begin, begin + step) for begin in range(0, columns, step))
    sums = [np.abs(x, dtype=np.result_type(x, np.int16)).sum(axis=along, dtype=np.int64) for x in parts]
    whole = sum(sums) if w.rank - 1 in along else np.concatenate(sums, axis=-1)
    return most * int(np.max(whole, initial=0))


def uncast(x: Array) -> Array:
    """The integers that an Array of integers was cast from."""
    while x.equation is not None and x.equation.primitive.name == "cast" and x.equation.inputs[0].dtype.is_int:
        x = x.equation.inputs[0]
    return x
