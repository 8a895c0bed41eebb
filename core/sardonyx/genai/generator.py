"""The generator: a prompt goes in, and one token comes after another."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sardonyx.common import debug
from sardonyx.common.record import replace
from sardonyx.errors import InvalidValue, NotImplemented
from sardonyx.genai import penalties
from sardonyx.genai.beams import BeamSearch
from sardonyx.genai.decoder import Decoder
from sardonyx.genai.encoder import Encoder
from sardonyx.genai.generator_params import GeneratorParams
from sardonyx.genai.greedy import GreedySearch
from sardonyx.genai.guidance import Guidance
from sardonyx.genai.model import Model
from sardonyx.genai.sequences import Sequences
from sardonyx.genai.tensor import NamedTensors, Tensor

Array = npt.NDArray[Any]


class Generator:
    """A text that a model continues.

    What was appended is run at once, in parts of `chunk_size` tokens where that is set, and its logits are there until
    a token is generated from them.
    """

    def __init__(self, model: Model, params: GeneratorParams) -> None:
        options = self._options = replace(params.search)
        options.check(model.vocabulary, model.config.context)
        if options.diversity_penalty:
            debug.warn_once("diversity_penalty has no effect, as in onnxruntime-genai")
        self._model = model
        self._encoder = Encoder(model.encoder, model.reading) if model.encoder else None
        self._inputs: dict[str, Array] = {}
        self._terminated = False
        self._guidance = Guidance(model, params.guidance, options, params.forced) if params.guidance else None
        self._begin()

    def _begin(self) -> None:
        config, options = self._model.config, self._options
        ahead = self._model.ports.last_only
        self._sequences = Sequences(options.batch_size, options.max_length, config.pad, ahead)
        kind = BeamSearch if options.num_beams > 1 else GreedySearch
        self._search: BeamSearch | GreedySearch = kind(self._sequences, options, config.eos, config.pad)
        self._decoder: Decoder | None = None
        self._logits: Array | None = None
        self._spread = options.num_beams == 1

    # ---- what goes in

    def append_tokens(self, tokens: Any) -> None:
        """Continue the text by tokens, the rows of a batch by as many each; shorter ones are padded on either side.

        Where the model has an encoder for tokens, they are what it reads.
        """
        rows = self._options.batch_size
        given = np.asarray(tokens.as_numpy() if isinstance(tokens, Tensor) else tokens)
        if given.size == 0:
            raise InvalidValue("there are no tokens to append")
        if given.dtype.kind not in "iu":
            raise InvalidValue(f"tokens are whole numbers, and these are {given.dtype}")
        if given.size % rows or (given.ndim == 2 and given.shape[0] not in (1, rows)):
            raise InvalidValue(f"tokens of shape {list(given.shape)} are not {rows} rows of the same length")
        if self._sequences.length and self._options.rows > 1:
            raise InvalidValue("several rows, or beams, take their prompts once; rewind_to(0) begins anew")
        known = self._model.vocabulary
        if known and (wrong := given[(given < -known) | (given >= known)]).size:
            raise InvalidValue(f"{wrong[0]} is no token of the model, which has {known} of them, from 0 on")
        given = given.reshape(rows, -1)
        if self._encoder and self._encoder.reads_tokens and self._decoder is None:
            given = self._encoded(given)
        before = self._sequences.length
        self._sequences.append(given)
        self._search.begin()
        self._logits = None
        try:
            self._compute()
        except Exception:
            self._forget(before)
            raise

    def set_model_input(self, name: str, value: Any) -> None:
        """Feed an input that nothing else tells, in all runs that follow."""
        self._inputs[name] = np.asarray(value)
        self._decoder = None if self._sequences.length == 0 else self._decoder

    def set_inputs(self, inputs: NamedTensors) -> None:
        """Feed inputs by their names; those called `input_ids` are appended."""
        for name in inputs:
            if name != "input_ids":
                self.set_model_input(name, inputs[name].as_numpy())
        if "input_ids" in inputs:
            self.append_tokens(inputs["input_ids"])

    def rewind_to(self, length: int) -> None:
        """Forget the tokens from `length` on; the next one is generated after those that are left."""
        if length > self._sequences.length:
            raise InvalidValue(f"there are {self._sequences.length} tokens, and none to rewind to {length}")
        if length < 0:
            raise InvalidValue(f"cannot rewind to {length} tokens")
        if length == self._sequences.length:
            return
        if length == 0:
            self._begin()
        elif self._options.rows > 1:
            raise InvalidValue("several rows, or beams, can be rewound to 0 alone")
        self._forget(length)
        self._search.begin()
        self._logits = None
        if self._guidance:
            self._guidance.begin()

    # ---- what comes out

    def generate_next_token(self) -> None:
        """Choose the next token of each row."""
        if self._logits is None and self._sequences.length == 0:
            raise InvalidValue("there is nothing to continue; append_tokens, or set_logits, comes first")
        if self._sequences.length >= self._options.max_length:
            raise InvalidValue(f"there are {self._sequences.length} tokens, which is max_length")
        scores = self._compute().copy()
        self._logits = None
        if self._guidance:
            self._guidance.restrict(scores)
        penalties.apply(scores, self._sequences, self._options, self._model.config.eos)
        self._search.step(scores)
        if isinstance(self._search, BeamSearch) and self._decoder:
            self._decoder.select(self._search.rows)
        if self._guidance:
            self._follow(self._guidance)

    def is_done(self) -> bool:
        """Whether all rows ended, or are as long as they may be."""
        full = self._sequences.length >= self._options.max_length
        return full or (self._logits is None and self._search.done)

    def get_next_tokens(self) -> Array:
        """The tokens that were chosen last, one of each row, or beam."""
        return self._search.next_tokens.copy()

    def get_sequence(self, index: int) -> Array:
        """All tokens of a row, the prompt with its padding first; of beams those of a result, which ends the search."""
        return self._search.sequence(index)

    def token_count(self) -> int:
        """How many tokens each row has, prompt and padding among them."""
        return self._sequences.length

    def get_logits(self) -> Array:
        """The logits [rows, 1, vocabulary] from which the next tokens will be chosen."""
        return self._compute()[:, None].copy()

    def set_logits(self, logits: Any) -> None:
        """Have the next tokens chosen from these, as many as `get_logits` gives."""
        given = np.asarray(logits, np.float32)
        rows, known = self._options.rows, self._model.vocabulary
        if given.size == 0 or given.size % rows or (known and given.size != rows * known):
            wanted = f"{rows} rows of {known or 'as many as there are tokens'}"
            raise InvalidValue(f"logits of shape {list(given.shape)} are not {wanted}")
        self._widen()
        self._logits = given.reshape(self._options.rows, -1).copy()

    def set_runtime_option(self, key: str, value: str) -> None:
        """With `terminate_session` "1" the next run raises InvalidValue, in whatever thread, until it is "0" again.

        Other options have no effect.
        """
        if key != "terminate_session":
            debug.warn_once(f"runtime option {key!r} has no effect")
        elif value not in ("0", "1"):
            raise InvalidValue(f"terminate_session is {value!r}; it must be '0' or '1'")
        else:
            self._terminated = value == "1"

    def get_input(self, name: str) -> Array:
        """What the decoder was fed in its last run."""
        return self._port(name, {**self._decoder.fed, **self._decoder.past} if self._decoder else {}, "fed")

    def get_output(self, name: str) -> Array:
        """What the decoder gave in its last run."""
        past = self._decoder.past if self._decoder else {}
        if self._decoder and name not in past and (found := self._decoder.output(name)) is not None:
            return found
        return self._port(name, past, "given")

    # ---- what is not here

    def snapshot_state(self) -> None:
        """Accepted: any length can be rewound to without it."""

    def set_active_adapter(self, adapters: Any, name: str) -> None:
        """Raises NotImplementedError."""
        raise NotImplemented("adapters are fed to a session here: RunOptions.add_active_adapter")

    def set_hidden_states(self, states: Any) -> None:
        """Raises NotImplementedError."""
        raise NotImplemented("tokens are not predicted several at a time")

    def get_speculative_stats(self) -> dict[str, float]:
        """Nothing: tokens are not guessed ahead."""
        return {}

    # ---- inside

    def _compute(self) -> Array:
        """The logits after all tokens; those that the decoder has not seen are run."""
        if self._terminated:
            raise InvalidValue("the runtime option terminate_session is '1'; '0' lets the generator go on")
        if self._logits is not None:
            return self._logits
        if self._sequences.length == 0:
            raise InvalidValue("there are no tokens yet")
        if self._decoder is None:
            given = self._inputs
            if self._encoder and not self._encoder.reads_tokens:
                given = {**given, **self._encoder.run(None, None, given)}
            self._decoder = self._new_decoder(given)
        if self._decoder.length >= self._sequences.length:
            self._decoder.rewind(self._sequences.length - 1)
        self._logits = self._run(self._decoder)
        if not self._spread:
            self._logits = self._logits.repeat(self._options.num_beams, axis=0)
            self._widen()
        return self._logits

    def _run(self, decoder: Decoder) -> Array:
        """Run the tokens that a decoder has not seen, in parts where they are many."""
        rows, start, end = self._sequences, decoder.length, self._sequences.length
        padded = bool((rows.mask[:, start:] == 0).any())
        if padded and not self._model.bears_padding:
            raise InvalidValue("the model takes padding for tokens: prompts of a batch must have the same length")
        size = self._options.chunk_size if self._options.chunk_size and not padded else end - start
        logits = None
        for begin in range(start, end, size):
            part = slice(begin, min(begin + size, end))
            last = rows.last(begin) if padded and not self._model.ports.last_only else None
            mask = rows.mask[:, : part.stop]
            logits = decoder.run(rows.fed[:, part], rows.positions[:, part], mask, last)
        assert logits is not None
        return logits

    def _forget(self, length: int) -> None:
        """Go back to so many tokens."""
        self._sequences.rewind(length)
        if self._decoder and self._decoder.length > length:
            self._decoder.rewind(length)

    def _widen(self) -> None:
        """Have as many rows for each prompt as there are beams."""
        if not self._spread:
            rows = np.arange(self._options.batch_size).repeat(self._options.num_beams)
            self._sequences.select(rows)
            if self._decoder:
                self._decoder.select(rows)
            self._spread = True

    def _new_decoder(self, given: dict[str, Array]) -> Decoder:
        options = self._options
        return self._model.decoder(options.batch_size, given, options.max_length)

    def _encoded(self, tokens: Array) -> Array:
        """Have the encoder read tokens; those with which the decoder begins."""
        assert self._encoder is not None
        rows = Sequences(len(tokens), tokens.shape[1], self._model.config.pad)
        rows.append(tokens)
        given = self._encoder.run(rows.fed, rows.mask, self._inputs)
        self._decoder = self._new_decoder({**self._inputs, **given})
        return np.full((len(tokens), 1), self._model.config.decoder_start)

    def _follow(self, guidance: Guidance) -> None:
        """Tell the grammar what was chosen, and append what it leaves no choice of."""
        forced = guidance.follow(self._search.next_tokens)
        room = self._options.max_length - self._sequences.length
        if forced and room > 0 and not self._search.done:
            self._sequences.append([forced[:room]])

    def _port(self, name: str, there: dict[str, Array], what: str) -> Array:
        if name not in there:
            raise InvalidValue(f"{name!r} was not {what} in the last run; {', '.join(list(there)[:8])} were")
        return there[name]
