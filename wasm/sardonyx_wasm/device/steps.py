"""Products of a segment that NumPy does: their words in the list of launches, and what is called for each part."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from typing import Any, Protocol

import numpy as np

from sardonyx.common.recent import Recent
from sardonyx.common.record import record

from ..abi import CONVOLUTIONS, LAUNCH, PARAMS, SCRATCH
from ..hosts import Host
from . import blas, calls
from .allocation import Allocation
from .operands import ArrayAt, Rights
from .products import MOST_SIZES, Products, Whole, multiply
from .shares import ranges

WAKING = 1 << 18
"""Multiplications of the module's own from which on it may be worth waking other threads."""


def _nothing(*_: int) -> None:
    """What the host does of what the module does."""


@record(frozen=True)
class Numbers:
    """How the module knows a product: its number among those of the segment, and the numbers of launchers."""

    base: int
    nothing: int
    before: int
    room: int = PARAMS
    """How many operands there are at most."""

    def words(self, parts: int, *operands: int) -> list[int]:
        """The launch of so many parts."""
        return self._padded(self.before + 1, self.base, parts, *operands)

    def own(self, *operands: int) -> list[int]:
        """The launch of what the module does instead."""
        return self._padded(self.before, *operands)

    def _padded(self, number: int, *operands: int) -> list[int]:
        return [number, self.room, *operands, *[0] * (self.room - len(operands))]


@record(slots=True)
class Bound:
    """A product for some parameters: what is called for each part, by which thread, and its words."""

    do: Callable[[int, int], Any]
    words: list[int]
    work: int
    is_large: bool = False
    """Whether it may be worth waking other threads."""
    call: calls.Call | None = None
    """What may have memory of its own while it runs,"""
    params: Sequence[int] = ()
    place: int = -1
    """and where that is,"""
    ends: Allocation | None = None
    """and where the units of its parts end."""

    @property
    def room(self) -> int:
        """Bytes of memory that it needs while it runs."""
        return self.call.room if self.call else 0


class Step(ABC):
    """The launch of a code that is left to BLAS, with its operands at some addresses."""

    launches = 1

    def __init__(self, numbers: Numbers, threads: int) -> None:
        self._numbers, self._threads = numbers, threads
        self._bounds: Recent[tuple[int, ...], Bound] = Recent(MOST_SIZES)
        self.size = LAUNCH + numbers.room

    @abstractmethod
    def bound(self, params: tuple[int, ...]) -> Bound:
        """The product for these parameters."""
        ...

    def remember(self, most: int) -> None:
        """Keep so many bound products."""
        self._bounds.most = most

    def place(self, bound: Bound, place: int) -> None:
        """Have a product that needs it work in memory at an address."""
        raise AssertionError("this product needs no memory of its own")

    def _own(self, work: int, addresses: Sequence[int], params: Sequence[int]) -> Bound:
        """Leave a light product to the module."""
        return Bound(_nothing, self._numbers.own(*addresses, *params), work, self._threads > 1 and work >= WAKING)


