"""The search that continues each sequence by one token after another: the likeliest one, or one that is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sardonyx.genai import sampling
from sardonyx.genai.random import Random
from sardonyx.genai.search_options import SearchOptions
from sardonyx.genai.sequences import Sequences

Array = npt.NDArray[Any]


class GreedySearch:
    """One sequence for each row of the batch.

    A row that reached its end is continued with padding. The token that ends the last row is not appended.
    """

    def __init__(self, sequences: Sequences, options: SearchOptions, eos: Sequence[int], pad: int) -> None:
        self.done = False
        self.next_tokens = np.zeros(options.batch_size, np.int32)
        self._sequences = sequences
        self._options = options
        self._eos = np.array(eos, np.int32)
        self._pad = pad
        self._ended = np.zeros(options.batch_size, bool)
        self._randoms = [Random.of(options.random_seed, row) for row in range(options.batch_size)]

    def begin(self) -> None:
        """Go on after tokens that were given, or taken away."""
        self.done = False
        self._ended[:] = False

    def step(self, scores: Array) -> None:
        """Choose a token for each row by its logits [rows, vocabulary], and append them."""
        if self._options.is_greedy:
            chosen = scores.argmax(axis=1)
        else:
            chosen = np.array(
                [
                    self._pad if ended else sampling.draw(row, self._options, random)
                    for row, ended, random in zip(scores, self._ended, self._randoms)
                ]
            )
        self.next_tokens = np.where(self._ended, self._pad, chosen).astype(np.int32)
        self._ended |= np.isin(self.next_tokens, self._eos)
        self.done = bool(self._ended.all())
        if not self.done:
            self._sequences.append(self.next_tokens[:, None])

    def sequence(self, index: int) -> Array:
        """The tokens of a row."""
        found: Array = self._sequences.tokens[index].copy()
        return found
