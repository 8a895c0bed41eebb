"""SIMD code for kernels, whatever was fused: which axis becomes lanes, the loops around, reductions, transposition.

Code for one primitive belongs in `routines`, scalar functions in `scalars` and `vectors`.
"""

from __future__ import annotations

from typing import Any

from sardonyx.code.kernel import Kernel

from ..assembler import Function, Operand, ValueType, i32
from ..code import Code, Unit, signature
from .border import Interior, interior
from .elementwise import write_elementwise
from .fold import write_fold
from .graph import Graph, Size
from .loops import Loops, divided, divides_second
from .scope import expr, minus, plus
from .strategy import LANES, Strategy, choose

_ALIGN = 4 * LANES


def write(unit: Unit, kernel: Kernel) -> Code:
    """The code of a kernel; a unit is a step along the first axis of its space, or all of it if there is none.

    Where threads share it and the first axis has one place, it may be a step along the second.
    """
    graph = Graph(kernel)
    strategy = choose(graph, unit.target)
    second = "threads" in unit.features and divides_second(graph, strategy)
    inside = _inside(unit, graph, strategy)
    params = signature(len(kernel.reads + kernel.writes), kernel.params)
    if inside is None:
        with unit.module.function(kernel.name, params) as f, f.if_(f.begin < f.end):
            body = Loops(unit, f, graph, strategy, second)
            (write_fold if kernel.folds else write_elementwise)(body)
    else:
        f = _in_parts(unit, graph, second, inside, params)
    if not kernel.space:
        return Code(f)
    align = _ALIGN if 0 in (strategy.lanes, strategy.across) else 1
    if not second:
        return Code(f, kernel.space[0], align)
    rows, columns = (["param", "int32", int(size[1:])] for size in kernel.space[:2])
    others = _ALIGN if 1 in (strategy.lanes, strategy.across) else 1
    return Code(f, _where_one(rows, columns, rows), align if others == align else _where_one(rows, others, align))


def _where_one(size: Any, yes: Any, no: Any) -> Any:
    """One of two expressions or numbers, by whether a size is 1."""
    one, *both = (["const", "int32", value] if isinstance(value, int) else value for value in (1, yes, no))
    return ["where", "int32", ["eq", "bool", size, one], *both]


def _inside(unit: Unit, graph: Graph, strategy: Strategy) -> Interior | None:
    """The kernel inside of its border along the lanes, or along an axis whose loads can be transposed there."""
    kernel, lanes = graph.kernel, strategy.lanes
    if kernel.folds or lanes is None:
        return None
    if (inside := interior(kernel, lanes)) or strategy.across is not None:
        return inside
    interiors = (interior(kernel, axis) for axis in range(graph.rank) if axis != lanes)
    return next((one for one in interiors if one and choose(Graph(one.kernel), unit.target).across == one.axis), None)


def _in_parts(unit: Unit, graph: Graph, second: bool, inside: Interior, params: dict[str, ValueType]) -> Function:
    """The border before, what is inside of it, and the border behind."""
    kernel = graph.kernel
    parts = []
    for some in (graph, Graph(inside.kernel)):
        with unit.module.function(kernel.name, params | {"first": i32, "last": i32}) as f, f.if_(f.begin < f.end):
            write_elementwise(Loops(unit, f, some, choose(some, unit.target), second, (inside.axis, f.first, f.last)))
        parts.append(f)
    with unit.module.function(kernel.name, params) as f:
        sizes = f.params[3 + len(kernel.reads + kernel.writes) :]

        def size(value: Size) -> Operand:
            return sizes[int(value[1:])] if isinstance(value, str) else value

        extents = [size(extent) for extent in graph.extents]
        spans = divided(f, extents, second)
        start, stop = spans[inside.axis] if inside.axis < len(spans) else (i32.const(0), expr(extents[inside.axis]))
        first, last = f.local(i32, init=start), f.local(i32, init=stop)
        for bound in inside.first:
            place = f.let(expr(plus(minus(size(bound.size), size(bound.offset)), bound.more)))
            f.set(first, f.select(place > first, place, first))
        for bound in inside.last:
            place = f.let(expr(plus(minus(size(bound.size), size(bound.offset)), bound.more)))
            f.set(last, f.select(place < last, place, last))
        f.set(first, f.select(first < stop, first, stop))
        f.set(last, f.select(last > first, last, first))
        for part, low, high in ((parts[0], start, first), (parts[1], first, last), (parts[0], last, stop)):
            with f.if_(low < high):
                f.call(part, *f.params, low, high)
    return f
