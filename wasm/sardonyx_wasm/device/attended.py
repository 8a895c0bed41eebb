"""Attention whose products NumPy's BLAS does natively: the module makes weights of the scores of some queries, which
stay in the cache until they weigh the values. With few queries, or very many keys, the module does it all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from sardonyx.code.kernel import Routine

from ..abi import HOSTED, SCRATCH, WEIGHED, WEIGHED_ROW
from . import blas
from .operands import ArrayAt, Step

Steps: TypeAlias = tuple[Step, Step, Step]

_CACHED = 1 << 18  # bytes of scores that stay in the cache
_FEWEST = 16  # rows of queries at a time, for which calling BLAS pays


class Attended:
    """Attention that is bound to memory; threads do parts of the queries, each in scratch memory of its own."""

    def __init__(
        self,
        code: Routine,
        addresses: Sequence[int],
        params: Sequence[int],
        array: ArrayAt,
        weigh: Callable[..., Any],
        alone: Callable[..., Any],
    ) -> None:
        def known(size: Any) -> int:
            named = size["size"] if isinstance(size, dict) else size
            return params[int(named[1:])] if isinstance(named, str) else int(named)

        (batch, heads, length, self._depth), (_, groups, room, _), (_, _, other_room, self._width) = (
            [known(size) for size in shape] for shape in code.inputs[:3]
        )
        causal, keys = code.attributes["causal"], code.attributes["keys"]
        self._length, self._shared = length, heads // groups
        self._matrices = batch * groups
        self._rooms = room, other_room
        self._keys = room if keys is None else known(keys)
        self._place = None if causal is None else known(causal)
        self._most: int = code.attributes[HOSTED]
        self._addresses, self._params, self._array = addresses, params, array
        self._weigh, self._alone = weigh, alone
        self._bound: dict[tuple[int, int, int], list[Steps]] = {}
        self.work = batch * heads * length * self._keys * (self._depth + self._width)

    def __call__(self, scratch: int, number: int, count: int) -> None:
        """Do a part of so many, in scratch memory at an address."""
        rows = self._shared * self._length
        together = min(self._most, max(_FEWEST, _CACHED // (4 * max(1, self._keys))))
        room = WEIGHED + together * _row(self._keys)
        if min(rows, self._keys) < _FEWEST or room > SCRATCH:
            share = blas.part(range(self._matrices * rows), number, count)
            self._alone(share.start, share.stop, scratch, *self._addresses, *self._params)
            return
        bound = self._bound.get((scratch, number, count))
        if bound is None:
            bands = [*self._bands(together)]
            share = blas.part(range(len(bands)), number, count)
            bound = self._bound[scratch, number, count] = [*self._steps(bands[share.start : share.stop], scratch)]
        with np.errstate(all="ignore"):  # of this thread; scores of padding are any numbers
            for steps in bound:
                for step in steps:
                    step()

    def _bands(self, together: int) -> Iterator[tuple[int, int, int]]:
        """Queries of one matrix whose scores are made at a time, in rows of all: begin and end, and the matrix."""
        each = self._length if self._place is not None and self._length > together // 2 else self._length * self._shared
        for begin in range(0, self._matrices * self._shared * self._length, each):
            matrix = begin // (self._shared * self._length)
            for first in range(begin, begin + each, together):
                yield first, min(first + together, begin + each), matrix

    def _steps(self, bands: Sequence[tuple[int, int, int]], scratch: int) -> Iterator[Steps]:
        """Scores, weights, and what these weigh."""
        q, k, v, *_, y = self._addresses
        depth, width, (room, other_room) = self._depth, self._width, self._rooms
        rows = self._matrices * self._shared * self._length
        queries = self._array(q, (rows, depth), (4 * depth, 4))
        keys = self._array(k, (self._matrices, depth, self._keys), (4 * room * depth, 4, 4 * depth))
        values = self._array(v, (self._matrices, self._keys, width), (4 * other_room * width, 4 * width, 4))
        results = self._array(y, (rows, width), (4 * width, 4))
        for begin, end, matrix in bands:
            seen = self._visible(begin, end)
            scores = self._array(scratch + WEIGHED, (end - begin, seen), (_row(seen), 4))
            yield (
                partial(np.matmul, queries[begin:end], keys[matrix, :, :seen], scores),
                partial(self._weigh, begin, end, scratch, *self._addresses, *self._params),
                partial(np.matmul, scores, values[matrix, :seen], results[begin:end]),
            )

    def _visible(self, begin: int, end: int) -> int:
        """The keys that any of these rows sees, as `routines.attention` has it."""
        if self._place is None:
            return self._keys
        length = self._length
        is_one = begin // length == (end - 1) // length
        return min((end - 1) % length if is_one else length - 1, self._keys - 1 - self._place) + 1 + self._place


def _row(keys: int) -> int:
    """Bytes of the scores of a query."""
    return -(-4 * keys // WEIGHED_ROW) * WEIGHED_ROW
