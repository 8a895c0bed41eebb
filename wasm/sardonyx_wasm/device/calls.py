"""Products that are bound to memory: what NumPy is to call, in bands where something is done before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .blas import BAND, LANES, SCRATCH, ArrayAt, Numbers, Product, Step
from .heights import whole
from .products import multiply


class Stages(NamedTuple):
    """What makes the left sides of some units of a product and uses its results, in memory that a thread has for that.

    Both are called with the first unit, the end, the address of scratch memory, and where those rows are.
    """

    before: Callable[[int, int, int, int], Any]
    after: Callable[[int, int, int, int], Any] | None = None


class Call:
    """A product that is bound to memory, as often as wanted; each thread does its share of it."""

    def __init__(self, product: Product, array: ArrayAt, stages: Stages | None = None) -> None:
        self.work = product.work
        self._product, self._array, self._stages = product, array, stages
        self._bound: dict[tuple[int, int], list[tuple[range, list[Step]]]] = {}
        self._place = -1
        """The address that what is bound is for."""
        self._made = self.room = 0
        """Bytes that a thread needs."""
        if stages:
            self._set_bands(product, stages)

    def _set_bands(self, product: Product, stages: Stages) -> None:
        left, made = (4 * product.count * size for size in (product.depth, product.columns))
        made = made if stages.after else 0
        most = max(BAND, prod(product.shared.right) * product.b.between)  # what is read again for each band
        self._units = max(1, most // max(1, product.unit * (left + made)))
        if product.unit == 1 and self._units > product.most:
            self._units -= self._units % whole(product.most)
        self._units = max(self._units, 2 * product.grain)
        self._left, self._made = (self._units * product.unit * size for size in (left, made))
        self.room = SCRATCH + self._left + self._made

    def __call__(self, address: int, thread: int, threads: int) -> None:
        """Do the share of a thread; at the address there is room for all of them."""
        bands = self.prepare(address, thread, threads)
        address += thread * self.room
        for units, calls in bands:
            if self._stages:
                self._stages.before(units.start, units.stop, address, address + SCRATCH)
            for call in calls:
                call()
            if self._stages and self._stages.after:
                self._stages.after(units.start, units.stop, address, address + SCRATCH + self._left)

    def alone(self, address: int) -> Step:
        """The whole of it, for one thread."""
        bands = self.prepare(address, 0, 1)
        if self._stages or len(bands) != 1 or len(bands[0][1]) != 1:
            return partial(self, address, 0, 1)
        return bands[0][1][0]

    def prepare(self, address: int, thread: int, threads: int) -> list[tuple[range, list[Step]]]:
        """What the share of a thread is, made ready once for an address."""
        if self.room and address != self._place:
            self._bound = {}
            self._place = address
        bands = self._bound.get((thread, threads))
        if bands is None:
            place = address + thread * self.room + SCRATCH
            bands = self._bound[thread, threads] = list(self._bands(place, thread, threads))
        return bands

    def _bands(self, address: int, thread: int, threads: int) -> Iterator[tuple[range, list[Step]]]:
        """Units that are done at a time, and how."""
        product = self._product
        units, panels = product.share(thread, threads, whole=self._made > 0)
        spare: dict[Numbers, np.ndarray] = {}
        source = address if self._stages else None
        target = address + self._left if self._made else None
        size = self._units if self._stages else max(1, len(units))
        start = units.start
        while start < units.stop:
            end = units.stop if units.stop - start <= size else product.cut(start + size)
            rows = range(start * product.unit, end * product.unit)
            made: list[Step] = []
            for sweep in product.sweeps(self._array, rows, panels, source, target):
                if sweep.is_plain:
                    made.append(partial(multiply, sweep.lefts, sweep.rights, sweep.results))
                else:
                    operands = zip(sweep.lefts, sweep.rights, sweep.results, strict=True)
                    made += chain.from_iterable(steps(*each, spare) for each in operands)
            yield range(start, end), made
            start = end


_matmul = partial(np.matmul, order="C")


def steps(a: np.ndarray, b: np.ndarray, c: np.ndarray, spare: dict[Numbers, np.ndarray]) -> Iterator[Step]:
    """What to call for a @ b, of which c may want the first columns alone, or the sum; `spare` is memory for the rest.

    A vector's product with a matrix sums the columns behind the last 16 in another order than the rest, so these
    overlap those before.
    """
    (rows, columns), width = c.shape[-2:], b.shape[-1]
    if a.ndim > c.ndim:
        shape = (*a.shape[:1], *c.shape[:-1], width)
        sums = spare.setdefault(shape, np.empty(shape, np.float32))
        yield partial(_matmul, a, b, out=sums)
        first, *others = sums[..., :columns]
        for other in others:
            yield partial(np.add, first, other, out=c)
            first = c
    elif columns < width:
        made = np.empty((*c.shape[:-1], width), np.float32)
        yield partial(_matmul, a, b, out=made)
        yield partial(np.copyto, c, made[..., :columns])
    elif rows == 1 and columns > LANES and (rest := columns % LANES):
        yield partial(_matmul, a, b[..., :-rest], out=c[..., :-rest])
        yield partial(_matmul, a, b[..., -LANES:], out=c[..., -LANES:])
    else:
        yield partial(_matmul, a, b, out=c)
