"""The search that keeps several continuations of each prompt, and returns the best (Lowerre, 1976)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sardonyx.common.record import record
from sardonyx.genai import sampling
from sardonyx.genai.search_options import SearchOptions
from sardonyx.genai.sequences import Sequences

Array = npt.NDArray[Any]
UNLIKELY = -1e9
"""The score of beams that begin as copies of the first one."""


@record
class Hypothesis:
    """A sequence that ended, and its score: the logarithm of its likelihood, divided by a power of its length."""

    tokens: Array
    score: float


class Hypotheses:
    """The best sequences of a prompt that ended, at most as many as there are beams, the best one first."""

    def __init__(self, most: int, penalty: float) -> None:
        self.found: list[Hypothesis] = []
        self.done = False
        self._most = most
        self._penalty = penalty

    @property
    def full(self) -> bool:
        return len(self.found) == self._most

    def score(self, total: float, length: int) -> float:
        """What a sequence of this length is worth, whose tokens have such likelihoods in all."""
        return total / math.pow(length, self._penalty)

    def add(self, tokens: Array, total: float) -> None:
        """Keep a sequence where it is among the best."""
        new = Hypothesis(tokens, self.score(total, len(tokens)))
        place = next((k for k, each in enumerate(self.found) if new.score > each.score), len(self.found))
        self.found.insert(place, new)
        del self.found[self._most :]

    def can_improve(self, total: float, length: int) -> bool:
        """Whether a sequence of this length would be better than the worst that is kept."""
        return self.found[-1].score < self.score(total, length)


class BeamSearch:
    """`num_beams` rows for each prompt. Those of one prompt stand side by side."""

    def __init__(self, sequences: Sequences, options: SearchOptions, eos: Sequence[int], pad: int) -> None:
        self.next_tokens = np.zeros(options.rows, np.int32)
        self.rows = np.arange(options.rows)
        """For each row the one that it continues."""
        self._sequences = sequences
        self._options = options
        self._eos = frozenset(eos)
        self._pad = pad
        self._scores = np.full((options.batch_size, options.num_beams), UNLIKELY, np.float32)
        self._scores[:, 0] = 0
        self._hypotheses = [Hypotheses(options.num_beams, options.length_penalty) for _ in range(options.batch_size)]
        self._final: list[Array] = []

    @property
    def done(self) -> bool:
        return all(each.done for each in self._hypotheses)

    def begin(self) -> None:
        """Go on after tokens that were given."""

    def step(self, scores: Array) -> None:
        """Choose the continuations by their logits [rows, vocabulary], and go on with these."""
        beams, vocabulary = self._options.num_beams, scores.shape[1]
        total = log_softmax(scores).reshape(-1, beams, vocabulary) + self._scores[:, :, None]
        for prompt, each in enumerate(self._hypotheses):
            if each.done:
                self._stay(prompt)
            else:
                self._continue(prompt, total[prompt].reshape(-1), vocabulary)
        self._sequences.select(self.rows)
        self._sequences.append(self.next_tokens[:, None])

    def sequence(self, index: int) -> Array:
        """The tokens of a result: those of each prompt stand side by side, the best one first.

        The first call ends the search: beams that did not reach their end compete with those that did.
        """
        if not self._final:
            for prompt, each in enumerate(self._hypotheses):
                if not each.done:
                    for beam in range(self._options.num_beams):
                        row = prompt * self._options.num_beams + beam
                        each.add(self._sequences.tokens[row].copy(), float(self._scores[prompt, beam]))
                self._final += [one.tokens for one in each.found[: self._options.num_return_sequences]]
        return self._final[index]

    def _stay(self, prompt: int) -> None:
        rows = slice(prompt * self._options.num_beams, (prompt + 1) * self._options.num_beams)
        self._scores[prompt] = 0
        self.next_tokens[rows] = self._pad
        self.rows[rows] = np.arange(rows.start, rows.stop)

    def _continue(self, prompt: int, scores: Array, vocabulary: int) -> None:
        """Take the best continuations: those that end are kept, and the others are the next beams."""
        beams, first = self._options.num_beams, prompt * self._options.num_beams
        hypotheses, length = self._hypotheses[prompt], self._sequences.length
        most = beams * (1 + max(1, len(self._eos)))  # among which as many as there are beams are no ends
        best = sampling.likeliest(scores, min(most, len(scores)))
        totals = scores[best]
        going: list[tuple[float, int, int]] = []
        for rank, (place, total) in enumerate(zip(best.tolist(), totals.tolist())):
            row, token = first + place // vocabulary, place % vocabulary
            if token not in self._eos:
                going.append((total, token, row))
            elif rank < beams:
                hypotheses.add(self._sequences.tokens[row].copy(), total)
            if len(going) == beams:
                break
        for beam, (total, token, row) in enumerate(going):
            self._scores[prompt, beam] = total
            self.next_tokens[first + beam] = token
            self.rows[first + beam] = row
        if hypotheses.full:
            improves = not self._options.early_stopping and hypotheses.can_improve(float(totals[0]), length)
            hypotheses.done = not improves


def log_softmax(logits: Array) -> Array:
    """The logarithms of likelihoods, along the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    result: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result
