"""onnxruntime's forms of attention by a state of fixed size, and of the short convolution that comes before it."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import primitives as p
from sardonyx.ops import linear_attention
from sardonyx.ops.microsoft.attention import refuse
from sardonyx.ops.operator import sample
from sardonyx.primitives.array import Array
from sardonyx.sizes.symbolic import product

MICROSOFT = "com.microsoft"


class MicrosoftLinearAttention(linear_attention.LinearAttention, domain=MICROSOFT, name="LinearAttention"):
    """ONNX's LinearAttention; with fewer heads of queries than of keys, the latter share the former."""

    state_window: int = 0

    def expand(
        self,
        q: Array,
        k: Array,
        v: Array,
        past: Array | None = None,
        decay: Array | None = None,
        beta: Array | None = None,
    ) -> Sequence[Array]:
        refuse(state_window=self.state_window)
        if self.update_rule in ("linear", "delta"):
            decay = None
        if self.update_rule in ("linear", "gated"):
            beta = None
        own, shared = self.q_num_heads, self.kv_num_heads
        if own < shared:
            if shared % own:
                raise ValueError(f"{shared} heads of keys and values do not share {own} heads of queries evenly")
            batch, length, hidden = q.shape
            heads = p.reshape(q, (batch, length, own, 1, hidden // own))
            heads = p.broadcast_to(heads, (batch, length, own, shared // own, hidden // own))
            q, self.q_num_heads = p.reshape(heads, (batch, length, hidden // own * shared)), shared
        return super().expand(q, k, v, past, decay, beta)

    samples = [
        sample((1, 3, 6), (1, 3, 6), (1, 3, 10), outputs=2, q_num_heads=2, kv_num_heads=2, update_rule="linear"),
        sample((2, 3, 6), (2, 3, 12), (2, 3, 8), outputs=2, q_num_heads=2, kv_num_heads=4, update_rule="linear"),
    ]


class MicrosoftCausalConvWithState(linear_attention.CausalConvWithState, domain=MICROSOFT, name="CausalConvWithState"):
    """ONNX's CausalConvWithState with `dilation` places from one tap to the next; x [B, C, L], or, if `channels_last`,
    [B, L, *channels]. The (K - 1) * dilation last places are handed on."""

    channels_last: int = 0
    dilation: int = 1
    ndim: int = 1
    state_window: int = 0

    def expand(self, x: Array, weight: Array, bias: Array | None = None, past: Array | None = None) -> Sequence[Array]:
        refuse(state_window=self.state_window, ndim=self.ndim - 1)
        if not self.channels_last:
            return self.convolved(x, weight, bias, past, self.dilation)
        batch, length, *channels = x.shape
        count = product(channels)
        x = p.transpose(p.reshape(x, (batch, length, count)), [0, 2, 1])
        if past is not None:
            past = p.transpose(p.reshape(past, (batch, past.shape[1], count)), [0, 2, 1])
        results = self.convolved(x, weight, bias, past, self.dilation)
        return [p.reshape(p.transpose(y, [0, 2, 1]), (batch, y.shape[2], *channels)) for y in results]
