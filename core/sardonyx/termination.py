"""How a run is ended from outside: what takes long asks now and then whether it is to go on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sardonyx.errors import Fail
from sardonyx.options import RunOptions

_active = threading.local()


@contextmanager
def governed(options: RunOptions | None) -> Iterator[None]:
    """Within the block, `poll` on this thread heeds these options."""
    before = getattr(_active, "options", None)
    _active.options = options
    try:
        yield
    finally:
        _active.options = before


def poll() -> None:
    """Raises Fail if the run of this thread is to end: its `RunOptions.terminate` was set, by any thread."""
    options: RunOptions | None = getattr(_active, "options", None)
    if options is not None and options.terminate:
        raise Fail("the run was ended, since RunOptions.terminate is set")


@contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[None]:
    """Within the block, `stop` is called once this thread's run is to end, by whichever thread ends it."""
    options: RunOptions | None = getattr(_active, "options", None)
    if options is None:
        yield
        return
    with options.on_terminate(stop):
        yield
