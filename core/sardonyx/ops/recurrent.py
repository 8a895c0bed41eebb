"""Recurrent layers: RNN, GRU and LSTM over padded sequences, in one direction or both.

What depends on the inputs alone is one product for all time steps; the rest is the primitive `recurrent`. Axes in here
are [time, direction, batch, gates * hidden]; 16-bit floats are float32 from the first step to the last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import eq

from sardonyx import primitives as p
from sardonyx.code.layer import GATES, STATES, Layer
from sardonyx.common import dtypes
from sardonyx.common.record import record
from sardonyx.ops.lift import unset, without
from sardonyx.ops.operator import Operator, sample
from sardonyx.ops.recurrent_activation import activations
from sardonyx.primitives.array import Array, Shape
from sardonyx.primitives.recurrent_layer import recurrent
from sardonyx.sizes.symbolic import Size

DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""Whether each direction runs backwards."""


@record(frozen=True)
class Linear:
    """Weights [directions, gates * hidden, inner] that multiply the inputs along `inner`."""

    weights: Array

    @property
    def shape(self) -> Shape:
        return self.weights.shape

    def of_inputs(self, x: Array) -> Array:
        """Products with x [time, batch, inner], as [time, batch, directions, gates * hidden]."""
        return p.dot_general(x, self.weights, ([2], [2]))


class Recurrent(Operator, abstract=True):
    """What RNN, GRU and LSTM have in common. The weights tell the hidden size, too, where there is no `hidden_size`."""

    activation_alpha: tuple[float, ...] = ()
    activation_beta: tuple[float, ...] = ()
    activations: tuple[str, ...] = ()
    clip: float = math.inf
    direction: str = "forward"
    hidden_size: int = 0
    layout: int = 0

    cell = "rnn"
    defaults = tuple[str, ...]()
    input_forget = 0
    linear_before_reset = 0

    upgrades = {7: without("output_sequence")}
    downgrades = {14: unset("layout", 0)}

    def recur(
        self,
        x: Array,
        w: Linear,
        r: Array,
        b: Array | None,
        lengths: Array | None,
        states: Sequence[Array | None],
        peephole: Array | None = None,
        scale: Array | None = None,
    ) -> list[Array]:
        """Y, and the states after the last step of each sequence; `scale` is that of R if it has 8 bits."""
        self.expect(x, w.shape, r, b, peephole)
        count, hidden = len(DIRECTIONS[self.direction]), r.shape[2]
        wide = GATES[self.cell] * hidden
        swap = [1, 0, 2] if self.layout else [0, 1, 2]
        dtype, x = x.dtype, p.transpose(p.widen(x), swap)
        steps, batch, _ = x.shape
        inputs = p.transpose(w.of_inputs(x), [0, 2, 1, 3])
        own = None
        if b is not None:
            b = spelled(p.widen(b), (count, 2 * wide))
            inputs = inputs + p.unsqueeze(self.bias(b), [1])
            if self.linear_before_reset:
                own = p.slice_axis(b, 1, 5 * hidden, hidden)
        others = {
            name: None if state is None else initial(state, swap, (count, batch, hidden))
            for name, state in zip(STATES[self.cell], states, strict=True)
        }
        others |= {
            "bias": own,
            "peephole": None if peephole is None else spelled(p.widen(peephole), (count, 3 * hidden)),
            "lengths": None if lengths is None else p.reshape(p.cast(lengths, dtypes.int32), (batch,)),
            "scale": scale,
        }
        inputs = spelled(inputs, (steps, count, batch, wide))
        rows, *last = self.over_time(self.layer(), inputs, spelled(p.widen(r), (count, wide, hidden)), others)
        rows = p.transpose(rows, [2, 0, 1, 3] if self.layout else [0, 1, 2, 3])
        return [p.cast(array, dtype) for array in (rows, *(p.transpose(state, swap) for state in last))]

    def over_time(
        self, layer: Layer, inputs: Array, weights: Array, others: Mapping[str, Array | None]
    ) -> Sequence[Array]:
        """The results of the primitive."""
        return recurrent(layer, inputs, weights, others)

    def layer(self) -> Layer:
        """The parameters of the primitive."""
        names = self.activations or self.defaults * 2
        backwards = DIRECTIONS[self.direction]
        settings = self.activation_alpha, self.activation_beta, len(self.defaults), len(backwards)
        return Layer(
            self.cell,
            backwards,
            activations(names, *settings),
            clip=None if self.clip == math.inf else self.clip,
            input_forget=bool(self.input_forget),
            linear_before_reset=bool(self.linear_before_reset),
        )

    def bias(self, b: Array) -> Array:
        """What B adds to the gates whatever the state is, [directions, gates * hidden]."""
        half = b.shape[1] // 2
        of_inputs, of_state = (p.slice_axis(b, 1, k * half, half) for k in range(2))
        if self.linear_before_reset:
            hidden = half // 3
            of_state = p.pad(p.slice_axis(of_state, 1, 0, 2 * hidden), (0, 0), (0, hidden))
        return of_inputs + of_state

    def expect(self, x: Array, w: Shape, r: Array, b: Array | None, peephole: Array | None, joined: Size = 0) -> None:
        """Raise ValueError where shapes do not go together; `joined` elements come to those of X before each step."""
        if self.direction not in DIRECTIONS:
            raise ValueError(f"direction {self.direction!r} is unknown; use {', '.join(DIRECTIONS)}")
        if not x.rank == len(w) == len(r.shape) == 3:
            raise ValueError(f"X, W and R have {x.rank}, {len(w)} and {len(r.shape)} axes; each has to have 3")
        count, hidden = len(DIRECTIONS[self.direction]), r.shape[2]
        wide, inner = GATES[self.cell] * hidden, x.shape[2] + joined
        if self.hidden_size and isinstance(hidden, int) and hidden != self.hidden_size:
            raise ValueError(f"hidden_size {self.hidden_size} is not that of R {p.show(r.shape)}")
        for name, shape, wanted in (
            ("W", w, (count, wide, inner)),
            ("R", r.shape, (count, wide, hidden)),
            ("B", None if b is None else b.shape, (count, 2 * wide)),
            ("P", None if peephole is None else peephole.shape, (count, 3 * hidden)),
        ):
            if shape is not None and not (len(shape) == len(wanted) and all(map(eq, shape, wanted))):
                raise ValueError(
                    f"{name} has the shape {p.show(shape)}; {hidden} units, direction {self.direction!r} and "
                    f"{inner} inputs want {p.show(wanted)}"
                )


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
        return self.recur(x, Linear(p.widen(w)), r, b, lengths, [h])


