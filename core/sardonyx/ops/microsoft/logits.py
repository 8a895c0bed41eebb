"""What changes the scores of the words that may come next before one is chosen."""

from __future__ import annotations

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.common.record import record
from sardonyx.primitives.array import Array

LOWEST = float(np.finfo(np.float32).min)
"""The score of a word that may not come next."""


@record(frozen=True)
class Timestamps:
    """The rules of Whisper for the words that are times, those from `begin` on (Radford et al., "Robust speech
    recognition via large-scale weak supervision", 2022): pairs that do not go back, unless the text ends.

    The numbers are those of the words that end a text, that begin one, that name tasks and that never come.
    """

    end: int
    start: int
    tasks: tuple[int, ...]
    never: tuple[int, ...]
    begin: int

    LATEST = 50
    """How far the first time may be behind `begin`."""

    def __call__(self, scores: Array, tokens: Array, length: Array) -> Array:
        place = p.iota((1, tokens.shape[1]), 1, dtypes.int32)
        word = p.iota((1, scores.shape[1]), 1, dtypes.int32)
        rows = p.iota((tokens.shape[0], 1), 0, dtypes.int32)

        def at(index: Array) -> Array:
            return p.gather(tokens, [rows, index], [0, 1])

        timed = (place < length) & (tokens >= self.begin)
        any_timed = p.reduce(timed, "any", [1], keepdims=True)
        first = p.reduce(p.where(timed, place, tokens.shape[1]), "min", [1], keepdims=True)
        latest = at(p.max_(p.where(timed, place, -1), [1], keepdims=True))
        begun = p.where(any_timed, first + 1, length)
        last, before = (at(p.reshape(length - k, (1, 1))) for k in (1, 2))
        single = (last >= self.begin) & (length > begun) & (before < self.begin)
        paired = (last >= self.begin) & ~single
        bound = p.where(single, latest, latest + 1)
        refused = (
            _among(word, self.never)
            | ((length > begun) & _among(word, (self.start, *self.tasks)))
            | (paired & (word >= self.begin))
            | (single & (word < self.end))
            | (any_timed & (word >= self.begin) & (word < bound))
            | (p.equal(begun, length) & (word > self.begin + self.LATEST))
        )
        return self._likelier(p.where(refused, LOWEST, scores), word)

    def _likelier(self, scores: Array, word: Array) -> Array:
        """Scores without text where all times together are likelier than each word of it."""
        times = p.where(word >= self.begin, scores, LOWEST)
        peak = p.max_(times, [1], keepdims=True)
        total = p.sum_(p.where(times > LOWEST, p.exp(times - peak), 0.0), [1], keepdims=True)
        text = p.max_(p.where(word < self.begin, scores, LOWEST), [1], keepdims=True)
        likelier = (total > 0.0) & (p.log(total) + peak > text)
        return p.where(likelier & (word < self.begin), LOWEST, scores)


