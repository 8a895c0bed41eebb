"""Beams: the best few sequences for each prompt, kept while they grow (Wiseman and Rush, 2016)."""

from __future__ import annotations

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.common.record import record
from sardonyx.primitives.array import Array
from sardonyx.primitives.dot_product_attention import NEVER
from sardonyx.sizes.symbolic import Size

UNLIKELY = -1e9
"""The score of all beams but the first at the beginning, when they are the same."""


@record(frozen=True)
class Beams:
    """What is known of B prompts, each with M beams, N being B * M.

    `tokens` int32 [N, most] and their `scores` [B, M], sums of logarithms; of those that ended, `ended` [B, M, most]
    and in order their `ranks` [B, M], the scores divided by powers of their lengths, of which `count` [B] are there;
    and which prompts are `done` [B].
    """

    tokens: Array
    scores: Array
    ended: Array
    ranks: Array
    count: Array
    done: Array

    @classmethod
    def of(cls, tokens: Array, batch: Size, width: int, pad: int) -> Beams:
        """M beams that begin with the same tokens [N, most]."""
        beam = p.iota((batch, width), 1, dtypes.int32)
        scores = p.where(p.equal(beam, 0), p.full((batch, width), 0.0, dtypes.float32), UNLIKELY)
        ended = p.full((batch, width, tokens.shape[1]), pad, dtypes.int32)
        ranks = p.full((batch, width), NEVER, dtypes.float32)
        return cls(
            tokens, scores, ended, ranks, p.full((batch,), 0, dtypes.int32), p.full((batch,), False, dtypes.bool_)
        )

    @property
    def arrays(self) -> list[Array]:
        return [self.tokens, self.scores, self.ended, self.ranks, self.count, self.done]

    def with_ended(self, tokens: Array, scores: Array, ends: Array) -> Beams:
        """The beams with those of the tokens [B, K, most] that end added to the ended ones, of which the best stay."""
        batch, width = self.ranks.shape
        ranks, places = p.top_k(p.concat([self.ranks, p.where(ends, scores, NEVER)], 1), width, 1)
        rows = p.iota((batch, 1), 0, places.dtype)
        ended = p.gather(p.concat([self.ended, tokens], 1), [rows, places], [0, 1])
        count = p.minimum(self.count + p.sum_(p.cast(ends, dtypes.int32), [1]), p.literal(width, dtypes.int32))
        return Beams(self.tokens, self.scores, ended, ranks, count, self.done)


@record(frozen=True)
class Rules:
    """How beams go on: a beam ends with the word `end`, and is filled up with `pad`. Scores are divided by the lengths
    to the power of `penalty`. A prompt is done when M beams ended, if `early`, else when no other can become better."""

    end: int
    pad: int
    penalty: Array | None
    early: bool

    def ranked(self, scores: Array, length: Array) -> Array:
        """Scores of sequences of this length as they compare with those of others."""
        wide = p.cast(length, scores.dtype)
        return scores / (wide if self.penalty is None else wide ** p.cast(p.reshape(self.penalty, ()), scores.dtype))

    def grown(self, beams: Beams, scores: Array, length: Array) -> tuple[Beams, Array, Array]:
        """The beams without their next words, those words [N], and the rows [N] that they follow, for the scores
        [N, V] of sequences that are a word longer."""
        batch, width = beams.scores.shape
        words = scores.shape[1]
        assert isinstance(width, int)
        values, places = p.top_k(p.reshape(scores, (batch, width * words)), 2 * width, 1)
        places = p.cast(places, dtypes.int32)
        own = p.iota((batch, 1), 0, dtypes.int32) * width
        sources = places / words + own
        following = places % words
        ends = p.equal(following, self.end)
        order = p.iota((batch, 2 * width), 1, dtypes.int32)
        chosen, _ = p.top_k(p.where(ends, order + 2 * width, order), width, 1, largest=False)
        rows = p.iota((batch, 1), 0, chosen.dtype)
        values_kept, following, sources_kept = (
            p.where(p.unsqueeze(beams.done, [1]), instead, p.gather(x, [rows, chosen], [0, 1]))
            for x, instead in ((values, 0.0), (following, self.pad), (sources, own))
        )
        first = [p.slice_axis(x, 1, 0, width) for x in (values, sources, ends)]
        ended = beams.with_ended(
            p.gather(beams.tokens, [first[1]], [0]),
            self.ranked(first[0], length),
            first[2] & ~p.unsqueeze(beams.done, [1]),
        )
        done = p.equal(ended.count, width)
        if not self.early:
            best = self.ranked(p.squeeze(p.slice_axis(values, 1, 0, 1), [1]), length)
            worst = p.squeeze(p.slice_axis(ended.ranks, 1, width - 1, 1), [1])
            done = done & (worst >= best)
        flat = (beams.tokens.shape[0],)
        rows = p.reshape(sources_kept, flat)
        tokens = p.gather(beams.tokens, [rows], [0])
        updated = Beams(tokens, values_kept, ended.ended, ended.ranks, ended.count, beams.done | done)
        return updated, p.reshape(following, flat), rows

    def finished(self, beams: Beams, returned: Size) -> tuple[Array, Array]:
        """The best sequences [B, returned, most] and their scores [B, returned]; beams end where prompts are not
        done."""
        batch, width = beams.scores.shape
        most = beams.tokens.shape[1]
        open_ = p.broadcast_to(p.unsqueeze(~beams.done, [1]), (batch, width))
        tokens = p.reshape(beams.tokens, (batch, width, most))
        scores = self.ranked(beams.scores, p.literal(most, dtypes.int32))
        ended = beams.with_ended(tokens, scores, open_)
        return p.slice_axis(ended.ended, 1, 0, returned), p.slice_axis(ended.ranks, 1, 0, returned)
