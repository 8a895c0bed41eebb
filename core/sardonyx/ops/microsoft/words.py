"""Embeddings of words by their characters."""

from __future__ import annotations

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array


class WordConvEmbedding(Operator, domain="com.microsoft"):
    """Words int32 [words, characters] as vectors [words, filters]: the largest tanh of a convolution of the vectors of
    their characters, by weights [filters, 1, window, size] plus a bias [filters] (Kim et al., 2016).

    A word ends at the first character that is 0, or with the window if that is longer. One without characters is 0.
    """

    char_embedding_size: int = 0
    conv_window_size: int = 0
    embedding_size: int = 0

    def expand(self, words: Array, w: Array, b: Array, characters: Array) -> Array:
        if words.rank != 2 or w.rank != 4:
            raise ValueError(f"Sequence {p.show(words.shape)} is no matrix, or W {p.show(w.shape)} has not four axes")
        vectors = p.transpose(p.gather(characters, [words], [0]), [0, 2, 1])
        kernel = p.transpose(p.squeeze(w, [1]), [0, 2, 1])
        features = p.tanh(p.conv_general(vectors, kernel, [1], [1], [0], [0]) + p.unsqueeze(b, [1]))
        length = p.sum_(p.cumulative(p.cast(words > 0, dtypes.int32), "prod", 1), [1], keepdims=True)
        last = p.unsqueeze(p.maximum(length - w.shape[2], 0), [2])
        place = p.iota((1, 1, features.shape[2]), 2, dtypes.int32)
        largest = p.max_(p.where(place <= last, features, -1.0), [2])
        return p.where(length > 0, largest, 0.0)

    samples = [
        sample(
            np.array([[1, 2, 3, 4], [1, 2, 0, 0], [3, 0, 0, 0], [1, 0, 2, 3]], np.int32), (2, 1, 2, 3), (2,), (5, 3)
        ),
        sample(np.array([[1, 2, 4]], np.int32), (4, 1, 3, 2), (4,), (5, 2)),
    ]
