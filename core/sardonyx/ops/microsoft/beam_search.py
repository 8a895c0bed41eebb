"""Generation that keeps the best few sequences for each prompt while they grow."""

from __future__ import annotations

from sardonyx import dtypes
from sardonyx import primitives as p
from sardonyx.array import Array, known_sizes
from sardonyx.ops.microsoft.beams import Beams, Rules
from sardonyx.ops.microsoft.decoders import Decoder, EncoderDecoder, Gpt, repeated
from sardonyx.ops.microsoft.generation import MICROSOFT, Choice, Generation, written
from sardonyx.ops.microsoft.logits import Processors, log_softmax
from sardonyx.symbolic import Size


class _Beams(Generation, abstract=True):
    """Generation of the best of some beams."""

    early_stopping: int = 0

    def searched(
        self,
        decoder: Decoder,
        prompt: Array,
        most: Size,
        width: int,
        returned: Size,
        processors: Processors,
        penalty: Array | None,
    ) -> list[Array]:
        """The sequences, their scores, and those of all words [most - S, B, M, V] at each step, 0 where none was
        taken; the prompt [B * M, S] stands there once for each beam."""
        if not 0 < returned <= width:
            raise ValueError(f"num_return_sequences is {returned}, but there are {width} beams; use 1..{width}")
        start = prompt.shape[1]
        batch = prompt.shape[0] // width
        rules = Rules(self.eos_token_id, self.pad_token_id, penalty, bool(self.early_stopping))
        shows = self.asks(2)

        def choose(logits: Array, length: Array, first: bool, carried: list[Array]) -> Choice:
            beams = Beams(*carried[:6])
            scores = processors(log_softmax(logits), beams.tokens, length, first)
            scores = scores + p.reshape(beams.scores, (prompt.shape[0], 1))
            extra = []
            if shows:
                shape = (batch, width, scores.shape[1])
                before = p.full((most - start, *shape), 0.0, dtypes.float32) if first else carried[6]
                step = p.reshape(length - start, (1,))
                extra.append(p.scatter(before, p.reshape(scores, (1, *shape)), [step], [0]))
            grown, words, rows = rules.grown(beams, scores, length)
            tokens = written(grown.tokens, length, words)
            return ~p.reduce(grown.done, "all", [0]), words, rows, [tokens, *grown.arrays[1:], *extra]

        begun = Beams.of(self.line(prompt, most), batch, width, self.pad_token_id)
        carried = self.generated(decoder, prompt, most, choose, begun.arrays)
        return [*rules.finished(Beams(*carried[:6]), returned), *carried[6:]]


class BeamSearch(_Beams, domain=MICROSOFT):
    """The best sequences int32 [B, num_return_sequences, max_length] that begin with prompts [B, S], found among
    `num_beams`; their scores, and those of all words at each step. With an encoder, it takes the prompts, and sequences
    begin with `decoder_start_token_id`."""

    def expand(
        self,
        ids: Array,
        max_length: Array,
        min_length: Array | None,
        num_beams: Array,
        num_return_sequences: Array,
        length_penalty: Array | None = None,
        repetition_penalty: Array | None = None,
        vocabulary: Array | None = None,
        prefix: Array | None = None,
        mask: Array | None = None,
        decoder_ids: Array | None = None,
        logits_processor: Array | None = None,
    ) -> list[Array]:
        (most,), (returned,) = known_sizes(max_length), known_sizes(num_return_sequences)
        width = int(known_sizes(num_beams)[0])
        spread = None if prefix is None else repeated(prefix, width)
        limits = repetition_penalty, vocabulary, spread, min_length
        processors = Processors(self.eos_token_id, self.no_repeat_ngram_size, *limits)
        if self.model_type == 0:
            prompt = repeated(ids, width)
            masked = None if mask is None else repeated(mask, width)
            decoder: Decoder = Gpt(self.run, self.decoder, self.init_decoder, prompt, masked, self.pad_token_id)
        else:
            if self.model_type != 1 or self.encoder is None or self.decoder_start_token_id < 0:
                raise ValueError(
                    "model_type 1, for an encoder and a decoder, needs an encoder and decoder_start_token_id"
                )
            if mask is None:  # Only padding before the first word: the last one may be the same as padding.
                counted = p.cast(p.not_equal(ids, self.pad_token_id), dtypes.int32)
                mask = p.cast(p.cumulative(counted, "sum", 1) > 0, dtypes.int32)
            start = p.full((ids.shape[0], 1), self.decoder_start_token_id, dtypes.int32)
            decoder = EncoderDecoder(self.run, self.encoder, self.decoder, [ids, mask], True, start, width)
            prompt = repeated(start, width)
        return self.searched(decoder, prompt, most, width, returned, processors, length_penalty)
