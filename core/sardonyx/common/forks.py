"""What a fork waits for: a child has one thread, to which locks that others held stay shut, and modules that they were
importing half there.

Whoever takes a lock that a child may want, or imports late, does so within `Whole`.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import TypeAlias

PATIENCE = 10.0
"""Seconds that a fork and a block wait for each other at most: a thread within a block may wait for what the one that
forks holds."""
_TICK = 1e-3

_NOBODY = 0


class _Block(weakref.ref["Whole"]):
    """A block as long as its object lives, which may be there no more when it is taken out."""

    __slots__ = ("thread",)
    thread: int
    __hash__ = object.__hash__
    __eq__ = object.__eq__


_inside: set[_Block] = set()
_forking: set[int] = set()
"""The threads that are about to fork."""


class Whole:
    """Within the block, no other thread forks; within another block of its thread it waits for nothing.

    A signal may keep a block from ending as it should; then it ends with this object. Nothing here is `__del__`, where
    Python loses what a signal's handler raises.
    """

    __slots__ = ("__weakref__", "_block")

    def __enter__(self) -> None:
        me, end = threading.get_ident(), 0.0
        self._block = block = _Block(self, _inside.discard)
        block.thread = me
        _inside.add(block)  # before it looks: who forks looks the other way round
        while _forking and me not in _forking and _threads().count(me) == 1:
            block.thread = _NOBODY
            end = end or time.monotonic() + PATIENCE
            time.sleep(_TICK)
            block.thread = me
            if time.monotonic() > end:
                break

    def __exit__(self, *_: object) -> None:
        _inside.discard(self._block)


def _threads() -> list[int]:
    """The thread of each block."""
    return [block.thread for block in list(_inside)]


def is_near() -> bool:
    """Whether a thread is about to fork."""
    return bool(_forking)


Call: TypeAlias = Callable[[], object]

_calls: list[tuple[Call, Call, Call]] = []
_begun: dict[int, list[tuple[Call, Call, Call]]] = {}
"""What was called before a fork, by the thread that forks."""


def register(before: Call, parent: Call, child: Call) -> None:
    """Have these called before a fork, when no other thread is within a block, and in both processes after it."""
    _calls.append((before, parent, child))


def _before() -> None:
    me, end = threading.get_ident(), time.monotonic() + PATIENCE
    _forking.add(me)
    while not {*_threads()} <= {me, _NOBODY} and time.monotonic() < end:
        time.sleep(_TICK)
    begun = _begun[me] = []
    for each in _calls[::-1]:
        each[0]()
        begun.append(each)


def _in_parent() -> None:
    me = threading.get_ident()
    for _, parent, _ in _begun.pop(me, []):
        parent()
    _forking.discard(me)


def _in_child() -> None:
    """Have no blocks of threads that this process does not have."""
    me = threading.get_ident()
    for block in list(_inside):
        if block.thread != me:
            _inside.discard(block)
    for _, _, child in _begun.pop(me, []):
        child()
    _begun.clear()
    _forking.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
