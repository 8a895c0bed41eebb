"""Mixtures of experts: each token goes through the few feed-forward networks that a router chooses for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from sardonyx import primitives as p
from sardonyx.ops.microsoft.attention import refuse
from sardonyx.ops.microsoft.packing import unpack_rows
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array
from sardonyx.sizes.symbolic import Size

MICROSOFT = "com.microsoft"
FLOOR = 1e-8
"""Weights of quantized experts up to this one are those of experts that are left out."""

Weights: TypeAlias = Callable[[Array | None], Array]
"""The float matrices [experts, outputs, inputs] of a layer, or of those experts that are asked for."""


def _tanh_gelu(x: Array) -> Array:
    return 0.5 * x * (1.0 + p.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: p.maximum(x, 0.0),
    "gelu": _tanh_gelu,
    "silu": lambda x: x * p.sigmoid(x),
    "identity": lambda x: x,
}


def _softmax(x: Array) -> Array:
    """Along axis 1."""
    powers = p.exp(x - p.max_(x, [1], keepdims=True))
    return powers / p.sum_(powers, [1], keepdims=True)


def _chosen(weights: Array, experts: Array | None) -> Array:
    """The slices of those experts, all if None."""
    return weights if experts is None else p.gather(weights, [experts], [0])


class _Mixture(Operator, abstract=True):
    """What mixtures of experts have in common."""

    activation_alpha: float = 1.0
    activation_beta: float = 0.0
    activation_type: str = "relu"
    k: int = 1
    normalize_routing_weights: int = 0
    swiglu_fusion: int = 0
    swiglu_limit: float | None = None
    use_sparse_mixer: int = 0

    def mixed(
        self,
        x: Array,
        scores: Array,
        weigh: Callable[[Array, Array], Array],
        layers: Sequence[tuple[Weights, Array | None]],
        floor: float = 0.0,
    ) -> Array:
        """The weighted sum of the outputs of those experts with the `k` highest scores [tokens, experts] of each token.

        `weigh` gives the weights [tokens, k] of values and places of the highest scores; experts whose weight is not
        above `floor` are left out. `layers` are matrices and biases into the hidden layer, out of it, and of the gate
        if there is one.
        """
        if self.activation_type not in (*ACTIVATIONS, "swiglu"):
            raise ValueError(
                f"activation_type {self.activation_type!r} is unknown; use {', '.join(ACTIVATIONS)}, swiglu"
            )
        hidden, experts = x.shape[-1], scores.shape[1]
        tokens = p.reshape(p.widen(x), (scores.shape[0], hidden))
        if not 0 < self.k <= experts:
            raise ValueError(f"k is {self.k}, but there are {experts} experts; use 1..{experts}")
        values, places = p.top_k(p.flip(scores, [1]), self.k, 1)  # Of equal ones, onnxruntime prefers the last.
        places = experts - 1 - places
        weights = weigh(values, places)
        if tokens.shape[0] * self.k <= experts:
            flat = p.reshape(places, (tokens.shape[0] * self.k,))
            repeated = p.broadcast_to(p.unsqueeze(tokens, [1]), (tokens.shape[0], self.k, hidden))
            outputs = self._of_experts(p.reshape(repeated, (flat.shape[0], 1, hidden)), layers, flat)
            outputs, axis = p.reshape(outputs, repeated.shape), 1
        else:
            outputs = self._of_experts(p.broadcast_to(p.unsqueeze(tokens, [0]), (experts, *tokens.shape)), layers, None)
            index = p.iota((1, 1, experts), 2, places.dtype)
            shares = p.where(p.equal(p.unsqueeze(places, [2]), index), p.unsqueeze(weights, [2]), 0.0)
            weights, axis = p.transpose(p.sum_(shares, [1])), 0
        share = p.unsqueeze(weights, [2])
        total = p.sum_(p.where(share > floor, outputs * share, 0.0), [axis])
        return p.cast(p.reshape(total, x.shape), x.dtype)

    def _of_experts(self, x: Array, layers: Sequence[tuple[Weights, Array | None]], experts: Array | None) -> Array:
        """The outputs of the experts for their tokens [experts, tokens, hidden]."""
        inner, outer, *gates = (_Layer(*layer, experts) for layer in layers)
        hidden = inner(x)
        if self.activation_type == "swiglu":
            return outer(self._swiglu(hidden, gates[0](x) if gates else None))
        hidden = ACTIVATIONS[self.activation_type](hidden)
        return outer(hidden * gates[0](x) if gates else hidden)

    def _swiglu(self, hidden: Array, linear: Array | None) -> Array:
        """gate * sigmoid(alpha * gate) * (linear + beta), of the two halves of `hidden`, or of two tensors."""
        gate = hidden
        if linear is None:
            count, tokens, width = hidden.shape
            if self.swiglu_fusion not in (1, 2):
                raise ValueError("swiglu needs fc3_experts_weights, or a swiglu_fusion of 1 or 2")
            axis = 3 if self.swiglu_fusion == 1 else 2
            pairs = p.reshape(hidden, (count, tokens, *((width // 2, 2) if axis == 3 else (2, width // 2))))
            gate, linear = (p.squeeze(p.slice_axis(pairs, axis, part, 1), [axis]) for part in (0, 1))
        if self.swiglu_limit is not None:
            gate = p.minimum(gate, self.swiglu_limit)
            linear = p.minimum(p.maximum(linear, -self.swiglu_limit), self.swiglu_limit)
        return gate * p.sigmoid(gate * self.activation_alpha) * (linear + self.activation_beta)


class _Layer:
    """x W' + b for each of some experts."""

    def __init__(self, weights: Weights, bias: Array | None, experts: Array | None) -> None:
        self.weights = weights(experts)
        self.bias = None if bias is None else p.unsqueeze(p.widen(_chosen(bias, experts)), [1])

    def __call__(self, x: Array) -> Array:
        product = p.dot_general(x, self.weights, ([2], [2]), ([0], [0]))
        return product if self.bias is None else product + self.bias