class RNN(OneState):
    """H = f(X W' + H R' + B) for each time step."""

    cell = "rnn"
    defaults = ("Tanh",)

    samples = [
        sample((1, 2, 3), (1, 4, 3), (1, 4, 4), outputs=2),
        sample((1, 2, 3), (1, 4, 3), (1, 4, 4), (1, 8), None, (1, 2, 4), outputs=2),
    ]


class GRU(OneState):
    """The gated recurrent unit (Cho et al., 2014); gates: update, reset, hidden."""

    linear_before_reset: int = 0

    cell = "gru"
    defaults = ("Sigmoid", "Tanh")

    samples = [
        sample((1, 2, 3), (1, 12, 3), (1, 12, 4), outputs=2),
        sample((1, 2, 3), (1, 12, 3), (1, 12, 4), (1, 24), None, (1, 2, 4), outputs=2),
        sample((1, 2, 3), (1, 12, 3), (1, 12, 4), (1, 24), None, (1, 2, 4), outputs=2, linear_before_reset=1),
    ]


class LongShortTermMemory(Recurrent, abstract=True):
    """What the LSTMs have in common."""

    input_forget: int = 0

    cell = "lstm"
    defaults = ("Sigmoid", "Tanh", "Tanh")


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
        return self.recur(x, Linear(p.widen(w)), r, b, lengths, [h, c], peephole)

    samples = [
        sample((1, 2, 3), (1, 16, 3), (1, 16, 4), outputs=3),
        sample((1, 2, 3), (1, 16, 3), (1, 16, 4), (1, 32), None, (1, 2, 4), (1, 2, 4), (1, 12), outputs=3),
    ]


def initial(state: Array, swap: Sequence[int], shape: Shape) -> Array:
    """A state before the first step, its axes swapped; ValueError unless each direction and sequence has one."""
    wanted = tuple(shape[axis] for axis in swap)
    if not (state.rank == len(wanted) and all(map(eq, state.shape, wanted))):
        raise ValueError(f"an initial state has the shape {p.show(state.shape)}, where {p.show(wanted)} is wanted")
    return spelled(p.transpose(p.widen(state), swap), shape)


def spelled(x: Array, shape: Shape) -> Array:
    """x, its shape spelled by sizes that are known to be equal: those of a loop's states have to stay the same."""
    return p.slice_(x, [0] * x.rank, shape)
