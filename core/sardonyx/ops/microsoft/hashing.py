"""Hashes: of elements, and of runs of tokens that index tables of embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.sizes.symbolic import Size

MICROSOFT = "com.microsoft"


class MurmurHash3(Operator, domain=MICROSOFT):
    """The hash of each element's bytes in 32 bits (MurmurHash3_x86_32, Appleby), int32 unless `positive`."""

    positive: int = 1
    seed: int = 0

    def expand(self, x: Array) -> Array:
        seed = self.seed & 0xFFFFFFFF
        if x.dtype is dtypes.string:
            (hashed,) = p.host("text.murmur", x, results=[(dtypes.uint32, x.shape)], seed=seed)
        else:
            hashed = p.full(x.shape, seed, dtypes.uint32)
            words = _words(x)
            for word in words:
                mixed = _rotated(word * _number(0xCC9E2D51), 15) * _number(0x1B873593)
                hashed = _rotated(hashed ^ mixed, 13) * 5 + _number(0xE6546B64)
            hashed = hashed ^ _number(4 * len(words))
            for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
                hashed = (hashed ^ p.shift_right(hashed, shift)) * _number(factor)
            hashed = hashed ^ p.shift_right(hashed, 16)
        return hashed if self.positive else p.bitcast(hashed, dtypes.int32)

    samples = [
        sample(np.array([3, 4, -1], np.int32)),
        sample(np.array([3, 1 << 40, -1]), positive=0, seed=7),
        sample(np.array([[1.5, -0.0, 0.0]], np.float32)),
        sample(np.array([1.5, -2.0]), seed=-1),
        sample(np.array([["a", "abcd"], ["", "déjà"]], object), seed=3),
    ]


def _number(value: int) -> Array:
    return constant(np.uint32(value))


def _words(x: Array) -> list[Array]:
    """The elements as uint32, the lower word of two first."""
    if x.dtype.itemsize == 4:
        return [p.bitcast(x, dtypes.uint32)]
    wide = p.bitcast(x, dtypes.uint64)
    return [p.cast(wide, dtypes.uint32), p.cast(p.shift_right(wide, 32), dtypes.uint32)]


def _rotated(x: Array, bits: int) -> Array:
    return p.shift_left(x, bits) | p.shift_right(x, 32 - bits)


class _NGramHash(Operator, abstract=True):
    """Each token and the n - 1 before it, times a multiplier each, combined by xor: for every n from 2 on, and every
    head of it, that modulo the size of a table."""

    max_ngram_size: int
    n_head_per_ngram: int
    pad_id: int
    reset_on_eos: int = 0

    def check_sizes(self) -> None:
        if self.max_ngram_size < 2 or self.n_head_per_ngram < 1:
            raise ValueError(
                f"max_ngram_size {self.max_ngram_size} is below 2, or n_head_per_ngram {self.n_head_per_ngram} below 1"
            )

    def filler(self, dtype: DType, eos: Array | None) -> Array:
        """The token that stands for those before the first one."""
        return constant(self.pad_id, dtype) if eos is None else p.reshape(eos, ())

    def hashes(
        self,
        tokens: Array,
        earlier: Callable[[int], Array],
        parted: Callable[[int], Array | None],
        multipliers: Array,
        sizes: Array,
        offsets: Array | None,
        eos: Array | None,
    ) -> Array:
        """[..., (max_ngram_size - 1) * heads]; `earlier(k)` are the tokens k places before, `parted(k)` whether a
        border is between those and their successors."""
        heads, residues = self.n_head_per_ngram, []
        mixed, cut = tokens * _at(multipliers, 0), None
        for shift in range(1, self.max_ngram_size):
            before, border = earlier(shift), parted(shift)
            if self.reset_on_eos and eos is not None:
                end = p.equal(before, p.reshape(eos, ()))
                border = end if border is None else border | end
            if border is not None:
                cut = border if cut is None else cut | border
            if cut is not None:
                before = p.where(cut, self.filler(tokens.dtype, eos), before)
            mixed = mixed ^ (before * _at(multipliers, shift))
            size = p.slice_axis(sizes, 0, (shift - 1) * heads, heads)
            rest = p.unsqueeze(mixed, [mixed.rank]) % size
            residues.append(p.where(rest < 0, rest + size, rest))
        hashed = p.concat(residues, tokens.rank)
        return hashed if offsets is None else hashed + offsets


def _at(x: Array, place: int) -> Array:
    return p.reshape(p.slice_axis(x, 0, place, 1), ())


class NGramHashMapping(_NGramHash, domain=MICROSOFT):
    """Hashes [B, T, (max_ngram_size - 1) * n_head_per_ngram] of the runs of tokens that end at each of [B, T], and the
    last max_ngram_size - 1 tokens, for the next call.

    What is before the tokens is `past_ids`, or `pad_id`, or, where it is given, `eos`. That stands also for what
    another segment, or (if `reset_on_eos`) an end of a sequence, parts from the token.
    """

    def expand(
        self,
        ids: Array,
        multipliers: Array,
        sizes: Array,
        past: Array | None = None,
        offsets: Array | None = None,
        eos: Array | None = None,
        segments: Array | None = None,
    ) -> Sequence[Array]:
        self.check_sizes()
        if ids.rank != 2:
            raise ValueError(f"input_ids {p.show(ids.shape)} is not [batch, length]")
        batch, length = ids.shape
        context = self.max_ngram_size - 1
        if past is None:
            past = p.broadcast_to(self.filler(ids.dtype, eos), (batch, context))
        line = p.concat([past, ids], 1)

        def earlier(shift: int) -> Array:
            return p.slice_axis(line, 1, context - shift, length)

        def parted(shift: int) -> Array | None:
            if segments is None:
                return None
            place = p.iota((1, length), 1) - shift
            here, after = (p.gather(segments, [p.maximum(place + k, 0)], [1], 1) for k in (0, 1))
            return (place >= 0) & p.reshape(p.not_equal(here, after), (batch, length))

        hashed = self.hashes(ids, earlier, parted, multipliers, sizes, offsets, eos)
        return hashed, p.slice_axis(line, 1, length, context)

    samples = [
        sample(
            np.array([[4, -7, 11, 3], [2, 2, 9, 1]]),
            np.array([3 << 61, 5 << 60, 7]),
            np.array([11, 13, 17, 19]),
            np.array([[1, 2], [8, 8]]),
            outputs=2,
            max_ngram_size=3,
            n_head_per_ngram=2,
            pad_id=9,
        ),
    ]


