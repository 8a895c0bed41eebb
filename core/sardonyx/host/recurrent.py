"""Recurrent layers by NumPy: a step is a few calls that write where their results stay. All directions go together.

Gates lie one after another, [gates, directions, batch, hidden]: NumPy is fastest on arrays without gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np

from sardonyx.code import scalar
from sardonyx.code.activations import ACTIVATIONS, Activation
from sardonyx.code.layer import STATES, Layer

Sums: TypeAlias = Sequence[tuple[np.ndarray, ...]]
"""For each direction what is added, what to it, and where the sum goes."""


def prepare(
    inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], params: Mapping[str, Any]
) -> Callable[[], None]:
    """The function that does `recurrent` on these arrays, each time that it is called."""
    layer = Layer(**params)
    return {"rnn": _Rnn, "gru": _Gru, "lstm": _Lstm}[layer.cell](layer, inputs, outputs)


class _Steps:
    """What the cells have in common. Gates are computed in groups, as many in each as `groups` says."""

    groups: tuple[int, ...] = (1,)

    def __init__(self, layer: Layer, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        x, weights, *others = inputs
        self.y, *self.last = outputs
        self.layer = layer
        self.operands = dict(zip(layer.operands, others, strict=True))
        directions, batch, hidden = shape = self.last[0].shape
        # Without lengths a step changes the states where they are.
        self.after = [np.empty_like(state) for state in self.last] if "lengths" in self.operands else self.last
        self.spare = np.empty(shape, x.dtype)
        self.gates = np.empty((sum(self.groups), *shape), x.dtype)
        self.products = [np.empty((directions, batch, count * hidden), x.dtype) for count in self.groups]
        places = [slice(end - count, end) for count, end in zip(self.groups, accumulate(self.groups), strict=True)]
        self.weights = [weights[:, k.start * hidden : k.stop * hidden].swapaxes(1, 2) for k in places]
        wide = x.reshape(*x.shape[:3], sum(self.groups), hidden).swapaxes(2, 3)
        parts = [
            product.reshape(directions, batch, count, hidden).swapaxes(1, 2)
            for product, count in zip(self.products, self.groups, strict=True)
        ]
        self.sums = [
            [list(zip(part, line, self.gates[k].swapaxes(0, 1), strict=True)) for line in self._in_order(wide[:, :, k])]
            for part, k in zip(parts, places, strict=True)
        ]
        self.rows = [list(zip(self.after[0], line, strict=True)) for line in self._in_order(self.y)]
        self.counted: list[np.ndarray] = []
        self.functions = [self._function(place) for place in range(len(layer.activations[0]))]

    def step(self, *sums: Sums) -> None:
        """The states `after` from those before; `sums` make a group of gates each."""
        raise NotImplementedError

    def __call__(self) -> None:
        for name, state in zip(STATES[self.layer.cell], self.last, strict=True):
            np.copyto(state, self.operands.get(name, 0))
        if "lengths" in self.operands:
            self._with_lengths(self.operands["lengths"][:, None])
            return
        for rows, *sums in zip(self.rows, *self.sums, strict=True):
            self.step(*sums)
            for after, y in rows:
                np.copyto(y, after)

    def _with_lengths(self, lengths: np.ndarray) -> None:
        self.y.fill(0)
        count = len(self.rows)
        for number, (rows, *sums) in enumerate(zip(self.rows, *self.sums, strict=True)):
            places = [count - 1 - number if back else number for back in self.layer.backwards]
            self.counted = [place <= lengths for place in places]
            self.step(*sums)
            for d, place in enumerate(places):
                inside = place < lengths
                np.copyto(rows[d][1], rows[d][0], where=inside)
                for state, after in zip(self.last, self.after, strict=True):
                    np.copyto(state[d], after[d], where=inside)
        for state in self.last:
            np.copyto(state, 0, where=lengths <= 0)

    def _in_order(self, x: np.ndarray) -> list[tuple[np.ndarray, ...]]:
        """Views of [steps, directions, ...]: for each step those of all directions."""
        lines = [x[::-1, d] if back else x[:, d] for d, back in enumerate(self.layer.backwards)]
        return list(zip(*lines, strict=True))

    def _function(self, place: int) -> Callable[[np.ndarray, np.ndarray], None]:
        """The function that writes f, g or h of [..., directions, batch, hidden] into another array, or in place."""
        layer = self.layer
        clip = layer.clip if place < 2 else None
        if layer.alike and clip is None:
            return partial(_activate, layer.activations[0][place])

        def apply(x: np.ndarray, out: np.ndarray) -> None:
            if clip is not None:
                x = np.clip(x, -clip, clip, out=out)
            for d, activations in enumerate(layer.activations):
                _activate(activations[place], x[..., d, :, :], out[..., d, :, :])

        return apply


def _add(sums: Sums) -> None:
    for x, y, out in sums:
        np.add(x, y, out=out)


class _Rnn(_Steps):
    def step(self, *sums: Sums) -> None:
        np.matmul(self.last[0], self.weights[0], out=self.products[0])
        _add(sums[0])
        self.functions[0](self.gates[0], self.after[0])


class _Gru(_Steps):
    groups = (2, 1)

    def step(self, *sums: Sums) -> None:
        (h,), (new,), spare, (update, reset, fresh) = self.last, self.after, self.spare, self.gates
        np.matmul(h, self.weights[0], out=self.products[0])
        _add(sums[0])
        self.functions[0](self.gates[:2], self.gates[:2])
        product = self.products[1]
        if self.layer.linear_before_reset:
            np.matmul(h, self.weights[1], out=product)
            if "bias" in self.operands:
                np.add(product, self.operands["bias"][:, None], out=product)
            np.multiply(reset, product, out=product)
        else:
            np.multiply(reset, h, out=spare)
            np.matmul(spare, self.weights[1], out=product)
        _add(sums[1])
        self.functions[1](fresh, fresh)
        np.subtract(h, fresh, out=spare)
        np.multiply(update, spare, out=spare)
        np.add(fresh, spare, out=new)


class _Lstm(_Steps):
    groups = (4,)

    def __init__(self, layer: Layer, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        super().__init__(layer, inputs, outputs)
        peephole = self.operands.get("peephole")
        self.peepholes = None if peephole is None else np.split(peephole[:, None], 3, axis=2)
        if "scale" in self.operands:
            self.rounded = _Rounded(self.last[0].shape, self.last[0].dtype)
            self.factors = np.empty_like(self.products[0][:, :1])

    def step(self, *sums: Sums) -> None:
        (f, g, last), spare, (into, out, forget, fresh) = self.functions, self.spare, self.gates
        (_, c), (new_h, new_c), peepholes = self.last, self.after, self.peepholes
        self._multiply()
        _add(sums[0])
        if peepholes is None:
            f(self.gates[:3], self.gates[:3])
        else:
            for gate, weights in ((into, peepholes[0]), (forget, peepholes[2])):
                np.multiply(weights, c, out=spare)
                np.add(gate, spare, out=gate)
                f(gate, gate)
        if self.layer.input_forget:
            np.subtract(1, into, out=forget)
        g(fresh, fresh)
        np.multiply(into, fresh, out=fresh)
        np.multiply(forget, c, out=forget)
        np.add(forget, fresh, out=new_c)
        if peepholes is not None:
            np.multiply(peepholes[1], new_c, out=spare)
            np.add(out, spare, out=out)
            f(out, out)
        last(new_c, spare)
        np.multiply(out, spare, out=new_h)

    def _multiply(self) -> None:
        h, (weights,), (product,) = self.last[0], self.weights, self.products
        if "scale" not in self.operands:
            np.matmul(h, weights, out=product)
            return
        self.rounded(np.where(self.counted, h, 0) if self.counted else h)
        np.matmul(self.rounded.whole, weights, out=product)
        np.multiply(self.rounded.scale, self.operands["scale"][:, None], out=self.factors)
        np.multiply(product, self.factors, out=product)


class _Rounded:
    """`recurrent_loop.rounded` of states [directions, batch, hidden]: their whole numbers, and the `scale` of each
    direction."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.whole = np.empty(shape, dtype)
        self._lines = self.whole.reshape(len(self.whole), -1)
        self._low, self._high, self._scale = np.empty((3, len(self.whole)), dtype)
        self.scale = self._scale[:, None, None]
        self._tiny = np.finfo(np.float32).tiny

    def __call__(self, h: np.ndarray) -> None:
        lines, whole = h.reshape(len(h), -1), self._lines
        low, high, scale = self._low, self._high, self._scale
        np.minimum.reduce(lines, 1, out=low, initial=0)
        np.maximum.reduce(lines, 1, out=high, initial=0)
        np.subtract(high, low, out=scale)
        np.divide(scale, 255, out=scale)
        np.maximum(scale, self._tiny, out=scale)
        np.divide(low, scale, out=low)
        np.rint(low, out=low)
        np.add(low, 255, out=low)
        np.divide(lines, scale[:, None], out=whole)
        np.rint(whole, out=whole)
        # The lowest state is rounded as `low` is, so none is below that; the highest may be 256 above.
        np.minimum(whole, low[:, None], out=whole)


def _activate(activation: Activation, x: np.ndarray, out: np.ndarray) -> None:
    """Put the activation of a NumPy array of floats into another, or into the same."""
    name, alpha, beta = activation
    if name in _DIRECT:
        _DIRECT[name](x, out)
    else:
        np.copyto(out, ACTIVATIONS[name](_numpy, x, alpha, beta))


def _numpy(function: str, *operands: Any) -> Any:
    return scalar.FUNCTIONS[function].numpy(*operands)


_ZERO = {np.dtype(name): np.zeros(1, name) for name in ("float32", "float64")}
"""NumPy takes arrays sooner than numbers."""

_DIRECT: dict[str, Callable[[np.ndarray, np.ndarray], object]] = {
    "relu": lambda x, out: np.maximum(x, _ZERO[x.dtype], out=out),
    "sigmoid": lambda x, out: scalar.FUNCTIONS["sigmoid"].numpy(x, out),
    "tanh": lambda x, out: np.tanh(x, out=out),
}
