"""A decoder in use: tokens go in, logits come out, and what it remembers of earlier tokens is kept here alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sardonyx.api.session import InferenceSession
from sardonyx.common.record import record
from sardonyx.errors import InvalidArgument, InvalidValue
from sardonyx.genai.memory import Arrays, OnDevice, fits
from sardonyx.genai.ports import CACHE_BRANCH, CACHE_POSITION, KEPT, ROWS, TYPES, Ports

Array = npt.NDArray[Any]


@record(frozen=True)
class Network:
    """What gives logits, and what its inputs and outputs are for."""

    session: InferenceSession
    ports: Ports
    whole: Callable[[], InferenceSession]
    """Gives a session of the same network that leaves no rows of logits out."""


class Decoder:
    """The network with its memory of rows of tokens, each position of which is a slot, padding included.

    `given` are inputs that are the same in all runs, as an encoder's results, by their names. There will be no more
    than `most` tokens. `first` is the network for the first run, where that is another one.
    """

    def __init__(
        self, network: Network, rows: int, given: Mapping[str, Array], most: int, first: Network | None = None
    ) -> None:
        session, ports = network.session, network.ports
        missing = [name for each in (network, first) if each for name in each.ports.unknown if name not in given]
        if missing:
            raise InvalidValue(
                f"nothing tells what input {missing[0]!r} takes; Generator.set_model_input gives it, before any tokens"
            )
        self.length = 0
        self.fed: dict[str, Array] = {}
        self.results: dict[str, Array] = {}
        self._last: tuple[Array, Array, Array, int, Array | None] | None = None
        """What the last run was made of."""
        self._network = network
        self._session = session
        self._ports = ports
        self._first = first
        self._given = dict(given)
        self._tokens = np.zeros((rows, 0), np.int64)
        self._positions = np.zeros((rows, 0), np.int64)
        self._memory: Arrays | OnDevice = (
            OnDevice(session, ports.past, rows, most)
            if first is None and fits(ports.past, given)
            else Arrays(
                session, ports.past, {each.input: each.empty(rows) for each in ports.past if each.input not in given}
            )
        )

    def run(self, tokens: Array, positions: Array, mask: Array, last: Array | None = None) -> Array:
        """The logits [rows, vocabulary] after new tokens [rows, S] at these positions, as float32.

        `mask` [rows, length + S] has 0 for slots that hold no token. `last` has for each row which of the S the logits
        are wanted of; it is the last one without it.
        """
        start = self.length
        if not self._ports.past:  # nothing is remembered: everything is run again
            tokens = self._tokens = np.concatenate([self._tokens, tokens], axis=1)
            positions = self._positions = np.concatenate([self._positions, positions], axis=1)
            last = None if last is None else last + start
            start = 0
        logits = self._ran(tokens, positions, mask, start, last)
        self._last = tokens, positions, mask, start, last
        self._memory.settle(mask)
        self.results = {self._ports.logits: logits}
        self.length = mask.shape[1]
        return self._wanted(logits, tokens.shape[1], last)

    def _ran(self, tokens: Array, positions: Array, mask: Array, start: int, last: Array | None) -> Array:
        """The logits of a run, with all keys and values as arrays from now on if they cannot stay in caches."""
        if self._first and start == 0 and isinstance(self._memory, Arrays):
            self.fed = self._feeds(self._first.ports, tokens, positions, mask, start, last)
            return self._memory.begin(self._first.session, self._first.ports.logits, self.fed)
        self.fed = self._feeds(self._ports, tokens, positions, self._memory.padded(mask), start, last)
        try:
            return self._memory.run(self._ports.logits, self.fed, tokens.shape[1])
        except InvalidArgument:
            if isinstance(self._memory, Arrays):
                raise
        self._memory = Arrays(self._session, self._ports.past, self._memory.arrays)
        self.fed = self._feeds(self._ports, tokens, positions, mask, start, last)
        return self._memory.run(self._ports.logits, self.fed, tokens.shape[1])

    def output(self, name: str) -> Array | None:
        """An output of the last run, all of its rows; None for what the network lacks, and after rewinding.

        What was not computed then is computed now, logits by a session of their own.
        """
        names = [each.name for each in self._session.get_outputs()]
        found = self.results.get(name)
        is_whole = found is not None and found.shape[1:2] == self.fed[self._ports.ids].shape[1:]
        if self._last and name in names and not is_whole:
            found = self.results[name] = self._again(name, *self._last)
        return found

    def _again(self, name: str, tokens: Array, positions: Array, mask: Array, start: int, last: Array | None) -> Array:
        """An output of a run that was made already, whose keys and values are there still."""
        network = self._first if self._first and start == 0 else self._network
        session = network.whole() if name == network.ports.logits else network.session
        taken = [each.name for each in session.get_inputs()]
        arrays = self._memory.arrays
        kept = [each for each in self._ports.past if each.input in arrays and not each.cross]
        before = {each.input: arrays[each.input].take(range(start), axis=each.time) for each in kept}
        feeds = {**arrays, **before, **self._feeds(network.ports, tokens, positions, mask, start, last)}
        found: Array
        (found,) = session.run([name], {each: value for each, value in feeds.items() if each in taken})
        return found

    @property
    def past(self) -> dict[str, Array]:
        """Keys and values of the tokens so far, by the names of inputs and of outputs."""
        arrays = self._memory.arrays
        return arrays | {each.output: arrays[each.input] for each in self._ports.past if each.input in arrays}

    def rewind(self, length: int) -> None:
        """Forget the slots from `length` on."""
        self.length = length
        self._last = None
        self._tokens, self._positions = self._tokens[:, :length], self._positions[:, :length]
        self._memory.rewind(length)

    def select(self, rows: Sequence[int] | Array) -> None:
        """Go on with these rows, in this order; a row may be there several times, or not at all."""
        chosen = np.asarray(rows)
        if self._last:
            tokens, positions, mask, start, last = self._last
            self._last = tokens[chosen], positions[chosen], mask[chosen], start, None if last is None else last[chosen]
        self.results = {name: array[chosen] for name, array in self.results.items()}
        self._tokens, self._positions = self._tokens[chosen], self._positions[chosen]
        self._memory.select(chosen)
        rows_of = {each.input: each.rows for each in self._ports.past}
        for ports in [self._ports, *([self._first.ports] if self._first else [])]:
            rows_of |= {name: 0 for name in (ports.encoded, ports.encoded_mask) if name}
        for name in rows_of.keys() & self._given.keys():
            self._given[name] = self._given[name].take(chosen, axis=rows_of[name])

    def _feeds(
        self, ports: Ports, tokens: Array, positions: Array, mask: Array, start: int, last: Array | None
    ) -> dict[str, Array]:
        found = {name: array for name, array in self._given.items() if name in ports.dtypes}
        found[ports.ids] = tokens
        if ports.mask:
            found[ports.mask] = mask
        if ports.positions:
            found[ports.positions] = np.broadcast_to(
                positions, (*(3,) * (ports.ranks[ports.positions] - 2), *positions.shape)
            )
        for name in (each for each in ports.known if each not in found):
            found[name] = _counted(name, start, tokens, last)
            if ports.ranks[name] == 1:
                found[name] = found[name].reshape(-1)
        return {name: np.asarray(value, ports.dtypes.get(name), order="C") for name, value in found.items()}

    def _wanted(self, logits: Array, count: int, last: Array | None) -> Array:
        """Of all logits that a run gave, those of the wanted positions."""
        if logits.ndim == 2:
            logits = logits[:, None]
        if last is None or ROWS in self._ports.known or (logits.shape[1] == 1 and count == 1):
            return logits[:, -1].astype(np.float32)
        if logits.shape[1] != count:
            raise InvalidValue(
                "the model gives the logits of the last position alone: prompts of a batch must have the same length"
            )
        return logits[np.arange(len(logits)), last].astype(np.float32)


def _counted(name: str, start: int, tokens: Array, last: Array | None) -> Array:
    """What an input takes that follows from how many tokens there are, `start` of them from earlier runs."""
    count = tokens.shape[1]
    if name in KEPT:
        return np.array(1 if last is None else 0)
    if name == ROWS:
        return np.full(len(tokens), count - 1) if last is None else np.asarray(last)
    if name == CACHE_BRANCH:
        return np.array(start > 0)
    if name == CACHE_POSITION:
        return np.arange(start, start + count)
    if name == TYPES:
        return np.zeros_like(tokens)
    return np.array({"past": start, "total": start + count, "current": count}[name.partition("_")[0]])
