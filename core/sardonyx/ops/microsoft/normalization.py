"""Normalisation of a sum: what transformers add up first comes out normalized, and as it was."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.normalization import standardize
from sardonyx.ops.operator import Operator, sample
from sardonyx.ops.simplified import divided_by_root
from sardonyx.primitives.array import Array

MICROSOFT = "com.microsoft"
IDS, SEGMENTS = np.array([[1, 4, 0], [2, 2, 3]], np.int32), np.array([[0, 1, 1], [0, 0, 1]], np.int32)


def _sum(*terms: Array | None) -> Array:
    """The sum of the terms that are not None; 16-bit floats are added in float32."""
    first, *others = (p.widen(term) for term in terms if term is not None)
    for other in others:
        first = first + other
    return first


class SkipLayerNormalization(Operator, domain=MICROSOFT):
    """x + skip + bias, standardized along the last axis, times gamma plus beta; mean, 1 / deviation, and the sum."""

    epsilon: float = 1e-12

    def expand(
        self, x: Array, skip: Array, gamma: Array, beta: Array | None = None, bias: Array | None = None
    ) -> Sequence[Array]:
        total = _sum(x, skip, bias)
        normal, mean, inverse = standardize(total, [total.rank - 1], self.epsilon)
        result = _sum(normal * p.cast(gamma, normal.dtype), beta)
        statistics = (p.cast(array, dtypes.float32) for array in (mean, inverse))
        return p.cast(result, x.dtype), *statistics, p.cast(total, x.dtype)

    samples = [
        sample((2, 3, 4), (2, 3, 4), (4,), (4,), (4,), outputs=4),
        sample((2, 3, 4), (3, 4), (4,), epsilon=0.1),
        sample((2, 3, 4), (1, 3, 4), (4,), None, (4,), outputs=4),
    ]


class SkipSimplifiedLayerNormalization(Operator, domain=MICROSOFT):
    """x + skip + bias divided by its root mean square along the last axis, times gamma; nothing in place of the mean,
    1 / root, and the sum."""

    epsilon: float = 1e-12

    def expand(self, x: Array, skip: Array, gamma: Array, bias: Array | None = None) -> Sequence[Array]:
        total = _sum(x, skip, bias)
        normal, inverse = divided_by_root(total, [total.rank - 1], self.epsilon)
        result = normal * p.cast(gamma, normal.dtype)
        mean = p.full(inverse.shape, 0.0, dtypes.float32)
        return p.cast(result, x.dtype), mean, p.cast(inverse, dtypes.float32), p.cast(total, x.dtype)

    samples = [
        sample((2, 3, 4), (2, 3, 4), (4,), (4,)),
        sample((2, 3, 4), (3, 4), (4,), epsilon=0.1),
        sample((3, 4), (3, 4), (4,)),
    ]


class EmbedLayerNormalization(Operator, domain=MICROSOFT):
    """Embeddings of words, of positions and of segments added up and standardized, times gamma plus beta; how many
    elements of each row of the mask are 1; and the sum."""

    epsilon: float = 1e-12
    mask_index_type: int = 1

    def expand(
        self,
        ids: Array,
        segments: Array | None,
        word_embedding: Array,
        position_embedding: Array,
        segment_embedding: Array | None,
        gamma: Array,
        beta: Array,
        mask: Array | None = None,
        positions: Array | None = None,
    ) -> Sequence[Array]:
        batch, length = ids.shape
        if positions is None:
            placed = p.slice_axis(position_embedding, 0, 0, length)
        else:
            placed = p.gather(position_embedding, [positions], [0])
        segment_vectors = None
        if segments is not None and segment_embedding is not None:
            segment_vectors = p.gather(segment_embedding, [segments], [0])
        total = _sum(p.gather(word_embedding, [ids], [0]), placed, segment_vectors)
        normal, _, _ = standardize(total, [2], self.epsilon)
        result = _sum(normal * p.cast(gamma, normal.dtype), beta)
        if mask is None:
            counts = p.full((batch,), 0, dtypes.int32)
        else:
            counts = p.sum_(p.cast(p.equal(mask, 1), dtypes.int32), [1])
        return p.cast(result, gamma.dtype), counts, p.cast(total, gamma.dtype)
