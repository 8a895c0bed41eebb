"""What is changed of logits before a token is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sardonyx.genai.search_options import SearchOptions
from sardonyx.genai.sequences import Sequences

Array = npt.NDArray[Any]
LOWEST = np.finfo(np.float32).min
"""The logit of a token that must not be chosen."""


def apply(scores: Array, sequences: Sequences, options: SearchOptions, eos: Sequence[int]) -> None:
    """Change the logits [rows, vocabulary], in place, as the options ask for it."""
    if sequences.length < options.min_length:
        scores[:, list(eos)] = LOWEST
    if options.repetition_penalty == 1 and options.no_repeat_ngram_size == 0:
        return
    for row, logits in enumerate(scores):
        tokens = sequences.real(row)
        if options.repetition_penalty != 1:
            dampen(logits, tokens, options.repetition_penalty)
        if options.no_repeat_ngram_size > 0:
            logits[repeating(tokens, options.no_repeat_ngram_size)] = LOWEST


def dampen(logits: Array, tokens: Array, penalty: float) -> None:
    """Make tokens that occurred less likely (Keskar et al., 2019): logits above 0 are divided, others multiplied.

    >>> logits = np.array([2.0, -1.0, 3.0], np.float32)
    >>> dampen(logits, np.array([0, 1, 1]), 2.0)
    >>> logits.tolist()
    [1.0, -2.0, 3.0]
    """
    seen = np.unique(tokens)
    seen = seen[(seen >= 0) & (seen < len(logits))]
    factor, found = np.float64(np.float32(penalty)), logits[seen].astype(np.float64)
    logits[seen] = np.maximum(np.where(found < 0, found * factor, found / factor), LOWEST)


def repeating(tokens: Array, size: int) -> Array:
    """The tokens that would make `size` tokens in a row occur for the second time.

    >>> repeating(np.array([1, 2, 3, 1, 2, 4, 1, 2]), 3).tolist()
    [3, 4]
    """
    if len(tokens) < size:
        return np.zeros(0, np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(tokens, size)
    end = tokens[len(tokens) - size + 1 :]
    return np.unique(windows[(windows[:, :-1] == end).all(axis=1), -1])
