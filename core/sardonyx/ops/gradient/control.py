"""Rules of control flow: bodies are traced once more, each with its way back.

A loop stores the values that it carries, and another one goes back over its turns. Where that is too much to store, a
loop of known turns counts as loops in a loop: values between the outer turns are stored, those of a turn inside are
computed anew (Griewank, 1992).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isqrt

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.common.record import record
from sardonyx.host import is_pure
from sardonyx.model.structure import leaves
from sardonyx.ops.gradient.rule import MOST_STORED, Gradients, NestedRule, Pull, memory_limit, once, zeros_like
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.binding import constant
from sardonyx.primitives.body import Body
from sardonyx.primitives.control import branch, captured_by, loop, stored, turns_of
from sardonyx.primitives.trace import Trace, active_trace
from sardonyx.sizes.symbolic import Size, count, hint, same

FEWEST_TURNS = 4
"""Fewer are not divided."""


def _branch(pull: Pull, equation: Equation, gs: Gradients, wanted: Sequence[bool]) -> Gradients:
    """A branch of the ways back."""
    for _, inner in equation.bodies:
        _refuse_chance(inner)
    condition, then, other = equation.inputs[0], *(body for body, _ in equation.bodies)
    sources = [x for x, is_wanted in zip(captured_by([then, other]), wanted[1:], strict=True) if is_wanted]

    def back(body: Body) -> Callable[[], list[Array]]:
        def run() -> list[Array]:
            ys = _here([array for result in body.function() for array in leaves(result)])
            return _or_zeros(pull(ys, gs, _here(sources)), sources)

        return run

    found = iter(branch(condition, back(then), back(other)))
    return [None, *(next(found) if is_wanted else None for is_wanted in wanted[1:])]


@record
class _Turns:
    """A loop whose gradient is wanted: of what is carried, `start` before the first turn, that of `floats`, and of what
    the body uses that of `sources`, Arrays as the body has them, be they of the trace around it or further outside."""

    pull: Pull
    body: Body
    start: Sequence[Array]
    floats: list[int]
    sources: list[Array]

    def back(self, equation: Equation, gs: Gradients) -> Gradients:
        """A loop from the last turn to the first."""
        carried = len(self.start)
        states = stored(equation)
        turns: Size = equation.outputs[carried].shape[0]

        def turn(number: Array, going: Array, *values: Array) -> list[Array]:
            own, sums = values[: len(self.floats)], values[len(self.floats) :]
            place = p.literal(turns - 1, dtypes.int64) - number
            before = [p.gather(state, [place], [0]) for state in states]
            given: list[Array | None] = [None] * carried
            for k, g in zip(self.floats, own, strict=True):
                given[k] = g
            given += [None if g is None else p.gather(g, [place], [0]) for g in gs[carried:]]
            ys = _here(self.body.function(place, constant(True), *before)[1:])
            found = self.pull(ys, given, [*(before[k] for k in self.floats), *_here(self.sources)])
            new = _or_zeros(found[: len(self.floats)], [before[k] for k in self.floats])
            more = found[len(self.floats) :]
            return [going, *new, *(total if g is None else total + g for total, g in zip(sums, more, strict=True))]

        given = [(gs[k], self.start[k]) for k in self.floats]
        first = [zeros_like(x) if g is None else p.reshape(g, x.shape) for g, x in given]
        zeros = [zeros_like(x) for x in self.sources]
        return loop(p.literal(turns, dtypes.int64), None, [*first, *zeros], turn)

    def anew(self, turns: Size, length: int) -> list[Array]:
        """The results of the loop, by loops of so many turns."""
        whole = turns // length
        values, rows = self._some(list(self.start), 0, whole, length)
        if same(turns, whole * length):
            return [*values, *rows]
        values, more = self._some(values, whole * length, turns - whole * length, 1)
        return [*values, *(p.concat([a, b], 0) for a, b in zip(rows, more, strict=True))]

    def _some(self, start: list[Array], first: Size, outer: Size, inner: int) -> tuple[list[Array], list[Array]]:
        """The values after, and slices of, so many times so many turns from a first one on."""

        def segment(number: Array, going: Array, *values: Array) -> list[Array]:
            before = number * inner + first

            def turn(place: Array, on: Array, *carried: Array) -> list[Array]:
                return [on, *self.body.function(before + place, on, *carried)[1:]]

            return [going, *loop(constant(inner), None, values, turn)]

        found = loop(p.literal(outer, dtypes.int64), None, start, segment)
        rows = [p.reshape(row, (outer * inner, *row.shape[2:])) for row in found[len(start) :]]
        return found[: len(start)], rows


def _loop(pull: Pull, equation: Equation, gs: Gradients, wanted: Sequence[bool]) -> Gradients:
    """The gradients of what is carried go back from turn to turn, those of what the body uses are summed."""
    first, carried = equation.params["trips"] + equation.params["condition"], equation.params["carried"]
    ((body, inner),) = equation.bodies
    _refuse_chance(inner)
    start, wants = equation.inputs[first : first + carried], wanted[first + carried :]
    sources = [x for x, is_wanted in zip(body.captured, wants, strict=True) if is_wanted]
    floats = [k for k, x in enumerate(start) if x.dtype.is_float]
    way = _Turns(pull, body, start, floats, sources)
    turns = turns_of(equation)
    if turns is not None and (length := _segment(turns, start)):
        xs = [*(start[k] for k in floats), *_here(sources)]
        found = once(pull(way.anew(turns, length), gs, xs), xs)
    else:
        found = way.back(equation, gs)
    own = iter(found)
    of_start = [next(own) if k in floats else None for k in range(carried)]
    of_captured = [next(own) if is_wanted else None for is_wanted in wants]
    return [*[None] * first, *of_start, *of_captured]


def _refuse_chance(trace: Trace) -> None:
    """Raises NotImplementedError where a body, traced again, would not give the same."""
    for equation in trace.equations:
        if equation.primitive.name == "host" and not is_pure(equation.params["function"]):
            raise NotImplementedError(
                f"a body calls {equation.params['function']!r}, which would not give the same again"
            )
        for _, inner in equation.bodies:
            _refuse_chance(inner)


def _segment(turns: Size, start: Sequence[Array]) -> int:
    """The turns of an inner loop, 0 if what all turns carry may be stored."""
    nbytes = sum(count(x.shape) * x.dtype.itemsize for x in start) * hint(turns)
    most = MOST_STORED if memory_limit.value is None else memory_limit.value
    return isqrt(hint(turns)) if nbytes > most and hint(turns) >= FEWEST_TURNS else 0


def _here(arrays: Sequence[Array]) -> list[Array]:
    """Arrays as the active trace has them."""
    trace = active_trace()
    return list(arrays) if trace is None else [trace.materialise(array) for array in arrays]


def _or_zeros(found: Gradients, xs: Sequence[Array]) -> list[Array]:
    return [zeros_like(x) if g is None else g for g, x in zip(found, xs, strict=True)]


RULES: dict[str, NestedRule] = {"branch": _branch, "loop": _loop}
