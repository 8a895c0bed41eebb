"""The newest of things that come by themselves: a thread takes each, and keeps one."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Generic, TypeVar

from sardonyx.errors import Fail

T = TypeVar("T")

TICK = 0.25
"""Seconds after which a wait looks up: on Windows Ctrl+C does not end one."""
FAREWELL = 2.0
"""Seconds for a source to be closed."""


class Newest(Generic[T]):
    """Iterates `items` on a thread, and gives each time the one that came last: older ones are dropped, none is queued.

    Where nothing comes for `patience` seconds, Fail says so by `name`. An error of `items` is raised where it is next
    asked, after what came before.
    """

    def __init__(self, items: Iterator[T], name: str, patience: float) -> None:
        self._items = items
        self._name = name
        self._patience = patience
        self._changed = threading.Condition()
        self._slot: tuple[T, float] | None = None
        self._came = self._gone = 0
        self._error: Exception | None = None
        self._closed = self._ended = False
        self._thread = threading.Thread(target=self._fill, name=f"sardonyx {name}", daemon=True)
        self._thread.start()

    def take(self) -> tuple[T, float, int] | None:
        """The newest, when it came (`time.perf_counter`), and how many were dropped since the last; None at the end."""
        end = time.monotonic() + self._patience
        with self._changed:
            while self._slot is None:
                if self._error is not None:
                    raise self._error
                if self._ended or self._closed:
                    return None
                if time.monotonic() > end:
                    raise Fail(f"{self._name} gave no picture for {self._patience:g} s; is it still connected?")
                self._changed.wait(TICK)
            (item, moment), self._slot = self._slot, None
            dropped, self._gone = self._came - self._gone - 1, self._came
        return item, moment, dropped

    def is_ready(self) -> bool:
        """Whether `take` would not wait."""
        return self._slot is not None or self._error is not None or self._ended

    def stop(self) -> None:
        """Take no more, and wait for nothing: also a handler of a signal may say so."""
        self._closed = True

    def close(self) -> None:
        """Take no more, and close `items`; a source that hangs is left behind."""
        self._closed = True
        self._thread.join(FAREWELL)

    def _fill(self) -> None:
        try:
            for item in self._items:
                with self._changed:
                    self._slot = item, time.perf_counter()
                    self._came += 1
                    self._changed.notify()
                if self._closed:
                    break
        except Exception as error:  # it belongs to whoever takes
            self._error = error
        finally:
            if hasattr(self._items, "close"):
                self._items.close()
            with self._changed:
                self._ended = True
                self._changed.notify()
