"""The primitive of recurrent layers: all steps of an RNN, GRU or LSTM, in one direction or both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx.code.layer import STATES, Layer
from sardonyx.host.recurrent import prepare
from sardonyx.primitives.array import Array, Primitive, Shape, primitive
from sardonyx.primitives.binding import bind
from sardonyx.primitives.elementwise import Types, Values
from sardonyx.primitives.recurrent_loop import spell


class Recurrent(Primitive):
    """Inputs [steps, directions, batch, gates * hidden], what all steps give to the gates, biases included;
    weights [directions, gates * hidden, hidden] of the hidden state; then those of `operands`, in any order:

    h, c      [directions, batch, hidden], the states before the first step; else zeros
    bias      [directions, hidden], what a GRU with linear_before_reset adds before it resets
    peephole  [directions, 3 * hidden] of an LSTM: input, output, forget
    lengths   int32 [batch]: steps from there on leave the states as they are, and give zeros
    scale     [directions, gates * hidden or 1]: the products of weights and state are multiplied by it, and the state
              of all sequences is rounded to 8 bits for them, as DynamicQuantizeLinear does; that of a sequence counts
              as zeros in steps behind the first one after its end

    Outputs: the hidden state after each step [steps, directions, batch, hidden] and the last states. A sequence of
    length 0 has zeros as last states. The equations are ONNX's for RNN, GRU and LSTM.
    """

    name = "recurrent"

    def infer(self, inputs: Array, weights: Array, *others: Array, **params: Any) -> Types:
        steps, count, batch, _ = inputs.shape
        state: Shape = (count, batch, weights.shape[2])
        return [(inputs.dtype, (steps, *state)), *[(inputs.dtype, state) for _ in STATES[params["cell"]]]]

    def numpy(self, inputs: np.ndarray, weights: np.ndarray, *others: np.ndarray, **params: Any) -> Values:
        steps, count, batch, _ = inputs.shape
        state = (count, batch, weights.shape[2])
        shapes: list[tuple[int, ...]] = [(steps, *state), *[state for _ in STATES[params["cell"]]]]
        outputs = [np.empty(shape, inputs.dtype) for shape in shapes]
        with np.errstate(all="ignore"):
            prepare([inputs, weights, *others], outputs, params)()
        return outputs

    def expand(self, inputs: Array, weights: Array, *others: Array, **params: Any) -> Sequence[Array]:
        """A loop, each turn of which takes several steps."""
        layer = Layer(**params)
        return spell(layer, inputs, weights, dict(zip(layer.operands, others, strict=True)))


RECURRENT = primitive(Recurrent)


def recurrent(layer: Layer, inputs: Array, weights: Array, others: Mapping[str, Array | None]) -> list[Array]:
    """The hidden states of all steps and the last states; `others` by the names that `Recurrent` lists.

    >>> from sardonyx.primitives.binding import constant
    >>> layer = Layer("rnn", (False,), ((("tanh", 0.0, 0.0),),))
    >>> inputs, weights = np.ones((2, 1, 1, 1), "f4"), np.full((1, 1, 1), 0.5, "f4")
    >>> rows, last = recurrent(layer, constant(inputs), constant(weights), {})
    >>> [round(float(row), 2) for row in rows.value.ravel()]  # tanh(1), then tanh(1 + tanh(1) / 2)
    [0.76, 0.88]
    """
    operands = {name: array for name, array in others.items() if array is not None}
    params = {**vars(layer), "operands": tuple(operands)}
    return list(bind(RECURRENT, inputs, weights, *operands.values(), **params))