class VarlenNGramHashMapping(_NGramHash, domain=MICROSOFT):
    """NGramHashMapping of sequences one after the other, ids [total], of which number b has the places from `ends[b]`
    to `ends[b + 1]`.

    Given back are the hashes [total, (max_ngram_size - 1) * n_head_per_ngram]; the last max_ngram_size - 1 tokens of
    each sequence, and their segments; and those tokens as they were after each of its first `capture_count` tokens,
    [batch, state_update_capacity, max_ngram_size - 1], `pad_id` where there are fewer.
    """

    state_update_capacity: int = 0

    def expand(
        self,
        ids: Array,
        multipliers: Array,
        sizes: Array,
        ends: Array,
        past: Array | None = None,
        offsets: Array | None = None,
        eos: Array | None = None,
        segments: Array | None = None,
        past_segments: Array | None = None,
        captured: Array | None = None,
    ) -> Sequence[Array]:
        self.check_sizes()
        if ids.rank != 1:
            raise ValueError(f"input_ids {p.show(ids.shape)} is not [total]")
        if past_segments is not None and segments is None:
            raise ValueError("past_segment_ids is given without segment_ids; give both")
        total, batch, context = ids.shape[0], ends.shape[0] - 1, self.max_ngram_size - 1
        ends = p.cast(ends, dtypes.int64)
        starts, stops = p.slice_axis(ends, 0, 0, batch), p.slice_axis(ends, 0, 1, batch)
        places = p.iota((total,), 0)
        owner = p.sum_(p.cast(p.unsqueeze(places, [1]) >= p.reshape(stops, (1, batch)), dtypes.int64), [1])
        start = p.gather(starts, [owner], [0])
        if past is None:
            past = p.broadcast_to(self.filler(ids.dtype, eos), (batch, context))

        def tokens(sequence: Array, first: Array, place: Array) -> Array:
            return _of_line(ids, past, sequence, first, place)

        def kinds(sequence: Array, first: Array, place: Array) -> Array | None:
            """The segments at places; before a sequence, without others, the one it begins with."""
            if segments is None:
                return None
            before = past_segments
            if before is None:
                own = p.gather(segments, [starts], [0])
                before = p.broadcast_to(p.unsqueeze(own, [1]), (batch, context))
            return _of_line(segments, before, sequence, first, place)

        def parted(shift: int) -> Array | None:
            here, after = (kinds(owner, start, places - k) for k in (shift, shift - 1))
            return None if here is None or after is None else p.not_equal(here, after)

        hashed = self.hashes(
            ids, lambda shift: tokens(owner, start, places - shift), parted, multipliers, sizes, offsets, eos
        )
        back = p.iota((1, context), 1) - context
        sequence, first = p.iota((batch, 1), 0), p.unsqueeze(starts, [1])
        results = [hashed, tokens(sequence, first, p.unsqueeze(stops, [1]) + back)]
        last = kinds(sequence, first, p.unsqueeze(stops, [1]) + back)
        if last is None and captured is None:
            return results
        results.append(p.full((batch, context), 0, dtypes.int32) if last is None else last)
        return results if captured is None else [*results, self._states(tokens, starts, stops, captured, ids.dtype)]

    def _states(
        self, tokens: Callable[..., Array], starts: Array, stops: Array, captured: Array, dtype: DType
    ) -> Array:
        batch, room, context = starts.shape[0], self.state_update_capacity, self.max_ngram_size - 1
        sequence, first, last = (p.reshape(x, (batch, 1, 1)) for x in (p.iota((batch,), 0), starts, stops))
        turn = p.iota((1, room, 1), 1)
        after = first + turn + 1
        windows = tokens(sequence, first, after + (p.iota((1, 1, context), 2) - context))
        count = p.reshape(p.cast(captured, dtypes.int64), (batch, 1, 1))
        return p.where((turn < count) & (after <= last), windows, constant(self.pad_id, dtype))

    samples = [
        sample(
            np.array([4, 8, 11, 3, 5, 6, 8, 2]),
            np.array([3, 5, 7]),
            np.array([11, 13, 17, 19]),
            np.array([0, 3, 4, 8], np.int32),
            np.arange(6).reshape(3, 2),
            outputs=2,
            max_ngram_size=3,
            n_head_per_ngram=2,
            pad_id=9,
        ),
    ]


def _of_line(x: Array, past: Array, sequence: Array, first: Array, place: Array) -> Array:
    """x [total] at places, or, before the first one of their sequence, the end of `past` [batch, kept]."""
    context: Size = past.shape[1]
    at, own, place = p.broadcast_to(sequence, p.broadcast_shapes(sequence.shape, place.shape)), place - first, place
    earlier = p.gather(past, [at, p.minimum(p.maximum(own + context, 0), context - 1)], [0, 1])
    return p.where(own < 0, earlier, p.gather(x, [p.maximum(place, 0)], [0]))
