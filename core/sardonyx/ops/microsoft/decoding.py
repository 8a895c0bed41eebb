"""What decoders do with the tokens they have made: no run of them twice, and runs that are copied at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant

MICROSOFT = "com.microsoft"


class NGramRepeatBlock(Operator, domain=MICROSOFT):
    """Scores [B, tokens], minus infinity for each token with which `ngram_size` of the tokens [B, T] came already."""

    ngram_size: int

    def expand(self, ids: Array, scores: Array) -> Array:
        if self.ngram_size < 1:
            raise ValueError(f"ngram_size {self.ngram_size} is not positive")
        batch, length = ids.shape
        before = self.ngram_size - 1
        if not length > before:
            return scores
        count = length - before
        parts = [p.equal(p.slice_axis(ids, 1, k, count), p.slice_axis(ids, 1, count + k, 1)) for k in range(before)]
        token = p.slice_axis(ids, 1, before, count)
        if parts:
            token = p.where(reduce(Array.__and__, parts), token, -1)
        lowest = p.full((batch, count), float("-inf"), scores.dtype)
        return p.scatter(scores, lowest, [p.iota((batch, 1), 0), token], [0, 1])

    samples = [
        sample(np.array([[1, 2, 3, 1, 2], [4, 4, 4, 4, 4]]), (2, 6), ngram_size=3),
        sample(np.array([[1, 2, 0]]), (1, 4), ngram_size=1),
        sample(np.array([[1, 2]]), (1, 4), ngram_size=3),
        sample(np.array([[1, 2, 1]]), (1, 4), ngram_size=2),
    ]


class BifurcationDetector(Operator, domain=MICROSOFT):
    """The current tokens, behind them those predicted that go on as the source [S] does from `previous` on, and the
    first that does not; and where in the source to go on: behind the only place where the last tokens are.

    That is looked for with `min_ngram_size` tokens, with one more as long as there are several places, and at most
    with `max_ngram_size`. It is -1 if nothing is found.
    """

    max_ngram_size: int = 3
    min_ngram_size: int = 1

    def expand(self, source: Array, current: Array, previous: Array, predicted: Array | None = None) -> Sequence[Array]:
        if not 0 < self.min_ngram_size <= self.max_ngram_size:
            raise ValueError(f"min_ngram_size {self.min_ngram_size} is not from 1 to {self.max_ngram_size}")
        tokens = current
        if predicted is not None:
            tokens = p.concat([current, _agreed(source, previous, predicted)], 0)
        length, total = tokens.shape[0], source.shape[0]
        place = p.iota((total,), 0)
        suffix_match = constant(np.int64(-1))
        for size in range(self.max_ngram_size, self.min_ngram_size - 1, -1):
            match = p.full((total,), True, dtypes.bool_)
            for k in range(size):
                at = p.reshape(p.literal(length - size + k, dtypes.int64), (1,))
                last = p.gather(tokens, [p.maximum(at, 0)], [0])
                match = match & (place + k < total) & p.equal(p.gather(source, [place + k], [0]), last)
            match = match & (p.literal(length, dtypes.int64) >= size)
            count = p.sum_(p.cast(match, dtypes.int64))
            behind = p.max_(p.where(match, place + size, -1))
            suffix_match = p.where(count > 1, suffix_match, behind)
        return tokens, p.reshape(suffix_match, (1,))

    samples = [
        sample(np.array([1, 5, 3, 4, 2]), np.array([2]), np.array([0]), np.array([1, 5, 9, 4, 2, 7]), outputs=2),
        sample(np.array([1, 5, 3, 4, 2]), np.array([2, 1]), np.array([3]), np.array([4, 2, 7]), outputs=2),
        sample(np.array([1, 2, 1, 2, 3, 1, 2]), np.array([3, 1, 2]), np.array([0]), outputs=2),
        sample(np.array([1, 2, 1, 2, 3, 1, 2]), np.array([1, 2]), np.array([0]), outputs=2),
        sample(np.array([1, 2, 1, 2, 3, 1, 2]), np.array([1]), np.array([0]), outputs=2),
        sample(np.array([1, 5, 3]), np.array([3]), np.array([0]), outputs=2, min_ngram_size=2),
    ]


def _agreed(source: Array, previous: Array, predicted: Array) -> Array:
    """The tokens of the prediction up to the first that differs from the source."""
    place = p.iota(predicted.shape, 0)
    differs = p.not_equal(predicted, p.gather(source, [place + p.reshape(previous, ())], [0]))
    before = p.cumulative(p.cast(differs, dtypes.int32), "sum", 0, exclusive=True)
    return p.gather(predicted, [p.squeeze(p.nonzero(p.equal(before, 0)), [0])], [0])