class Hosted(Step):
    """A product that NumPy does, with what the module does before and after it."""

    def __init__(
        self,
        host: Host,
        numbers: Numbers,
        threads: int,
        products: Products,
        array: ArrayAt,
        addresses: Sequence[int],
        count: int,
    ) -> None:
        super().__init__(numbers, threads)
        self._host = host
        self._products, self._made = products, products.made
        self._array = array
        self._addresses = addresses
        self._stages = tuple(CONVOLUTIONS.get(products.primitive, ()))
        self._least = 0 if self._stages else blas.SHARED if threads > 1 else 1 << 62
        """Work from which on there is more to do than to multiply, on one thread."""
        self._rights: dict[int, list[np.ndarray]] = {}
        self._shared_rights: dict[int, Rights] = {}
        """Right sides of constants, by the columns of a panel."""
        self._alone = numbers.words(1)
        """Its words where there is nothing to do but to multiply."""
        if self._stages:
            self.launches = 3
            self.size += 2 * (LAUNCH + 2) + 3 * count

    def bound(self, params: tuple[int, ...]) -> Bound:
        whole = self._made.get(params) or self._products.of(params)
        if self._products.is_light(whole):
            return self._bounds.get(params) or self._bounds.keep(params, self._own(whole.work, self._addresses, params))
        is_small = whole.work < self._least
        if whole.form < 0 and is_small:
            whole.lay_out()
        if not (is_small and whole.is_plain):
            return self._bounds.get(params) or self._bounds.keep(params, self._divided(whole, params))
        x, w, y = self._addresses
        lefts = whole.lefts.get(x) or whole.left_sides(self._array, x)
        results = whole.results.get(y) or whole.result_sides(self._array, y)
        rights = self._rights.get(whole.form) or self._right_sides(whole, w)
        return Bound(lambda *_: multiply(lefts, rights, results), self._alone, whole.work)

    def _right_sides(self, whole: Whole, address: int) -> list[np.ndarray]:
        if self._products.has_constant:
            found = self._rights[whole.form] = whole.right_sides(self._array, address)
            return found
        return whole.rights.get(address) or whole.moving_right_sides(self._array, address)

    def _divided(self, whole: Whole, params: tuple[int, ...]) -> Bound:
        """Have threads do their parts, or one more than multiply."""
        found = whole.product
        rights = self._shared_rights.setdefault(found.b.width, {}) if self._products.has_constant else {}
        product = found.at(self._addresses, rights)
        call, ends = calls.Call(product, self._array, self._threads, self._stages), None
        if call.layout and not call.layout.is_common:
            places = [*accumulate([len(units) for _, units, _ in call.parts], initial=0)]
            ends = Allocation(self._host, 4 * len(places))
            self._host.array(ends.address, (len(places),), np.uint32)[:] = places
        words = self._numbers.words(len(call.parts))
        return Bound(call.do, words, whole.work, call.threads > 1, call, params, ends=ends)

    def place(self, bound: Bound, place: int) -> None:
        call, numbers, params = bound.call, self._numbers, bound.params
        if call is None or call.layout is None or bound.place == place:
            return
        call.use(place)
        layout, (x, _, y) = call.layout, self._addresses
        before = after = numbers.nothing
        operands: tuple[int, ...] = ()
        if layout.is_common:
            before, after = numbers.before, numbers.before + 2 if "after" in self._stages else numbers.nothing
        else:
            assert bound.ends
            operands = bound.ends.address, x, y, place, layout.room, layout.left, layout.seen, layout.made
        stages = [
            [number, 2 + len(params), *buffers, *params]
            for number, buffers in ((before, (x, place)), (after, (place + layout.left, y)))
        ]
        own = [*numbers.words(len(call.parts), *operands), *params]
        own[1] += len(params)
        bound.words = [*chain(stages[0], own, stages[1])]
        bound.place = place  # last, since a signal may come between


class Part(Protocol):
    """A product of which each thread does some parts, in scratch memory at an address."""

    work: int
    is_light: bool
    """Whether the module does it all."""

    def __call__(self, scratch: int, number: int, count: int) -> None: ...


class Place:
    """Where the scratch memory of a run begins."""

    __slots__ = ("address",)

    def __init__(self) -> None:
        self.address = 0


class Shared(Step):
    """A product that the module and NumPy do together, in scratch memory of each thread."""

    def __init__(
        self,
        numbers: Numbers,
        threads: int,
        make: Callable[[Sequence[int]], Part],
        addresses: Sequence[int],
        scratch: Place,
    ) -> None:
        super().__init__(numbers, threads)
        self._make, self._addresses = make, addresses
        self._scratch = scratch

    def bound(self, params: tuple[int, ...]) -> Bound:
        return self._bounds.get(params) or self._bounds.keep(params, self._made(params))

    def _made(self, params: tuple[int, ...]) -> Bound:
        product, scratch = self._make(params), self._scratch
        if product.is_light:
            return self._own(product.work, self._addresses, params)
        is_large = self._threads > 1 and product.work >= blas.SHARED
        count = ranges(product.work, self._threads) if is_large else 1
        return Bound(
            lambda part, thread: product(scratch.address + thread * SCRATCH, part, count),
            self._numbers.words(count),
            product.work,
            is_large,
        )