class MoE(_Mixture, domain=MICROSOFT):
    """A mixture of experts, weighted by the softmax over all router probabilities [tokens, experts].

    With `normalize_routing_weights` those of the chosen ones are divided by their sum.
    """

    def expand(
        self,
        x: Array,
        router: Array,
        inner: Array,
        inner_bias: Array | None,
        outer: Array,
        outer_bias: Array | None = None,
        gate: Array | None = None,
        gate_bias: Array | None = None,
    ) -> Array:
        def weigh(values: Array, places: Array) -> Array:
            return values / p.sum_(values, [1], keepdims=True) if self.normalize_routing_weights else values

        def layer(weights: Array, bias: Array | None) -> tuple[Weights, Array | None]:
            return lambda experts: p.widen(_chosen(weights, experts)), bias

        layers = [layer(inner, inner_bias), layer(outer, outer_bias)]
        if gate is not None:
            layers.append(layer(gate, gate_bias))
        return self.mixed(x, _softmax(p.widen(router)), weigh, layers)

    samples = [
        sample((5, 8), (5, 3), (3, 6, 8), (3, 6), (3, 8, 6), (3, 8), k=2),
        sample((2, 2, 8), (4, 3), (3, 6, 8), None, (3, 8, 6), k=2, normalize_routing_weights=1, activation_type="silu"),
        sample((1, 8), (1, 3), (3, 6, 8), (3, 6), (3, 8, 6), (3, 8), k=2, activation_type="gelu"),
        sample(
            *((5, 8), (5, 3), (3, 12, 8), (3, 12), (3, 8, 6)),
            k=2,
            activation_type="swiglu",
            swiglu_fusion=1,
            activation_alpha=1.702,
            activation_beta=1.0,
            swiglu_limit=0.7,
        ),
    ]


