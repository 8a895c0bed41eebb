"""Recurrent layers: RNN, GRU and LSTM over padded sequences, in one direction or both.

What depends on the inputs alone is one product for all time steps; a step then multiplies the states. Both directions
take each step together: what the backward one reads is reversed before the first step, what it gives after the last.
Axes in here are [time, direction, batch, gates * hidden]; 16-bit floats are float32 from the first step to the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import eq
from typing import TypeAlias

import numpy as np

from sardonyx import dtypes
from sardonyx import primitives as p
from sardonyx.array import Array, constant, sizes
from sardonyx.ir import build
from sardonyx.ops import activation
from sardonyx.ops.lift import without
from sardonyx.ops.operator import Operator, sample
from sardonyx.ops.trigonometry import Tanh
from sardonyx.primitives.control import loop
from sardonyx.symbolic import Size

UNROLLED = 4
"""Steps that are written out one after the other; more of them, or a number that is not known, are a loop."""

DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""Whether each direction runs backwards."""

Function: TypeAlias = Callable[[Array], Array]
Step: TypeAlias = Callable[..., list[Array]]
"""`step(inputs, *states)`: the states after a step, from what the inputs give to the gates and the states before."""


class Affine(Operator, abstract=True):
    """alpha * x + beta, which was an operator once."""

    alpha: float = 1.0
    beta: float = 0.0

    def expand(self, x: Array) -> Array:
        return self.alpha * x + self.beta


class ScaledTanh(Operator, abstract=True):
    """alpha * tanh(beta * x), which was an operator once."""

    alpha: float = 1.0
    beta: float = 1.0

    def expand(self, x: Array) -> Array:
        return self.alpha * p.tanh(self.beta * x)


ACTIVATIONS: dict[str, type[Operator]] = {
    operator.__name__.lower(): operator
    for operator in (
        Affine,
        ScaledTanh,
        Tanh,
        activation.Elu,
        activation.HardSigmoid,
        activation.LeakyRelu,
        activation.Relu,
        activation.Sigmoid,
        activation.Softplus,
        activation.Softsign,
        activation.ThresholdedRelu,
    )
}
"""Activations are operators, and have their defaults; models write the names in any case."""


@dataclass(frozen=True)
class Weights:
    """What all steps share: R [directions, gates * hidden, hidden], and where there are any B [directions, 2 * gates *
    hidden] and P [directions, 3 * hidden]."""

    r: Array
    b: Array | None = None
    peephole: Array | None = None

    def wide(self) -> Weights:
        """The same in float32, if they have fewer bits."""
        b, peephole = (None if array is None else p.widen(array) for array in (self.b, self.peephole))
        return Weights(p.widen(self.r), b, peephole)


