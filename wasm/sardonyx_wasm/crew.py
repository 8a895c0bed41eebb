"""Threads that work on one call together with the thread that makes it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any


class Crew:
    """`size` threads, the caller's among them; the others are started at the first call and wait for the next.

    Calls from several threads at the same time do not share the crew: who finds it busy works alone.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._process = -1
        self._busy = threading.Lock()
        self._work: list[SimpleQueue[Callable[[int, int], Any] | None]] = []
        self._done: SimpleQueue[BaseException | None] = SimpleQueue()

    def run(self, function: Callable[[int, int], Any]) -> Any:
        """Call `function(thread, threads)` on every thread; gives what it returns on this one, as thread 0.

        Raises what any of them raised.
        """
        if self.size == 1 or not self._busy.acquire(blocking=False):
            return function(0, 1)
        try:
            self._start()
            for queue in self._work:
                queue.put(function)
            try:
                return function(0, self.size)
            finally:
                failures = [self._done.get() for _ in self._work]
                for failure in failures:
                    if failure is not None:
                        raise failure
        finally:
            self._busy.release()

    def _start(self) -> None:
        if self._process == os.getpid():  # threads do not survive a fork
            return
        self._process = os.getpid()
        self._work, self._done = [SimpleQueue() for _ in range(self.size - 1)], SimpleQueue()
        for number, queue in enumerate(self._work, 1):
            worker = threading.Thread(target=self._serve, args=(number, queue), name=f"sardonyx-{number}", daemon=True)
            worker.start()

    def _serve(self, number: int, queue: SimpleQueue[Callable[[int, int], Any] | None]) -> None:
        while function := queue.get():
            try:
                function(number, self.size)
            except BaseException as error:
                self._done.put(error)
            else:
                self._done.put(None)

    def dismiss(self) -> None:
        """End the threads."""
        for queue in self._work:
            queue.put(None)
        self._work, self._process = [], -1
