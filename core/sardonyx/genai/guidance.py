"""A grammar that a text must keep to: which tokens may come next, by llguidance."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sardonyx.common import extras
from sardonyx.errors import InvalidValue, NotImplemented
from sardonyx.genai.model import Model
from sardonyx.genai.penalties import LOWEST
from sardonyx.genai.search_options import SearchOptions
from sardonyx.genai.tokenizer import Tokenizer

Array = npt.NDArray[Any]


class Guidance:
    """A matcher of the grammar for each row of the batch."""

    def __init__(self, model: Model, guide: tuple[str, str], options: SearchOptions, forced: bool) -> None:
        if options.num_beams > 1:
            raise NotImplemented("beams do not follow a grammar; set num_beams=1")
        self._kind, tokenizer = _library()
        self._eos = model.config.eos
        if not self._eos:
            raise InvalidValue("a grammar must be able to end the text, and the model's configuration names no end")
        self._guide = guide
        self._grammar = _grammar(self._kind, *guide)
        self._tokenizer = tokenizer(
            Tokenizer(model).to_json(), n_vocab=model.vocabulary or None, eos_token=self._eos[0]
        )
        self._rows = options.batch_size
        self._forced = forced and options.batch_size == 1
        self.begin()

    def begin(self) -> None:
        """Expect the beginning of the grammar's text."""
        self._matchers = [self._kind(self._tokenizer, self._grammar) for _ in range(self._rows)]
        for matcher in self._matchers:
            if matcher.is_error():
                raise InvalidValue(f"the {self._guide[0]} cannot be read: {matcher.get_error()}")

    def restrict(self, scores: Array) -> None:
        """Rule out, in logits [rows, vocabulary], the tokens that must not come next."""
        for logits, matcher in zip(scores, self._matchers):
            if matcher.is_stopped():
                ends = logits[self._eos].copy()
                logits[:] = LOWEST
                logits[self._eos] = ends
                continue
            bits = np.frombuffer(matcher.compute_bitmask(), np.uint8)
            _check(matcher)
            allowed = np.unpackbits(bits, bitorder="little")[: len(logits)]
            logits[: len(allowed)][allowed == 0] = LOWEST
            logits[len(allowed) :] = LOWEST

    def follow(self, tokens: Sequence[int] | Array) -> list[int]:
        """Go on after a token of each row; those that must come next, where they are asked for."""
        for token, matcher in zip(tokens, self._matchers):
            if not matcher.is_stopped() and int(token) not in self._eos:
                matcher.consume_token(int(token))
                _check(matcher)
        if not self._forced or self._matchers[0].is_stopped():
            return []
        forced = [token for token in self._matchers[0].compute_ff_tokens() if token not in self._eos]
        for token in forced:
            self._matchers[0].consume_token(token)
        return forced


def _library() -> tuple[Any, Any]:
    """llguidance's matcher and tokenizer; where it has no wheel, pip may find an old one without them."""
    try:
        from llguidance import LLMatcher, LLTokenizer
    except ImportError:
        raise NotImplemented(_missing()) from None
    return LLMatcher, LLTokenizer


def _missing() -> str:
    if sys.platform == "emscripten":
        return "a text follows a grammar by llguidance, which Pyodide does not have; generate without set_guidance"
    if sys.maxsize < 1 << 32:
        return 'a text follows a grammar by llguidance, which pip builds with Rust here: pip install "llguidance>=1"'
    return extras.missing("llguidance")


def _grammar(matcher: Any, kind: str, data: str) -> str:
    """The grammar as a matcher takes it."""
    make = {
        "json_schema": matcher.grammar_from_json_schema,
        "regex": matcher.grammar_from_regex,
        "lark_grammar": matcher.grammar_from_lark,
    }
    try:
        return str(make[kind](data))
    except ValueError as error:
        raise InvalidValue(f"the {kind} cannot be read: {error}") from error


def _check(matcher: Any) -> None:
    if matcher.is_error():
        raise InvalidValue(f"the grammar cannot be followed: {matcher.get_error()}")