class Recurrent(Operator, abstract=True):
    """What RNN, GRU and LSTM have in common. `hidden_size` is not looked at: the weights tell it."""

    activation_alpha: tuple[float, ...] = ()
    activation_beta: tuple[float, ...] = ()
    activations: tuple[str, ...] = ()
    clip: float | None = None
    direction: str = "forward"
    hidden_size: int = 0
    layout: int = 0

    gates = 1
    defaults = tuple[str, ...]()

    upgrades = {7: without("output_sequence")}

    def step(self, weights: Weights) -> Step:
        """The function that takes a step; what does not depend on the step is computed here."""
        raise NotImplementedError

    def bias(self, b: Array) -> Array:
        """What B adds to the gates whatever the state is, [directions, gates * hidden]."""
        half = b.shape[1] // 2
        return p.slice_axis(b, 1, 0, half) + p.slice_axis(b, 1, half, half)

    def project(self, x: Array, w: Array) -> Array:
        """X [time, batch, size] times W [directions, wide, size], as [time, batch, directions * wide]."""
        return p.dot_general(x, p.reshape(w, (w.shape[0] * w.shape[1], w.shape[2])), ([2], [1]))

    def product(self, h: Array, r: Array) -> Array:
        """A state [directions, batch, hidden] times [directions, wide, hidden], as [directions, batch, wide]."""
        return p.dot_general(h, r, ([2], [2]), ([0], [0]))

    def recur(
        self, x: Array, w: Array, weights: Weights, lengths: Array | None, states: Sequence[Array | None]
    ) -> list[Array]:
        """Y, and the states after the last step of each sequence."""
        dtype = x.dtype
        backwards = self._backwards(x, w, weights)
        weights = weights.wide()
        swap = [1, 0, 2] if self.layout else [0, 1, 2]
        x = p.transpose(p.widen(x), swap)
        steps, batch, _ = x.shape
        count, wide, hidden = weights.r.shape
        shape = (len(backwards), batch, hidden)
        start = [
            p.full(shape, 0, x.dtype) if state is None else p.broadcast_to(p.transpose(p.widen(state), swap), shape)
            for state in states
        ]
        if lengths is not None:
            lengths = p.reshape(p.cast(lengths, dtypes.int32), (1, batch, 1))
            start = [p.where(lengths > 0, state, 0) for state in start]
        inputs = p.reshape(self.project(x, p.widen(w)), (steps, batch, count, wide))
        inputs = p.transpose(inputs, [0, 2, 1, 3])
        if weights.b is not None:
            inputs = inputs + p.unsqueeze(self.bias(weights.b), [1])
        inputs = _turned(inputs, backwards)
        step = self.step(weights)

        def advance(t: int | Array, before: Sequence[Array]) -> tuple[list[Array], Array]:
            """The states after step t, and a row of Y: zeros behind the end of a sequence."""
            after = step(_at(inputs, t), *before)
            if lengths is None:
                return after, after[0]
            inside = _places(t, steps, backwards) < lengths
            kept = [p.where(inside, new, old) for new, old in zip(after, before, strict=True)]
            return kept, p.where(inside, after[0], 0)

        last, rows = _run(advance, start, steps, collect=bool(self.node.outputs[0].name))
        rows = p.transpose(_turned(rows, backwards), [2, 0, 1, 3] if self.layout else [0, 1, 2, 3])
        return [p.cast(array, dtype) for array in (rows, *(p.transpose(state, swap) for state in last))]

    def _backwards(self, x: Array, w: Array, weights: Weights) -> Sequence[bool]:
        """Whether each direction runs backwards; raises ValueError unless the weights are those of such a layer."""
        if self.direction not in DIRECTIONS:
            raise ValueError(f"direction {self.direction!r} is unknown; use {', '.join(DIRECTIONS)}")
        if not x.rank == w.rank == weights.r.rank == 3:
            raise ValueError(f"X, W and R have {x.rank}, {w.rank} and {weights.r.rank} axes; each has to have 3")
        count, hidden = len(DIRECTIONS[self.direction]), weights.r.shape[2]
        wide = self.gates * hidden
        wanted = (
            ("W", w, (count, wide, x.shape[2])),
            ("R", weights.r, (count, wide, hidden)),
            ("B", weights.b, (count, 2 * wide)),
            ("P", weights.peephole, (count, 3 * hidden)),
        )
        for name, array, shape in wanted:
            if array is not None and not (array.rank == len(shape) and all(map(eq, array.shape, shape))):
                raise ValueError(
                    f"{name} has the shape {p.show(array.shape)}; {hidden} units, direction {self.direction!r} and "
                    f"{x.shape[2]} inputs want {p.show(shape)}"
                )
        return DIRECTIONS[self.direction]

    def functions(self) -> list[Function]:
        """The activations f, g, h as far as there are such, each for all directions; those of gates are clipped."""
        count = len(self.defaults)
        total = count * len(DIRECTIONS[self.direction])
        names = (self.activations or self.defaults * 2)[:total]
        if len(names) < total:
            raise ValueError(f"there are {len(names)} activations; {total} are needed")
        alphas, betas = iter(self.activation_alpha), iter(self.activation_beta)
        made = [_activation(name, alphas, betas) for name in names]
        return [_stacked(made[k::count], self.clip if k < 2 else None) for k in range(count)]


class RNN(Recurrent):
    """H = f(X W' + H R' + B) for each time step."""

    gates = 1
    defaults = ("Tanh",)

    def step(self, weights: Weights) -> Step:
        (f,) = self.functions()
        return lambda inputs, h: [f(inputs + self.product(h, weights.r))]

    def expand(
        self,
        x: Array,
        w: Array,
        r: Array,
        b: Array | None = None,
        lengths: Array | None = None,
        h: Array | None = None,
    ) -> list[Array]:
        return self.recur(x, w, Weights(r, b), lengths, [h])

    samples = [
        sample((1, 2, 3), (1, 4, 3), (1, 4, 4), outputs=2),
        sample((1, 2, 3), (1, 4, 3), (1, 4, 4), (1, 8), None, (1, 2, 4), outputs=2),
    ]


