"""Recurrent layers spelled with `loop`, for devices that have no routine for them.

Both directions take each step together: what the backward one reads is reversed before the first step, what it gives
after the last. Axes in here are [steps, directions, batch, gates * hidden].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from sardonyx.code.activations import ACTIVATIONS, Activation
from sardonyx.code.layer import STATES, Layer
from sardonyx.common import dtypes
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant, sizes
from sardonyx.primitives.contraction import dot_general
from sardonyx.primitives.control import loop
from sardonyx.primitives.elementwise import cast, elementwise, full, iota, literal, maximum, minimum, round_even, where
from sardonyx.primitives.indexing import gather
from sardonyx.primitives.movement import concat, flip, reshape, slice_axis, unsqueeze
from sardonyx.primitives.reduction import max_, reduce
from sardonyx.sizes.symbolic import Size, same

UNROLLED = 4
"""Steps that are written out one after the other: those of a short sequence, or those of one turn of a loop."""

Function: TypeAlias = Callable[[Array], Array]
Step: TypeAlias = Callable[..., list[Array]]
"""`step(inputs, *states)`: the states after a step, from what the inputs give to the gates and the states before."""


def spell(layer: Layer, inputs: Array, weights: Array, operands: Mapping[str, Array]) -> list[Array]:
    """The results of `recurrent`; `operands` are its further operands by name."""
    _, count, batch, _ = inputs.shape
    shape = (count, batch, weights.shape[2])
    start = [operands[name] if name in operands else full(shape, 0, inputs.dtype) for name in STATES[layer.cell]]
    step = _STEPS[layer.cell](layer, weights, operands)
    return over_steps(step, start, inputs, layer.backwards, operands.get("lengths"), "scale" in operands)


def over_steps(
    step: Step,
    start: Sequence[Array],
    inputs: Array,
    backwards: Sequence[bool],
    lengths: Array | None,
    together: bool = False,
) -> list[Array]:
    """The first of the states [directions, batch, ...] after each step, zeros behind the end of a sequence, and all
    states after the last step of each; from those before the first one. Where a step looks at the first states of all
    sequences `together`, they are zeros in steps behind the first one after the end of a sequence."""
    steps, _, batch, _ = inputs.shape
    if lengths is not None:
        lengths = reshape(lengths, (1, batch, 1))

    def advance(chunk: Array, first: Array | Size, states: Sequence[Array]) -> tuple[list[Array], Array]:
        after, rows = list(states), []
        for k in range(int(chunk.shape[0])):
            before, (shown, *others) = after, after
            if together and lengths is not None:
                shown = where(_places(first + k, steps, backwards) <= lengths, shown, 0)
            after = step(reshape(slice_axis(chunk, 0, k, 1), chunk.shape[1:]), shown, *others)
            row = after[0]
            if lengths is not None:
                inside = _places(first + k, steps, backwards) < lengths
                after = [where(inside, new, old) for new, old in zip(after, before, strict=True)]
                row = where(inside, row, 0)
            rows.append(unsqueeze(row, [0]))
        return after, concat(rows, 0)

    last, rows = over_time(advance, turned(inputs, backwards), list(start))
    if lengths is not None:
        last = [where(lengths > 0, state, 0) for state in last]
    return [turned(rows, backwards), *last]


def rounded(x: Array, *stages: Sequence[int]) -> tuple[Array, Array]:
    """x as DynamicQuantizeLinear rounds it, without the zero point and as floats, and the scale.

    What it covers are the values along axes that are reduced in stages: a device gives one thread to each result.
    """
    low = high = x
    for axes in stages:
        low, high = reduce(low, "min", axes, keepdims=True), max_(high, axes, keepdims=True)
    low, high = minimum(low, 0.0), maximum(high, 0.0)
    scale = maximum((high - low) / 255.0, float(np.finfo(np.float32).tiny))  # Where all of x is 0, any scale will do.
    zero = round_even(-low / scale)
    numbers = cast(minimum(maximum(round_even(x / scale) + zero, 0.0), 255.0), dtypes.uint8)
    return cast(numbers, x.dtype) - cast(cast(zero, dtypes.uint8), x.dtype), scale


# ---- steps


def product_of(h: Array, weights: Array) -> Array:
    """h [directions, batch, hidden] times weights [directions, wide, hidden]: [directions, batch, wide]."""
    return dot_general(h, weights, ([2], [2]), ([0], [0]))


def functions(layer: Layer) -> list[Function]:
    """f, g and h, as many as there are, of Arrays [directions, ...]."""

    def function(place: int) -> Function:
        limit = layer.clip if place < 2 else None

        def apply(x: Array) -> Array:
            if limit is not None:
                x = minimum(maximum(x, -limit), limit)
            if layer.alike:
                return _activated(layer.activations[0][place], x)
            lines = [slice_axis(x, 0, k, 1) for k in range(len(layer.activations))]
            return concat([_activated(a[place], line) for a, line in zip(layer.activations, lines, strict=True)], 0)

        return apply

    return [function(place) for place in range(len(layer.activations[0]))]


def _rnn(layer: Layer, weights: Array, operands: Mapping[str, Array]) -> Step:
    (f,) = functions(layer)
    return lambda inputs, h: [f(inputs + product_of(h, weights))]


def _gru(layer: Layer, weights: Array, operands: Mapping[str, Array]) -> Step:
    f, g = functions(layer)
    hidden = weights.shape[2]
    own = operands.get("bias")

    def linear_before_reset(inputs: Array, h: Array) -> list[Array]:
        recurrent = product_of(h, weights)
        update, reset = split(f(_part(inputs, hidden, 0, 2) + _part(recurrent, hidden, 0, 2)), hidden, 2)
        added = _part(recurrent, hidden, 2)
        if own is not None:
            added = added + unsqueeze(own, [1])
        fresh = g(_part(inputs, hidden, 2) + reset * added)
        return [fresh + update * (h - fresh)]

    def reset_before_linear(inputs: Array, h: Array) -> list[Array]:
        update, reset = split(f(_part(inputs, hidden, 0, 2) + product_of(h, gates)), hidden, 2)
        fresh = g(_part(inputs, hidden, 2) + product_of(reset * h, candidate))
        return [fresh + update * (h - fresh)]

    if layer.linear_before_reset:
        return linear_before_reset
    gates = slice_axis(weights, 1, 0, 2 * hidden)
    candidate = slice_axis(weights, 1, 2 * hidden, hidden)
    return reset_before_linear


def lstm(layer: Layer, weights: Array, operands: Mapping[str, Array]) -> Step:
    """A step of an LSTM, whose states are h and c."""
    f, g, last = functions(layer)
    hidden = weights.shape[2]
    peepholes = split(unsqueeze(operands["peephole"], [1]), hidden, 3) if "peephole" in operands else None

    def of_state(h: Array) -> Array:
        if "scale" not in operands:
            return product_of(h, weights)
        whole, scale = rounded(h, [1, 2])
        return product_of(whole, weights) * (scale * unsqueeze(operands["scale"], [1]))

    def step(inputs: Array, h: Array, c: Array) -> list[Array]:
        every = inputs + of_state(h)
        into, out, forget, fresh = split(every, hidden, 4)
        if peepholes is None:
            into, out, forget = split(f(_part(every, hidden, 0, 3)), hidden, 3)
        else:
            into, forget = f(into + peepholes[0] * c), f(forget + peepholes[2] * c)
        if layer.input_forget:
            forget = 1 - into
        c = forget * c + into * g(fresh)
        if peepholes is not None:
            out = f(out + peepholes[1] * c)
        return [out * last(c), c]

    return step


_STEPS: dict[str, Callable[[Layer, Array, Mapping[str, Array]], Step]] = {"rnn": _rnn, "gru": _gru, "lstm": lstm}


def _part(x: Array, hidden: Size, first: int, count: int = 1) -> Array:
    """Some gates of [directions, batch, gates * hidden]."""
    return slice_axis(x, 2, first * hidden, count * hidden)


def split(x: Array, hidden: Size, count: int) -> list[Array]:
    """All gates of [directions, batch, count * hidden]."""
    return [_part(x, hidden, k) for k in range(count)]


# ---- time


def turned(x: Array, backwards: Sequence[bool]) -> Array:
    """[steps, directions, ...] with time reversed in the directions that run backwards."""
    if not any(backwards):
        return x
    lines = [slice_axis(x, 1, k, 1) for k in range(len(backwards))]
    return concat([flip(line, [0]) if back else line for line, back in zip(lines, backwards, strict=True)], 1)


def _places(t: Array | Size, steps: Size, backwards: Sequence[bool]) -> Array:
    """Which elements of the sequences step t is about, int32 [directions, 1, 1]."""
    first = sizes([steps - 1 if back else 0 for back in backwards], dtypes.int32)
    stride = constant(np.array([-1 if back else 1 for back in backwards], np.int32))
    count = cast(t, dtypes.int32) if isinstance(t, Array) else t
    return reshape(first + stride * count, (len(backwards), 1, 1))


Advance: TypeAlias = Callable[[Array, Array | Size, Sequence[Array]], tuple[list[Array], Array]]
"""`advance(chunk, first, states)`: the states after some steps, and their rows of Y, which are zeros behind the end of
a sequence; from the inputs of those steps, the number of the first one, and the states before."""


def over_time(advance: Advance, inputs: Array, states: list[Array]) -> tuple[list[Array], Array]:
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
            states, rows = advance(slice_axis(inputs, 0, start, count), start, states)
        else:
            states, rows = _turns(advance, inputs, states, start, width, trips)
        pieces.append(rows)
        start = start + count
    return states, concat(pieces, 0) if pieces else full((0, *states[0].shape), 0, inputs.dtype)


def _turns(
    advance: Advance, inputs: Array, states: list[Array], start: Size, width: int, trips: Size
) -> tuple[list[Array], Array]:
    """`width * trips` steps from `start` on, as a loop."""

    def turn(t: Array, going: Array, *before: Array) -> list[Array]:
        first = t * width + start
        after, rows = advance(gather(inputs, [first + iota((width,), 0)], [0]), first, before)
        return [constant(True), *after, rows]

    *states, rows = loop(literal(trips, dtypes.int64), None, states, turn)
    return states, reshape(rows, (width * trips, *rows.shape[2:]))


def _activated(activation: Activation, x: Array) -> Array:
    """The activation of an Array."""
    name, alpha, beta = activation
    result: Array = ACTIVATIONS[name](elementwise, x, alpha, beta)
    return result
