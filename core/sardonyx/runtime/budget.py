"""What a session with a memory limit holds.

Counted are, on all of its devices together: the arenas of intermediate results, inputs and outputs, which are made for
the sizes of a run and kept for the next, and the weights that lie there. Not counted are constants that a device reads
where they lie in a mapped file or in the caller's bytes, the plan and its code, what the compiler needs meanwhile, what
a single NumPy call makes for itself, 1 MiB of scratch memory for each thread on WASM, and the arrays of the caller.

One run of such a session goes on at a time; others wait. Before memory is taken for sizes that are new, the sum is
known: where it would be above the limit, what no run is using is given back first, then the plan becomes one that loads
its weights as they are needed (`sardonyx.runtime.streaming`), and where that is not enough the run is refused. Plans of
models that train are made for the limit (`sardonyx.compiler.repetition`).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from sardonyx.common.forks import Whole
from sardonyx.errors import RuntimeException


class OverLimitError(RuntimeException):
    """A plan needs more than there is left for these sizes; `symbols` are all that are known by now."""

    def __init__(self, what: str, symbols: Mapping[str, int]) -> None:
        super().__init__(what)
        self.symbols = dict(symbols)


class Arena(Protocol):
    """Memory of intermediate results, as a frame has it."""

    @property
    def nbytes(self) -> int: ...


class Budget:
    """The limit of a session in bytes, and the frames that its runs have made."""

    def __init__(self, limit: int, evict: Callable[[], None]) -> None:
        self.limit = limit
        self.evict = evict
        """Gives back all that no run is using, weights among it."""
        self._turn = threading.RLock()
        self.frames: weakref.WeakSet[Arena] = weakref.WeakSet()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Within the block, which another thread's has to end before, a run goes on."""
        with Whole(), self._turn:
            yield

    def arenas(self, but: Arena | None = None) -> int:
        """The bytes of the arenas of all frames but one."""
        return sum(frame.nbytes for frame in list(self.frames) if frame is not but)
