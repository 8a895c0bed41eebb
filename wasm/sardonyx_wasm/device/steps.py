"""The parts of a segment: calls of the module, and products that NumPy does alone or with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np

from sardonyx.common.crew import Crew
from sardonyx.common.termination import poll

from ..abi import COUNTERS, HEADER, STATE, STOP
from ..hosts import Host
from . import blas, calls
from .allocation import Allocation


class Step(Protocol):
    """A part of a segment, bound to what it works on."""

    def use(self, place: int) -> None:
        """Have the memory that it needs while it runs at an address."""
        ...

    def take(self, params: np.ndarray) -> None:
        """Work with other parameters, those of its launches in a row."""
        ...

    def __call__(self) -> None: ...


SHARED = 1 << 20
"""Bytes that a call reads and writes from which on it is worth waking other threads."""
_ALONE = Crew(1)


class Call:
    """A driver of the module with its operands."""

    def __init__(
        self,
        host: Host,
        crew: Crew,
        function: Callable[..., Any],
        launches: Sequence[tuple[int, Sequence[int], Sequence[int]]],
        shared: bool,
    ) -> None:
        words: list[int] = []
        places: list[int] = []
        for number, addresses, params in launches:
            words += (number, len(addresses) + len(params), *addresses, *params)
            places += range(len(words) - len(params), len(words))
        self.count = len(places)
        """How many parameters there are."""
        self._places = places
        counters = COUNTERS // 4 * len(launches)
        size = STATE // 4 + HEADER + len(words) + counters
        self._block = Allocation(host, 4 * size)
        self._memory = host.array(self._block.address, (size,), np.uint32)
        state = [0] * (STATE // 4)
        start = self._block.address
        header = [0, start, start + 4 * (size - counters), start + 4 * (size - counters)]
        self._memory[: size - counters] = np.array([*state, *header, *words], np.int64).astype(np.uint32)
        self._counters = self._memory[size - counters :]
        self._operands = self._memory[STATE // 4 + HEADER :]
        self.is_alone = not shared or crew.size == 1
        self.words = self._block.address + STATE
        self._work = partial(function, self.words)
        self._crew = crew

    def use(self, place: int) -> None:
        """Have scratch memory at an address."""
        self._memory[STATE // 4] = place

    def take(self, params: np.ndarray) -> None:
        self._operands[self._spots] = params

    @cached_property
    def _spots(self) -> np.ndarray:
        """Where in the words the parameters are."""
        return np.array(self._places, np.int64)

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


class Hosted:
    """A product, which is done by NumPy."""

    def __init__(self, crew: Crew, make: Callable[[Sequence[int]], calls.Call], params: Sequence[int]) -> None:
        self._all = crew
        self._make = make
        self._place = 0
        self._calls: dict[tuple[int, ...], calls.Call] = {}
        self._set(params)

    def _set(self, params: Sequence[int]) -> None:
        key = tuple(params)
        call = self._calls.get(key)
        if call is None:
            if len(self._calls) == blas.MOST_SIZES:
                del self._calls[next(iter(self._calls))]
            call = self._calls[key] = self._make(params)
        self._crew = self._all if call.work >= blas.SHARED else _ALONE
        self._call = call
        self.room = call.room * self._crew.size
        """Bytes of memory that it needs while it runs."""

    def use(self, place: int) -> None:
        """Have such memory at an address."""
        self._place = place

    def prepare(self) -> None:
        """Have all ready; to do so for all products in a row takes half the time."""
        if self._crew.size == 1:
            self._run = self._call.alone(self._place)
        else:
            self._run = partial(self._crew.run, partial(self._call, self._place))

    def take(self, params: np.ndarray) -> None:
        self._set(params.tolist())

    def __call__(self) -> None:
        self._run()


class _Product(Protocol):
    """A product of which each thread does a part, in scratch memory at an address."""

    work: int

    def __call__(self, scratch: int, thread: int, threads: int) -> None: ...


class Shared:
    """A product that the module and NumPy do together, each thread a part, in scratch memory."""

    def __init__(self, crew: Crew, make: Callable[[Sequence[int]], _Product], params: Sequence[int]) -> None:
        self._all = crew
        self._make = make
        self._scratch = 0
        self._set(make(params))

    def _set(self, product: _Product) -> None:
        self._crew = self._all if product.work >= blas.SHARED else _ALONE
        self._product = product

    def take(self, params: np.ndarray) -> None:
        self._set(self._make(params.tolist()))

    def use(self, place: int) -> None:
        """Have scratch memory at an address."""
        self._scratch = place

    def __call__(self) -> None:
        work = partial(self._product, self._scratch)
        if self._crew.size == 1:
            work(0, 1)
        else:
            self._crew.run(work)
