"""The options of a search, with onnxruntime-genai's names, defaults and bounds."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from sardonyx.common.record import fields, record
from sardonyx.errors import InvalidValue

MOST = 32
"""Rows of a batch, and beams, at most."""


@record
class SearchOptions:
    """How the next tokens are chosen, and when that ends; lengths count the prompt.

    >>> options = SearchOptions()
    >>> options.set(max_length=100, do_sample=True)
    >>> options.max_length, options.is_greedy
    (100, False)
    >>> options.set(top_q=0.9)
    Traceback (most recent call last):
        ...
    sardonyx.errors.InvalidValue: there is no search option 'top_q'; 'top_p' is the nearest
    """

    batch_size: int = 1
    chunk_size: int = 0
    diversity_penalty: float = 0.0
    do_sample: bool = False
    early_stopping: bool = True
    length_penalty: float = 1.0
    max_length: int = 0
    min_length: int = 0
    no_repeat_ngram_size: int = 0
    num_beams: int = 1
    num_return_sequences: int = 1
    past_present_share_buffer: bool = False
    random_seed: int = -1
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 0.0

    @property
    def is_greedy(self) -> bool:
        """Whether the most likely token is taken, without drawing."""
        return not self.do_sample or self.top_k == 1 or self.temperature == 0

    @property
    def rows(self) -> int:
        """How many sequences are continued at once."""
        return self.batch_size * self.num_beams

    def set(self, **values: Any) -> None:
        """Set options by their names; InvalidValue where there is none of a name, or a value is of another type."""
        for name, value in values.items():
            setattr(self, name, _fitted(name, value))

    def as_dict(self) -> dict[str, float | bool]:
        """All options by their names; numbers are floats, as onnxruntime-genai gives them."""
        values = {name: getattr(self, name) for name in sorted(TYPES)}
        return {name: value if isinstance(value, bool) else float(value) for name, value in values.items()}

    def check(self, vocabulary: int, context: int) -> None:
        """Raise InvalidValue for what no model can do, or one with such a vocabulary and context."""
        _within("batch_size", self.batch_size, 1, MOST)
        _within("num_beams", self.num_beams, 1, MOST)
        _within("num_return_sequences", self.num_return_sequences, 1, self.num_beams)
        if self.max_length < 1:
            raise InvalidValue(f"max_length is {self.max_length}; it counts the prompt and must be 1 or more")
        if context and self.max_length > context:
            raise InvalidValue(f"max_length ({self.max_length}) is more than the model's context_length ({context})")
        if self.chunk_size < 0:
            raise InvalidValue(f"chunk_size is {self.chunk_size}; 0 means that a prompt is run at once")
        if self.repetition_penalty <= 0:
            raise InvalidValue(f"repetition_penalty is {self.repetition_penalty}; it must be above 0, and 1 is none")
        if self.is_greedy:
            return
        if self.num_beams > 1:
            raise InvalidValue("do_sample draws tokens, and beams cannot; set num_beams=1, or do_sample=False")
        _within("top_p", self.top_p, 0, 1)
        _within("top_k", self.top_k, 0, vocabulary or self.top_k)
        if not self.temperature > 0:
            raise InvalidValue(f"temperature is {self.temperature}; it must be above 0, or 0 for the likeliest token")


TYPES = {each.name: type(each.default) for each in fields(SearchOptions)}


def _fitted(name: str, value: Any) -> Any:
    """A value as the option's type."""
    if name not in TYPES:
        near = get_close_matches(name, TYPES, 1, 0)
        raise InvalidValue(f"there is no search option {name!r}; {near[0]!r} is the nearest")
    kind = TYPES[name]
    try:
        fits = isinstance(value, bool) is (kind is bool) and not isinstance(value, str)
        fits = fits and (kind(value) == value or kind is float)
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        wanted = {bool: "True or False", int: "a whole number", float: "a number"}[kind]
        raise InvalidValue(f"search option {name!r} is {value!r}; it must be {wanted}")
    return kind(value)


def _within(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise InvalidValue(f"{name} ({value}) must be in [{least}, {most}]")
