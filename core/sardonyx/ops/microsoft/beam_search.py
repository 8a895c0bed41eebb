"""Generation that keeps the best few sequences for each prompt while they grow."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.microsoft.attention import refuse
from sardonyx.ops.microsoft.beams import Beams, Rules
from sardonyx.ops.microsoft.decoders import Decoder, EncoderDecoder, Gpt, repeated
from sardonyx.ops.microsoft.generation import MICROSOFT, Choice, Generation, written
from sardonyx.ops.microsoft.logits import Processors, Timestamps, log_softmax
from sardonyx.primitives.array import Array
from sardonyx.primitives.reading import known_sizes
from sardonyx.sizes.symbolic import Size


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
        silence: int | None = None,
    ) -> list[Array]:
        """The sequences and their scores for a prompt [B * M, S] that is repeated for each beam.

        Behind these come the scores of all words [most - S, B, M, V] at each step, 0 at steps that were not taken, if
        the node has that output, and the probability [B] of the word `silence` behind the prompt, if there is one.
        """
        if not 0 < returned <= width:
            raise ValueError(f"num_return_sequences is {returned}, but there are {width} beams; use 1..{width}")
        start = prompt.shape[1]
        batch = prompt.shape[0] // width
        rules = Rules(self.eos_token_id, self.pad_token_id, penalty, bool(self.early_stopping))
        shows = self.asks(2)

        def choose(logits: Array, length: Array, first: bool, carried: list[Array]) -> Choice:
            beams = Beams(*carried[:6])
            likely = log_softmax(logits)
            scores = processors(likely, beams.tokens, length, first)
            scores = scores + p.reshape(beams.scores, (prompt.shape[0], 1))
            extra = carried[7 if shows else 6 :]
            if silence is not None and first:
                probabilities = p.reshape(p.exp(p.slice_axis(likely, 1, silence, 1)), (batch, width))
                extra = [p.squeeze(p.slice_axis(probabilities, 1, 0, 1), [1])]
            if shows:
                shape = (batch, width, scores.shape[1])
                before = p.full((most - start, *shape), 0.0, dtypes.float32) if first else carried[6]
                step = p.reshape(length - start, (1,))
                extra = [p.scatter(before, p.reshape(scores, (1, *shape)), [step], [0]), *extra]
            grown, words, rows = rules.grown(beams, scores, length)
            tokens = written(grown.tokens, length, words)
            return ~p.reduce(grown.done, "all", [0]), words, rows, [tokens, *grown.arrays[1:], *extra]

        begun = Beams.of(self.line(prompt, most), batch, width, self.pad_token_id)
        carried = self.generated(decoder, prompt, most, choose, begun.arrays)
        return [*rules.finished(Beams(*carried[:6]), returned), *carried[6:]]

    def begun(self, features: Array, words: Array | None) -> Array:
        """What sequences begin with for features [B, F, T]: these words [B, S], or the one that starts a text."""
        if words is None and self.decoder_start_token_id < 0:
            raise ValueError("generation of words for features needs decoder_input_ids or decoder_start_token_id")
        return p.full((features.shape[0], 1), self.decoder_start_token_id, dtypes.int32) if words is None else words

    def pair(self, encoder_inputs: Sequence[Array], words: Array, most: Size, width: int) -> EncoderDecoder:
        """The encoder of these inputs, with or without a mask, and the decoder that begins with these words."""
        if self.encoder is None:
            raise ValueError(f"model_type {self.model_type}, for an encoder and a decoder, needs an encoder")
        masked = len(encoder_inputs) > 1
        return EncoderDecoder(self.run, self.encoder, self.decoder, encoder_inputs, masked, words, most, width)


class BeamSearch(_Beams, domain=MICROSOFT):
    """The best sequences int32 [B, num_return_sequences, max_length] that begin with prompts [B, S], found among
    `num_beams`; their scores, and those of all words at each step. With an encoder, it takes the prompts, and sequences
    begin with `decoder_start_token_id`. With `model_type` 2 it takes features [B, F, T], and sequences begin with
    `decoder_ids` [B, S] if there are any."""

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
            pad = self.pad_token_id
            decoder: Decoder = Gpt(self.run, self.decoder, self.init_decoder, prompt, masked, pad, most, width)
            return self.searched(decoder, prompt, most, width, returned, processors, length_penalty)
        if self.model_type == 2:
            if logits_processor is not None and known_sizes(logits_processor)[0] == 1:
                raise ValueError("logits_processor is 1, which needs the tokens that WhisperBeamSearch is told")
            start, encoder_inputs = self.begun(ids, decoder_ids), [ids]
        elif self.model_type == 1 and self.decoder_start_token_id >= 0:
            if mask is None:  # Only padding before the first word: the last one may be the same as padding.
                counted = p.cast(p.not_equal(ids, self.pad_token_id), dtypes.int32)
                mask = p.cast(p.cumulative(counted, "sum", 1) > 0, dtypes.int32)
            start, encoder_inputs = p.full((ids.shape[0], 1), self.decoder_start_token_id, dtypes.int32), [ids, mask]
        else:
            raise ValueError("model_type 1, for an encoder and a decoder, needs an encoder and decoder_start_token_id")
        decoder = self.pair(encoder_inputs, start, most, width)
        return self.searched(decoder, repeated(start, width), most, width, returned, processors, length_penalty)


class WhisperBeamSearch(_Beams, domain=MICROSOFT):
    """BeamSearch for an encoder and a decoder like Whisper's: of features [B, F, T], sequences that begin with
    `decoder_ids` [B, S]. Also gives the probability that nothing is said.

    With a `logits_processor` of 1, words that are times follow Whisper's rules.
    """

    beginning_timestamp_token_id: int = -1
    decoder_output_cross_qk: int = 0
    model_type: int = 2
    no_speech_token_id: int = -1
    no_timestamps_token_id: int = -1
    start_of_lm_token_id: int = -1
    transcribe_token_id: int = -1
    translate_token_id: int = -1

    def expand(
        self,
        features: Array,
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
        cross_heads: Array | None = None,
        extra_ids: Array | None = None,
        temperature: Array | None = None,
    ) -> list[Array]:
        refuse(decoder_output_cross_qk=self.decoder_output_cross_qk, extra_decoding_ids=extra_ids)
        refuse(cross_qk=self.asks(3))
        (most,), (returned,) = known_sizes(max_length), known_sizes(num_return_sequences)
        width = int(known_sizes(num_beams)[0])
        silence = self.no_speech_token_id if self.asks(4) else None
        start = self.begun(features, decoder_ids)
        if silence is not None and silence < 0:
            raise ValueError("the output non_speech_probs needs no_speech_token_id")
        times = None
        if logits_processor is not None and known_sizes(logits_processor)[0] == 1:
            times = self._times()
        spread = None if prefix is None else repeated(prefix, width)
        limits = repetition_penalty, vocabulary, spread, min_length
        heat = None if temperature is None else p.cast(p.reshape(temperature, ()), dtypes.float32)
        processors = Processors(self.eos_token_id, self.no_repeat_ngram_size, *limits, heat, times)
        decoder, prompt = self.pair([features], start, most, width), repeated(start, width)
        results = self.searched(decoder, prompt, most, width, returned, processors, length_penalty, silence)
        if silence is None:
            return results
        missing = p.full((0,), 0.0, dtypes.float32)
        return [*results[:2], results[2] if self.asks(2) else missing, missing, results[-1]]

    def _times(self) -> Timestamps:
        tasks = self.translate_token_id, self.transcribe_token_id
        never = self.start_of_lm_token_id, self.no_timestamps_token_id
        if self.beginning_timestamp_token_id < 0:
            raise ValueError("logits_processor is 1, which needs beginning_timestamp_token_id")
        start = self.decoder_start_token_id
        return Timestamps(self.eos_token_id, start, tasks, never, self.beginning_timestamp_token_id)
