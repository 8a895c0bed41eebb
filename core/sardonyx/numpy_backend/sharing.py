"""The launches of a segment, shared by threads.

A division of launches into *stages* is made so that threads wait for each other as seldom as possible: within a stage,
a part reads nothing that another part of it writes, so that a thread does its parts of several launches in a row, on
what it has in its cache. A thread that comes late finds its part done by another. Who is done waits for those parts
alone that others have begun.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import TypeAlias

from sardonyx.common.crew import Claim, Crew
from sardonyx.common.termination import poll
from sardonyx.numpy_backend.division import Access, Bound, Cut, Division, Run
from sardonyx.numpy_backend.room import Room

Part: TypeAlias = list[tuple[int, Run]]
"""What one thread does of a stage: numbers of launches, and what to call."""
ALONE = Cut(-1, 0, ())
"""Memory that is touched by the first thread only."""

LARGE = 100e-6
"""Seconds of a launch from which on it is divided: to wake another thread takes about half of that."""


class Team:
    """The threads of a device, and the memory in which each of them works; they walk through one segment at a time."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.rooms = [Room() for _ in range(crew.size)]
        self.turn = Claim()


def stages(launches: Sequence[Bound], seconds: Sequence[float], rooms: Sequence[Room]) -> list[list[Part]]:
    """The parts of all launches that take so long; what is not divided is left to the first thread.

    Gives nothing where there is nothing to be shared.
    """
    result: list[list[Part]] = [[[] for _ in rooms]]
    touched: list[Access] = []
    cuts: dict[int, Cut] = {}
    is_shared = False
    for number, (launch, time) in enumerate(zip(launches, seconds, strict=True)):
        work = launch.divide(rooms, cuts) if time >= LARGE else None
        if work is None:
            work = Division([launch.run], [each._replace(cut=ALONE) for each in launch.accesses()])
        is_shared |= len(work.parts) > 1
        if any(new.disturbs(old) for new in work.accesses for old in touched):
            result.append([[] for _ in rooms])
            touched = []
        for part, run in zip(result[-1], work.parts, strict=False):
            part.append((number, run))
        touched += work.accesses
        for each in work.accesses:
            if each.writes:
                cuts.pop(each.start, None)
                if each.cut is not None:
                    cuts[each.start] = each.cut
    return result if is_shared else []


class Walk:
    """One run of a segment, by whichever threads call `share`."""

    def __init__(self, parts: Sequence[Sequence[Part]]) -> None:
        self._stages = [_Stage(each) for each in parts]
        self._is_over = False
        self.failed: int | None = None
        """The launch that raised an error."""

    def share(self, thread: int, _: int) -> None:
        """Do what no other thread has begun; returns when all is done, or somebody failed."""
        begun: int | None = None
        try:
            for stage in self._stages:
                for part in stage.take(thread):
                    for number, run in part:
                        if self._is_over:
                            return
                        begun = number
                        poll()
                        run()
                begun = None
                stage.wait()
                if self._is_over:
                    return
        except BaseException:
            if self.failed is None:
                self.failed = begun
            self._is_over = True
            for stage in self._stages:
                stage.open()
            raise


class _Stage:
    """Parts that are done in any order, and a gate that opens after the last."""

    __slots__ = ("_gate", "_left", "_number", "_size")

    def __init__(self, parts: Sequence[Part]) -> None:
        self._left = {number: part for number, part in enumerate(parts) if part}
        self._size = len(self._left)
        self._number = count(1)
        self._gate = threading.Lock()
        self._gate.acquire()

    def take(self, thread: int) -> Iterator[Part]:
        """The thread's own part, and then those that nobody has begun: each is given to one thread only."""
        part = self._left.pop(thread, None)
        while part is not None or self._left:
            if part is None:
                try:
                    _, part = self._left.popitem()
                except KeyError:
                    return
            yield part
            part = None
            if next(self._number) == self._size:
                self.open()

    def wait(self) -> None:
        """Sleep until all parts are done."""
        if self._gate.locked():
            self._gate.acquire()
            self.open()

    def open(self) -> None:
        """Let all through, now and later."""
        with suppress(RuntimeError):  # it was open
            self._gate.release()
