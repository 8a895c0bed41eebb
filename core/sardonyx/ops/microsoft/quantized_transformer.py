"""Parts of transformers whose weights, or inputs, are quantized; what they compute is floats."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.ops.microsoft.attention import MICROSOFT, SelfAttention
from sardonyx.ops.microsoft.normalization import EmbedLayerNormalization
from sardonyx.ops.microsoft.quantized import decoded
from sardonyx.ops.microsoft.quantized_products import MatMulIntegerToFloat
from sardonyx.ops.operator import Operator
from sardonyx.primitives.array import Array


class QAttention(SelfAttention, domain=MICROSOFT):
    """Attention of x to itself, by one matrix, both of 8 bits, that make queries, keys and values; and its cache.

    The matrix may have a scale and a zero point per column.
    """

    def expand(
        self,
        x: Array,
        weights: Array,
        bias: Array,
        x_scale: Array,
        weight_scale: Array,
        mask: Array | None = None,
        x_zero: Array | None = None,
        weight_zero: Array | None = None,
        past: Array | None = None,
    ) -> Sequence[Array]:
        product = MatMulIntegerToFloat(self.node).expand(x, weights, x_scale, weight_scale, x_zero, weight_zero)
        return self.of_projections(product + bias, mask, past)


class QEmbedLayerNormalization(Operator, domain=MICROSOFT):
    """EmbedLayerNormalization of tables of 8 bits, each with a scale and a zero point, without the sum."""

    epsilon: float = 1e-12

    def expand(
        self,
        ids: Array,
        segments: Array | None,
        word: Array,
        position: Array,
        segment: Array | None,
        gamma: Array,
        beta: Array,
        mask: Array | None,
        word_scale: Array,
        position_scale: Array,
        segment_scale: Array | None,
        gamma_scale: Array,
        beta_scale: Array,
        word_zero: Array,
        position_zero: Array,
        segment_zero: Array | None,
        gamma_zero: Array,
        beta_zero: Array,
    ) -> Sequence[Array]:
        segment_table = None
        if segment is not None and segment_scale is not None:
            segment_table = decoded(segment, segment_scale, segment_zero)
        tables = decoded(word, word_scale, word_zero), decoded(position, position_scale, position_zero), segment_table
        factors = decoded(gamma, gamma_scale, gamma_zero), decoded(beta, beta_scale, beta_zero)
        return EmbedLayerNormalization(self.node).expand(ids, segments, *tables, *factors, mask)[:2]
