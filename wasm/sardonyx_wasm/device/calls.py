"""Products that are bound to memory: their parts, which threads share, and what NumPy is to call for each.

What is done before and after a product of a convolution is the module's, see `drivers.hosted`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from math import prod

import numpy as np

from sardonyx.common.record import record

from . import blas
from .blas import BAND, COMMON, PACKED_BAND, REGISTER, Product
from .division import divided, is_uneven, is_wide
from .heights import whole
from .operands import ArrayAt, Numbers, Step
from .products import multiply
from .shares import part, ranges


@record(frozen=True)
class Layout:
    """Where left sides and results are while a convolution is computed: bytes of a unit, and of all of them."""

    seen: int
    made: int
    left: int
    right: int
    is_common: bool
    """Whether all threads work on the same; else each has as much."""

    @property
    def room(self) -> int:
        return self.left + self.right


class Call:
    """A product that is bound to memory, in parts, which many threads may do at the same time.

    `stages` are there if left sides are made for it, "before", and results used, "after". Then a thread has memory of
    its own for as many units as stay in the cache; where rows are few and matrices large, threads divide the panels
    and work on the same left sides. So they do where there are too few rows for all of them, and divide the matrices.
    """

    def __init__(self, product: Product, array: ArrayAt, threads: int = 1, stages: tuple[str, ...] = ()) -> None:
        self.work = product.work
        crew, threads = threads, product.sharers(threads)
        self.threads = threads
        self._array, self._addresses = array, product.addresses
        self._bound: dict[tuple[int, int], list[Step]] = {}
        self._place = 0
        units, panels = range(product.rows // product.unit), product.panels
        is_by_panels = threads > 1 and is_wide(product, threads)
        is_by_matrices = threads > 1 and not is_by_panels and is_uneven(product, threads)
        size = max(1, len(units))
        self.layout: Layout | None = None
        if stages:
            size, self.layout = _layout(product, stages, is_by_panels or is_by_matrices, len(units))
        count = ranges(product.work, threads)
        self.parts: list[tuple[Product, range, range]]
        """Which products, units and panels each part is."""
        is_common = self.layout is not None and self.layout.is_common
        is_stack = threads > 1 and not stages and product.is_stack and product.count >= threads
        if is_stack or (is_common and is_by_matrices):
            self.parts = [(each, units, panels) for each in divided(product, count)]
        elif is_by_panels and (is_common or not stages):
            count = min(count, len(panels))
            self.parts = [(product, units, part(panels, k, count)) for k in range(count)]
        else:
            self.parts = [(product, units, panels) for units in product.parts(threads, size)]
        self.room = 0
        """Bytes of memory that it needs: any thread may come first, even where there is a part for one alone."""
        if self.layout:
            self.room = self.layout.room * (1 if self.layout.is_common else crew)

    def use(self, address: int) -> None:
        """Work in memory at an address."""
        if self.room and address != self._place:
            self._bound.clear()
        self._place = address

    def do(self, number: int, thread: int) -> None:
        """Do the product of a part."""
        for call in self._bound.get((number, thread)) or self._bind(number, thread):
            call()

    def _bind(self, number: int, thread: int) -> list[Step]:
        """What to call for a part."""
        product, units, panels = self.parts[number]
        layout = self.layout
        spare: dict[Numbers, np.ndarray] = {}
        source = target = None
        if layout:
            before, _, behind = (a - b for a, b in zip(product.addresses, self._addresses, strict=True))
            place = self._place + (0 if layout.is_common else layout.room * thread)
            source = place + before
            target = place + layout.left + behind if layout.right else None
        rows = range(units.start * product.unit, units.stop * product.unit)
        found: list[Step] = []
        for sweep in product.sweeps(self._array, rows, panels, source, target):
            if sweep.is_plain:
                found.append(partial(multiply, sweep.lefts, sweep.rights, sweep.results))
            else:
                operands = zip(sweep.lefts, sweep.rights, sweep.results, strict=True)
                found += chain.from_iterable(steps(*each, spare) for each in operands)
        self._bound[number, thread] = found
        return found


def _layout(product: Product, stages: tuple[str, ...], may_be_common: bool, units: int) -> tuple[int, Layout]:
    """The units that are done at a time, and where their left sides and results are."""
    seen, made = (product.itemsize * product.count * product.unit * size for size in (product.depth, product.columns))
    made = made if "after" in stages else 0
    if may_be_common and units * (seen + made) <= COMMON:
        return units, Layout(seen, made, seen * units, made * units, True)
    again = prod(product.shared.right) * product.b.between  # what is read again for each band
    most = max(BAND if blas.in_blocks() else PACKED_BAND, again)
    size = max(1, most // max(1, seen + made))
    if product.unit == 1 and size > product.most:
        size -= size % whole(product.most)
    size = max(size - size % product.grain, 2 * product.grain)  # so that no part is larger
    return size, Layout(seen, made, seen * size, made * size, False)


_matmul = partial(np.matmul, order="C")


def steps(a: np.ndarray, b: np.ndarray, c: np.ndarray, spare: dict[Numbers, np.ndarray]) -> Iterator[Step]:
    """What to call for a @ b, of which c may want the first columns alone, or the sum; `spare` is memory for the rest.

    A vector's product with a matrix sums the columns behind the last register in another order than the rest, so these
    overlap those before.
    """
    (rows, columns), width, lanes = c.shape[-2:], b.shape[-1], REGISTER // c.itemsize
    if a.ndim > c.ndim:
        shape = (*a.shape[:1], *c.shape[:-1], width)
        sums = spare.setdefault(shape, np.empty(shape, c.dtype))
        yield partial(_matmul, a, b, out=sums)
        first, *others = sums[..., :columns]
        for other in others:
            yield partial(np.add, first, other, out=c)
            first = c
    elif columns < width:
        made = np.empty((*c.shape[:-1], width), c.dtype)
        yield partial(_matmul, a, b, out=made)
        yield partial(np.copyto, c, made[..., :columns])
    elif rows == 1 and columns > lanes and (rest := columns % lanes):
        yield partial(_matmul, a, b[..., :-rest], out=c[..., :-rest])
        yield partial(_matmul, a, b[..., -lanes:], out=c[..., -lanes:])
    else:
        yield partial(_matmul, a, b, out=c)