class GRU(Recurrent):
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

    def step(self, weights: Weights) -> Step:
        f, g = self.functions()
        r, b, hidden = weights.r, weights.b, weights.r.shape[2]

        def linear_before_reset(inputs: Array, h: Array) -> list[Array]:
            recurrent = self.product(h, r)
            update, reset = _split(f(_part(inputs, hidden, 0, 2) + _part(recurrent, hidden, 0, 2)), hidden, 2)
            added = _part(recurrent, hidden, 2)
            if own is not None:
                added = added + own
            fresh = g(_part(inputs, hidden, 2) + reset * added)
            return [fresh + update * (h - fresh)]

        def reset_before_linear(inputs: Array, h: Array) -> list[Array]:
            update, reset = _split(f(_part(inputs, hidden, 0, 2) + self.product(h, gates)), hidden, 2)
            fresh = g(_part(inputs, hidden, 2) + self.product(reset * h, candidate))
            return [fresh + update * (h - fresh)]

        if self.linear_before_reset:
            own = None if b is None else p.unsqueeze(p.slice_axis(b, 1, 5 * hidden, hidden), [1])
            return linear_before_reset
        gates, candidate = p.slice_axis(r, 1, 0, 2 * hidden), p.slice_axis(r, 1, 2 * hidden, hidden)
        return reset_before_linear

    def expand(
        self,
        x: Array,
        w: Array,
        r: Array,
        b: Array | None = None,
        lengths: Array | None = None,
        h: Array | None = None,
    ) -> list[Array]:
        return self.recur(x, w, Weights(r, b), lengths, [h])

    samples = [
        sample((1, 2, 3), (1, 12, 3), (1, 12, 4), outputs=2),
        sample((1, 2, 3), (1, 12, 3), (1, 12, 4), (1, 24), None, (1, 2, 4), outputs=2),
        sample((1, 2, 3), (1, 12, 3), (1, 12, 4), (1, 24), None, (1, 2, 4), outputs=2, linear_before_reset=1),
    ]


class LSTM(Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997) with peepholes; gates: input, output, forget, cell."""

    input_forget: int = 0

    gates = 4
    defaults = ("Sigmoid", "Tanh", "Tanh")

    def step(self, weights: Weights) -> Step:
        f, g, last = self.functions()
        r, hidden = weights.r, weights.r.shape[2]
        peepholes = None if weights.peephole is None else _split(p.unsqueeze(weights.peephole, [1]), hidden, 3)

        def step(inputs: Array, h: Array, c: Array) -> list[Array]:
            every = inputs + self.product(h, r)
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
        return self.recur(x, w, Weights(r, b, peephole), lengths, [h, c])

    samples = [
        sample((1, 2, 3), (1, 16, 3), (1, 16, 4), outputs=3),
        sample((1, 2, 3), (1, 16, 3), (1, 16, 4), (1, 32), None, (1, 2, 4), (1, 2, 4), (1, 12), outputs=3),
    ]


def _activation(name: str, alphas: Iterator[float], betas: Iterator[float]) -> Operator:
    """The operator of an activation, with the next alpha and beta if it has such and if there are any left."""
    known = ACTIVATIONS.get(name.lower())
    if known is None:
        raise ValueError(f"activation {name!r} is unknown; use {', '.join(o.__name__ for o in ACTIVATIONS.values())}")
    given = {key: next(items, None) for key, items in (("alpha", alphas), ("beta", betas)) if key in known.attributes}
    return known(build.node(known.__name__, [], 1, given))


def _stacked(operators: Sequence[Operator], limit: float | None) -> Function:
    """What the operators of the directions do to an Array [directions, ...], clipped first if there is a limit."""

    def apply(x: Array) -> Array:
        if limit is not None:
            x = p.minimum(p.maximum(x, -limit), limit)
        if all(_key(operator) == _key(operators[0]) for operator in operators):
            return operators[0].expand(x)
        return p.concat([operator.expand(p.slice_axis(x, 0, k, 1)) for k, operator in enumerate(operators)], 0)

    return apply


def _key(operator: Operator) -> tuple[type[Operator], list[object]]:
    return type(operator), [getattr(operator, name) for name in operator.attributes]


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


def _at(x: Array, t: int | Array) -> Array:
    """The elements of a time step."""
    return p.gather(x, [t], [0]) if isinstance(t, Array) else p.reshape(p.slice_axis(x, 0, t, 1), x.shape[1:])


def _places(t: int | Array, steps: Size, backwards: Sequence[bool]) -> Array:
    """Which elements of the sequences step t is about, int32 [directions, 1, 1]."""
    first = sizes([steps - 1 if back else 0 for back in backwards], dtypes.int32)
    stride = constant(np.array([-1 if back else 1 for back in backwards], np.int32))
    count = p.cast(t, dtypes.int32) if isinstance(t, Array) else t
    return p.reshape(first + stride * count, (len(backwards), 1, 1))


def _run(
    advance: Callable[[int | Array, Sequence[Array]], tuple[list[Array], Array]],
    states: list[Array],
    steps: Size,
    collect: bool,
) -> tuple[list[Array], Array]:
    """The states after all steps, and the rows of all steps if they are to be collected."""
    nothing = p.full((steps, *states[0].shape), 0, states[0].dtype)
    if isinstance(steps, int) and steps <= UNROLLED:
        rows = []
        for t in range(steps):
            states, row = advance(t, states)
            rows.append(p.unsqueeze(row, [0]))
        return states, p.concat(rows, 0) if rows else nothing

    def body(t: Array, going: Array, *before: Array) -> list[Array]:
        after, row = advance(t, before)
        return [constant(True), *after, *([row] if collect else [])]

    results = loop(p.literal(steps, dtypes.int64), None, states, body)
    return results[: len(states)], results[-1] if collect else nothing
