"""How a run is ended from outside: what takes long asks now and then whether it is to go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from sardonyx.common.scoped import Scoped
from sardonyx.errors import Fail, ModelLoadCanceled


class Stoppable(Protocol):
    """The options of a run, which any thread may end."""

    terminate: bool

    def on_terminate(self, stop: Callable[[], None]) -> AbstractContextManager[None]:
        """Within the block, have `stop` called once `terminate` is set."""
        ...


_active = Scoped[Stoppable]()
"""The options that govern a thread's run."""


def governed(options: Stoppable | None) -> AbstractContextManager[None]:
    """Within the block, `poll` on this thread heeds these options."""
    return _active.within(options)


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
    return _active.value is not None


def poll() -> None:
    """Raises Fail if the run of this thread is to end: its `RunOptions.terminate` was set, by any thread."""
    options = _active.value
    if options is not None and options.terminate:
        raise Fail("the run was ended, since RunOptions.terminate is set")


def stopping(stop: Callable[[], None]) -> AbstractContextManager[None]:
    """Within the block, `stop` is called once this thread's run is to end, by whichever thread ends it."""
    options = _active.value
    return _ENDLESS if options is None else options.on_terminate(stop)


_ENDLESS = nullcontext()
