"""Rows of tokens that grow together: prompts, which may be padded, and what was chosen after them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sardonyx.errors import InvalidValue

Array = npt.NDArray[Any]


class Sequences:
    """As many rows of tokens as a search continues, `length` slots each; `mask` has 0 for padding.

    A row is padded where the tokens of its prompt begin, or end, with the padding token, and there are several rows.

    >>> rows = Sequences(2, 8, pad=0)
    >>> rows.append([[5, 6, 7], [8, 0, 0]])
    >>> rows.append([[1], [2]])
    >>> rows.tokens.tolist(), rows.real(1).tolist(), rows.positions.tolist()
    ([[5, 6, 7, 1], [8, 0, 0, 2]], [8, 2], [[0, 1, 2, 3], [0, 0, 0, 1]])
    """

    def __init__(self, rows: int, most: int, pad: int) -> None:
        self.length = 0
        self._pad = pad
        self._tokens = np.zeros((rows, most), np.int32)
        self._mask = np.zeros((rows, most), np.int64)
        self._positions = np.zeros((rows, most), np.int64)

    @property
    def tokens(self) -> Array:
        return self._tokens[:, : self.length]

    @property
    def mask(self) -> Array:
        return self._mask[:, : self.length]

    @property
    def positions(self) -> Array:
        """The place of each token in its text, 0 for padding."""
        return self._positions[:, : self.length]

    def real(self, row: int) -> Array:
        """A row's tokens without padding."""
        found: Array = self.tokens[row][self.mask[row] > 0]
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
        self._mask[:, start:end] = 1 if start or len(new) == 1 else np.array([_real(row, self._pad) for row in new])
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
        self._tokens, self._mask, self._positions = (
            array[chosen] for array in (self._tokens, self._mask, self._positions)
        )

    def last(self, start: int) -> Array:
        """For each row the last slot from `start` on that holds a token, counted from there."""
        mask = self.mask[:, start:]
        found: Array = mask.shape[1] - 1 - np.argmax(mask[:, ::-1], axis=1)
        return found


def _real(row: Array, pad: int) -> Array:
    """Where a row of a prompt holds tokens: all but the padding before or behind, of which one token is kept.

    >>> _real(np.array([0, 0, 4, 0, 5]), 0).tolist(), _real(np.array([4, 0, 0]), 0).tolist()
    ([0, 0, 1, 1, 1], [1, 0, 0])
    """
    mask = np.ones(len(row), np.int64)
    tokens = np.flatnonzero(row != pad)
    if len(tokens) == 0:
        mask[1:] = 0
    elif tokens[0] > 0:
        mask[: tokens[0]] = 0
    else:
        mask[tokens[-1] + 1 :] = 0
    return mask
