"""Gradients of recurrent layers of any form against slopes, central differences in float64, on every provider."""

from __future__ import annotations

import numpy as np
import pytest

from sardonyx import ops
from sardonyx.ops.operator import sample
from tests.engine.providers import NUMPY, PROVIDERS, WASM, WEBGPU, require_provider

from .slopes import assert_slopes, slope_of, slopes

STEPS, BATCH, SIZE, HIDDEN = 6, 2, 3, 2
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
LENGTHS = np.array([4, 6], np.int32)
FORMS = {
    "plain": {},
    "reverse": {"direction": "reverse"},
    "both": {"direction": "bidirectional"},
    "clipped": {"clip": 0.4},
    "other functions": {"activations": {"RNN": ["Softsign"], "GRU": ["HardSigmoid", "Elu"], "LSTM": ["Tanh"] * 3}},
    "two functions": {
        "direction": "bidirectional",
        "activations": {
            "RNN": ["Softsign", "Tanh"],
            "GRU": ["Sigmoid", "Tanh", "Tanh", "Sigmoid"],
            "LSTM": ["Sigmoid", "Tanh", "Tanh"] * 2,
        },
    },
    "linear before reset": {"linear_before_reset": 1},
    "joined gates": {"input_forget": 1},
    "lengths": {},
    "peephole": {},
}
CASES = [
    (cell, form)
    for cell in GATES
    for form in FORMS
    if {"linear before reset": "GRU", "joined gates": "LSTM", "peephole": "LSTM"}.get(form, cell) == cell
]

MAIN = {"both", "linear before reset", "lengths", "two functions"}


def check(cell: str, form: str, provider: str) -> None:
    require_provider(provider)
    attributes = {**FORMS[form], "hidden_size": HIDDEN}
    if "activations" in attributes:
        attributes["activations"] = attributes["activations"][cell]
    directions, gates = 1 + (attributes.get("direction") == "bidirectional"), GATES[cell]
    lengths = LENGTHS if form == "lengths" else None
    state = (directions, BATCH, HIDDEN)
    inputs = [(STEPS, BATCH, SIZE), (directions, gates * HIDDEN, SIZE), (directions, gates * HIDDEN, HIDDEN)]
    inputs += [(directions, 2 * gates * HIDDEN), lengths, state]
    if cell == "LSTM":
        inputs += [state, (directions, 3 * HIDDEN) if form == "peephole" else None]
    outputs = 3 if cell == "LSTM" else 2
    slope = slope_of(ops.load()["", cell], sample(*inputs, outputs=outputs, **attributes))
    assert slope is not None
    wanted = slopes(slope, slope.session(NUMPY))
    own, tolerance = (slope, 1e-6) if provider == NUMPY else (slope.narrowed(), 2e-4)
    _, *found = own.session(provider).run(None, own.feeds)
    assert_slopes(slope, wanted, found, tolerance)


@pytest.mark.parametrize(("cell", "form"), [case for case in CASES if case[1] in MAIN])
def test_layers(cell, form):
    check(cell, form, NUMPY)


@pytest.mark.parametrize("cell", GATES)
@pytest.mark.parametrize("provider", [WASM, WEBGPU])
def test_providers(cell, provider):
    check(cell, "both", provider)


@pytest.mark.nightly
@pytest.mark.parametrize(("cell", "form"), CASES)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_all_forms(cell, form, provider):
    check(cell, form, provider)
