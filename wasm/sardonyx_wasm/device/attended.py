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
from .shares import part

Steps: TypeAlias = tuple[Step, Step, Step]
Band: TypeAlias = tuple[int, int, int, int]
"""The first and last matrix, and the first and last row of these."""

_CACHED = 1 << 18  # bytes of scores that stay in the cache
_FEWEST, _MANY = 16, 64  # queries at a time for which calling BLAS pays, and for which it is worth leaving the cache


class Attended:
    """Attention that is bound to memory; threads do parts of the queries, each in scratch memory of its own."""

    def __init__(
        self,
        code: Routine,
        addresses: Sequence[int],
        params: Sequence[int],
        array: ArrayAt,
        weigh: Callable[..., Any],
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
        self._weigh = weigh
        self._bound: dict[tuple[int, int, int], list[Steps]] = {}
        self.work = batch * heads * length * self._keys * (self._depth + self._width)
        self._together = self._at_once()
        self.is_light = min(self._shared * length, self._keys, self._together) < _FEWEST

    def __call__(self, scratch: int, number: int, count: int) -> None:
        """Do a part of so many, in scratch memory at an address."""
        bound = self._bound.get((scratch, number, count))
        if bound is None:
            bands = self._bands(self._together)
            share = part(range(len(bands)), number, count)
            bound = self._bound[scratch, number, count] = [*self._steps(bands[share.start : share.stop], scratch)]
        with np.errstate(all="ignore"):  # of this thread; scores of padding are any numbers
            for steps in bound:
                for step in steps:
                    step()

    def _at_once(self) -> int:
        """The queries whose scores are made at a time."""
        row = max(1, _row(self._keys))
        together = min(self._most, max(_MANY, _CACHED // row), (SCRATCH - WEIGHED) // row)
        if not blas.in_blocks():
            return together
        in_place = blas.SMALL // max(1, self._keys * max(self._depth, self._width))
        return min(together, max(_FEWEST, in_place))

    def _bands(self, together: int) -> list[Band]:
        """Queries whose scores are made at a time: some of one matrix, or all of some matrices."""
        rows = self._shared * self._length
        count = together // max(1, rows)
        if count:
            return [(k, min(k + count, self._matrices), 0, rows) for k in range(0, self._matrices, count)]
        each = self._length if self._place is not None and self._length > together // 2 else rows
        return [
            (matrix, matrix + 1, row, min(row + together, first + each))
            for matrix in range(self._matrices)
            for first in range(0, rows, each)
            for row in range(first, first + each, together)
        ]

    def _steps(self, bands: Sequence[Band], scratch: int) -> Iterator[Steps]:
        """Scores, weights, and what these weigh."""
        q, k, v, *_, y = self._addresses
        depth, width, (room, other_room) = self._depth, self._width, self._rooms
        count, rows = self._matrices, self._shared * self._length
        queries = self._array(q, (count, rows, depth), (4 * rows * depth, 4 * depth, 4))
        keys = self._array(k, (count, depth, self._keys), (4 * room * depth, 4, 4 * depth))
        values = self._array(v, (count, self._keys, width), (4 * other_room * width, 4 * width, 4))
        results = self._array(y, (count, rows, width), (4 * rows * width, 4 * width, 4))
        for first, last, row, stop in bands:
            begin, end = first * rows + row, (last - 1) * rows + stop
            seen = self._visible(begin, end)
            strides = (stop - row) * _row(seen), _row(seen), 4
            scores = self._array(scratch + WEIGHED, (last - first, stop - row, seen), strides)
            yield (
                partial(np.matmul, queries[first:last, row:stop], keys[first:last, :, :seen], scores),
                partial(self._weigh, begin, end, scratch, *self._addresses, *self._params),
                partial(np.matmul, scores, values[first:last, :seen], results[first:last, row:stop]),
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
