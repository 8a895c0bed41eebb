"""RNN, GRU and LSTM."""

from __future__ import annotations

from typing import Any

import numpy as np

from .draw import Draw, draws

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ACTIVATIONS = ("Tanh", "Relu", "Sigmoid", "HardSigmoid", "Softsign", "LeakyRelu", "Elu", "Affine")
FUNCTIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}


@draws("GRU", "LSTM", "RNN")
def recurrent(d: Draw) -> dict[str, Any]:
    dtype = d.dtype("T")
    direction = d.of("forward", "reverse", "bidirectional")
    directions = 1 + (direction == "bidirectional")
    length, batch, size, hidden = d.of(3, 1, 2), d.of(1, 2, 3), d.of(2, 1, 3), d.of(2, 1, 3, 5)
    gates = GATES[d.name]
    layout = d.of(0, 0, 0, 1)

    def noise(*shape: int) -> np.ndarray:
        return (d.rng.normal(size=shape) * 0.5).astype(dtype)

    def state() -> np.ndarray | None:
        found = noise(directions, batch, hidden)
        return d.maybe(found.swapaxes(0, 1) if layout else found)

    x = noise(length, batch, size)
    lengths = d.maybe(d.rng.integers(1, length + 1, size=batch).astype(np.int32))
    inputs: list[Any] = [x.swapaxes(0, 1) if layout else x]
    inputs += [noise(directions, gates * hidden, size), noise(directions, gates * hidden, hidden)]
    inputs += [d.maybe(noise(directions, 2 * gates * hidden)), lengths, state()]
    attributes: dict[str, Any] = {"hidden_size": hidden}
    if d.name == "LSTM":
        inputs += [state(), d.maybe(noise(directions, 3 * hidden))]
        attributes |= d.attributes(input_forget=(0, 1))
    if d.name == "GRU":
        attributes |= d.attributes(linear_before_reset=(0, 1))
    if direction != "forward":
        attributes["direction"] = direction
    if layout:
        attributes["layout"] = 1
    if d.flag():
        names = [d.of(*ACTIVATIONS) for _ in range(FUNCTIONS[d.name])]
        attributes["activations"] = names * directions
    if d.flag():
        attributes["clip"] = d.of(0.5, 3.0)
    return {
        "inputs": inputs,
        "attributes": attributes,
        "outputs": d.between(1, 3 if d.name == "LSTM" else 2),
        "magnitude": 1.0,
        "constant": d.settled(1, 2, 3),
    }