@record(frozen=True)
class Processors:
    """Changes to scores float32 [N, V] that follow `tokens` [N, most], of which the first `length` count.

    `repetition` divides the scores above 0 of words that were there, and multiplies the others. No `ngram` words come
    in the same order again. Words are left out that are 0 in `vocabulary` [V], or, coming first, in `prefix` [N, V]; so
    is `end` before there are `least` words. Then scores are divided by the `temperature`, and `times` have their rules.
    """

    end: int
    ngram: int = 0
    repetition: Array | None = None
    vocabulary: Array | None = None
    prefix: Array | None = None
    least: Array | None = None
    temperature: Array | float | None = None
    times: Timestamps | None = None

    def __call__(self, scores: Array, tokens: Array, length: Array, first: bool) -> Array:
        place = p.iota((1, tokens.shape[1]), 1, dtypes.int32)
        if self.repetition is not None:
            penalty = p.reshape(self.repetition, ())
            lessened = p.where(scores < 0.0, scores * penalty, scores / penalty)
            scores = p.where(_words(tokens, place < length, scores), lessened, scores)
        if self.ngram > 0:
            scores = self._without_repeated(scores, tokens, length)
        if self.vocabulary is not None:
            scores = p.where(p.equal(self.vocabulary, 0), LOWEST, scores)
        if self.prefix is not None and first:
            scores = p.where(p.equal(self.prefix, 0), LOWEST, scores)
        if self.least is not None:
            word = p.iota((1, scores.shape[1]), 1, dtypes.int32)
            scores = p.where(p.equal(word, self.end) & (length < p.reshape(self.least, ())), LOWEST, scores)
        if self.temperature is not None:
            scores = scores / self.temperature
        return scores if self.times is None else self.times(scores, tokens, length)

    def _without_repeated(self, scores: Array, tokens: Array, length: Array) -> Array:
        """The scores, the lowest for words that would complete an n-gram which a sequence already has."""
        count, most = tokens.shape
        if self.ngram > most:
            return scores
        before, starts = self.ngram - 1, most - self.ngram + 1
        matches = p.broadcast_to(p.iota((1, starts), 1, dtypes.int32) <= length - self.ngram, (count, starts))
        rows = p.iota((count, 1), 0, dtypes.int32)
        for k in range(before):
            ending = p.gather(tokens, [rows, p.reshape(length - (before - k), (1, 1))], [0, 1])
            matches = matches & p.equal(p.slice_axis(tokens, 1, k, starts), ending)
        repeated = _words(p.slice_axis(tokens, 1, before, starts), matches, scores)
        return p.where(repeated, LOWEST, scores)


def _words(tokens: Array, counted: Array, scores: Array) -> Array:
    """bool [N, V]: which words are among tokens [N, T], of those that are counted."""
    count, size = scores.shape
    rows = p.iota((count, 1), 0, dtypes.int32)
    columns = p.where(counted, tokens, p.literal(size, tokens.dtype))
    none = p.full((count, size), 0, dtypes.int32)
    return p.scatter(none, p.full(columns.shape, 1, dtypes.int32), [rows, columns], [0, 1]) > 0


def _among(word: Array, numbers: tuple[int, ...]) -> Array:
    """Which words have one of these numbers."""
    matches = p.equal(word, numbers[0])
    for number in numbers[1:]:
        matches = matches | p.equal(word, number)
    return matches


def log_softmax(x: Array) -> Array:
    """Logarithms of probabilities, along the last axis."""
    less = x - p.max_(x, [-1], keepdims=True)
    return less - p.log(p.sum_(p.exp(less), [-1], keepdims=True))


def nucleus(scores: Array, top: float, value: float, keep: int) -> Array:
    """Scores in which those of the least probable words that together have a probability of 1 - `top` or less are
    `value`, but for the `keep` best ones (Holtzman et al., "The curious case of neural text degeneration", 2020)."""
    size = scores.shape[1]
    ordered, places = p.sort(scores, 1)
    reached = p.cumulative(p.exp(log_softmax(ordered)), "sum", 1)
    rank = p.iota((1, size), 1, dtypes.int32)
    lost = (reached <= 1 - top) & (p.equal(rank, 0) | (rank < size - keep))
    return _put_back(scores, p.where(lost, value, ordered), places)


def head(scores: Array, top: float, value: float) -> Array:
    """Scores in which those of words are `value` before which the better ones have a probability above `top`."""
    ordered, places = p.sort(scores, 1, descending=True)
    better = p.cumulative(p.exp(log_softmax(ordered)), "sum", 1, exclusive=True)
    return _put_back(scores, p.where(better > top, value, ordered), places)


def _put_back(scores: Array, ordered: Array, places: Array) -> Array:
    rows = p.iota((scores.shape[0], 1), 0, places.dtype)
    return p.scatter(scores, ordered, [rows, places], [0, 1])


def drawn(scores: Array, key: Array) -> Array:
    """int32 [N]: a word for each row of scores, the logarithms of what its probability is proportional to."""
    reached = p.cumulative(p.exp(scores - p.max_(scores, [1], keepdims=True)), "sum", 1)
    count, size = scores.shape
    height = p.random_uniform(key, (count, 1), scores.dtype) * p.slice_axis(reached, 1, size - 1, 1)
    below = p.sum_(p.cast(reached <= height, dtypes.int32), [1])
    return p.minimum(below, p.literal(size - 1, dtypes.int32))
