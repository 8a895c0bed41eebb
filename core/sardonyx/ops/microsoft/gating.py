"""Gates of new models, and biases that are added on the way into them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx import primitives as p
from sardonyx.ops.microsoft.normalization import MICROSOFT
from sardonyx.ops.operator import Operator, sample
from sardonyx.ops.simplified import divided_by_root
from sardonyx.primitives.array import Array

GATES = {
    "silu": lambda x: x * p.sigmoid(x),
    "swish": lambda x: x * p.sigmoid(x),
    "sigmoid": p.sigmoid,
}
"""What an activation makes of a gate."""


class BiasAdd(Operator, domain=MICROSOFT):
    """x [N, S, C] + bias [C] + skip [N, S, C]."""

    def expand(self, x: Array, bias: Array, skip: Array) -> Array:
        return p.cast(p.widen(x) + p.widen(bias) + p.widen(skip), x.dtype)


class BiasSplitGelu(Operator, domain=MICROSOFT):
    """The first half of x + bias [N, S, D] along the last axis, times Gelu of the second half: [N, S, D / 2]."""

    def expand(self, x: Array, bias: Array) -> Array:
        if x.shape[-1] % 2 != 0:
            raise ValueError(f"the last axis of x {p.show(x.shape)} does not split into halves")
        total, half = p.widen(x) + p.widen(bias), x.shape[-1] // 2
        left, right = (p.slice_axis(total, -1, k * half, half) for k in range(2))
        return p.cast(left * (0.5 * right * (1.0 + p.erf(right * 0.7071067811865476))), x.dtype)


class ScaledSiLU(Operator, domain=MICROSOFT):
    """z * sigmoid(z) of z = scale * x, where scale is `alpha` unless it is given; rounded to the type of x thrice."""

    alpha: float = 1.0

    def expand(self, x: Array, scale: Array | None = None) -> Array:
        wide = p.widen(x)
        factor = self.alpha if scale is None else p.reshape(p.cast(scale, wide.dtype), ())
        z = p.widen(p.cast(wide * factor, x.dtype))
        return p.cast(z * p.widen(p.cast(p.sigmoid(z), x.dtype)), x.dtype)

    samples = [
        sample((2, 3)),
        sample((2, 3), alpha=-2.5),
        sample((2, 3), np.array(2, np.float16), alpha=7.0),
        sample(np.array([-200, 200, 0], np.float32)),
    ]


class GatedAdd(Operator, domain=MICROSOFT):
    """x + y * gate, of x and y [..., C] and a gate [..., 1]; the product is rounded to their type first."""

    def expand(self, x: Array, y: Array, gate: Array) -> Array:
        if gate.rank != x.rank or gate.shape[-1] != 1:
            raise ValueError(f"gate {p.show(gate.shape)} is not {p.show((*x.shape[:-1], 1))}")
        product = p.cast(p.widen(y) * p.widen(gate), x.dtype)
        return p.cast(p.widen(x) + p.widen(product), x.dtype)

    samples = [sample((2, 3, 4), (2, 3, 4), (2, 3, 1)), sample((5,), (5,), (1,))]


class GatedRMSNorm(Operator, domain=MICROSOFT):
    """x [..., H * C] divided by the root mean square of each group of C elements, times scale [C] and an activation of
    the gate [..., H * C]: silu (swish), or sigmoid."""

    activation: str = "silu"
    epsilon: float = 1e-5

    def expand(self, x: Array, scale: Array, gate: Array) -> Array:
        if self.activation not in GATES:
            raise ValueError(f"activation {self.activation!r} is unknown; use one of {', '.join(GATES)}")
        size = scale.shape[0]
        if x.shape[-1] % size != 0:
            raise ValueError(f"the last axis of x {p.show(x.shape)} is no multiple of {size}, the length of scale")
        groups = p.reshape(p.widen(x), (*x.shape[:-1], x.shape[-1] // size, size))
        normal, _ = divided_by_root(groups, [x.rank], self.epsilon)
        scaled = p.reshape(normal * p.widen(scale), x.shape)
        return p.cast(scaled * GATES[self.activation](p.widen(gate)), x.dtype)

    samples = [
        sample((2, 6), (3,), (2, 6)),
        sample((2, 3, 4), (4,), (2, 3, 4), activation="sigmoid", epsilon=0.1),
        sample((8,), (2,), (8,), activation="swish"),
    ]


class LinearAttentionGate(Operator, domain=MICROSOFT):
    """What LinearAttention takes: decay_scale * softplus(a + dt_bias) as the decay, and sigmoid(b) as the rate; of
    a and b [B, T, H], and float32 vectors [H]."""

    def expand(self, a: Array, bias: Array, scale: Array, b: Array | None = None) -> Sequence[Array]:
        if b is None and self.outputs > 1:
            raise ValueError("the output beta is asked for, but there is no b")
        x = p.widen(a) + bias
        softplus = p.maximum(x, 0.0) + p.log(1.0 + p.exp(-p.absolute(x)))
        decay = p.cast(scale * softplus, a.dtype)
        return [decay] if b is None else [decay, p.cast(p.sigmoid(p.widen(b)), b.dtype)]

    samples = [
        sample((1, 2, 3), (3,), (3,)),
        sample(np.array([[[-90, 90, 0]]], np.float32), (3,), (3,), (1, 1, 3), outputs=2),
    ]


class EngramGate(Operator, domain=MICROSOFT):
    """gate * value, where value [B, S, H] is shared by the branches of key and query [B, S, C, H]; and that divided by
    its root mean square, times a scale [C, H].

    The gate is sigmoid(sign(dot) * sqrt(max(|dot|, 1e-6))), dot the mean product of key and query, both divided by
    their root mean squares and scaled, times sqrt(H).
    """

    epsilon: float = 1e-5

    def expand(
        self, key: Array, query: Array, value: Array, key_scale: Array, query_scale: Array, scale: Array | None = None
    ) -> Sequence[Array]:
        if scale is None and self.outputs > 1:
            raise ValueError("the output gated_value_normed is asked for, but there is no conv_norm_scale")
        axis = key.rank - 1
        parts = [self._scaled(x, factor) for x, factor in ((key, key_scale), (query, query_scale))]
        dot = p.sum_(parts[0] * parts[1], [axis], keepdims=True)
        dot = dot / p.sqrt(p.literal(key.shape[axis], dot.dtype))
        gate = p.sigmoid(p.sign(dot) * p.sqrt(p.maximum(p.absolute(dot), 1e-6)))
        gated = gate * p.unsqueeze(p.widen(value), [2])
        result = p.cast(gated, value.dtype)
        return [result] if scale is None else [result, p.cast(self._scaled(gated, scale), value.dtype)]

    def _scaled(self, x: Array, scale: Array) -> Array:
        wide = p.widen(x)
        return divided_by_root(wide, [wide.rank - 1], self.epsilon)[0] * p.widen(scale)

    samples = [
        sample((2, 3, 2, 4), (2, 3, 2, 4), (2, 3, 4), (2, 4), (2, 4)),
        sample((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 4), (3, 4), (3, 4), (3, 4), outputs=2, epsilon=0.1),
    ]
