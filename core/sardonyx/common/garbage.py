"""Pauses of the cyclic garbage collector, for code that makes many objects that stay."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sardonyx.common import forks

_lock = threading.RLock()  # the collector may run within, and what it finds may compile
_pauses: dict[object, int] = {}
"""The threads of blocks."""
_is_off = _enabled = False
"""Whether a block has turned the collector off, and whether it ran before."""


@contextmanager
def paused() -> Iterator[None]:
    """Keep the collector from running, in all threads, and leave it as it was.

    Preparing and compiling a model make a hundred thousand objects that refer to each other, and next to no garbage:
    searching them again and again takes up to a quarter of the time.

    >>> import gc
    >>> with paused():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    global _is_off, _enabled
    block = object()
    try:
        with _lock:
            _pauses[block] = threading.get_ident()
            if not _is_off:
                _is_off, _enabled = True, gc.isenabled()
                gc.disable()
        yield
    finally:
        with _lock:
            _pauses.pop(block, None)
            _resume()


def _resume() -> None:
    """Let the collector run as before, unless a block is left."""
    global _is_off
    if _pauses or not _is_off:
        return
    is_own = False
    try:
        is_own = _enabled and gc.get_freeze_count() == 0
        if is_own:
            gc.freeze()  # All that was made counts as old now, or the next allocation would search through it.
    finally:  # What a signal's handler raises may come in between: nothing must stay frozen, which nobody collects.
        if is_own:
            gc.unfreeze()
        _is_off = False
        if _enabled:
            gc.enable()


def _survive() -> None:
    """In a child process: have no blocks of threads that it does not have."""
    for block, thread in list(_pauses.items()):
        if thread != threading.get_ident():
            del _pauses[block]
    _resume()
    _lock.release()


forks.register(_lock.acquire, _lock.release, _survive)
