"""What a reduction keeps while it runs: the value so far, for argmax and argmin also where it was.

The instructions for maxima that hand on NaN are slow, so vectors of floats use the quick ones, which pass over it, and
remember the lanes where it was seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sardonyx.code.folds import identity
from sardonyx.common import dtypes

from .. import vectors
from ..assembler import Expr, Variable, f32
from ..scalars import values
from ..scalars.values import Kind, kind
from ..vectors import Vector
from .scope import Scope

_COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}
_QUICK = {"max": "pmax", "min": "pmin"}
_FINDS = {"argmax": "max", "argmin": "min"}
_PLACE, _BOOL = kind("int32"), kind("bool")
_NOWHERE = 0x7FFFFFFF


class Accumulator:
    """One fold in locals: a scalar, or a vector with a result, or a part of one, in each lane."""

    def __init__(self, scope: Scope, function: str, dtype: str, vector: bool) -> None:
        self.scope, self.function, self.dtype, self.kind, self.vector = scope, function, dtype, kind(dtype), vector
        self.finds = function in _FINDS
        self.quick = vector and function in _QUICK and self.kind.type is f32
        self.value = self._start(self.kind, identity_of(function, dtype))
        self.place = self._start(_PLACE, _NOWHERE) if self.finds else ()
        self.nan = self._start(_BOOL, 0) if self.quick else ()

    def another(self) -> Accumulator:
        """A new one of the same fold."""
        return Accumulator(self.scope, self.function, self.dtype, self.vector)

    def _start(self, k: Kind, number: float | str) -> tuple[Variable, ...]:
        f = self.scope.f
        return tuple(f.local(part.type, init=part) for part in self.literal(k, number))

    def literal(self, k: Kind, number: float | str) -> Vector:
        """A number as this accumulator's elements are held."""
        value = values.literal(k, number)
        return vectors.splat(k, value) if self.vector else (value,)

    def add(self, element: Vector, place: Vector = ()) -> None:
        """Take in one more element (per lane), which comes after those before."""
        call, scope = self.scope.call, self.scope
        if self.quick:
            (x,) = vectors.let(scope, element)
            scope.assign(self.value, (getattr(x.type, _QUICK[self.function])(*self.value, x),))
            scope.assign(self.nan, (self.nan[0] | (x != x),))
        elif self.finds:
            element = tuple(scope.let(part) for part in element)
            better = (scope.let(*self._better(element)),)
            scope.assign(self.value, call("where", self.kind, [better, element, self.value]))
            scope.assign(self.place, call("where", _PLACE, [better, place, self.place]))
        else:
            scope.assign(self.value, call(_COMBINE[self.function], self.kind, [self.value, element]))

    def _better(self, element: Vector) -> Vector:
        """Whether an element wins over those before."""
        call, k = self.scope.call, self.kind
        better = call("gt" if self.function == "argmax" else "lt", k, [element, self.value])
        if k.family != "float":
            return better
        is_number = call("not", _BOOL, [call("isnan", k, [self.value])])
        return call("or", _BOOL, [better, call("and", _BOOL, [call("isnan", k, [element]), is_number])])

    def result(self) -> Vector:
        """The value of the fold, or the place that it found: 0 where no element beats the identity."""
        call = self.scope.call
        if self.quick:
            return call("where", self.kind, [self.nan, self.literal(self.kind, "nan"), self.value])
        if not self.finds:
            return self.value
        is_set = call("ne", _PLACE, [self.place, self.literal(_PLACE, _NOWHERE)])
        return call("where", _PLACE, [is_set, self.place, self.literal(_PLACE, 0)])

    def found(self) -> Expr:
        """Of lanes that are parts of one result the place of the best, of equals the first."""
        scope, call, k = self.scope, self.scope.call, self.kind
        best = vectors.splat(k, scope.let(vectors.horizontal(scope, _FINDS[self.function], k, self.value)))
        equal = call("eq", k, [self.value, best])
        if k.family == "float":
            equal = call("or", _BOOL, [equal, call("isnan", k, [self.value])])
        places = call("where", _PLACE, [equal, self.place, self.literal(_PLACE, _NOWHERE)])
        first = scope.let(vectors.horizontal(scope, "min", _PLACE, places))
        return scope.select(first != _NOWHERE, first, 0)


def identity_of(function: str, dtype: str) -> float | str:
    """The identity of a fold, as constants of kernels write it."""
    number = identity(_FINDS.get(function, function), dtypes.by_name(dtype))
    return number if number - number == 0 else str(number)


def rotate(accumulators: Sequence[Accumulator]) -> None:
    """Let each be what the next one is: what is added to the first goes to another one every time."""
    scope = accumulators[0].scope
    state = [one.value + one.nan for one in accumulators]
    first = tuple(scope.f.let(part) for part in state[0])
    for one, following in pairwise(state):
        scope.assign(one, following)
    scope.assign(state[-1], first)


def together(accumulators: Sequence[Accumulator]) -> Expr:
    """The result of vectors whose lanes are parts of it."""
    first = accumulators[0]
    scope = first.scope
    if first.finds:
        return first.found()
    parts = [vectors.let(scope, one.result()) for one in accumulators]
    while len(parts) > 1:
        half = len(parts) // 2
        pairs = zip(parts[:half], parts[half:], strict=True)
        parts = [scope.call(_COMBINE[first.function], first.kind, list(pair)) for pair in pairs]
    return scope.let(vectors.horizontal(scope, first.function, first.kind, parts[0]))
