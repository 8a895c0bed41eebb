"""What was asked of a GPU and not submitted yet: a run is one submission, unless it takes long.

Systems end what keeps a GPU busy for seconds, and with it the device, so a submission is to take at most `BOUND`. What
dispatches take is estimated at first, as on a slow adapter; what they took is known when a run was waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from sardonyx_webgpu.gpu.interface import Binding, Command, Dispatch, Gpu, Group, Pass

BOUND = 0.05
"""Seconds that a submission may take."""
MOST_WAITING = 1024
"""Commands that wait, so that a GPU does not while a long loop asks for little at a time."""
SECONDS_OF_A_TRIP = 5e-9
"""What a thread on a slow adapter takes for a turn of a loop, which in a product is 512 operations."""
SECONDS_OF_A_BYTE = 1e-10


def estimate(threads: int, trips: int, nbytes: int) -> float:
    """The seconds that a dispatch takes on a slow adapter."""
    return max(threads * trips * SECONDS_OF_A_TRIP, nbytes * SECONDS_OF_A_BYTE)


class Work:
    """Dispatches of one segment, as passes that take at most `BOUND` each, or are one dispatch."""

    def __init__(self, params: Group, dispatches: Sequence[Dispatch], seconds: Sequence[float]) -> None:
        self.params = params
        self._took = 0.0
        self._times = 0
        self._factor = 1.0
        self.change(dispatches, seconds)

    def change(self, dispatches: Sequence[Dispatch], seconds: Sequence[float]) -> None:
        """Have other dispatches, with what they are estimated to take."""
        self.dispatches = dispatches
        self.seconds = seconds
        self.passes = self._split()

    def learn(self, seconds: float) -> None:
        """Have taken so long at most. A first time, in which drivers compile, says nothing."""
        self._times += 1
        if self._times == 2 or (self._times > 2 and seconds < self._took):
            self._took = seconds
            self._factor = seconds / max(sum(self.seconds), 1e-9)
            self.passes = self._split()

    def _split(self) -> list[tuple[Pass, float]]:
        passes: list[tuple[Pass, float]] = []
        first, total = 0, 0.0
        for k, seconds in enumerate(self.seconds):
            if k > first and total + self._factor * seconds > BOUND:
                passes.append((Pass(self.params, self.dispatches[first:k]), total))
                first, total = k, 0.0
            total += self._factor * seconds
        return [*passes, (Pass(self.params, self.dispatches[first:]), total)]


class Queue:
    """The commands that wait, in order. The device holds its lock around all but waiting for a `Reading`."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self._waiting: list[Command] = []
        self._seconds = 0.0
        self._running: list[Work] = []
        self._began = 0.0

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    def add(self, command: Command, seconds: float = 0.0) -> None:
        """Have a command done after all that came before."""
        if self._waiting and (self._seconds + seconds > BOUND or len(self._waiting) >= MOST_WAITING):
            self.flush()
        self._waiting.append(command)
        self._seconds += seconds

    def run(self, work: Work) -> None:
        """Have dispatches run."""
        if not self._running:
            self._began = perf_counter()
        self._running.append(work)
        for command, seconds in work.passes:
            self.add(command, seconds)

    def flush(self) -> None:
        """Submit what waits."""
        if commands := self._taken():
            self.gpu.submit(commands)

    def read(self, bindings: Sequence[Binding]) -> Reading:
        """Submit what waits, and read ranges of what comes of it, together."""
        running, self._running = self._running, []
        return Reading(self.gpu.read(bindings, self._taken()), running, self._began)

    def _taken(self) -> list[Command]:
        commands, self._waiting, self._seconds = self._waiting, [], 0.0
        return commands


class Reading:
    """Bytes on their way to the host. One of its two methods is to be called, once."""

    def __init__(self, wait: Callable[[Sequence[memoryview]], None], running: Sequence[Work], began: float) -> None:
        self._wait: Any = wait
        self._running = running
        self._began = began

    def __call__(self, targets: Sequence[memoryview]) -> None:
        """Wait for them, and fill a target for each range."""
        self._wait(targets)
        self._learn()

    async def arrive(self, targets: Sequence[memoryview]) -> None:
        """The same, awaited, where the GPU can be."""
        await self._wait.arrive(targets)
        self._learn()

    def _learn(self) -> None:
        if len(self._running) == 1:
            self._running[0].learn(perf_counter() - self._began)
