"""What a block says to all that runs in it on its thread."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class Scoped(threading.local, Generic[T]):
    """A value of each thread: None but in the blocks that set it.

    >>> depth = Scoped[int]()
    >>> with depth.within(1):
    ...     with depth.within(2):
    ...         print(depth.value)
    ...     print(depth.value)
    2
    1
    """

    value: T | None = None

    def within(self, value: T | None) -> Within[T]:
        """Within the block, have this value."""
        return Within(self, value)


class Within(Generic[T]):
    """A context manager without a generator, since every run enters some."""

    __slots__ = ("_before", "_scoped", "_value")

    def __init__(self, scoped: Scoped[T], value: T | None) -> None:
        self._scoped = scoped
        self._value = value

    def __enter__(self) -> None:
        self._before = self._scoped.value
        self._scoped.value = self._value

    def __exit__(self, *_: object) -> None:
        self._scoped.value = self._before
