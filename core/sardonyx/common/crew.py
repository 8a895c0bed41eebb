"""Threads that work on one call together with the thread that makes it.

A thread that has begun a share must be waited for. If the system takes its processor away meanwhile, that is a time
slice or more, in each of the many calls of a run. So who waited in vain works alone for a while, many times as long.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

Task: TypeAlias = tuple[Callable[[int, int], Any], deque[int], int, "Outcomes"]
LATE = 1e-3
"""The most seconds that a thread finishes after the caller, if it had a processor all the time."""
ALONE = 20
"""After a wait of t seconds for late threads, callers work alone for ALONE * t seconds."""


class Outcomes:
    """How the shares of a call ended that other threads did."""

    def __init__(self) -> None:
        self._errors: list[BaseException | None] = []
        self._news: SimpleQueue[None] = SimpleQueue()

    def tell(self, error: BaseException | None) -> None:
        """A share has ended."""
        self._errors.append(error)
        self._news.put(None)

    def wait(self, count: int) -> BaseException | None:
        """Wait for so many shares, which work on the caller's arrays, even if a signal comes. Gives an error."""
        interrupt: BaseException | None = None
        while len(self._errors) < count:
            try:
                self._news.get()
            except BaseException as error:
                interrupt = error
        return interrupt or next((error for error in self._errors if error is not None), None)


class Crew:
    """`size` threads, the caller's among them; the others are started at the first call and wait for the next.

    Calls from several threads at the same time do not share the crew: who finds it busy works alone.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._alone_until = 0.0
        self._process = -1
        self._busy = threading.Lock()
        self._work: list[SimpleQueue[Task | None]] = []

    def run(self, function: Callable[[int, int], Any], count: int = 0) -> Any:
        """Call `function(share, shares)` for every share, each on some thread; gives what it returns for share 0.

        There are as many shares as threads, or `count`, if that is less; or one, where the crew is left alone.

        This thread does that one and then those that no other has begun: it waits for nobody who sleeps. Raises what
        any of them raised.
        """
        return self._call(function, min(count, self.size) if count else self.size, True)

    def join(self, function: Callable[[int, int], Any]) -> Any:
        """Call `function(thread, threads)` on this thread, the first, and on those others that wake in the meantime.

        They share the work by themselves: a thread that comes late finds less to do. Gives what it returns here;
        raises what any of them raised.
        """
        return self._call(function, self.size, False)

    def _call(self, function: Callable[[int, int], Any], count: int, is_whole: bool) -> Any:
        """`is_whole` where every share is to be done."""
        start = perf_counter()
        if count == 1 or start < self._alone_until or not self._busy.acquire(blocking=False):
            return function(0, 1)
        try:
            self._start()
            shares, outcomes = deque(range(1, count)), Outcomes()
            for queue in self._work[: count - 1]:
                queue.put((function, shares, count, outcomes))
            mine = 0
            try:
                result = function(0, count)
                while is_whole and (share := _next(shares)) is not None:
                    mine += 1
                    function(share, count)
            finally:
                while _next(shares) is not None:
                    mine += 1
                end = perf_counter()
                failure = outcomes.wait(count - 1 - mine)
                self._judge(end - start, perf_counter() - end)
            if failure is not None:
                raise failure
            return result
        finally:
            self._busy.release()

    def _judge(self, worked: float, waited: float) -> None:
        """Have callers work alone for a while, if this one waited longer than a share takes."""
        if waited > worked + LATE:
            self._alone_until = perf_counter() + ALONE * waited

    def _start(self) -> None:
        if self._process == os.getpid():  # threads do not survive a fork
            return
        self._process = os.getpid()
        self._work = [SimpleQueue() for _ in range(self.size - 1)]
        for number, queue in enumerate(self._work, 1):
            worker = threading.Thread(target=self._serve, args=(queue,), name=f"sardonyx-{number}", daemon=True)
            worker.start()

    def _serve(self, queue: SimpleQueue[Task | None]) -> None:
        with np.errstate(all="ignore"):  # a setting of each thread
            while _do(queue.get()):  # no name here holds the arrays of a call while the next is waited for
                pass

    def dismiss(self) -> None:
        """End the threads."""
        for queue in self._work:
            queue.put(None)
        self._work, self._process = [], -1


def _do(task: Task | None) -> bool:
    """Do a share of a task, if one is left; False for None, which ends a thread."""
    if task is None:
        return False
    function, shares, count, outcomes = task
    if (share := _next(shares)) is not None:
        try:
            function(share, count)
        except BaseException as error:
            outcomes.tell(error)
        else:
            outcomes.tell(None)
    return True


def _next(shares: deque[int]) -> int | None:
    try:
        return shares.popleft()
    except IndexError:
        return None
