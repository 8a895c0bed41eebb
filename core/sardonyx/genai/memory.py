"""What a decoder remembers of the tokens so far: in caches on the device, or where a model has none, in arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sardonyx.api.caches import turned
from sardonyx.api.session import InferenceSession
from sardonyx.genai.ports import Past, made_by

Array = npt.NDArray[Any]


class Arrays:
    """Keys and values that each run is fed, and gives anew."""

    def __init__(self, session: InferenceSession, past: Sequence[Past], arrays: Mapping[str, Array]) -> None:
        self.arrays = dict(arrays)
        self._session = session
        self._past = [each for each in past if each.input in arrays]

    def run(self, output: str, feeds: Mapping[str, Array], count: int) -> Array:
        """An output for what is fed beside them."""
        kept = [each for each in self._past if each.output]
        found: Array
        found, *arrays = self._session.run([output, *(each.output for each in kept)], {**feeds, **self.arrays})
        for each, array in zip(kept, arrays, strict=True):
            if not (each.cross and self.arrays[each.input].shape[each.time]):
                self.arrays[each.input] = array
        return found

    def begin(self, session: InferenceSession, output: str, feeds: Mapping[str, Array]) -> Array:
        """An output of a network for the first run alone, which makes all keys and values."""
        names = [each.name for each in session.get_outputs()]
        found: Array
        found, *arrays = session.run([output, *(made_by(names, each) for each in self._past)], feeds)
        self.arrays |= zip([each.input for each in self._past], arrays, strict=True)
        return found

    def padded(self, mask: Array) -> Array:
        """What the network is told of padding [rows, tokens], where 0 is for slots that hold no token."""
        return mask

    def settle(self, mask: Array) -> None:
        """Know the padding of the tokens so far."""

    def rewind(self, length: int) -> None:
        """Have the first tokens alone."""
        for each in self._past:
            if not (each.cross and length):
                array = self.arrays[each.input]
                self.arrays[each.input] = array.take(range(min(length, array.shape[each.time])), axis=each.time)

    def select(self, rows: Array) -> None:
        """Have these rows."""
        for each in self._past:
            self.arrays[each.input] = self.arrays[each.input].take(rows, axis=each.rows)


class OnDevice:
    """Keys and values that lie on the device, where each run adds to them.

    Once a padded prompt was run, what a row has lies behind its padding, so that all rows go on at the same place.
    """

    def __init__(self, session: InferenceSession, past: Sequence[Past], rows: int, most: int) -> None:
        empty = {each.input: each.empty(rows).shape for each in past}
        self._past = past
        self._caches = session.caches({each.input: each.output for each in past}, rows, empty)
        self._caches.most = most
        self._turned = np.zeros(rows, np.int64)
        """How many places each row of the prompt lies further than where it was run."""
        self._prompt = 0

    def run(self, output: str, feeds: Mapping[str, Array], count: int) -> Array:
        """An output for what is fed beside them, which are longer by `count` tokens then."""
        found: Array
        (found,) = self._caches.run([output], feeds, count)
        return found

    def padded(self, mask: Array) -> Array:
        """What the network is told of padding [rows, tokens], where 0 is for slots that hold no token."""
        if not self._turned.any():
            return mask
        return np.concatenate([np.sort(mask[:, : self._prompt], axis=1), mask[:, self._prompt :]], axis=1)

    def settle(self, mask: Array) -> None:
        """Know the padding of the tokens so far."""
        if self._prompt == 0:
            self._prompt = mask.shape[1]
            self._turned = (mask[:, ::-1].cumsum(axis=1) == 0).sum(axis=1)
            if self._turned.any():
                self._caches.turn(self._turned.tolist())

    def rewind(self, length: int) -> None:
        """Have the first tokens alone."""
        self._caches.rewind(length)
        if length == 0:
            self._prompt, self._turned = 0, np.zeros_like(self._turned)

    def select(self, rows: Array) -> None:
        """Have these rows."""
        if not np.array_equal(rows, np.arange(self._caches.rows)):
            self._caches.select(rows.tolist())
            self._turned = self._turned[rows]

    @property
    def arrays(self) -> dict[str, Array]:
        """All that lies there, with what a row has before its padding."""
        arrays, back = self._caches.arrays(), (-self._turned).tolist()
        return {each.input: turned(arrays[each.input], back, each.rows, each.time) for each in self._past}


def fits(past: Sequence[Past], given: Mapping[str, Any]) -> bool:
    """Whether a model's keys and values can lie on the device: each is of known sizes, with an output, none is of an
    encoder."""
    told = [each for each in past if each.empty(1).shape.count(0) == 1]
    return 0 < len(told) == len(past) and all(x.output and not x.cross and x.input not in given for x in past)
