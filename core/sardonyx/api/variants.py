"""The functions that a session runs, the plans of each, and the memory that they hold."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from sardonyx.api.model_interface import NOTHING
from sardonyx.common import memory, relief
from sardonyx.common.memory import MemoryReport
from sardonyx.plans.plan import Plan
from sardonyx.providers.contract import Device
from sardonyx.runtime.budget import Budget
from sardonyx.runtime.executor import CompiledGraph, Executor
from sardonyx.runtime.profile import Profiler
from sardonyx.runtime.weights import Weights


class Variants:
    """A model as a function with plans: `main`, and one for each set of initializers that calls have fed.

    They share their constants, and the memory limit if there is one.
    """

    main: CompiledGraph
    """The model itself, without any initializers fed."""

    def __init__(self, devices: Sequence[Device], memory_limit: int, profiler: Profiler | None) -> None:
        self._memory_limit = memory_limit
        self._profiler = profiler
        self._functions: dict[frozenset[str], CompiledGraph] = {}
        self.move(devices)
        relief.register(self)

    def move(self, devices: Sequence[Device]) -> None:
        """Have the same plans on these devices; constants are uploaded again."""
        self._devices = devices
        self._weights = self._new_weights()
        plans = {
            fed: [executor.original for executor in function.executors] for fed, function in self._functions.items()
        }
        self._functions = {fed: self._new_function(plans[fed]) for fed in plans}
        self.main = self.function(NOTHING)

    def function(self, fed: frozenset[str]) -> CompiledGraph:
        """The function for calls that feed these initializers."""
        if fed not in self._functions:
            self._functions[fed] = self._new_function([])
        return self._functions[fed]

    @property
    def plans(self) -> list[Plan]:
        """Those of the model itself, the one used last first."""
        return [executor.original for executor in self.main.executors]

    def _new_function(self, plans: Sequence[Plan]) -> CompiledGraph:
        return CompiledGraph(plans, self._devices, self._weights, profiler=self._profiler)

    # ---- memory

    def turn(self) -> AbstractContextManager[Any]:
        """Within the block, be the only run, if there is a memory limit."""
        budget = self._weights.budget
        return nullcontext() if budget is None else budget.turn()

    def shrink(self) -> None:
        """Give back the memory that runs leave for later ones; weights stay."""
        for executor in self._executors():
            executor.shrink()

    def memory(self, providers: Sequence[str]) -> list[MemoryReport]:
        """What is held on the device of each of these providers."""
        budget = self._weights.budget
        bound = (budget.limit, budget.arenas() + self._weights.held()) if budget else (0, 0)
        executors = self._executors()
        return [
            MemoryReport(
                provider,
                *self._weights.sizes(device),
                sum(executor.arena(number) for executor in executors),
                memory.peak(),
                *bound,
            )
            for number, (provider, device) in enumerate(zip(providers, self._devices))
        ]

    def _executors(self) -> list[Executor]:
        return [executor for function in list(self._functions.values()) for executor in list(function.executors)]

    def _new_weights(self) -> Weights:
        own = weakref.proxy(self)

        def evict() -> None:
            own.shrink()
            own._weights.clear()

        return Weights(Budget(self._memory_limit, evict) if self._memory_limit else None)
