"""The LSTM with attention, as onnxruntime has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sardonyx.errors import SardonyxError

from .microsoft import ON_ALL, Call, check

RNG = np.random.default_rng(0)
STEPS, BATCH, INPUTS, HIDDEN, PLACES, DEPTH, SIZE = 6, 2, 3, 5, 6, 7, 4


def lstm(
    *,
    direction: str = "forward",
    attention: int = 0,
    left_out: tuple[str, ...] = (),
    lengths: tuple[int, ...] = (),
    places: tuple[int, ...] = (),
    **attributes: Any,
) -> Call:
    """A node whose weights are noise; `attention` is the size of the attention layer, `left_out` names inputs."""
    count = 2 if direction == "bidirectional" else 1
    shapes = {
        "X": (STEPS, BATCH, INPUTS),
        "W": (count, 4 * HIDDEN, INPUTS + (attention or DEPTH)),
        "R": (count, 4 * HIDDEN, HIDDEN),
        "B": (count, 8 * HIDDEN),
        "lengths": (),
        "h": (count, BATCH, HIDDEN),
        "c": (count, BATCH, HIDDEN),
        "P": (count, 3 * HIDDEN),
        "QW": (count, HIDDEN, SIZE),
        "MW": (count, DEPTH, SIZE),
        "V": (count, SIZE),
        "M": (BATCH, PLACES, DEPTH),
        "places": (),
        "AW": (count, DEPTH + HIDDEN, attention),
    }
    inputs: list[np.ndarray | None] = []
    for name, shape in shapes.items():
        known = {"lengths": lengths, "places": places}.get(name)
        if name in left_out or known == () or (name == "AW" and not attention):
            inputs.append(None)
        else:
            inputs.append(np.array(known, np.int32) if known else (RNG.normal(size=shape) * 0.5).astype(np.float32))
    while inputs[-1] is None:
        inputs.pop()
    attributes = {"hidden_size": HIDDEN, "direction": direction, **attributes}
    return Call("AttnLSTM", inputs, attributes, ("y0", "y1", "y2"))


CASES = {
    "plain": lstm(left_out=("B", "h", "c", "P")),
    "attention layer": lstm(attention=4, lengths=(2, 5), places=(3, 6)),
    "both directions": lstm(direction="bidirectional", attention=3, lengths=(3, 1), places=(1, 5)),
}
MORE = {
    "masked memory": lstm(places=(3, 6), left_out=("P",)),
    "lengths": lstm(lengths=(2, 5), left_out=("h", "c")),
    "reverse": lstm(direction="reverse", lengths=(2, 6)),
    "clip": lstm(clip=0.1),
    "coupled": lstm(input_forget=1),
    "activations": lstm(activations=["HardSigmoid", "Softsign", "Relu"], activation_alpha=[0.3], left_out=("P",)),
}


@ON_ALL
@pytest.mark.parametrize("name", CASES)
def test_like_onnxruntime(name: str, provider: str) -> None:
    check(CASES[name], provider)


@ON_ALL
@pytest.mark.slow
@pytest.mark.parametrize("name", MORE)
def test_more_like_onnxruntime(name: str, provider: str) -> None:
    check(MORE[name], provider)


def test_refused() -> None:
    call = lstm()
    call.inputs[1] = np.zeros((1, 4 * HIDDEN, INPUTS), np.float32)
    with pytest.raises(SardonyxError, match=r"10 inputs want \[1,20,10\]"):
        call.run("eager")
