"""Primitives that are no kernels, as programs that every generated backend can run: naive, sequential, right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial, reduce
from math import inf

from sardonyx.code.folds import identity
from sardonyx.code.program import Builder, Program, Value, call, cast, const
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.indexing import counts_along
from sardonyx.primitives.pairwise_coupling import MOST_ROUNDS, tolerance
from sardonyx.sizes.polynomial import Poly
from sardonyx.sizes.symbolic import Size, poly, product, same

Routine = tuple[Program, list[Poly]]


class _Sizes:
    """Parameters of a program, made as they are asked for."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.polys: list[Poly] = []

    def __call__(self, size: Size) -> Value:
        self.polys.append(poly(size))
        return self.builder.param()


def _names(arrays: Sequence[Array]) -> list[str]:
    return [array.dtype.lowered.name for array in arrays]


def _start(equation: Equation) -> tuple[Builder, _Sizes]:
    b = Builder(_names(operands(equation)), _names(equation.outputs))
    return b, _Sizes(b)


def operands(equation: Equation) -> Sequence[Array]:
    """What a routine reads besides its outputs: one that changes a copy of its first input finds it in the output."""
    return equation.inputs[equation.primitive.name in IN_PLACE :]


def _rows(b: Builder, size: _Sizes, shape: Sequence[Size], axis: int) -> tuple[Value, Value, list[Value]]:
    """One run per line along an axis: the line's first element, the step along it, and the grid."""
    outer, length, inner = size(product(shape[:axis])), size(shape[axis]), size(product(shape[axis + 1 :]))
    first = b.let(b.grid(0) * (length * inner) + b.grid(1))
    return first, inner, [outer, inner]


def cumulative(e: Equation) -> Routine:
    """Running sum or product along an axis."""
    (x,) = e.inputs
    b, size = _start(e)
    length = size(x.shape[e.params["axis"]])
    first, step, grid = _rows(b, size, x.shape, e.params["axis"])
    total = b.let(const(x.dtype.name, identity(e.params["function"], x.dtype)))
    combine = {"sum": "add", "prod": "mul"}[e.params["function"]]
    with b.loop(length) as k:
        at = b.let(first + (length - 1 - k if e.params["reverse"] else k) * step)
        if e.params["exclusive"]:
            b.store(1, at, total)
        b.set(total, call(combine, total, b.load(0, at)))
        if not e.params["exclusive"]:
            b.store(1, at, total)
    return b.program("cumulative", grid), size.polys


def coupling(e: Equation) -> Routine:
    """Round after round for every row, until its slopes are equal."""
    (q,) = e.inputs
    b, size = _start(e)
    rows, count = size(q.shape[0]), size(q.shape[1])
    number = partial(const, q.dtype.name)
    first = b.let(b.grid(0) * count)

    def slope(k: Value) -> Value:
        total = b.let(number(0))
        with b.loop(count) as j:
            b.set(total, total + b.load(0, (first + k) * count + j) * b.load(1, first + j))
        return total

    with b.loop(count) as k:
        b.store(1, first + k, number(1) / cast(q.dtype.name, count))
    turn, turns = b.let(const("int32", 0)), const("int32", MOST_ROUNDS)
    with b.while_(turn < turns):
        level, low, high = b.let(number(0)), b.let(number(inf)), b.let(number(-inf))
        with b.loop(count) as k:
            found = slope(k)
            b.set(level, level + b.load(1, first + k) * found)
            b.set(low, call("min", low, found))
            b.set(high, call("max", high, found))
        b.set(turn, turn + 1)
        error = call("max", high - level, level - low)
        with b.if_(~(error >= number(tolerance(1)) / cast(q.dtype.name, count))):
            b.set(turn, turns)
        with b.else_(), b.loop(count) as k:
            own, found = b.let(b.load(0, (first + k) * count + k)), slope(k)
            step = b.let((level - found) / own)
            scale = b.let(1 + step)
            b.set(level, (level + step * (step * own + 2 * found)) / scale / scale)
            b.store(1, first + k, b.load(1, first + k) + step)
            with b.loop(count) as j:
                b.store(1, first + j, b.load(1, first + j) / scale)
    return b.program("coupling", [rows]), size.polys


