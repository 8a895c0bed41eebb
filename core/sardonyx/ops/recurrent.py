"""Recurrent layers: RNN, GRU and LSTM over padded sequences, in one direction or both.

What depends on the inputs alone is one product for all time steps; a step then multiplies the states. Both directions
take each step together: what the backward one reads is reversed before the first step, what it gives after the last.
Axes in here are [time, direction, batch, gates * hidden]; 16-bit floats are float32 from the first step to the last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import eq
from typing import TypeAlias

import numpy as np

from sardonyx import dtypes
from sardonyx import primitives as p
from sardonyx.array import Array, Shape, constant, sizes
from sardonyx.ops.lift import unset, without
from sardonyx.ops.operator import Operator, sample
from sardonyx.ops.recurrent_activation import Function, functions
from sardonyx.primitives.control import loop
from sardonyx.symbolic import Size, same

UNROLLED = 4
"""Steps that are written out one after the other: those of a short sequence, or those of one turn of a loop."""

DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""Whether each direction runs backwards."""

Step: TypeAlias = Callable[..., list[Array]]
"""`step(inputs, *states)`: the states after a step, from what the inputs give to the gates and the states before."""


@dataclass(frozen=True)
class Linear:
    """Weights [directions, gates * hidden, inner] that multiply the inputs, or the hidden state, along `inner`."""

    weights: Array

    @property
    def shape(self) -> Shape:
        return self.weights.shape

    def of_inputs(self, x: Array) -> Array:
        """Products with x [time, batch, inner], as [time, batch, directions, gates * hidden]."""
        return p.dot_general(x, self.weights, ([2], [2]))

    def of_state(self, h: Array) -> Array:
        """Products with h [directions, batch, inner], as [directions, batch, gates * hidden]."""
        return p.dot_general(h, self.weights, ([2], [2]), ([0], [0]))


class Recurrent(Operator, abstract=True):
    """What RNN, GRU and LSTM have in common. `hidden_size` is not looked at: the weights tell it."""

    activation_alpha: tuple[float, ...] = ()
    activation_beta: tuple[float, ...] = ()
    activations: tuple[str, ...] = ()
    clip: float = math.inf
    direction: str = "forward"
    hidden_size: int = 0
    layout: int = 0

    gates = 1
    defaults = tuple[str, ...]()

    upgrades = {7: without("output_sequence")}
    downgrades = {14: unset("layout", 0)}

    def step(self, r: Linear, b: Array | None, peephole: Array | None) -> Step:
        """The function that takes a step; what does not depend on the step is computed here."""
        raise NotImplementedError

    def bias(self, b: Array) -> Array:
        """What B adds to the gates whatever the state is, [directions, gates * hidden]."""
        half = b.shape[1] // 2
        return p.slice_axis(b, 1, 0, half) + p.slice_axis(b, 1, half, half)

    def recur(
        self,
        x: Array,
        w: Linear,
        r: Linear,
        b: Array | None,
        lengths: Array | None,
        states: Sequence[Array | None],
        peephole: Array | None = None,
    ) -> list[Array]:
        """Y, and the states after the last step of each sequence."""
        self._check(x, w, r, b, peephole)
        backwards = DIRECTIONS[self.direction]
        swap = [1, 0, 2] if self.layout else [0, 1, 2]
        dtype, x = x.dtype, p.transpose(p.widen(x), swap)
        steps, batch, _ = x.shape
        count, hidden = len(backwards), r.shape[2]
        wide = self.gates * hidden
        b = None if b is None else _known(p.widen(b), (count, 2 * wide))
        peephole = None if peephole is None else _known(p.widen(peephole), (count, 3 * hidden))
        shape = (count, batch, hidden)
        start = [
            p.full(shape, 0, x.dtype) if state is None else p.broadcast_to(p.transpose(p.widen(state), swap), shape)
            for state in states
        ]
        if lengths is not None:
            lengths = p.reshape(p.cast(lengths, dtypes.int32), (1, batch, 1))
            start = [p.where(lengths > 0, state, 0) for state in start]
        inputs = p.transpose(w.of_inputs(x), [0, 2, 1, 3])
        if b is not None:
            inputs = inputs + p.unsqueeze(self.bias(b), [1])
        inputs = _turned(_known(inputs, (steps, count, batch, wide)), backwards)
        step = self.step(r, b, peephole)

        def advance(chunk: Array, first: Array | Size, states: Sequence[Array]) -> tuple[list[Array], Array]:
            after, rows = list(states), []
            for k in range(int(chunk.shape[0])):
                before, after = after, step(p.reshape(p.slice_axis(chunk, 0, k, 1), chunk.shape[1:]), *after)
                row = after[0]
                if lengths is not None:
                    inside = _places(first + k, steps, backwards) < lengths
                    after = [p.where(inside, new, old) for new, old in zip(after, before, strict=True)]
                    row = p.where(inside, row, 0)
                rows.append(p.unsqueeze(row, [0]))
            return after, p.concat(rows, 0)

        last, rows = _over_time(advance, inputs, start)
        rows = p.transpose(_turned(rows, backwards), [2, 0, 1, 3] if self.layout else [0, 1, 2, 3])
        return [p.cast(array, dtype) for array in (rows, *(p.transpose(state, swap) for state in last))]

    def _check(self, x: Array, w: Linear, r: Linear, b: Array | None, peephole: Array | None) -> None:
        if self.direction not in DIRECTIONS:
            raise ValueError(f"direction {self.direction!r} is unknown; use {', '.join(DIRECTIONS)}")
        if not x.rank == len(w.shape) == len(r.shape) == 3:
            raise ValueError(f"X, W and R have {x.rank}, {len(w.shape)} and {len(r.shape)} axes; each has to have 3")
        count, hidden = len(DIRECTIONS[self.direction]), r.shape[2]
        wide = self.gates * hidden
        for name, shape, wanted in (
            ("W", w.shape, (count, wide, x.shape[2])),
            ("R", r.shape, (count, wide, hidden)),
            ("B", None if b is None else b.shape, (count, 2 * wide)),
            ("P", None if peephole is None else peephole.shape, (count, 3 * hidden)),
        ):
            if shape is not None and not (len(shape) == len(wanted) and all(map(eq, shape, wanted))):
                raise ValueError(
                    f"{name} has the shape {p.show(shape)}; {hidden} units, direction {self.direction!r} and "
                    f"{x.shape[2]} inputs want {p.show(wanted)}"
                )

    def _functions(self) -> list[Function]:
        """The activations f, g, h, as many as there are, each for all directions. Those of gates are clipped."""
        settings = self.activations or self.defaults * 2, self.activation_alpha, self.activation_beta
        return functions(*settings, len(self.defaults), len(DIRECTIONS[self.direction]), self.clip)


