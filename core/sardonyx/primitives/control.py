"""Control flow: `branch` and `loop`, whose bodies are traced into sub-plans.

A body is a Python function over Arrays. It is traced by itself, with the sizes of the outer trace, and may use Arrays
of the outer trace: those become inputs of the sub-plan. What shape a result has may depend on the run; such sizes are
new symbols of the outer trace, known when the step is done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from math import isqrt, prod
from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.errors import SardonyxError
from sardonyx.model.structure import fill, is_nested
from sardonyx.primitives.array import Array, Equation, Primitive, Shape, primitive
from sardonyx.primitives.batching import batched
from sardonyx.primitives.binding import constant
from sardonyx.primitives.body import Body, Outputs, active_hints
from sardonyx.primitives.elementwise import full, where
from sardonyx.primitives.evaluation import DEAR
from sardonyx.primitives.movement import concat, unsqueeze
from sardonyx.primitives.reading import known_sizes, read
from sardonyx.primitives.trace import Trace, active_trace
from sardonyx.sizes.polynomial import symbol
from sardonyx.sizes.symbolic import Dim, Size, hint, poly, same

MOST_TURNS = 5_000
"""Turns of a loop that are taken one by one while a plan is made."""
BRIEF = 1 << 21
"""Elements and multiplications that take less time than to leave a loop for a branch."""
MOST_AXES = 63
"""From which on one more is the last that NumPy holds."""


class Branch(Primitive):
    """Inputs: the condition, what both bodies use. Outputs: those of the body that was run."""

    name = "branch"
    pure = False
    on_strings = True


class Loop(Primitive):
    """Inputs: trips and condition where there are any, the carried values, what the body uses."""

    name = "loop"
    pure = False
    on_strings = True


BRANCH = primitive(Branch)
LOOP = primitive(Loop)


def branch(condition: Array, then: Callable[[], Outputs], other: Callable[[], Outputs]) -> list[Any]:
    """The results of `then()` if the condition, one bool, holds, else of `other()`.

    Where they differ in rank, or in how many tensors there are, or the data decide that, or one of them is not possible
    with these sizes, the condition is read on the host and chooses while the plan is made. So it does, once in a plan,
    where a body makes sense for some sizes alone, which do not bind the other one then.
    """
    if condition.dtype is not dtypes.bool_:
        raise ValueError(f"a condition is a bool, not {condition}")
    trace = active_trace()
    if condition.value is not None or trace is None:
        (chosen,) = known_sizes(condition)
        if trace is not None and trace.outer is None:
            trace.branched = len(trace.guards)
        return list(then() if chosen else other())
    bodies = [Body(then, [], trace), Body(other, [], trace)]
    try:
        traces = [body.trace() for body in bodies]
    except SardonyxError:
        return _taken(trace, condition, then, other)
    pairs = list(zip(traces[0].outputs, traces[1].outputs))
    unsettled = any(map(_follows_data, traces))
    alike = traces[0].results == traces[1].results and not (unsettled and any(map(is_nested, traces[0].results)))
    if not alike or any(a.rank != b.rank or a.dtype is not b.dtype for a, b in pairs):
        return _taken(trace, condition, then, other)
    if trace.outer is None and not trace.branched and any(_restricts(trace, inner) for inner in traces):
        return _taken(trace, condition, then, other)
    if not unsettled and _is_brief(trace, traces):
        return [where(condition, a, b) for a, b in zip(then(), other(), strict=True)]
    for inner in traces:
        _adopt_guards(trace, inner)
    captured = captured_by(bodies)
    types = [(a.dtype, _common_shape(trace, traces[0], a.shape, b.shape, unsettled)) for a, b in pairs]
    outputs = trace.append(BRANCH, (condition, *captured), {}, types)
    trace.equations[-1].bodies = tuple(zip(bodies, traces, strict=True))
    return list(fill(traces[0].results, iter(outputs)))


def _is_brief(trace: Trace, traces: Sequence[Trace]) -> bool:
    """Whether both bodies of a branch take less time than to choose one, where a loop does so in every turn.

    Its turns are then nothing that a device has to ask the host about.
    """
    place: Trace | None = trace
    while place is not None and not place.repeated:
        place = place.outer
    if place is None or trace.root.backward or any(map(is_nested, traces[0].results)):
        return False
    if any(inner.fresh or inner.reads for inner in traces):  # sizes that only one of them may have
        return False
    pairs = zip(traces[0].outputs, traces[1].outputs, strict=True)
    if not all(same(x, y) for a, b in pairs for x, y in zip(a.shape, b.shape, strict=True)):
        return False
    equations = [equation for inner in traces for equation in inner.equations]
    return all(map(_is_plain, equations)) and sum(map(_work, equations)) <= BRIEF


def _is_plain(equation: Equation) -> bool:
    """Whether it may be computed where nobody wants it."""
    name = equation.primitive.name
    return equation.primitive.pure and (name == "dot_general" or name not in DEAR)


def _work(equation: Equation) -> int:
    """About how many elements it reads or writes, or how many multiplications it has."""
    sizes = [hint(array.size) for array in (*equation.inputs, *equation.outputs)]
    return isqrt(prod(sizes)) if equation.primitive.name == "dot_general" else max(sizes, default=0)


def _taken(trace: Trace, condition: Array, then: Callable[[], Outputs], other: Callable[[], Outputs]) -> list[Any]:
    """The results of the body that the condition chooses, which is read on the host."""
    (chosen,) = read(trace, condition)
    taken = then if chosen == 1 else other
    if trace.outer is None:
        trace.branched = len(trace.guards)
    return list(taken())


def loop(
    trips: Array | None,
    condition: Array | None,
    carried: Sequence[Array],
    body: Callable[..., Outputs],
) -> list[Array]:
    """ONNX's Loop: `body(iteration, condition, *carried)` gives the condition, the carried values, and scan outputs.

    It runs while the condition holds, `trips` times at most; None is a condition that holds, and no bound. The results
    are the carried values after the last iteration, then the scan outputs of all iterations stacked along a new first
    axis.
    """
    if (trips is not None and not trips.dtype.is_int) or (
        condition is not None and condition.dtype is not dtypes.bool_
    ):
        raise ValueError(f"a loop takes integer trips and a bool, not {trips} and {condition}")
    trace = active_trace()
    if trace is None:
        return _run_now(trips, condition, carried, body)
    start = [trace.materialise(array) for array in carried]
    traced, inner, lasting = _trace_loop(trace, body, start)
    rows: list[list[Array]] = []
    likely = 4 * len(trace.guards.hints)  # grows with what earlier attempts at this run found
    while any(after.rank != before.rank for before, after in zip(start, inner.outputs[1:])):
        most = None if trips is None else known_sizes(trips)[0]
        if (most is not None and most <= len(rows)) or not (condition is None or holds(condition, len(rows) < likely)):
            scans = [_no_slices(trace, inner, array) for array in inner.outputs[1 + len(start) :]]
            return [*start, *_joined([*rows, scans])]
        if len(rows) == MOST_TURNS or any(array.rank == MOST_AXES for array in start):
            raise ValueError(
                f"a carried value still changes its rank after {len(rows):,} turns; let it have the same before and "
                f"after a turn, or end the loop before {MOST_TURNS:,} turns and {MOST_AXES} axes"
            )
        condition, *results = body(constant(np.int64(len(rows))), constant(True), *start)
        start = [trace.materialise(array) for array in results[: len(start)]]
        rows.append(results[len(start) :])
        traced, inner, lasting = _trace_loop(trace, partial(_later, body, len(rows)), start)
    if rows and trips is not None:
        trips = trips - len(rows)
    ends = _loop(trace, trips, condition, start, traced, inner, lasting)
    return [*ends[: len(start)], *_joined([*rows, ends[len(start) :]])]


def holds(condition: Array, likely: bool = False) -> bool:
    """Whether a condition holds in this run; `likely` is assumed where that is not known yet."""
    return bool(known_sizes(condition, guess=int(likely))[0] != 0)


def _later(body: Callable[..., Outputs], turns: int, number: Array, *carried: Array) -> Outputs:
    """The results of a body whose turns are counted from `turns` on."""
    return body(number + turns, *carried)


def _joined(rows: Sequence[Sequence[Array]]) -> list[Array]:
    """Scan outputs: slices of single turns, and behind them those of all that are left, stacked already."""
    *single, last = rows
    return [
        concat([*(unsqueeze(row[k], [0]) for row in single), stacked], 0) if single else stacked
        for k, stacked in enumerate(last)
    ]


def _no_slices(trace: Trace, inner: Trace, array: Array) -> Array:
    """The scan output of a loop without turns; sizes that only a turn determines are 0."""
    hints = trace.guards.hints
    return full((0, *(size if poly(size).symbols() <= hints.keys() else 0 for size in array.shape)), 0, array.dtype)


def _loop(
    trace: Trace,
    trips: Array | None,
    condition: Array | None,
    start: list[Array],
    traced: Body,
    inner: Trace,
    lasting: bool,
) -> list[Array]:
    """The loop whose body `_trace_loop` gave, as an equation, or without one if all turns can be taken at once."""
    results = inner.outputs[1 : 1 + len(start)]
    scans = inner.outputs[1 + len(start) :]
    own = set(traced.symbols)
    _adopt_guards(trace, inner, own)
    if _goes_on(inner, lasting):
        condition = None if condition is None or _is_true(condition) else condition
    elif condition is None:
        condition = constant(True)
    exact = condition is None and trips is not None and (trips.value is not None or trips.sizes is not None)
    count: Size = known_sizes(trips)[0] if exact and trips is not None else 0
    count = max(count, 0) if isinstance(count, int) else count
    if exact and (at_once := batched(inner, start, count)) is not None:
        return at_once
    types: list[tuple[DType, Shape]] = []
    for array, shape in zip(results, [shape for _, shape in traced.arguments[2:]], strict=True):
        types.append((array.dtype, tuple(_outer_size(trace, item, inner, own) for item in shape)))
    if scans and not exact:
        count = trace.fresh_symbol(3)
    for array in scans:
        slice_shape = tuple(_outer_size(trace, item, inner, own) for item in array.shape)
        types += [(array.dtype, (count, *slice_shape))]
    inputs = [array for array in (trips, condition) if array is not None]
    params = {"trips": trips is not None, "condition": condition is not None, "carried": len(start)}
    outputs = trace.append(LOOP, (*inputs, *start, *traced.captured), params, types)
    trace.equations[-1].bodies = ((traced, inner),)
    return list(outputs)


def stored(equation: Equation) -> tuple[Array, ...]:
    """The carried values of a loop before each turn, stacked along a new first axis: it gives them from now on.

    NotImplementedError if the sizes of one change.
    """
    trace, ((body, _),) = active_trace(), equation.bodies
    assert trace is not None
    function, carried = body.function, equation.params["carried"]
    first = equation.params["trips"] + equation.params["condition"]
    start, scans = equation.inputs[first : first + carried], equation.outputs[carried:]
    kinds = [*body.arguments[:2], *((x.dtype, x.shape) for x in start)]
    telling = Body(lambda *arguments: [*function(*arguments), *arguments[2:]], kinds, trace, repeated=True)
    inner = telling.trace()
    ends = inner.outputs[1 : 1 + carried]
    if not all(a == b for x, y in zip(start, ends, strict=True) for a, b in zip(x.shape, y.shape, strict=True)):
        raise NotImplementedError("a value that a loop carries changes its sizes, and so cannot be stored with others")
    count = scans[0].shape[0] if scans else turns_of(equation)
    if count is None:
        count = trace.fresh_symbol(3)
    types = [(x.dtype, (count, *x.shape)) for x in start]
    found = trace.extend(equation, (*equation.inputs[:first], *start, *telling.captured), types)
    equation.bodies = ((telling, inner),)
    return found


def turns_of(equation: Equation) -> Size | None:
    """How many turns a loop takes, if that is known."""
    if equation.params["condition"] or not equation.params["trips"]:
        return None
    trips = equation.inputs[0]
    if trips.value is not None:
        return max(0, int(trips.value))
    made = trips.equation
    return made.params["sizes"][0] if made is not None and made.primitive.name == "sizes" else None


def _goes_on(inner: Trace, lasting: bool) -> bool:
    """Whether a body returns the condition that it was passed, or one that is true, and `lasting`: in every turn."""
    going = inner.outputs[0]
    while going.equation is not None and going.equation.primitive.name == "reshape":
        (going,) = going.equation.inputs
    return going is inner.inputs[1] or (lasting and _is_true(going))


def _is_true(flag: Array) -> bool:
    return flag.value is not None and bool(flag.value.all())


def _trace_loop(trace: Trace, function: Callable[..., Outputs], start: list[Array]) -> tuple[Body, Trace, bool]:
    """Trace the body; sizes that an iteration changes become symbols of it, until no more do or a rank changes.

    Where such sizes decide when the loop ends, the run compares them: no plan is then for the last turn alone. Also
    tells whether a condition that is known is that of every turn, and not of this one's sizes.
    """
    body, inner = _traced(trace, function, start, False)
    changing = inner.fresh | set(body.symbols)
    asked = any(polynomial.symbols() & changing for polynomial, _, _ in inner.guards)
    if not asked or inner.outputs[0].value is None:
        return body, inner, True
    with suppress(SardonyxError):
        other, compared = _traced(trace, function, start, True)
        return (body, inner, True) if compared.outputs[0].value is not None else (other, compared, False)
    return body, inner, False


def _traced(trace: Trace, function: Callable[..., Outputs], start: list[Array], compares: bool) -> tuple[Body, Trace]:
    shapes: list[list[Size]] = [list(array.shape) for array in start]
    symbols: dict[str, list[list[int]]] = {}
    hints = active_hints(trace)

    def vary(k: int, axis: int) -> None:
        name = f"c{k}_{axis}_{trace.depth}"
        symbols[name] = [[2 + k, axis]]
        hints[name] = hint(start[k].shape[axis])
        shapes[k][axis] = Dim(symbol(name))

    # Loops in loops are traced again and again, which must not take twice as long with every level.
    varying = trace.root.varying.setdefault(trace.place, set())
    for k, axis in sorted(varying):
        if k < len(shapes) and axis < len(shapes[k]):
            vary(k, axis)
    while True:
        arguments: list[tuple[DType, Shape]] = [(dtypes.int64, ()), (dtypes.bool_, ())]
        arguments += [(array.dtype, tuple(shape)) for array, shape in zip(start, shapes, strict=True)]
        body = Body(function, arguments, trace, symbols, repeated=True, compares=compares)
        inner = body.trace(hints)
        if any(map(is_nested, inner.results)):
            raise ValueError("a sequence, or an optional without element, is given where a tensor is carried")
        changed = False
        for k, (array, shape) in enumerate(zip(inner.outputs[1:], shapes, strict=False)):
            if array.dtype is not start[k].dtype:
                raise ValueError(f"carried value {k} changes from {start[k]} to {array}; its type must stay")
            if array.rank != len(shape):
                return body, inner
            for axis, (old, new) in enumerate(zip(shape, array.shape, strict=True)):
                name = f"c{k}_{axis}_{trace.depth}"
                if not same(old, new) and name not in symbols:
                    vary(k, axis)
                    varying.add((k, axis))
                    changed = True
        if not changed:
            return body, inner


def _outer_size(trace: Trace, inner_size: Size, inner: Trace, own: set[str]) -> Size:
    """A size of the body's result in the outer trace: a new symbol unless it is made of outer sizes alone."""
    outside = poly(inner_size).symbols() <= trace.guards.hints.keys() - own
    return inner_size if outside else trace.fresh_symbol(inner.guards.value(poly(inner_size)))


