"""The rule of recurrent layers: what does not go from step to step is computed for all steps at once.

The hidden states are there, so gates are one product, and so is the gradient of the weights. From step to step goes
what is linear in the gradients of the states: numbers times them, and a product with the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sardonyx import primitives as p
from sardonyx.code.layer import STATES, Layer
from sardonyx.ops.gradient.rule import Gradients, NestedRule, Pull, spelled_out, zeros_like
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.recurrent_loop import Function, Step, functions, over_steps, split, turned
from sardonyx.sizes.symbolic import Size, same


def _recurrent(pull: Pull, equation: Equation, gs: Gradients, wanted: Sequence[bool]) -> Gradients:
    layer = Layer(**equation.params)
    if (
        same(equation.inputs[0].shape[0], 0)
        or not layer.alike
        or layer.input_forget
        or not {"h", "c", "bias"}.issuperset(layer.operands)
    ):
        return spelled_out(pull, equation, gs, wanted)
    inputs, weights, *others = equation.inputs
    operands = dict(zip(layer.operands, others, strict=True))
    way = _Way(pull, layer, inputs, weights, operands, equation.outputs[0])
    found = {"rnn": way.rnn, "gru": way.gru, "lstm": way.lstm}[layer.cell](gs)
    return [turned(found["inputs"], layer.backwards), found["weights"], *(found[name] for name in layer.operands)]


class _Way:
    """The way back through a layer. Arrays are [steps, directions, batch, ...], in the order in which steps go."""

    def __init__(
        self,
        pull: Pull,
        layer: Layer,
        inputs: Array,
        weights: Array,
        operands: Mapping[str, Array],
        rows: Array,
    ) -> None:
        self.pull, self.layer, self.weights = pull, layer, weights
        self.inputs, self.rows = (turned(x, layer.backwards) for x in (inputs, rows))
        self.hidden = weights.shape[2]
        start = p.full(rows.shape[1:], 0.0, rows.dtype)
        self.start = {name: operands.get(name, start) for name in STATES[layer.cell]}
        self.bias = operands.get("bias")
        self.functions = functions(layer)
        self.before = _later(self.start["h"], self.rows)

    def rnn(self, gs: Gradients) -> dict[str, Array]:
        """h = f(x + w h)"""
        (f,) = self.functions
        _, slope = self.with_slope(f, self.inputs + self.product(self.weights))

        def step(row: Array, gate: Array, h: Array) -> list[Array]:
            own, slope = split(row, self.hidden, 2)
            gate = (h + own) * slope
            return [gate, self.back(gate, self.weights)]

        gates, h = self.backwards(step, [self.of_rows(gs), slope], gs[1:])
        return {"inputs": gates, "weights": self.of_weights(gates, self.before), "h": h}

    def lstm(self, gs: Gradients) -> dict[str, Array]:
        """c = forget c + into g(fresh), h = out last(c)"""
        f, g, last = self.functions
        every, hidden = self.inputs + self.product(self.weights), self.hidden
        gates, slopes = self.with_slope(f, p.slice_axis(every, 3, 0, 3 * hidden))
        (into, out, forget), (of_into, of_out, of_forget) = (_parts(x, hidden, 3) for x in (gates, slopes))
        fresh, of_fresh = self.with_slope(g, p.slice_axis(every, 3, 3 * hidden, hidden))

        def cell(row: Array, c: Array) -> list[Array]:
            kept, new = split(row, hidden, 2)
            return [kept * c + new]

        cells, _ = over_steps(cell, [self.start["c"]], p.concat([forget, into * fresh], 3), self.forwards, None)
        shown, of_cell = self.with_slope(last, cells)
        before = _later(self.start["c"], cells)

        def step(row: Array, gates: Array, h: Array, c: Array) -> list[Array]:
            own, of_cell, of_into, of_out, of_forget, of_fresh, forget = split(row, hidden, 7)
            h = h + own
            c = c + h * of_cell
            gates = p.concat([c * of_into, h * of_out, c * of_forget, c * of_fresh], 2)
            return [gates, self.back(gates, self.weights), c * forget]

        numbers = [out * of_cell, fresh * of_into, shown * of_out, before * of_forget, into * of_fresh, forget]
        found, h, c = self.backwards(step, [self.of_rows(gs), *numbers], gs[1:])
        return {"inputs": found, "weights": self.of_weights(found, self.before), "h": h, "c": c}

    def gru(self, gs: Gradients) -> dict[str, Array]:
        """h = fresh + update (h - fresh)"""
        return self._reset_after(gs) if self.layer.linear_before_reset else self._reset_before(gs)

    def _reset_after(self, gs: Gradients) -> dict[str, Array]:
        """fresh = g(x + reset (w h + bias))"""
        (f, g), hidden = self.functions, self.hidden
        product = self.product(self.weights)
        update, reset, of_update, of_reset = self._gates(f, self._of(self.inputs, 2) + self._of(product, 2))
        added = p.slice_axis(product, 3, 2 * hidden, hidden)
        if self.bias is not None:
            added = added + p.unsqueeze(self.bias, [1])
        fresh, of_fresh = self.with_slope(g, p.slice_axis(self.inputs, 3, 2 * hidden, hidden) + reset * added)

        def step(row: Array, gates: Array, h: Array) -> list[Array]:
            own, of_update, of_fresh, of_reset, reset, update = split(row, hidden, 6)
            h = h + own
            fresh = h * of_fresh
            first, added = [h * of_update, fresh * of_reset], fresh * reset
            back = self.back(p.concat([*first, added], 2), self.weights)
            return [p.concat([*first, fresh, added], 2), h * update + back]

        numbers = [(self.before - fresh) * of_update, (1 - update) * of_fresh, added * of_reset, reset, update]
        found, h = self.backwards(step, [self.of_rows(gs), *numbers], gs[1:], 4)
        first, (_, added) = self._of(found, 2), _parts(p.slice_axis(found, 3, 2 * hidden, 2 * hidden), hidden, 2)
        weights = self.of_weights(p.concat([first, added], 3), self.before)
        return {"inputs": self._of(found, 3), "weights": weights, "h": h, "bias": p.sum_(added, [0, 2])}

    def _reset_before(self, gs: Gradients) -> dict[str, Array]:
        """fresh = g(x + w (reset h))"""
        (f, g), hidden = self.functions, self.hidden
        both, last = (p.slice_axis(self.weights, 1, k * hidden, n * hidden) for k, n in ((0, 2), (2, 1)))
        update, reset, of_update, of_reset = self._gates(f, self._of(self.inputs, 2) + self.product(both))
        kept = reset * self.before
        candidate = p.slice_axis(self.inputs, 3, 2 * hidden, hidden) + _product(kept, last)
        fresh, of_fresh = self.with_slope(g, candidate)

        def step(row: Array, gates: Array, h: Array) -> list[Array]:
            own, of_update, of_fresh, of_reset, reset, update = split(row, hidden, 6)
            h = h + own
            fresh = h * of_fresh
            kept = self.back(fresh, last)
            first = p.concat([h * of_update, kept * of_reset], 2)
            return [p.concat([first, fresh], 2), h * update + kept * reset + self.back(first, both)]

        numbers = [(self.before - fresh) * of_update, (1 - update) * of_fresh, self.before * of_reset, reset, update]
        found, h = self.backwards(step, [self.of_rows(gs), *numbers], gs[1:])
        own = p.slice_axis(found, 3, 2 * hidden, hidden)
        weights = p.concat([self.of_weights(self._of(found, 2), self.before), self.of_weights(own, kept)], 1)
        return {"inputs": found, "weights": weights, "h": h, "bias": p.full((), 0.0, found.dtype)}

    def _gates(self, f: Function, x: Array) -> list[Array]:
        """Update and reset, and their slopes."""
        return [part for both in self.with_slope(f, x) for part in _parts(both, self.hidden, 2)]

    def _of(self, x: Array, gates: int) -> Array:
        """The first gates."""
        return p.slice_axis(x, 3, 0, gates * self.hidden)

    # ---- what cells have in common

    @property
    def forwards(self) -> tuple[bool, ...]:
        """That all directions go on in time."""
        return tuple(False for _ in self.layer.backwards)

    def with_slope(self, function: Function, x: Array) -> tuple[Array, Array]:
        """What a function gives for each element, and its derivatives."""
        y = function(x)
        (slope,) = self.pull([y], [p.full(y.shape, 1.0, y.dtype)], [x])
        return y, zeros_like(x) if slope is None else slope

    def product(self, weights: Array) -> Array:
        """What the states before all steps give to gates."""
        return _product(self.before, weights)

    def back(self, gates: Array, weights: Array) -> Array:
        """What gates of a step [directions, batch, ...] have for the states."""
        return p.dot_general(gates, weights, ([2], [1]), ([0], [0]))

    def of_rows(self, gs: Gradients) -> Array:
        """The gradient of the states of all steps."""
        return zeros_like(self.rows) if gs[0] is None else turned(gs[0], self.layer.backwards)

    def backwards(self, step: Step, numbers: Sequence[Array], last: Gradients, gates: int = 0) -> list[Array]:
        """The gradients of so many gates, or all, at all steps, and of the states before the first one."""
        _, directions, batch, wide = self.inputs.shape
        first = p.full((directions, batch, gates * self.hidden if gates else wide), 0.0, self.inputs.dtype)
        states = [zeros_like(x) if g is None else g for g, x in zip(last, self.start.values(), strict=True)]
        backwards = tuple(True for _ in self.layer.backwards)
        rows, _, *before = over_steps(step, [first, *states], p.concat(numbers, 3), backwards, None)
        return [rows, *before]

    def of_weights(self, gates: Array, states: Array) -> Array:
        """The gradient of weights between states and gates."""
        return p.dot_general(gates, states, ([0, 2], [0, 2]), ([1], [1]))


def _parts(x: Array, hidden: Size, count: int) -> list[Array]:
    """All gates of [steps, directions, batch, count * hidden]."""
    return [p.slice_axis(x, 3, k * hidden, hidden) for k in range(count)]


def _product(x: Array, weights: Array) -> Array:
    """[steps, directions, batch, n] times weights [directions, wide, n]: [steps, directions, batch, wide]."""
    return p.transpose(p.dot_general(x, weights, ([3], [2]), ([1], [0])), [1, 0, 2, 3])


def _later(first: Array, rows: Array) -> Array:
    """What is before each step, from what is before the first one, and after each."""
    return p.concat([p.unsqueeze(first, [0]), p.slice_axis(rows, 0, 0, rows.shape[0] - 1)], 0)


RULES: dict[str, NestedRule] = {"recurrent": _recurrent}
