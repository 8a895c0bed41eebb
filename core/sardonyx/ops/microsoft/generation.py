"""Generation of text, a word after the other, by a graph that says how likely each word of a vocabulary comes next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.model.ir import Graph
from sardonyx.ops.control import ControlFlow
from sardonyx.ops.microsoft.decoders import Decoder, Gpt
from sardonyx.ops.microsoft.logits import Processors, drawn, head, nucleus
from sardonyx.primitives.array import Array
from sardonyx.primitives.control import loop
from sardonyx.primitives.reading import known_sizes
from sardonyx.sizes.symbolic import Size

MICROSOFT = "com.microsoft"

Choice: TypeAlias = tuple[Array, Array, Array | None, list[Array]]
Choose: TypeAlias = Callable[[Array, Array, bool, list[Array]], Choice]
"""Of logits float32 [N, V], the number of words so far, whether it is the first time, and what is carried: whether to
go on, the words that come next [N], the rows that they follow (None if each its own), and what is carried on."""


class Generation(ControlFlow, abstract=True):
    """An operator that generates. Sequences are filled up with `pad_token_id`."""

    structured = False
    declared = True

    decoder: Graph
    decoder_start_token_id: int = -1
    encoder: Graph | None = None
    eos_token_id: int
    init_decoder: Graph | None = None
    model_type: int = 0
    no_repeat_ngram_size: int = 0
    pad_token_id: int
    vocab_size: int = -1

    def generated(
        self, decoder: Decoder, prompt: Array, most: Size, choose: Choose, carried: Sequence[Array]
    ) -> list[Array]:
        """The carried values when there are `most` words, the prompt's [N, S] among them, or `choose` ends the loop.

        At the first call `choose` may return more carried values than it was passed.
        """
        start = prompt.shape[1]
        if not most > start:
            raise ValueError(f"max_length is {most}, but the prompt alone has {start} tokens; use a larger one")

        def chosen(
            logits: Array, length: Array, first: bool, words: Array, state: Sequence[Array], carried: Sequence[Array]
        ) -> tuple[Array, list[Array], list[Array]]:
            scores = p.squeeze(p.slice_axis(logits, 1, logits.shape[1] - 1, 1), [1])
            if self.vocab_size > 0:
                scores = p.slice_axis(scores, 1, 0, self.vocab_size)
            going, following, rows, carried = choose(p.widen(scores), length, first, list(carried))
            if rows is not None:
                words, state = p.gather(words, [rows], [0]), decoder.taken(state, rows)
            following = p.unsqueeze(following, [1])
            words = p.concat([words, following], 1) if decoder.whole else following
            return going, [words, *carried], list(state)

        logits, state = decoder.first()
        going, begun, state = chosen(logits, p.literal(start, dtypes.int32), True, prompt, state, carried)

        def body(turn: Array, _: Array, *values: Array) -> list[Array]:
            words, *carried = values[: len(begun)]
            logits, state = decoder.next(words, values[len(begun) :])
            length = p.cast(turn, dtypes.int32) + (start + 1)
            going, continued, state = chosen(logits, length, False, words, state, carried)
            return [going, *continued, *state]

        turns = p.literal(most - start - 1, dtypes.int64)
        return loop(turns, going, [*begun, *state], body)[1 : len(begun)]

    def asks(self, k: int) -> bool:
        """Whether the node has output k."""
        return len(self.node.outputs) > k and bool(self.node.outputs[k].name)

    def line(self, prompt: Array, most: Size) -> Array:
        """A prompt [N, S] filled up to [N, most]."""
        missing = p.full((prompt.shape[0], most - prompt.shape[1]), self.pad_token_id, dtypes.int32)
        return p.concat([prompt, missing], 1)


def written(tokens: Array, length: Array, words: Array) -> Array:
    """Tokens [N, most] with words [N] in the place `length`."""
    place = p.iota((1, tokens.shape[1]), 1, dtypes.int32)
    return p.where(p.equal(place, length), p.unsqueeze(words, [1]), tokens)


class _Line(Generation, abstract=True):
    """Generation of one sequence for each prompt, by a graph like GPT-2's."""

    def sequences(
        self,
        ids: Array,
        max_length: Array,
        mask: Array | None,
        processors: Processors,
        pick: Callable[[Array, Array], tuple[Array, list[Array]]],
    ) -> list[Array]:
        """int32 [B, max_length], and what else `pick` gives beside the words [B] for scores [B, V]."""
        if self.model_type != 0:
            raise NotImplementedError(f"model_type {self.model_type} is not supported; use 0, with a decoder alone")
        (most,) = known_sizes(max_length)

        def choose(logits: Array, length: Array, first: bool, carried: list[Array]) -> Choice:
            tokens, finished, *_ = carried
            words, extra = pick(processors(logits, tokens, length, first), length)
            finished = finished | p.equal(words, self.eos_token_id)
            words = p.where(finished, self.pad_token_id, words)
            carried = [written(tokens, length, words), finished, *extra]
            return ~p.reduce(finished, "all", [0]), words, None, carried

        decoder = Gpt(self.run, self.decoder, self.init_decoder, ids, mask, self.pad_token_id, most)
        finished = p.full((ids.shape[0],), False, dtypes.bool_)
        tokens, _, *extra = self.generated(decoder, ids, most, choose, [self.line(ids, most), finished])
        return [tokens, *extra]


