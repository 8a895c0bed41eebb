"""Attention by a state of fixed size, and the short convolution that comes before it."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.attention import heads_first
from sardonyx.ops.operator import Operator
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.control import loop
from sardonyx.primitives.dot_product_attention import by_head
from sardonyx.sizes.symbolic import same

RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}
"""Whether the state decays, and whether what it already answers to a key is taken off the new value."""


class LinearAttention(Operator, since=27):
    """Each token adds key x value to a state [B, G, D, E], which then answers its query (Katharopoulos et al., 2020).

    With a decay the state fades before (Yang et al., 2024); the delta rule writes only what is new, at a rate beta.
    """

    chunk_size: int = 64
    kv_num_heads: int
    q_num_heads: int
    scale: float = 0.0
    update_rule: str = "gated_delta"

    def expand(
        self,
        q: Array,
        k: Array,
        v: Array,
        past: Array | None = None,
        decay: Array | None = None,
        beta: Array | None = None,
    ) -> Sequence[Array]:
        if self.update_rule not in RULES:
            raise ValueError(f"update_rule {self.update_rule!r} is unknown; use one of {', '.join(RULES)}")
        for name, operand, needed in zip(("decay", "beta"), (decay, beta), RULES[self.update_rule], strict=True):
            if (operand is not None) != needed:
                raise ValueError(f"update_rule {self.update_rule!r} {'needs' if needed else 'takes no'} {name}")
        groups = self.kv_num_heads
        dtype, (batch, length, _) = q.dtype, q.shape
        q = p.widen(heads_first(q, self.q_num_heads))
        k, v = (p.widen(heads_first(x, groups)) for x in (k, v))
        size = k.shape[3]
        q = q * self.scale if self.scale else q / p.sqrt(p.literal(size, q.dtype))
        gates = []
        if decay is not None:
            gates.append(p.exp(p.widen(heads_first(decay, groups))))
        if beta is not None:
            gates.append(p.widen(heads_first(beta, 1 if beta.shape[2] == 1 else groups)))
        state = p.full((batch, groups, size, v.shape[3]), 0.0, v.dtype) if past is None else p.widen(past)

        def step(number: Array, going: Array, state: Array) -> list[Array]:
            """One token: its column of all that is given, the state after it, and its answer [B, H, E]."""
            now = [p.gather(x, [p.reshape(number, (1,))], [2], 2) for x in (q, k, v, *gates)]
            return [constant(True), *self._step(state, *now)]

        if same(length, 1):
            state, answer = self._step(state, q, k, v, *gates)
            answers = p.unsqueeze(answer, [1])
        else:
            state, stacked = loop(p.literal(length, dtypes.int64), None, [state], step)
            answers = p.transpose(stacked, [1, 0, 2, 3])
        output = p.reshape(p.cast(answers, dtype), (batch, length, self.q_num_heads * v.shape[3]))
        return output, p.cast(state, dtype if past is None else past.dtype)

    def _step(self, state: Array, q: Array, k: Array, v: Array, *gates: Array) -> list[Array]:
        """The state after one token, whose tensors are [B, heads, 1, size], and its answer [B, H, E]."""
        decays, corrects = RULES[self.update_rule]
        if decays:
            state = state * p.transpose(gates[0], [0, 1, 3, 2])
        if corrects:
            v = gates[-1] * (v - by_head(k, state, 2, k.dtype))
        state = state + p.transpose(k, [0, 1, 3, 2]) * v
        return [state, p.squeeze(by_head(q, state, 2, q.dtype), [2])]


class CausalConvWithState(Operator, since=27):
    """Every channel of x [B, C, L] correlated with its own kernel [C, 1, K], which sees no later places; the last
    K - 1 places are handed on."""

    activation: str = "none"

    def expand(self, x: Array, weight: Array, bias: Array | None = None, past: Array | None = None) -> Sequence[Array]:
        return self.convolved(x, weight, bias, past)

    def convolved(
        self, x: Array, weight: Array, bias: Array | None, past: Array | None, dilation: int = 1
    ) -> Sequence[Array]:
        """The results, with `dilation` places from one tap to the next."""
        if self.activation not in ("none", "silu", "swish"):
            raise ValueError(f"activation {self.activation!r} is unknown; use 'none', 'silu' or 'swish'")
        batch, channels, length = x.shape
        taps = int(weight.shape[2])
        state_length = (taps - 1) * dilation
        if past is None:
            past = p.full((batch, channels, state_length), 0.0, x.dtype)
        line = p.concat([past, x], 2)
        wide, kernel = p.widen(line), p.widen(weight)
        result = p.full((), 0.0, wide.dtype) if bias is None else p.reshape(p.widen(bias), (channels, 1))
        for tap in range(taps):
            factor = p.squeeze(p.slice_axis(kernel, 2, tap, 1), [1])
            result = result + p.slice_axis(wide, 2, tap * dilation, length) * factor
        if self.activation != "none":
            result = result * p.sigmoid(result)
        return p.cast(result, x.dtype), p.slice_axis(line, 2, length, state_length)
