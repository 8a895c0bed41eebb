"""Primitives that are no kernels, as programs that every generated backend can run: naive, sequential, right."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sardonyx.array import Array, Equation
from sardonyx.compiler.program import Builder, Program, Value, call, cast, const
from sardonyx.polynomial import Poly
from sardonyx.primitives.reduction import identity
from sardonyx.symbolic import Size, poly, product

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
    return [array.dtype.name for array in arrays]


def _start(equation: Equation) -> tuple[Builder, _Sizes]:
    b = Builder(_names(equation.inputs), _names(equation.outputs))
    return b, _Sizes(b)


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
    """Copy, then write update after update, in order."""
    x, _, *indices = e.inputs
    axes, reduction = e.params["axes"], e.params["reduction"]
    b, size = _start(e)
    output = len(e.inputs)
    with b.loop(size(product(x.shape))) as k:
        b.store(output, k, b.load(0, k))
    kept = [axis for axis in range(x.rank) if axis not in axes]
    strides = [size(product(x.shape[axis + 1 :])) for axis in range(x.rank)]
    sizes = [size(item) for item in x.shape]
    inner = size(product([x.shape[axis] for axis in kept]))
    with b.loop(size(product(indices[0].shape))) as k:
        base = b.let(const("int32", 0))
        inside = b.let(const("bool", 1))
        for number, axis in enumerate(axes):
            index = b.let(cast("int32", b.load(2 + number, k)))
            b.set(inside, inside & (index >= 0) & (index < sizes[axis]))
            b.set(base, base + index * strides[axis])
        with b.if_(inside), b.loop(inner) as position:
            at, rest = b.let(base), b.let(position)
            for axis in reversed(kept):
                b.set(at, at + (rest % sizes[axis]) * strides[axis])
                b.set(rest, rest // sizes[axis])
            value = b.load(1, k * inner + position)
            if reduction != "none":
                value = call(reduction, b.load(output, at), value)
            b.store(output, at, value)
    return b.program("scatter"), size.polys


ROUTINES: dict[str, Callable[[Equation], Routine]] = {
    "cumulative": cumulative,
    "sort": sort,
    "nonzero": nonzero,
    "scatter": scatter,
}