class OneState(Recurrent, abstract=True):
    """A recurrent operator whose only state is its output."""

    def expand(
        self,
        x: Array,
        w: Array,
        r: Array,
        b: Array | None = None,
        lengths: Array | None = None,
        h: Array | None = None,
    ) -> list[Array]:
        return self.recur(x, Linear(p.widen(w)), Linear(p.widen(r)), b, lengths, [h])


class RNN(OneState):
    """H = f(X W' + H R' + B) for each time step."""

    gates = 1
    defaults = ("Tanh",)

    def step(self, r: Linear, b: Array | None, peephole: Array | None) -> Step:
        (f,) = self._functions()
        return lambda inputs, h: [f(inputs + r.of_state(h))]

    samples = [
        sample((1, 2, 3), (1, 4, 3), (1, 4, 4), outputs=2),
        sample((1, 2, 3), (1, 4, 3), (1, 4, 4), (1, 8), None, (1, 2, 4), outputs=2),
    ]


class GRU(OneState):
    """The gated recurrent unit (Cho et al., 2014); gates: update, reset, hidden."""

    linear_before_reset: int = 0

    gates = 3
    defaults = ("Sigmoid", "Tanh")

    def bias(self, b: Array) -> Array:
        if not self.linear_before_reset:
            return super().bias(b)
        hidden = b.shape[1] // 6
        ungated = p.slice_axis(b, 1, 3 * hidden, 2 * hidden)
        return p.slice_axis(b, 1, 0, 3 * hidden) + p.pad(ungated, (0, 0), (0, hidden))

    def step(self, r: Linear, b: Array | None, peephole: Array | None) -> Step:
        f, g = self._functions()
        hidden = r.shape[2]

        def linear_before_reset(inputs: Array, h: Array) -> list[Array]:
            recurrent = r.of_state(h)
            update, reset = _split(f(_part(inputs, hidden, 0, 2) + _part(recurrent, hidden, 0, 2)), hidden, 2)
            added = _part(recurrent, hidden, 2)
            if own is not None:
                added = added + own
            fresh = g(_part(inputs, hidden, 2) + reset * added)
            return [fresh + update * (h - fresh)]

        def reset_before_linear(inputs: Array, h: Array) -> list[Array]:
            update, reset = _split(f(_part(inputs, hidden, 0, 2) + gates.of_state(h)), hidden, 2)
            fresh = g(_part(inputs, hidden, 2) + candidate.of_state(reset * h))
            return [fresh + update * (h - fresh)]

        if self.linear_before_reset:
            own = None if b is None else p.unsqueeze(p.slice_axis(b, 1, 5 * hidden, hidden), [1])
            return linear_before_reset
        gates = Linear(p.slice_axis(r.weights, 1, 0, 2 * hidden))
        candidate = Linear(p.slice_axis(r.weights, 1, 2 * hidden, hidden))
        return reset_before_linear

    samples = [
        sample((1, 2, 3), (1, 12, 3), (1, 12, 4), outputs=2),
        sample((1, 2, 3), (1, 12, 3), (1, 12, 4), (1, 24), None, (1, 2, 4), outputs=2),
        sample((1, 2, 3), (1, 12, 3), (1, 12, 4), (1, 24), None, (1, 2, 4), outputs=2, linear_before_reset=1),
    ]