class GreedySearch(_Line, domain=MICROSOFT):
    """Sequences int32 [B, max_length] that begin with prompts [B, S] and go on with the likeliest word each time, until
    all have `eos_token_id`, in whose place, and behind which, is `pad_token_id`."""

    def expand(
        self,
        ids: Array,
        max_length: Array,
        min_length: Array | None = None,
        repetition_penalty: Array | None = None,
        vocabulary: Array | None = None,
        prefix: Array | None = None,
        mask: Array | None = None,
    ) -> list[Array]:
        def pick(scores: Array, length: Array) -> tuple[Array, list[Array]]:
            return p.cast(p.arg(scores, "argmax", 1), dtypes.int32), []

        limits = repetition_penalty, vocabulary, prefix, min_length
        processors = Processors(self.eos_token_id, self.no_repeat_ngram_size, *limits)
        return self.sequences(ids, max_length, mask, processors, pick)


class Sampling(_Line, domain=MICROSOFT):
    """GreedySearch, but words are drawn as likely as they are, among the likeliest that together have the probability
    `top_p`. The same `seed`, 0 if there is none, draws the same. Also gives the last scores that were drawn from."""

    custom: int = 0
    filter_value: float = -1e20
    min_tokens_to_keep: int = 0
    presence_penalty: float = 0.0
    temperature: float = 1.0
    top_p: float = 0.0

    def expand(
        self,
        ids: Array,
        max_length: Array,
        min_length: Array | None = None,
        repetition_penalty: Array | None = None,
        vocabulary: Array | None = None,
        prefix: Array | None = None,
        mask: Array | None = None,
        presence: Array | None = None,
        seed: Array | None = None,
    ) -> list[Array]:
        start = p.full((1,), 0, dtypes.uint32)
        if seed is not None:
            start = p.cast(p.reshape(seed, (1,)), dtypes.uint32)
        shows = self.asks(1)

        def pick(scores: Array, length: Array) -> tuple[Array, list[Array]]:
            if presence is not None and self.presence_penalty:
                scores = scores - p.cast(presence, scores.dtype) * self.presence_penalty
            if self.custom:
                scores = head(scores, self.top_p, self.filter_value)
            else:
                scores = nucleus(scores, self.top_p, self.filter_value, self.min_tokens_to_keep)
            key = p.concat([start, p.reshape(p.cast(length, dtypes.uint32), (1,))], 0)
            return drawn(scores, key), [scores] if shows else []

        limits = repetition_penalty, vocabulary, prefix, min_length
        heat = self.temperature if self.temperature > 0 else None
        processors = Processors(self.eos_token_id, self.no_repeat_ngram_size, *limits, heat)
        return self.sequences(ids, max_length, mask, processors, pick)
