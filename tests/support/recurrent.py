"""Recurrent layers by the book: ONNX's equations in float64, one sequence and one direction at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sardonyx.code.layer import GATES, STATES, Layer

Array = np.ndarray[Any, Any]
USUAL = {"rnn": ("tanh",), "gru": ("sigmoid", "tanh"), "lstm": ("sigmoid", "tanh", "tanh")}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "affine": lambda x, a, b: a * x + b,
    "elu": lambda x, a, b: np.where(x < 0, a * np.expm1(np.minimum(x, 0)), x),
    "hardsigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "leakyrelu": lambda x, a, b: np.where(x < 0, a * x, x),
    "relu": lambda x, a, b: np.maximum(x, 0),
    "scaledtanh": lambda x, a, b: a * np.tanh(b * x),
    "sigmoid": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "softplus": lambda x, a, b: np.logaddexp(0, x),
    "softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "tanh": lambda x, a, b: np.tanh(x),
    "thresholdedrelu": lambda x, a, b: np.where(x > a, x, 0),
}


def layer_of(cell: str, backwards: tuple[bool, ...], **settings: Any) -> Layer:
    """A layer, with its usual activations unless others are given."""
    usual = tuple((name, 0.0, 0.0) for name in USUAL[cell])
    return Layer(cell, backwards, **{"activations": (usual,) * len(backwards), **settings})


def operands(layer: Layer, steps: int, batch: int, hidden: int, seed: int = 0) -> list[Array]:
    """Inputs, weights and what else the layer takes, in float32."""
    rng, count, wide = np.random.default_rng(seed), len(layer.backwards), GATES[layer.cell] * hidden
    shapes: dict[str, tuple[int, ...]] = {
        "h": (count, batch, hidden),
        "c": (count, batch, hidden),
        "bias": (count, hidden),
        "peephole": (count, 3 * hidden),
    }
    made: list[Array] = [
        rng.normal(size=(steps, count, batch, wide)),
        rng.normal(size=(count, wide, hidden)) / math.sqrt(hidden),
    ]
    if "scale" in layer.operands:
        made[1] = rng.integers(-128, 128, (count, wide, hidden))
    for name in layer.operands:
        if name == "lengths":
            made.append(rng.integers(0, steps + 1, batch).astype(np.int32))
        elif name == "scale":
            made.append(rng.uniform(0.5, 1, (count, wide if seed % 2 else 1)) / 128)
        else:
            made.append(rng.normal(size=shapes[name]))
    return [array if array.dtype == np.int32 else array.astype(np.float32) for array in made]


def reference(layer: Layer, arrays: list[Array]) -> list[Array]:
    """The results of the primitive."""
    x, weights, *others = (array.astype(np.float64) for array in arrays)
    given = dict(zip(layer.operands, others, strict=True))
    steps, count, batch, wide = x.shape
    hidden = wide // GATES[layer.cell]
    y = np.zeros((steps, count, batch, hidden))
    last = {name: np.zeros((count, batch, hidden)) for name in STATES[layer.cell]}
    for d, b in np.ndindex(count, batch):
        length = int(given["lengths"][b]) if "lengths" in given else steps
        known = length > 0 or "lengths" not in given
        state = {name: given[name][d, b] if known and name in given else last[name][d, b] for name in last}
        for t in range(length)[:: -1 if layer.backwards[d] else 1]:
            state = _step(layer, d, x[t, d, b], weights[d], state, given)
            y[t, d, b] = state["h"]
        for name in last:
            last[name][d, b] = state[name]
    return [y, *last.values()]


def rounded(layer: Layer, arrays: list[Array]) -> list[Array]:
    """The results of an LSTM with the operand scale, whose states are rounded to 8 bits, those of all sequences in one
    scale; what a value in the middle between two steps becomes is a matter of its last bit."""
    x, weights, *others = (array.astype(np.float64) for array in arrays)
    given = dict(zip(layer.operands, others, strict=True))
    steps, count, batch, wide = x.shape
    y = np.zeros((steps, count, batch, wide // 4))
    last = {name: given.get(name, np.zeros((count, batch, wide // 4))).copy() for name in "hc"}
    lengths = given.get("lengths", np.full(batch, steps))
    nothing = np.zeros_like(weights[0])
    for d in range(count):
        for t in range(steps)[:: -1 if layer.backwards[d] else 1]:
            shown = np.where((t <= lengths)[:, None], last["h"][d], 0)
            low, high = min(shown.min(), 0), max(shown.max(), 0)
            scale = (high - low) / 255 or 1.0
            zero = np.rint(-low / scale)
            whole = np.clip(np.rint(shown / scale) + zero, 0, 255) - zero
            sums = x[t, d] + whole @ weights[d].T * (scale * given["scale"][d])
            for b in range(batch):
                if t < lengths[b]:
                    state = {name: last[name][d, b] for name in "hc"}
                    state = _step(layer, d, sums[b], nothing, state, given)
                    y[t, d, b] = state["h"]
                    for name in "hc":
                        last[name][d, b] = state[name]
        for name in "hc":
            last[name][d, lengths <= 0] = 0
    return [y, last["h"], last["c"]]


def _step(layer: Layer, d: int, x: Array, weights: Array, state: dict[str, Array], given: Any) -> dict[str, Array]:
    def activate(place: int, value: Array) -> Array:
        if layer.clip is not None and place < 2:
            value = np.clip(value, -layer.clip, layer.clip)
        name, alpha, beta = layer.activations[d][place]
        return np.asarray(FUNCTIONS[name](value, alpha, beta))

    h = state["h"]
    if layer.cell == "rnn":
        return {"h": activate(0, x + weights @ h)}
    if layer.cell == "gru":
        (xz, xr, xn), (wz, wr, wn) = np.split(x, 3), np.split(weights, 3)
        z, r = activate(0, xz + wz @ h), activate(0, xr + wr @ h)
        bias = given["bias"][d] if "bias" in given else 0
        n = activate(1, xn + (r * (wn @ h + bias) if layer.linear_before_reset else wn @ (r * h)))
        return {"h": (1 - z) * n + z * h}
    pi, po, pf = np.split(given["peephole"][d], 3) if "peephole" in given else (0, 0, 0)
    xi, xo, xf, xc = np.split(x + weights @ h, 4)
    i = activate(0, xi + pi * state["c"])
    f = 1 - i if layer.input_forget else activate(0, xf + pf * state["c"])
    c = f * state["c"] + i * activate(1, xc)
    return {"h": activate(0, xo + po * c) * activate(2, c), "c": c}