def sort(e: Equation) -> Routine:
    """Insertion sort of every line; NaN counts as the largest value."""
    (x,) = e.inputs
    b, size = _start(e)
    length = size(x.shape[e.params["axis"]])
    first, step, grid = _rows(b, size, x.shape, e.params["axis"])
    with b.loop(length) as k:
        value = b.let(b.load(0, first + k * step))
        place = b.let(k)
        going = b.let(const("bool", 1))
        with b.while_(going & (place > 0)):
            before = b.let(b.load(1, first + (place - 1) * step))
            low, high = (before, value) if e.params["descending"] else (value, before)
            moves = low < high
            if x.dtype.is_float:
                moves = moves | (call("isnan", high) & ~call("isnan", low))
            with b.if_(moves):
                b.store(1, first + place * step, before)
                b.store(2, first + place * step, b.load(2, first + (place - 1) * step))
                b.set(place, place - 1)
            with b.else_():
                b.set(going, const("bool", 0))
        b.store(1, first + place * step, value)
        b.store(2, first + place * step, cast("int64", k))
    return b.program("sort", grid), size.polys


def nonzero(e: Equation) -> Routine:
    """Count, then write the coordinates: the buffer has room for all elements, the result is compact."""
    (x,) = e.inputs
    b, size = _start(e)
    count = b.let(const("int32", 0))
    total = size(product(x.shape))
    zero = const(x.dtype.name, 0)
    with b.loop(total) as k, b.if_(call("ne", b.load(0, k), zero)):
        b.set(count, count + 1)
    b.store(1, const("int32", 0), cast("int64", count))
    found = b.let(const("int32", 0))
    sizes = [size(item) for item in x.shape]
    with b.loop(total) as k, b.if_(call("ne", b.load(0, k), zero)):
        rest = b.let(k)
        for axis in range(x.rank - 1, -1, -1):
            b.store(2, count * axis + found, cast("int64", rest % sizes[axis]))
            if axis:
                b.set(rest, rest // sizes[axis])
        b.set(found, found + 1)
    return b.program("nonzero"), size.polys


def scatter(e: Equation) -> Routine:
    """Write update after update, in order: one run for all those that may meet.

    Updates stay where they are along axes that are not indexed, and along those that count an axis of the indices.
    """
    x, _, *indices = e.inputs
    shape = indices[0].shape
    buffers = {axis: number for number, axis in enumerate(e.params["axes"], 1)}
    lines = {
        axis: line for axis, index in zip(buffers, indices, strict=True) if (line := counts_along(index)) is not None
    }
    own = {line: axis for axis, line in lines.items()}
    kept = [axis for axis in range(x.rank) if axis not in buffers]
    fixed = sorted([*kept, *own.values()])
    named = [axis for axis in buffers if axis not in fixed]

    b, size = _start(e)
    output = 1 + len(indices)
    sizes, counts = [size(n) for n in x.shape], [size(n) for n in shape]
    places = {axis: b.grid(k) for k, axis in enumerate(fixed)}
    beyond = [axis for line, axis in own.items() if not same(x.shape[axis], shape[line])]
    with (
        _if_all(b, [places[axis] < counts[lines[axis]] for axis in beyond]),
        _nest(b, [count for k, count in enumerate(counts) if k not in own]) as turns,
    ):
        rest = iter(turns)
        update = b.let(_flat([places[own[k]] if k in own else next(rest) for k in range(len(shape))], counts))
        found = {axis: b.let(cast("int32", b.load(buffers[axis], update))) for axis in named}
        with _if_all(b, [(k >= 0) & (k < sizes[axis]) for axis, k in found.items()]):
            target = b.let(_flat([(places | found)[axis] for axis in range(x.rank)], sizes))
            value = b.load(
                0, _flat([update, *(places[axis] for axis in kept)], [update, *(sizes[axis] for axis in kept)])
            )
            if e.params["reduction"] != "none":
                value = call(e.params["reduction"], b.load(output, target), value)
            b.store(output, target, value)
    return b.program("scatter", [sizes[axis] for axis in fixed]), size.polys


def _flat(places: Sequence[Value], sizes: Sequence[Value]) -> Value:
    """The row-major position of a place; the first size does not matter."""
    first, *others = places or [const("int32", 0)]
    return reduce(lambda flat, step: flat * step[0] + step[1], zip(sizes[1:], others, strict=True), first)


@contextmanager
def _if_all(b: Builder, conditions: Sequence[Value]) -> Iterator[None]:
    with b.if_(reduce(Value.__and__, conditions)) if conditions else nullcontext():
        yield


@contextmanager
def _nest(b: Builder, counts: Sequence[Value]) -> Iterator[list[Value]]:
    """Loops in one another, the last one innermost; gives their indices."""
    with ExitStack() as stack:
        yield [stack.enter_context(b.loop(count)) for count in counts]


ROUTINES: dict[str, Callable[[Equation], Routine]] = {
    "coupling": coupling,
    "cumulative": cumulative,
    "sort": sort,
    "nonzero": nonzero,
    "scatter": scatter,
}
IN_PLACE = frozenset({"scatter"})
"""Routines whose output holds a copy of the first input when they start."""
