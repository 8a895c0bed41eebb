"""The LSTM that attends to a memory (Bahdanau et al., 2014) before each step."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.recurrent import DIRECTIONS, LongShortTermMemory, spelled
from sardonyx.primitives.array import Array
from sardonyx.primitives.recurrent_loop import lstm, over_steps


class AttnLSTM(LongShortTermMemory, domain="com.microsoft"):
    """LSTM of X [steps, batch, inputs], to which the attention after the step before is joined.

    That is the mean of `memory` [batch, places, depth] by weights softmax(v . tanh(memory MW + H QW)), over the first
    `memory_lengths` places, or, if AW is given, [H, that mean] AW. W is [directions, 4 * hidden, inputs + attention].
    """

    upgrades = {}
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
        query_weights: Array,
        memory_weights: Array,
        v: Array,
        memory: Array,
        memory_lengths: Array | None = None,
        attention_weights: Array | None = None,
    ) -> Sequence[Array]:
        size = memory.shape[-1] if attention_weights is None else attention_weights.shape[-1]
        self.expect(x, w.shape, r, b, peephole, size)
        count, (_, batch, inner), hidden = len(DIRECTIONS[self.direction]), x.shape, r.shape[2]
        places, depth = memory.shape[1:]
        of_inputs, of_attention = p.slice_axis(w, 2, 0, inner), p.slice_axis(w, 2, inner, size)
        inputs = p.transpose(p.dot_general(x, of_inputs, ([2], [2])), [0, 2, 1, 3])
        if b is not None:
            inputs = inputs + p.unsqueeze(self.bias(b), [1])
        inputs = spelled(inputs, (x.shape[0], count, batch, 4 * hidden))
        values = spelled(memory, (batch, places, depth))
        scored = None
        if memory_lengths is not None:
            ends = p.reshape(p.cast(memory_lengths, dtypes.int32), (batch, 1))
            scored = p.iota((1, places), 1, dtypes.int32) < ends
            values = p.where(p.unsqueeze(scored, [2]), values, 0)
        keys = p.transpose(p.dot_general(values, memory_weights, ([2], [1])), [2, 0, 1, 3])
        v = p.unsqueeze(v, [1, 2])
        operands = {} if peephole is None else {"peephole": peephole}
        cell = lstm(self.layer(), spelled(r, (count, 4 * hidden, hidden)), operands)

        def step(inputs: Array, h: Array, c: Array, attention: Array) -> list[Array]:
            shape = attention.shape
            h, c = cell(inputs + p.dot_general(attention, of_attention, ([2], [2]), ([0], [0])), h, c)
            query = p.dot_general(h, query_weights, ([2], [1]), ([0], [0]))
            scores = p.sum_(p.tanh(keys + p.unsqueeze(query, [2])) * v, [3])
            if scored is not None:
                scores = p.where(scored, scores, float("-inf"))
            weights = p.exp(scores - p.max_(scores, [2], keepdims=True))
            weights = weights / p.sum_(weights, [2], keepdims=True)
            mean = p.transpose(p.matmul(p.transpose(weights, [1, 0, 2]), values), [1, 0, 2])
            if attention_weights is not None:
                mean = p.dot_general(p.concat([h, mean], 2), attention_weights, ([2], [1]), ([0], [0]))
            return [h, c, spelled(mean, shape)]

        states = [(h, hidden), (c, hidden), (None, size)]
        start = [
            p.full((count, batch, wide), 0, x.dtype) if state is None else spelled(state, (count, batch, wide))
            for state, wide in states
        ]
        steps = None if lengths is None else p.reshape(p.cast(lengths, dtypes.int32), (batch,))
        rows, last_h, last_c, _ = over_steps(step, start, inputs, DIRECTIONS[self.direction], steps)
        return rows, last_h, last_c
