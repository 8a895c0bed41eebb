"""Rows of tokens that grow together: prompts, which may be padded, and what was chosen after them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sardonyx.errors import InvalidValue

Array = npt.NDArray[Any]


class Sequences:
    """As many rows of tokens as a search continues, `length` slots each.

    A row is padded where the tokens of its prompt begin, or end, with the padding token, and there are several rows.
    `tokens` has the padding where it was given; a network gets it behind the prompt (`fed`), where operators that keep
    keys and values by themselves expect it, or before it if `ahead`. `mask` and `positions` are those of `fed`.

    >>> rows = Sequences(2, 8, pad=0)
    >>> rows.append([[5, 6, 7], [0, 0, 8]])
    >>> rows.append([[1], [2]])
    >>> rows.tokens.tolist(), rows.fed.tolist(), rows.positions.tolist(), rows.real(1).tolist()
    ([[5, 6, 7, 1], [0, 0, 8, 2]], [[5, 6, 7, 1], [8, 0, 0, 2]], [[0, 1, 2, 3], [0, 0, 0, 1]], [8, 2])
    """

    def __init__(self, rows: int, most: int, pad: int, ahead: bool = False) -> None:
        self.length = 0
        self._pad = pad
        self._ahead = ahead
        self._tokens = np.zeros((rows, most), np.int32)
        self._fed = np.zeros((rows, most), np.int64)
        self._mask = np.zeros((rows, most), np.int64)
        self._positions = np.zeros((rows, most), np.int64)

    @property
    def tokens(self) -> Array:
        return self._tokens[:, : self.length]

    @property
    def fed(self) -> Array:
        return self._fed[:, : self.length]

    @property
    def mask(self) -> Array:
        return self._mask[:, : self.length]

    @property
    def positions(self) -> Array:
        """The place of each token in its text, 0 for padding."""
        return self._positions[:, : self.length]

    def real(self, row: int) -> Array:
        """A row's tokens without padding."""
        found: Array = self.fed[row][self.mask[row] > 0]
        return found

    def append(self, tokens: Sequence[Sequence[int]] | Array) -> None:
        """Continue each row by as many tokens; the first ones may be padded."""
        new = np.asarray(tokens, np.int32)
        start, end = self.length, self.length + new.shape[1]
        if end > self._tokens.shape[1]:
            raise InvalidValue(
                f"there are {start} tokens, and {new.shape[1]} more exceed max_length ({self._tokens.shape[1]})"
            )
        self._tokens[:, start:end] = new
        if start or len(new) == 1:
            self._fed[:, start:end], self._mask[:, start:end] = new, 1
        else:
            for row, prompt in enumerate(new):
                self._place(row, prompt)
        before = self.mask.sum(axis=1, keepdims=True)
        counted = before - 1 + np.cumsum(self._mask[:, start:end], axis=1)
        self._positions[:, start:end] = np.where(self._mask[:, start:end] > 0, counted, 0)
        self.length = end

    def rewind(self, length: int) -> None:
        """Forget the slots from `length` on."""
        self.length = length

    def select(self, rows: Sequence[int] | Array) -> None:
        """Go on with these rows, in this order."""
        chosen = np.asarray(rows)
        self._tokens, self._fed, self._mask, self._positions = (
            array[chosen] for array in (self._tokens, self._fed, self._mask, self._positions)
        )

    def last(self, start: int) -> Array:
        """For each row the last slot from `start` on that holds a token, counted from there."""
        mask = self.mask[:, start:]
        found: Array = mask.shape[1] - 1 - np.argmax(mask[:, ::-1], axis=1)
        return found

    def _place(self, row: int, prompt: Array) -> None:
        """Put a prompt where the network gets it."""
        real = _real(prompt, self._pad)
        count = len(real)
        place = slice(len(prompt) - count, len(prompt)) if self._ahead else slice(0, count)
        self._fed[row, : len(prompt)] = self._pad
        self._fed[row, place] = real
        self._mask[row, place] = 1


def _real(prompt: Array, pad: int) -> Array:
    """A prompt without the padding before or behind it, of which one token is left where there is no other.

    >>> _real(np.array([0, 0, 4, 0, 5]), 0).tolist(), _real(np.array([4, 0, 0]), 0).tolist()
    ([4, 0, 5], [4])
    """
    places = np.flatnonzero(prompt != pad)
    if len(places) == 0:
        return prompt[:1]
    return prompt[places[0] :] if places[0] else prompt[: places[-1] + 1]
