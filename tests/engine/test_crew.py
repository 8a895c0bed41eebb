"""Threads that work on one call: all take part, and nobody waits for one who sleeps."""

from __future__ import annotations

import os
import signal
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from sardonyx.common import crew as module
from sardonyx.common import forks
from sardonyx.common.crew import Crew


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is ever late."""
    monkeypatch.setattr(module, "LATE", 60.0)


@pytest.mark.usefixtures("patient")
def test_all_take_part() -> None:
    crew = Crew(3)
    seen: list[tuple[int, int]] = []
    for _ in range(20):
        assert crew.run(lambda thread, count: seen.append((thread, count)) or thread) == 0
    assert sorted(seen) == sorted([(0, 3), (1, 3), (2, 3)] * 20)
    assert crew.run(lambda thread, count: count, 2) == 2
    crew.dismiss()


@pytest.mark.usefixtures("patient")
def test_nobody_holds_what_is_done() -> None:
    """Calls hold arrays, which a thread that waits would keep until the next call."""
    crew = Crew(2)

    def work(thread: int, count: int) -> None:
        pass

    crew.run(work)
    gone, held = threading.Event(), weakref.ref(work)
    weakref.finalize(work, gone.set)
    del work
    assert gone.wait(10), f"{held()} is held"
    crew.dismiss()


@pytest.mark.usefixtures("patient")
def test_who_finds_it_busy_works_alone() -> None:
    crew, inside, go_on = Crew(2), threading.Event(), threading.Event()

    def wait(thread: int, count: int) -> int:
        inside.set()
        assert go_on.wait(10)
        return count

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(crew.run, wait)
        assert inside.wait(10)
        assert crew.run(lambda thread, count: count) == 1
        go_on.set()
        assert first.result(10) == 2
    crew.dismiss()


def test_who_sleeps_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Crew, "_serve", lambda self, queue: None)
    crew, here = Crew(3), threading.get_ident()
    shares: list[tuple[int, int]] = []
    assert crew.run(lambda share, count: shares.append((share, threading.get_ident())) or count) == 3
    assert shares == [(0, here), (1, here), (2, here)]


def test_who_waited_in_vain_works_alone_for_a_while() -> None:
    crew, begun = Crew(2), threading.Event()

    def late(share: int, count: int) -> int:
        if share == 0:
            assert begun.wait(10)
        else:
            begun.set()
            time.sleep(0.2)
        return count

    assert crew.run(late) == 2
    assert crew.run(lambda share, count: count) == 1
    crew._alone_until -= 30
    assert crew.run(lambda share, count: count) == 2
    crew.dismiss()


@pytest.mark.usefixtures("patient")
def test_errors_are_handed_on() -> None:
    begun = threading.Event()

    def fail(share: int, count: int) -> None:
        if share == 0:
            assert begun.wait(60)  # so that it is the other thread's
        else:
            begun.set()
            raise ValueError("mine")

    crew = Crew(2)
    for _ in range(2):
        begun.clear()
        with pytest.raises(ValueError, match="mine"):
            crew.run(fail)
    assert crew.run(lambda thread, count: count) == 2
    crew.dismiss()


@pytest.mark.usefixtures("patient")
@pytest.mark.skipif(os.name != "posix", reason="signals interrupt a thread that waits")
def test_an_interrupt_waits_for_who_has_begun() -> None:
    crew, begun, done = Crew(2), threading.Event(), list[int]()

    def interrupt(share: int, count: int) -> None:
        if share == 0:
            assert begun.wait(10)
        else:
            begun.set()
            time.sleep(0.05)  # so that the caller waits
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            done.append(share)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for count in (1, 2):
            begun.clear()
            with pytest.raises(KeyboardInterrupt):
                crew.run(interrupt)
            assert done == [1] * count
    finally:
        signal.signal(signal.SIGINT, before)
    crew.dismiss()


@pytest.mark.usefixtures("patient")
def test_a_fork_waits_for_who_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks that threads wait at would be shut in the child; who is about to share then works alone."""
    crew = Crew(2)
    inside: list[bool] = []
    crew.run(lambda thread, count: inside.append(bool(forks._inside)))
    assert inside == [True, True]
    assert not forks._inside
    monkeypatch.setattr(forks, "_forking", {-1})
    assert crew.run(lambda thread, count: count) == 1
    assert crew.join(lambda thread, count: count) == 1
    crew.dismiss()
