"""What a recurrent layer is: its cell, its directions and its activations."""

from __future__ import annotations

from sardonyx.code.activations import Activation
from sardonyx.common.record import record

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
"""The gates of a cell: hidden; update, reset, hidden; input, output, forget, cell."""
STATES = {"rnn": ("h",), "gru": ("h",), "lstm": ("h", "c")}


@record(frozen=True)
class Layer:
    """The parameters of the primitive `recurrent`."""

    cell: str
    """One of `GATES`."""
    backwards: tuple[bool, ...]
    """For each direction whether it starts with the last step."""
    activations: tuple[tuple[Activation, ...], ...]
    """For each direction f, g and h, as many as ONNX has of them."""
    operands: tuple[str, ...] = ()
    """What is given after inputs and weights, of what `sardonyx.primitives.recurrent_layer.Recurrent` lists."""
    clip: float | None = None
    """What f and g take is kept between -clip and clip."""
    input_forget: bool = False
    linear_before_reset: bool = False

    @property
    def alike(self) -> bool:
        """Whether the activations are those of the first direction in all."""
        return len(set(self.activations)) == 1
