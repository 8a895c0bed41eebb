"""Products with weights of few bits that NumPy's BLAS does natively: the module makes panels of floats of some columns,
which stay in the cache until they are used. With few rows the module does it all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from sardonyx.code.kernel import Routine

from ..abi import FEW, HOSTED, PANELS
from . import blas
from .calls import steps
from .operands import ArrayAt, Panels, Rows, Step
from .shares import part

Band: TypeAlias = tuple[int, int, list[Step]]

_TOGETHER = 1 << 19  # bytes of panels at a time, where AVX-512 is: the second level of the cache has a million


class Unpacked:
    """A product that is bound to memory; threads do parts of the panels, each in scratch memory of its own."""

    def __init__(
        self,
        code: Routine,
        addresses: Sequence[int],
        params: Sequence[int],
        array: ArrayAt,
        widen: Callable[..., Any],
    ) -> None:
        *outer, self._depth = code.inputs[0]
        rows = int(np.prod([params[int(size[1:])] if isinstance(size, str) else size for size in outer]))
        self._rows, self._columns = rows, int(code.outputs[0][-1])
        self._panels, _, self._nr = code.inputs[2]
        self._width: int = code.attributes[HOSTED]
        self._addresses, self._params, self._array = addresses, params, array
        self._widen = widen
        self._bound: dict[tuple[int, int, int], list[Band]] = {}
        self.work = rows * self._depth * self._columns
        self.is_light = rows <= FEW

    def __call__(self, scratch: int, number: int, count: int) -> None:
        """Do a part of so many, in scratch memory at an address."""
        panels = -(-self._columns // self._width)
        share = part(range(panels), number, count)
        bands = self._bound.get((scratch, number, count))
        if bands is None:
            bands = self._bound[scratch, number, count] = list(self._bands(share, scratch))
        with np.errstate(all="ignore"):  # of this thread; what lies behind the last column are any numbers
            for begin, end, steps in bands:
                self._widen(begin, end, scratch, *self._addresses[1:4], *self._params)
                for step in steps:
                    step()

    def _bands(self, share: range, scratch: int) -> Iterator[Band]:
        """Panels that are made at a time, in the module's numbers, and the products with them."""
        depth, width = self._depth, self._width
        together = max(1, (_TOGETHER if blas.in_blocks() else PANELS) // (4 * depth * width))
        pieces, most = blas.blocks(depth, width)
        a, _, _, _, c = self._addresses
        left = self._array(a, (self._rows, depth), (4 * depth, 4))
        whole = self._array(c, (self._rows, self._columns), (4 * self._columns, 4))
        for first in range(share.start, share.stop, together):
            end = min(first + together, share.stop)
            column = first * width
            columns = min(end * width, self._columns) - column
            units = (column // self._nr, min(end * width // self._nr, self._panels))
            if pieces == 1 and most >= self._rows and end - first == 1 and columns == width:
                panel = self._array(scratch, (depth, columns), (4 * width, 4))
                yield *units, [partial(np.matmul, left, panel, whole[:, column : column + columns])]
                continue
            right = Panels(scratch, 0, 4 * width, 4 * width * depth, width)
            results = Rows(c + 4 * column, 0, 4 * self._columns)
            sizes = (1, self._rows, depth, columns)
            product = blas.Product(sizes, most, Rows(a, 0, 4 * depth), right, results, pieces=pieces)
            calls = product.calls(self._array, range(self._rows), range(end - first))
            yield *units, [step for operands in calls for step in steps(*operands, spare={})]
