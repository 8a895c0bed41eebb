"""Turns of a loop that do not depend on one another, taken at once: their values lie along a new first axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sardonyx.common import dtypes
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.binding import bind, constant
from sardonyx.primitives.elementwise import iota
from sardonyx.primitives.movement import BROADCAST, broadcast_to, reshape, transpose
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.symbolic import Size, count

MOST = 1 << 24
"""Elements that all turns together may compute; more are computed turn by turn, in memory that stays in the cache."""


def batched(inner: Trace, start: Sequence[Array], turns: Size) -> list[Array] | None:
    """The results of a loop of `turns` turns from these carried values, recorded in the active trace without a loop.

    None where a turn needs another one's results, a primitive has no rule here, or all turns at once are too much.
    """
    last = 1 + len(start)
    is_unchanged = all(after is before for before, after in zip(inner.inputs[2:], inner.outputs[1:last]))
    if not is_unchanged or inner.fresh or inner.input_reads:
        return None
    equations = _needed(inner)
    varying = {inner.inputs[0]}
    work = 0
    for equation in equations:
        if not equation.primitive.pure or equation.bodies:
            return None
        if not varying.isdisjoint(equation.inputs):
            if equation.primitive.name not in RULES:
                return None
            varying.update(equation.outputs)
            work += sum(count(array.shape) for array in equation.outputs)
    if work * count((turns,)) > MOST:
        return None
    batch = _Batch(turns, varying)
    batch.arrays[inner.inputs[0]] = iota([turns], 0, dtypes.int64)
    batch.arrays[inner.inputs[1]] = constant(True)
    batch.arrays.update((array, initial) for array, initial in zip(inner.inputs[2:], start))
    batch.arrays.update((array, outer) for array, outer in inner.lifted.values())
    for equation in equations:
        batch.take(equation)
    return [*start, *map(batch.of_all, inner.outputs[last:])]


def _needed(inner: Trace) -> list[Equation]:
    needed = set(inner.outputs[1:])
    equations = []
    for equation in reversed(inner.equations):
        if not needed.isdisjoint(equation.outputs):
            needed.update(equation.inputs)
            equations.append(equation)
    return equations[::-1]


class _Batch:
    """The Arrays of a body for all turns: those in `varying` have the axis of the turns before their own axes."""

    def __init__(self, turns: Size, varying: set[Array]) -> None:
        self.turns = turns
        self.arrays: dict[Array, Array] = {}
        self._varying = varying

    def varies(self, array: Array) -> bool:
        return array in self._varying

    def here(self, array: Array) -> Array:
        return array if array.value is not None else self.arrays[array]

    def of_all(self, array: Array) -> Array:
        """The Array with the axis of the turns, broadcast along it if it does not vary."""
        here = self.here(array)
        return here if self.varies(array) else broadcast_to(here, (self.turns, *array.shape))

    def take(self, equation: Equation) -> None:
        if any(map(self.varies, equation.inputs)):
            results: Sequence[Array] = [RULES[equation.primitive.name](self, equation, **equation.params)]
        else:
            results = bind(equation.primitive, *map(self.here, equation.inputs), **equation.params)
        self.arrays.update((old, new) for old, new in zip(equation.outputs, results, strict=True))


def _to_front(x: Array, axis: int) -> Array:
    return transpose(x, [axis, *(k for k in range(x.rank) if k != axis)])


def _later(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(axis + 1 for axis in axes)


def _elementwise(b: _Batch, equation: Equation, **params: Any) -> Array:
    (output,) = equation.outputs
    operands = []
    for x in equation.inputs:
        ones = [1] * (output.rank - x.rank)
        operands.append(reshape(b.here(x), [b.turns, *ones, *x.shape]) if b.varies(x) else b.here(x))
    return bind(equation.primitive, *operands, **params)[0]


def _unary(b: _Batch, equation: Equation, **params: Any) -> Array:
    return bind(equation.primitive, b.here(equation.inputs[0]), **params)[0]


def _reshape(b: _Batch, equation: Equation, shape: Sequence[Size]) -> Array:
    return reshape(b.here(equation.inputs[0]), (b.turns, *shape))


def _transpose(b: _Batch, equation: Equation, perm: Sequence[int]) -> Array:
    return transpose(b.here(equation.inputs[0]), (0, *_later(perm)))


def _broadcast(b: _Batch, equation: Equation, shape: Sequence[Size], axes: Sequence[int]) -> Array:
    return bind(BROADCAST, b.here(equation.inputs[0]), shape=(b.turns, *shape), axes=(0, *_later(axes)))[0]


def _slice(b: _Batch, equation: Equation, starts: Any, steps: Any, sizes: Any) -> Array:
    return _unary(b, equation, starts=(0, *starts), steps=(1, *steps), sizes=(b.turns, *sizes))


def _pad(b: _Batch, equation: Equation, low: Any, high: Any, value: Any) -> Array:
    return _unary(b, equation, low=(0, *low), high=(0, *high), value=value)


def _concat(b: _Batch, equation: Equation, axis: int) -> Array:
    return bind(equation.primitive, *map(b.of_all, equation.inputs), axis=axis + 1)[0]


def _reduce(b: _Batch, equation: Equation, function: str, axes: Sequence[int]) -> Array:
    return _unary(b, equation, function=function, axes=_later(axes))


def _gather(b: _Batch, equation: Equation, axes: Sequence[int], place: int) -> Array:
    x, *indices = equation.inputs
    if not any(map(b.varies, indices)):
        return bind(equation.primitive, b.here(x), *map(b.here, indices), axes=_later(axes), place=place + 1)[0]
    taken = list(map(b.of_all, indices))
    if b.varies(x):
        taken = [iota(taken[0].shape, 0, dtypes.int64), *taken]
        axes = (0, *_later(axes))
    return _to_front(bind(equation.primitive, b.here(x), *taken, axes=tuple(axes), place=place)[0], place)


def _dot_general(b: _Batch, equation: Equation, contract: Any, batch: Any, dtype: Any) -> Array:
    x, y = equation.inputs
    left, right = b.varies(x), b.varies(y)
    sides = [
        (_later(contract[k]), _later(batch[k])) if varies else (contract[k], batch[k])
        for k, varies in ((0, left), (1, right))
    ]
    if left and right:
        sides = [(some, (0, *common)) for some, common in sides]
    (a, c), (d, e) = sides
    product = bind(equation.primitive, b.here(x), b.here(y), contract=(a, d), batch=(c, e), dtype=dtype)[0]
    if left and right:
        return product
    free = x.rank - len(contract[0]) - len(batch[0])
    return _to_front(product, len(batch[0]) + (0 if left else free))


RULES: dict[str, Callable[..., Array]] = {
    "elementwise": _elementwise,
    "cast": _unary,
    "bitcast": _unary,
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast": _broadcast,
    "slice": _slice,
    "pad": _pad,
    "concat": _concat,
    "reduce": _reduce,
    "gather": _gather,
    "dot_general": _dot_general,
}
"""How a primitive of which some operands vary from turn to turn is spelled for all turns."""
