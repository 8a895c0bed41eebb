"""n-grams: how often known sequences of words or numbers occur in lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.common.record import record
from sardonyx.ops.lookup import lookup
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant


@record(frozen=True)
class Level:
    """The prefixes of one length, numbered from 0: `keys` in ascending order, each `prefix before * base + item`, and
    for each prefix the column in which it is counted, or -1."""

    keys: np.ndarray
    columns: np.ndarray


def levels_of(grams: Sequence[np.ndarray], columns: Sequence[np.ndarray], base: int) -> list[Level]:
    """The levels of n-grams, [count, n] for each n from 1 on, of items below `base`.

    >>> grams, columns = [np.array([[4]]), np.array([[4, 2]])], [np.array([0]), np.array([1])]
    >>> [level.keys.tolist() for level in levels_of(grams, columns, 10)]
    [[4], [2]]
    """
    prefixes = [np.zeros(len(each), np.int64) for each in grams]
    levels = []
    for k, own in enumerate(columns):
        codes = [prefix * base + each[:, k] for prefix, each in zip(prefixes[k:], grams[k:], strict=True)]
        keys = np.unique(np.concatenate(codes))
        prefixes[k:] = [np.searchsorted(keys, each) for each in codes]
        counted = np.full(len(keys), -1, np.int32)
        counted[prefixes[k]] = own
        levels.append(Level(keys, counted))
    return levels


class TfIdfVectorizer(Operator, since=9):
    """Counts of the n-grams in `pool_*`, each at its place of `ngram_indexes`; IDF: its weight if any; TFIDF: both.

    `ngram_counts` says where those of each length begin in the pool. Up to `max_skip_count` items lie between two that
    belong together, always as many.
    """

    max_gram_length: int
    max_skip_count: int
    min_gram_length: int
    mode: str
    ngram_counts: tuple[int, ...]
    ngram_indexes: tuple[int, ...]
    pool_int64s: tuple[int, ...] | None = None
    pool_strings: tuple[str, ...] | None = None
    weights: tuple[float, ...] | None = None

    def expand(self, x: Array) -> Array:
        if self.mode not in ("TF", "IDF", "TFIDF"):
            raise ValueError(f"mode is {self.mode!r}; use TF, IDF or TFIDF")
        if x.rank not in (1, 2):
            raise ValueError(f"x is {p.show(x.shape)}, but [C] or [N,C] is needed")
        lines = p.reshape(x, (1, *x.shape)) if x.rank == 1 else x
        width = max(self.ngram_indexes, default=-1) + 1
        counts = p.full((lines.shape[0], width), 0.0, dtypes.float32)
        if parts := list(self._columns(lines)):
            columns = p.concat(parts, 1)
            ones = p.full(columns.shape, 1.0, dtypes.float32)
            counts = p.scatter(counts, ones, [p.iota(columns.shape, 0, dtypes.int32), columns], [0, 1], "add")
        if self.mode != "TF":
            weights = np.ones(width, np.float32)
            if self.weights:
                weights[np.array(self.ngram_indexes)] = self.weights
            counts = (p.cast(counts > 0, dtypes.float32) if self.mode == "IDF" else counts) * constant(weights)
        return p.reshape(counts, (width,)) if x.rank == 1 else counts

    def _columns(self, lines: Array) -> Iterator[Array]:
        """int32 [N, ...], for every length and distance: where what begins at an item is counted, -1 for nowhere."""
        if lines.dtype is dtypes.string:
            pool = np.array(self.pool_strings or (), object)
        else:
            pool, lines = np.array(self.pool_int64s or (), np.int64), p.cast(lines, dtypes.int64)
        if len(pool) == 0 < len(self.ngram_indexes):
            raise ValueError(
                f"x is {lines.dtype}, and the attribute for its n-grams, pool_strings or pool_int64s, is missing"
            )
        words, numbers = np.unique(pool, return_inverse=True)
        base = len(words) + 1
        levels = levels_of(*self._grams(numbers), base)
        items = lookup(lines, words, np.arange(base - 1), base - 1, dtypes.int32)
        for step in range(1, self.max_skip_count + 2):
            state: Array | None = None
            for k, level in enumerate(levels):
                length = lines.shape[1] - k * step
                if not length > 0:
                    break
                key = p.slice_axis(items, 1, k * step, length)
                if state is not None:
                    dtype = dtypes.int32 if (len(levels[k - 1].keys) + 1) * base < 1 << 31 else dtypes.int64
                    key = p.cast(p.slice_axis(state, 1, 0, length), dtype) * base + p.cast(key, dtype)
                size = len(level.keys)
                state = lookup(key, level.keys, np.arange(size), size, dtypes.int32)
                if (k or step == 1) and (level.columns >= 0).any():
                    yield p.gather(constant(np.append(level.columns, np.int32(-1))), [state], [0])

    def _grams(self, pool: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The n-grams that count, [count, n] for each n from 1 on, and their columns."""
        grams, columns, first = [], [], 0
        bounds = [*self.ngram_counts, len(pool)]
        for n, (start, end) in enumerate(pairwise(bounds), 1):
            rows = pool[start:end].reshape(-1, n)
            used = slice(0, len(rows) if self.min_gram_length <= n else 0)
            grams.append(rows[used])
            columns.append(np.array(self.ngram_indexes[first : first + len(rows)], np.int32)[used])
            first += len(rows)
        return grams[: self.max_gram_length], columns[: self.max_gram_length]

    samples = [
        sample(
            np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]], dtype),
            mode=mode,
            min_gram_length=least,
            max_gram_length=2,
            max_skip_count=skip,
            ngram_counts=[0, 4],
            ngram_indexes=[0, 1, 2, 3, 4, 6, 5],
            pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
            weights=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
        )
        for dtype, mode, least, skip in (
            (np.int64, "TF", 2, 0),
            (np.int32, "TF", 1, 5),
            (np.int64, "IDF", 1, 1),
            (np.int64, "TFIDF", 2, 5),
        )
    ]
    samples += [
        sample(
            np.array(words, object),
            mode="TF",
            min_gram_length=1,
            max_gram_length=3,
            max_skip_count=0,
            ngram_counts=[0, 2, 4],
            ngram_indexes=[0, 1, 2, 3],
            pool_strings=["a", "b", "b", "a", "b", "a", "c"],
        )
        for words in (["a", "b", "a", "c", "d"], [["b", "a", "c"], ["x", "b", "a"]], ["c"])
    ]
