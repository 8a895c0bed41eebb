"""Recurrent layers of onnxruntime: the LSTM with weights of 8 bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sardonyx import primitives as p
from sardonyx.code.layer import Layer
from sardonyx.common import dtypes
from sardonyx.common.record import record, replace
from sardonyx.ops.operator import sample, scattered
from sardonyx.ops.recurrent import Linear, LongShortTermMemory
from sardonyx.primitives.array import Array, Shape
from sardonyx.primitives.binding import constant
from sardonyx.primitives.recurrent_loop import rounded

W = (256 * scattered(1, 3, 16) - 128).astype(np.int8)
R = (256 * scattered(1, 4, 16, seed=1) - 128).astype(np.int8)


@record(frozen=True)
class QuantizedLinear(Linear):
    """Weights [directions, inner, gates * hidden] of 8 bits without their zero point, as floats, times `scale`
    [directions, 1, 1 or gates * hidden]. What they multiply is rounded to 8 bits as well.

    Products of integers are exact in float32, and so are their sums up to 2**24.
    """

    scale: Array

    @classmethod
    def of(cls, weights: Array, scale: Array, zero: Array | None) -> QuantizedLinear:
        """Weights with scales and zero points of the directions, [directions], or of all columns."""
        whole = p.cast(weights, scale.dtype)
        if zero is not None and not (zero.value is not None and not zero.value.any()):
            whole = whole - _columns(p.cast(zero, scale.dtype))
        return cls(whole, _columns(scale))

    @property
    def shape(self) -> Shape:
        count, inner, wide = self.weights.shape
        return count, wide, inner

    def of_inputs(self, x: Array) -> Array:
        whole, scale = rounded(x, [2], [0, 1])
        factor = p.reshape(scale, (1, 1)) * p.squeeze(self.scale, [1])
        return p.dot_general(whole, self.weights, ([2], [1])) * factor


class DynamicQuantizeLSTM(LongShortTermMemory, domain="com.microsoft"):
    """LSTM with weights of 8 bits, [directions, inputs or hidden, 4 * hidden], scaled per direction or column.

    X as a whole, and the hidden state before each step, are rounded to 256 levels that cover their values and 0. All
    sequences of a batch share the levels, as they do where onnxruntime has one thread: step by step, the first step of
    a backward direction being the last one of each sequence.
    """

    upgrades = {}  # Those of the base class are for operator sets of ai.onnx.
    downgrades = {}

    def expand(
        self,
        x: Array,
        w: Array,
        r: Array,
        b: Array | None,
        lengths: Array | None,
        h: Array | None,
        c: Array | None,
        peephole: Array | None,
        w_scale: Array,
        w_zero: Array | None,
        r_scale: Array,
        r_zero: Array | None = None,
    ) -> list[Array]:
        if lengths is not None:  # What is behind the longest sequence must not widen the range of X.
            x = p.where(p.iota(x.shape, 0, lengths.dtype) < p.max_(lengths), x, 0)
        inputs, states = QuantizedLinear.of(w, w_scale, w_zero), QuantizedLinear.of(r, r_scale, r_zero)
        scale = p.reshape(states.scale, (states.scale.shape[0], states.scale.shape[2]))
        return self.recur(x, inputs, p.transpose(states.weights, [0, 2, 1]), b, lengths, [h, c], peephole, scale)

    def over_time(
        self, layer: Layer, inputs: Array, weights: Array, others: Mapping[str, Array | None]
    ) -> Sequence[Array]:
        lengths = others["lengths"]
        if lengths is None or not any(layer.backwards):
            return super().over_time(layer, inputs, weights, others)
        forward = replace(layer, backwards=(False,) * len(layer.backwards))
        rows, *last = super().over_time(forward, _turned(inputs, lengths, layer.backwards), weights, others)
        return [_turned(rows, lengths, layer.backwards), *last]

    samples = [
        sample(
            *[(1, 1, 3), W.view(np.uint8), R.view(np.uint8), (1, 32), None, (1, 1, 4), (1, 1, 4), None],
            *[np.array([0.01], np.float32), np.array([120], np.uint8)],
            *[np.array([0.02], np.float32), np.array([130], np.uint8)],
            outputs=3,
            hidden_size=4,
        ),
        sample(
            *[(1, 1, 3), W, R, None, None, None, None, (1, 12)],
            *[np.linspace(0.01, 0.02, 16, dtype=np.float32)[None], np.zeros((1, 16), np.int8)],
            *[np.linspace(0.02, 0.01, 16, dtype=np.float32)[None], np.zeros((1, 16), np.int8)],
            outputs=3,
            hidden_size=4,
        ),
    ]


def _turned(x: Array, lengths: Array, backwards: Sequence[bool]) -> Array:
    """[steps, directions, batch, ...] with each sequence reversed in the directions that run backwards."""
    time = p.iota((x.shape[0], 1, 1), 0, dtypes.int32)
    back = constant(np.array(backwards).reshape(1, -1, 1))
    ends = p.reshape(lengths, (1, 1, x.shape[2]))
    time = p.where(back & (time < ends), ends - 1 - time, time)
    directions, batch = (p.iota([x.shape[k] if k == axis else 1 for k in range(3)], axis) for axis in (1, 2))
    return p.gather(x, [time, directions, batch], [0, 1, 2])


def _columns(parameter: Array) -> Array:
    """[directions] or [directions, columns], as what broadcasts against the weights."""
    return p.reshape(parameter, (parameter.shape[0], 1, parameter.shape[1] if parameter.rank > 1 else 1))
