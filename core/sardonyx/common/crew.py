"""Threads that work on one call together with the thread that makes it.

A thread that has begun a share must be waited for. If the system takes its processor away meanwhile, that is a time
slice or more, in each of the many calls of a run. So who waited in vain works alone for a while, many times as long.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from sardonyx.common import debug, forks

T = TypeVar("T")

LATE = 1e-3
"""The most seconds that a thread finishes after the caller, if it had a processor all the time."""
ALONE = 20
"""After a wait of t seconds for late threads, callers work alone for ALONE * t seconds."""


class Claim:
    """What one caller at a time may have, in each process: a child does not wait for threads that it does not have.

    >>> claim = Claim()
    >>> claim.run(lambda: claim.run(lambda: "inside", lambda: "busy"), lambda: "alone")
    'busy'
    """

    def __init__(self) -> None:
        self._holders: dict[int, object] = {}

    def run(self, work: Callable[[], T], otherwise: Callable[[], T]) -> T:
        """Do the work, or the other one where somebody is at work. Others may come afterwards, even if signals came."""
        token = object()
        try:
            return work() if self._holders.setdefault(os.getpid(), token) is token else otherwise()
        finally:
            try:
                self._leave(token)
            except BaseException:  # a signal that came before it had
                self._leave(token)
                raise

    def _leave(self, token: object) -> None:
        process = os.getpid()
        if self._holders.get(process) is token:
            del self._holders[process]


class Shares:
    """The shares of a call: who does which, and how those ended that other threads did. The first is the caller's."""

    def __init__(self, function: Callable[[int, int], Any], count: int) -> None:
        self.count = count
        self._function = function
        self._owners: dict[int, object] = {}
        self._errors: list[BaseException | None] = []
        self._news: SimpleQueue[None] = SimpleQueue()

    def first(self) -> Any:
        """Do the caller's share."""
        return self._function(0, self.count)

    def rest(self) -> None:
        """Do all that no other thread has begun."""
        for number in range(1, self.count):
            if self._owners.setdefault(number, None) is None:
                self._function(number, self.count)

    def help(self, owner: object) -> None:
        """Do a share for another owner, if one is left."""
        number = next((k for k in range(1, self.count) if self._owners.setdefault(k, owner) is owner), 0)
        if not number:
            return
        try:
            self._function(number, self.count)
        except BaseException as error:
            self._errors.append(error)
        else:
            self._errors.append(None)
        self._news.put(None)

    def settle(self) -> BaseException | None:
        """Let nobody begin a share, and wait for those begun, which work on the caller's arrays. Gives an error.

        A signal does not end the wait. Whoever was told of one before this had begun calls it again.
        """
        others = [self._owners.setdefault(number, None) for number in range(1, self.count)]
        begun = len(others) - others.count(None)
        interrupt: BaseException | None = None
        while len(self._errors) < begun:
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
        self._calls = Claim()
        self._work: list[SimpleQueue[Shares | None]] = []

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
        if count == 1 or forks.is_near() or perf_counter() < self._alone_until:
            return function(0, 1)
        return self._calls.run(partial(self._share, function, count, is_whole), partial(function, 0, 1))

    def _share(self, function: Callable[[int, int], Any], count: int, is_whole: bool) -> Any:
        with forks.Whole():  # threads that wait for each other do so under locks that a child process would find shut
            return self._shared(function, count, is_whole)

    def _shared(self, function: Callable[[int, int], Any], count: int, is_whole: bool) -> Any:
        start = perf_counter()
        work = self._started()[: count - 1]
        if not work:
            return function(0, 1)
        shares = Shares(function, len(work) + 1)
        try:
            for queue in work:
                queue.put(shares)
            result = shares.first()
            if is_whole:
                shares.rest()
            end = perf_counter()
            failure = shares.settle()
            self._judge(end - start, perf_counter() - end)
            if failure is not None:
                raise failure
            return result
        finally:
            try:
                shares.settle()
            except BaseException:  # a signal that came before it waited
                shares.settle()
                raise

    def _judge(self, worked: float, waited: float) -> None:
        """Have callers work alone for a while, if this one waited longer than a share takes."""
        if waited > worked + LATE:
            self._alone_until = perf_counter() + ALONE * waited

    def _started(self) -> list[SimpleQueue[Shares | None]]:
        """What the other threads of this process take their work from: fewer threads where the system refuses some."""
        if self._process != os.getpid():  # threads do not survive a fork
            self._work = []
            refused = ""
            for number in range(1, self.size):
                queue: SimpleQueue[Shares | None] = SimpleQueue()
                worker = threading.Thread(target=self._serve, args=(queue,), name=f"sardonyx-{number}", daemon=True)
                try:
                    worker.start()
                except RuntimeError as error:
                    refused = f"runs have {number} of {self.size} threads: {error}"
                    break
                self._work.append(queue)
            self._process = os.getpid()
            if refused:
                debug.warn(refused, RuntimeWarning)
        return self._work

    def _serve(self, queue: SimpleQueue[Shares | None]) -> None:
        with np.errstate(all="ignore"):  # a setting of each thread
            while _do(queue.get(), queue):  # no name here holds the arrays of a call while the next is waited for
                pass

    def dismiss(self) -> None:
        """End the threads."""
        for queue in self._work:
            queue.put(None)
        self._work, self._process = [], -1


def _do(shares: Shares | None, owner: object) -> bool:
    """Do a share of a call, if one is left; False for None, which ends a thread."""
    if shares is None:
        return False
    shares.help(owner)
    return True
