"""Products of a segment that NumPy does: their words in the list of launches, and what is called for each part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from typing import Protocol

import numpy as np

from sardonyx.common.record import record

from ..abi import CONVOLUTIONS, LAUNCH, PARAMS, SCRATCH
from ..hosts import Host
from . import blas, calls
from .allocation import Allocation
from .operands import ArrayAt, Rights
from .products import MOST_SIZES, Products, Whole, multiply


@record(frozen=True)
class Numbers:
    """How the module knows a product: its number among those of the segment, and the numbers of launchers."""

    base: int
    nothing: int
    before: int

    def words(self, parts: int, *operands: int) -> list[int]:
        """The launch of so many parts."""
        operands = (self.base, parts, *operands, *[0] * (PARAMS - 2 - len(operands)))
        return [self.before + 1, len(operands), *operands]


@record(slots=True)
class _Bound:
    """A product for some parameters, and where the units of its parts end."""

    call: calls.Call
    ends: Allocation | None


class Hosted:
    """The launch of a code with its operands at these addresses."""

    def __init__(
        self,
        host: Host,
        numbers: Numbers,
        threads: int,
        products: Products,
        array: ArrayAt,
        addresses: Sequence[int],
        params: tuple[int, ...],
    ) -> None:
        self._host, self._numbers, self._threads = host, numbers, threads
        self._products, self._made = products, products.made
        self._array = array
        self._addresses = addresses
        self._stages = tuple(CONVOLUTIONS.get(products.primitive, ()))
        self._least = 0 if self._stages else blas.SHARED if threads > 1 else 1 << 62
        """Work from which on there is more to do than to multiply, on one thread."""
        self._place = 0
        self._rights: dict[int, list[np.ndarray]] = {}
        self._shared_rights: Rights = {}
        self._calls: dict[tuple[int, ...], _Bound] = {}
        self._params: tuple[int, ...] | None = None
        self._bound: _Bound | None = None
        self._memory = np.empty(0, np.uint32)
        self._alone = numbers.words(1)
        """Its words where there is nothing to do but to multiply,"""
        self._words: list[int] = []
        """and those that it has."""
        self.room = 0
        """Bytes of memory that it needs while it runs."""
        self.launches = 3 if self._stages else 1
        self.size = LAUNCH + PARAMS
        if self._stages:
            self.size += 2 * (LAUNCH + 2) + 3 * len(params)
        self.take(params)

    def lie(self, memory: np.ndarray) -> None:
        self._memory = memory
        memory[:] = np.array(self._words, np.int64)

    def take(self, params: tuple[int, ...]) -> None:
        """Work with other parameters."""
        if params == self._params:
            return
        whole = self._made.get(params) or self._products.of(params)
        if whole.form < 0 and whole.work < self._least:
            whole.lay_out()
        self._params, self.work = params, whole.work
        if whole.is_plain and whole.work < self._least:
            x, w, y = self._addresses
            lefts = whole.lefts.get(x) or whole.left_sides(self._array, x)
            results = whole.results.get(y) or whole.result_sides(self._array, y)
            rights = self._rights.get(whole.form) or self._right_sides(whole, w)
            self.do = lambda *_: multiply(lefts, rights, results)
            self.room, self.is_large, self._bound = 0, False, None
            self._write(self._alone)
        else:
            bound = self._bound = self._calls.get(params) or self._bind(whole, params)
            call = bound.call
            self.do, self.room, self.is_large = call.do, call.room, call.threads > 1
            self.use(self._place)

    def _right_sides(self, whole: Whole, address: int) -> list[np.ndarray]:
        if self._products.has_constant:
            found = self._rights[whole.form] = whole.right_sides(self._array, address)
            return found
        return whole.rights.get(address) or whole.moving_right_sides(self._array, address)

    def _bind(self, whole: Whole, params: tuple[int, ...]) -> _Bound:
        """Have threads do their parts, or one more than multiply."""
        if len(self._calls) == MOST_SIZES:
            del self._calls[next(iter(self._calls))]
        product = whole.product.at(self._addresses, self._shared_rights if self._products.has_constant else {})
        call, ends = calls.Call(product, self._array, self._threads, self._stages), None
        if call.layout and not call.layout.is_common:
            places = [*accumulate([len(units) for _, units, _ in call.parts], initial=0)]
            ends = Allocation(self._host, 4 * len(places))
            self._host.array(ends.address, (len(places),), np.uint32)[:] = places
        found = self._calls[params] = _Bound(call, ends)
        return found

    def use(self, place: int) -> None:
        """Have such memory at an address."""
        self._place = place
        if self._bound:
            self._bound.call.use(place)
            self._write(self._list(self._bound))

    def _list(self, bound: _Bound) -> list[int]:
        call, layout, numbers = bound.call, bound.call.layout, self._numbers
        if layout is None:
            return numbers.words(len(call.parts))
        (x, _, y), params, place = self._addresses, self._params or (), self._place
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
        return [*chain(stages[0], own, stages[1])]

    def _write(self, words: list[int]) -> None:
        if words is not self._words:
            self._words = words
            if len(self._memory):
                self.lie(self._memory)


class _Part(Protocol):
    """A product of which each thread does some parts, in scratch memory at an address."""

    work: int

    def __call__(self, scratch: int, number: int, count: int) -> None: ...


class Shared:
    """A product that the module and NumPy do together, in scratch memory of each thread."""

    launches, size = 1, LAUNCH + PARAMS

    def __init__(
        self, numbers: Numbers, threads: int, make: Callable[[Sequence[int]], _Part], params: tuple[int, ...]
    ) -> None:
        self._numbers, self._threads = numbers, threads
        self._make = make
        self._scratch = 0
        self._params: tuple[int, ...] | None = None
        self._memory = np.empty(0, np.uint32)
        self.take(params)

    def lie(self, memory: np.ndarray) -> None:
        self._memory = memory
        memory[:] = self._numbers.words(self._count)

    def take(self, params: tuple[int, ...]) -> None:
        """Work with other parameters."""
        if params != self._params:
            self._product = self._make(params)
            self.work = self._product.work
            self.is_large = self._threads > 1 and self.work >= blas.SHARED
            self._count = blas.RANGES * self._threads if self.is_large else 1
            self._params = params
            if len(self._memory):
                self.lie(self._memory)

    def use(self, place: int) -> None:
        """Have scratch memory at an address."""
        self._scratch = place

    def do(self, part: int, thread: int) -> None:
        self._product(self._scratch + thread * SCRATCH, part, self._count)