class LongShortTermMemory(Recurrent, abstract=True):
    """The step of an LSTM."""

    input_forget: int = 0

    gates = 4
    defaults = ("Sigmoid", "Tanh", "Tanh")

    def step(self, r: Linear, b: Array | None, peephole: Array | None) -> Step:
        f, g, last = self._functions()
        hidden = r.shape[2]
        peepholes = None if peephole is None else _split(p.unsqueeze(peephole, [1]), hidden, 3)

        def step(inputs: Array, h: Array, c: Array) -> list[Array]:
            every = inputs + r.of_state(h)
            into, out, forget, fresh = _split(every, hidden, 4)
            if peepholes is None:
                into, out, forget = _split(f(_part(every, hidden, 0, 3)), hidden, 3)
            else:
                into, forget = f(into + peepholes[0] * c), f(forget + peepholes[2] * c)
            if self.input_forget:
                forget = 1 - into
            c = forget * c + into * g(fresh)
            if peepholes is not None:
                out = f(out + peepholes[1] * c)
            return [out * last(c), c]

        return step


class LSTM(LongShortTermMemory):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997) with peepholes; gates: input, output, forget, cell."""

    def expand(
        self,
        x: Array,
        w: Array,
        r: Array,
        b: Array | None = None,
        lengths: Array | None = None,
        h: Array | None = None,
        c: Array | None = None,
        peephole: Array | None = None,
    ) -> list[Array]:
        return self.recur(x, Linear(p.widen(w)), Linear(p.widen(r)), b, lengths, [h, c], peephole)

    samples = [
        sample((1, 2, 3), (1, 16, 3), (1, 16, 4), outputs=3),
        sample((1, 2, 3), (1, 16, 3), (1, 16, 4), (1, 32), None, (1, 2, 4), (1, 2, 4), (1, 12), outputs=3),
    ]


def _known(x: Array, shape: Shape) -> Array:
    """x, its shape spelled by sizes that are known to be equal: the sizes of a loop's states have to stay the same."""
    return p.slice_(x, [0] * x.rank, shape)


def _part(x: Array, hidden: Size, first: int, count: int = 1) -> Array:
    """Some gates of [directions, batch, gates * hidden]."""
    return p.slice_axis(x, 2, first * hidden, count * hidden)


def _split(x: Array, hidden: Size, count: int) -> list[Array]:
    """All gates of [directions, batch, count * hidden]."""
    return [_part(x, hidden, k) for k in range(count)]


def _turned(x: Array, backwards: Sequence[bool]) -> Array:
    """[time, directions, ...] with time reversed in the directions that run backwards."""
    if not any(backwards):
        return x
    lines = [p.slice_axis(x, 1, k, 1) for k in range(len(backwards))]
    return p.concat([p.flip(line, [0]) if back else line for line, back in zip(lines, backwards, strict=True)], 1)


def _places(t: Array | Size, steps: Size, backwards: Sequence[bool]) -> Array:
    """Which elements of the sequences step t is about, int32 [directions, 1, 1]."""
    first = sizes([steps - 1 if back else 0 for back in backwards], dtypes.int32)
    stride = constant(np.array([-1 if back else 1 for back in backwards], np.int32))
    count = p.cast(t, dtypes.int32) if isinstance(t, Array) else t
    return p.reshape(first + stride * count, (len(backwards), 1, 1))


Advance: TypeAlias = Callable[[Array, Array | Size, Sequence[Array]], tuple[list[Array], Array]]
"""`advance(chunk, first, states)`: the states after some steps, and their rows of Y, which are zeros behind the end of
a sequence; from the inputs of those steps, the number of the first one, and the states before."""


def _over_time(advance: Advance, inputs: Array, states: list[Array]) -> tuple[list[Array], Array]:
    """The states after all steps, and the rows of all steps."""
    steps, pieces = inputs.shape[0], []
    whole = steps // UNROLLED
    rest = steps - whole * UNROLLED
    start: Size = 0
    for width, trips in ((UNROLLED, whole), (rest, 1) if isinstance(rest, int) else (1, rest)):
        count = width * trips
        if same(count, 0):
            continue
        if same(trips, 1):
            states, rows = advance(p.slice_axis(inputs, 0, start, count), start, states)
        else:
            states, rows = _turns(advance, inputs, states, start, width, trips)
        pieces.append(rows)
        start = start + count
    return states, p.concat(pieces, 0) if pieces else p.full((0, *states[0].shape), 0, inputs.dtype)


def _turns(
    advance: Advance, inputs: Array, states: list[Array], start: Size, width: int, trips: Size
) -> tuple[list[Array], Array]:
    """`width * trips` steps from `start` on, as a loop."""

    def turn(t: Array, going: Array, *before: Array) -> list[Array]:
        first = t * width + start
        after, rows = advance(p.gather(inputs, [first + p.iota((width,), 0)], [0]), first, before)
        return [constant(True), *after, rows]

    *states, rows = loop(p.literal(trips, dtypes.int64), None, states, turn)
    return states, p.reshape(rows, (width * trips, *rows.shape[2:]))
