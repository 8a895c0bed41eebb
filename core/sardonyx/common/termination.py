"""How a run is ended from outside: what takes long asks now and then whether it is to go on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from sardonyx.errors import Fail, ModelLoadCanceled


class Stoppable(Protocol):
    """The options of a run, which any thread may end."""

    terminate: bool

    def on_terminate(self, stop: Callable[[], None]) -> AbstractContextManager[None]:
        """Within the block, have `stop` called once `terminate` is set."""
        ...


class _Active(threading.local):
    """The options that govern a thread's run."""

    options: Stoppable | None = None


_active = _Active()


class governed:  # noqa: N801  # a context manager without a generator, since every run enters one
    """Within the block, `poll` on this thread heeds these options."""

    __slots__ = ("_before", "_options")

    def __init__(self, options: Stoppable | None) -> None:
        self._options = options

    def __enter__(self) -> None:
        self._before = _active.options
        _active.options = self._options

    def __exit__(self, *_: object) -> None:
        _active.options = self._before


@contextmanager
def loading(options: Stoppable) -> Iterator[None]:
    """Within the block, which makes a session, these options can end that: it raises ModelLoadCanceled."""
    with governed(options):
        try:
            poll()
            yield
        except Fail as error:
            if options.terminate:
                raise ModelLoadCanceled("the session's options were told to cancel loading") from error
            raise


def is_governed() -> bool:
    """Whether this thread's run has options, so that it may be ended."""
    return _active.options is not None


def poll() -> None:
    """Raises Fail if the run of this thread is to end: its `RunOptions.terminate` was set, by any thread."""
    options = _active.options
    if options is not None and options.terminate:
        raise Fail("the run was ended, since RunOptions.terminate is set")


def stopping(stop: Callable[[], None]) -> AbstractContextManager[None]:
    """Within the block, `stop` is called once this thread's run is to end, by whichever thread ends it."""
    options = _active.options
    return _ENDLESS if options is None else options.on_terminate(stop)


_ENDLESS = nullcontext()
