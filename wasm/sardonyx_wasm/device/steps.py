"""The parts of a segment: calls of the module, and products that NumPy does alone or with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import accumulate
from typing import Any, Protocol

import numpy as np

from sardonyx.common.crew import Crew
from sardonyx.common.termination import poll
from sardonyx.providers.contract import ALIGNMENT

from ..abi import COUNTERS, HEADER, STATE, STOP
from ..hosts import Host
from . import blas, calls
from .allocation import Allocation
from .products import MOST_SIZES, Products, Whole, multiply


class Step(Protocol):
    """A part of a segment, bound to what it works on."""

    def use(self, place: int) -> None:
        """Have the memory that it needs while it runs at an address."""
        ...

    def __call__(self) -> None: ...


SHARED = 1 << 20
"""Bytes that a call reads and writes from which on it is worth waking other threads."""
_ALONE = Crew(1)
_LINE = ALIGNMENT // 4


class Call:
    """A driver of the module with its operands; `first` is the place of its parameters among those of the segment."""

    def __init__(
        self,
        crew: Crew,
        function: Callable[..., Any],
        launches: Sequence[tuple[int, Sequence[int], Sequence[int]]],
        first: int,
        shared: bool,
    ) -> None:
        self._launches = launches
        self._function = function
        self._crew = crew
        self.is_alone = not shared or crew.size == 1
        words: list[int] = []
        places: list[int] = []
        for number, addresses, params in launches:
            words += (number, len(addresses) + len(params), *addresses, *params)
            places += range(len(words) - len(params), len(words))
        self._operands = words
        self.places = [STATE // 4 + HEADER + place for place in places]
        """Where in its memory the parameters are,"""
        self.sources = range(first, first + len(places))
        """and among those of the segment."""
        self.size = STATE // 4 + HEADER + len(words) + COUNTERS // 4 * len(launches)
        """The words of memory that it needs."""

    def lie(self, memory: np.ndarray, address: int) -> None:
        """Have so many words for good, at an address."""
        operands, counters = self._operands, COUNTERS // 4 * len(self._launches)
        end = address + 4 * (self.size - counters)
        state = [0] * (STATE // 4)
        header = [0, address, end, end]
        memory[: self.size - counters] = np.array([*state, *header, *operands], np.int64).astype(np.uint32)
        self._memory, self._counters = memory, memory[self.size - counters :]
        self.words = address + STATE
        self._work = partial(self._function, self.words)

    def use(self, place: int) -> None:
        """Have scratch memory at an address."""
        self._memory[STATE // 4] = place

    def stop(self, now: int) -> None:
        """Ask a call to end early, or no more."""
        self._memory[STOP // 4] = now

    def __call__(self) -> None:
        if self.is_alone:
            is_stopped = self._work(0, 1)
        else:
            self._counters[:] = 0
            is_stopped = self._crew.run(self._work)
        if is_stopped:
            poll()


class Words:
    """The memory of all calls of a segment, so that parameters are written to all of them at once."""

    def __init__(self, host: Host, calls: Sequence[Call]) -> None:
        ends = [*accumulate(-(-call.size // _LINE) * _LINE for call in calls)]
        starts = [0, *ends][: len(calls)]
        size = max(ends, default=0)
        self._block = Allocation(host, 4 * size)
        self._memory = host.array(self._block.address, (size,), np.uint32)
        for call, start in zip(calls, starts):
            call.lie(self._memory[start : start + call.size], self._block.address + 4 * start)
        self._places = [start + place for call, start in zip(calls, starts) for place in call.places]
        self._sources = [source for call in calls for source in call.sources]

    def take(self, params: np.ndarray) -> None:
        """Work with other parameters, those of the segment."""
        spots, sources = self._spots
        self._memory[spots] = params[sources]

    @cached_property
    def _spots(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self._places, np.int64), np.array(self._sources, np.int64)


class Hosted:
    """A product, which is done by NumPy: the launch of a code with its operands at these addresses."""

    def __init__(
        self,
        crew: Crew,
        products: Products,
        array: blas.ArrayAt,
        addresses: Sequence[int],
        params: tuple[int, ...],
        stages: Callable[[blas.Product, Sequence[int]], calls.Stages] | None = None,
    ) -> None:
        self._all = crew
        self._products = products
        self._made = products.made
        self._array = array
        self._addresses = addresses
        self._stages = stages
        self._least = 0 if stages else blas.SHARED if crew.size > 1 else 1 << 62
        """Work from which on there is more to do than to multiply, on one thread."""
        self._place = 0
        self._rights: dict[int, list[np.ndarray]] = {}
        self._shared_rights: blas.Rights = {}
        self._calls: dict[tuple[int, ...], calls.Call] = {}
        self._params: tuple[int, ...] | None = None
        self.room = 0
        """Bytes of memory that it needs while it runs."""
        self.take(params)

    def take(self, params: tuple[int, ...]) -> None:
        """Work with other parameters."""
        if params == self._params:
            return
        whole = self._made.get(params) or self._products.of(params)
        if whole.form < 0 and whole.work < self._least:
            whole.lay_out()
        if whole.is_plain and whole.work < self._least:
            x, w, y = self._addresses
            lefts = whole.lefts.get(x) or whole.left_sides(self._array, x)
            results = whole.results.get(y) or whole.result_sides(self._array, y)
            rights = self._rights.get(whole.form) or self._right_sides(whole, w)
            self._run: blas.Step = partial(multiply, lefts, rights, results)
            self.room = 0
        else:
            self._share(whole, params)
        self._params = params

    def _right_sides(self, whole: Whole, address: int) -> list[np.ndarray]:
        found = whole.right_sides(self._array, address)
        if self._products.has_constant:
            self._rights[whole.form] = found
        return found

    def _share(self, whole: Whole, params: tuple[int, ...]) -> None:
        """Have threads do their parts, or one more than multiply."""
        call = self._calls.get(params)
        if call is None:
            if len(self._calls) == MOST_SIZES:
                del self._calls[next(iter(self._calls))]
            product = whole.product.at(self._addresses, self._shared_rights if self._products.has_constant else {})
            stages = self._stages(product, params) if self._stages else None
            call = self._calls[params] = calls.Call(product, self._array, stages)
        self._crew = self._all if call.work >= blas.SHARED else _ALONE
        self._call = call
        self.room = call.room * self._crew.size
        self._prepare()

    def _prepare(self) -> None:
        if self._crew.size == 1:
            self._run = self._call.alone(self._place)
        else:
            self._run = partial(self._crew.run, partial(self._call, self._place))

    def use(self, place: int) -> None:
        """Have such memory at an address."""
        self._place = place
        if self.room:
            self._prepare()

    def __call__(self) -> None:
        self._run()


class _Product(Protocol):
    """A product of which each thread does a part, in scratch memory at an address."""

    work: int

    def __call__(self, scratch: int, thread: int, threads: int) -> None: ...


class Shared:
    """A product that the module and NumPy do together, each thread a part, in scratch memory."""

    def __init__(self, crew: Crew, make: Callable[[Sequence[int]], _Product], params: tuple[int, ...]) -> None:
        self._all = crew
        self._make = make
        self._scratch = 0
        self._params: tuple[int, ...] | None = None
        self.take(params)

    def take(self, params: tuple[int, ...]) -> None:
        """Work with other parameters."""
        if params != self._params:
            self._product = self._make(params)
            self._crew = self._all if self._product.work >= blas.SHARED else _ALONE
            self._params = params

    def use(self, place: int) -> None:
        """Have scratch memory at an address."""
        self._scratch = place

    def __call__(self) -> None:
        work = partial(self._product, self._scratch)
        if self._crew.size == 1:
            work(0, 1)
        else:
            self._crew.run(work)