def _adopt_guards(trace: Trace, inner: Trace, own: Collection[str] = ()) -> None:
    """Copy a body's guards on outer sizes to the outer trace, whose shapes rest on them."""
    symbols = trace.guards.hints.keys() - set(own) - inner.fresh
    for polynomial, relation, truth in inner.guards:
        if polynomial.symbols() <= symbols:
            trace.guards.facts.setdefault((polynomial, relation), truth)


def _restricts(trace: Trace, inner: Trace) -> bool:
    """Whether a body has guards on outer sizes that the outer trace does not have."""
    symbols = trace.guards.hints.keys() - inner.fresh
    return any(
        polynomial.symbols() <= symbols and (polynomial, relation) not in trace.guards.facts
        for polynomial, relation, _ in inner.guards
    )


def _follows_data(inner: Trace) -> bool:
    """Whether a body branched on sizes that only the run determines: for other data its shapes may differ."""
    return any(polynomial.symbols() & inner.fresh for polynomial, _, _ in inner.guards)


def _common_shape(trace: Trace, inner: Trace, a: Shape, b: Shape, unsettled: bool) -> Shape:
    symbols = trace.guards.hints.keys()
    return tuple(
        x
        if not unsettled and same(x, y) and poly(x).symbols() <= symbols
        else trace.fresh_symbol(inner.guards.value(poly(x)))
        for x, y in zip(a, b, strict=True)
    )


def captured_by(bodies: Sequence[Body]) -> list[Array]:
    """The outer Arrays that the bodies use, once each."""
    arrays = {array: array for body in bodies for array in body.captured}
    return list(arrays.values())


def value_of(array: Array) -> np.ndarray:
    """The value of an Array outside a trace."""
    assert array.value is not None
    return array.value


def _run_now(
    trips: Array | None, condition: Array | None, carried: Sequence[Array], body: Callable[..., Outputs]
) -> list[Array]:
    """The loop on known values, without a trace."""
    most = known_sizes(trips)[0] if trips is not None else None
    going = condition is None or bool(known_sizes(condition)[0])
    values, scans, count = list(carried), [], 0
    while going and (most is None or count < most):
        results = body(constant(np.int64(count)), constant(np.bool_(going)), *values)
        going = bool(known_sizes(results[0])[0])
        values = list(results[1 : 1 + len(values)])
        scans.append([value_of(array) for array in results[1 + len(values) :]])
        count += 1
    return [*values, *(constant(np.stack(rows)) for rows in zip(*scans, strict=True))]