class QMoE(_Mixture, domain=MICROSOFT):
    """A mixture of experts whose weights are integers of 2, 4 or 8 bits with a scale, and perhaps a zero point, for
    each row or block of a row.

    The weights of the chosen ones are the softmax over their scores, or those of `router_weights`.
    """

    accuracy_level: int = 0
    block_size: int = 0
    expert_weight_bits: int = 4
    fc1_expert_weight_bits: int | None = None
    fc2_expert_weight_bits: int | None = None
    fc3_expert_weight_bits: int | None = None
    quant_type: str = "int"
    weights_prepacked: int = -1

    def expand(
        self,
        x: Array,
        router: Array,
        inner: Array,
        inner_scales: Array,
        inner_bias: Array | None,
        outer: Array,
        outer_scales: Array,
        outer_bias: Array | None = None,
        gate: Array | None = None,
        gate_scales: Array | None = None,
        gate_bias: Array | None = None,
        inner_zeros: Array | None = None,
        outer_zeros: Array | None = None,
        gate_zeros: Array | None = None,
        shares: Array | None = None,
        *scales: Array | None,
    ) -> Array:
        if self.quant_type != "int":
            raise NotImplementedError(f"quant_type {self.quant_type!r} is not supported; use 'int'")
        if self.weights_prepacked > 0:
            raise NotImplementedError("weights_prepacked is not supported; export the model without it")
        refuse(global_or_activation_scale=next((scale for scale in scales if scale is not None), None))

        def weigh(values: Array, places: Array) -> Array:
            if shares is None:
                return _softmax(values)
            rows = p.iota((places.shape[0], 1), 0, places.dtype)
            weights = p.gather(p.widen(shares), [rows, places], [0, 1])
            if not self.normalize_routing_weights:
                return weights
            total = p.sum_(weights, [1], keepdims=True)
            return p.where(p.equal(total, 0.0), 0.0, weights / total)

        layers = [
            (self._weights(inner, inner_scales, inner_zeros, self.fc1_expert_weight_bits), inner_bias),
            (self._weights(outer, outer_scales, outer_zeros, self.fc2_expert_weight_bits), outer_bias),
        ]
        if gate is not None:
            if gate_scales is None:
                raise ValueError("fc3_experts_weights needs fc3_scales")
            layers.append((self._weights(gate, gate_scales, gate_zeros, self.fc3_expert_weight_bits), gate_bias))
        return self.mixed(x, p.widen(router), weigh, layers, FLOOR)

    def _weights(self, stored: Array, scales: Array, zeros: Array | None, own: int | None) -> Weights:
        """Matrices stored in bytes [experts, outputs, inputs * bits / 8]."""
        bits = self.expert_weight_bits if own is None else own

        def of(experts: Array | None) -> Array:
            numbers = unpack_rows(_chosen(stored, experts), bits)
            scale = p.widen(_chosen(scales, experts))
            count, rows, width = numbers.shape
            blocks: Size = scale.shape[2] if scale.rank == 3 else 1
            zero: Array | float = float(2 ** (bits - 1))
            if zeros is not None:
                zero = unpack_rows(_chosen(zeros, experts), bits)
                zero = p.slice_axis(zero, zero.rank - 1, 0, blocks if zero.rank == 3 else rows)
                zero = p.reshape(p.cast(zero, scale.dtype), (count, rows, blocks, 1))
            split = p.reshape(p.cast(numbers, scale.dtype), (count, rows, blocks, width // blocks))
            matrices = (split - zero) * p.reshape(scale, (count, rows, blocks, 1))
            return p.reshape(matrices, (count, rows, width))

        return of

    samples = [
        sample(
            *((5, 32), (5, 3)),
            *(np.arange(3 * 8 * 16).astype(np.uint8).reshape(3, 8, 16), (3, 8), (3, 8)),
            *(np.arange(3 * 32 * 4).astype(np.uint8).reshape(3, 32, 4), (3, 32), (3, 32)),
            k=2,
        ),
    ]
