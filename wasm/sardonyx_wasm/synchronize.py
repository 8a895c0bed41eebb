"""Where the threads of a segment meet between two launches, and learn whether to go on.

The state is `STATE` bytes of memory: how many threads have arrived, how many meetings there were, the host's request to
stop, and what the last meeting made of it, so that all threads stop at the same place.
"""

from __future__ import annotations

from .assembler import Function, Module, i32, op
from .driver import STOP

_ARRIVED, _MEETINGS, _DECISION = 0, 4, 12
_PATIENCE = 2000
"""Turns of waiting awake: a few microseconds, less than it takes to be woken."""


def meet(module: Module, threads: bool) -> Function:
    """A function (state, threads) that returns when all threads have called it: 1 if the run is to stop, else 0."""
    with module.function("meet", {"state": i32, "threads": i32}, [i32]) as f:
        if threads:
            with f.if_(f.threads > 1):
                _wait(f)
                f.return_(op("i32.atomic.load", f.state, offset=_DECISION))
        f.return_(i32.load(f.state, offset=STOP))
    return f


def _wait(f: Function) -> None:
    meetings = f.let(op("i32.atomic.load", f.state, offset=_MEETINGS))
    with f.if_(op("i32.atomic.rmw.add", f.state, 1, offset=_ARRIVED) == f.threads - 1):
        f.do(op("i32.atomic.store", f.state, 0, offset=_ARRIVED))
        request = op("i32.atomic.load", f.state, offset=STOP)
        f.do(op("i32.atomic.store", f.state, request, offset=_DECISION))
        f.do(op("i32.atomic.rmw.add", f.state, 1, offset=_MEETINGS))
        f.do(op("memory.atomic.notify", f.state, -1, offset=_MEETINGS))
    with f.else_():
        turns = f.local(i32)
        with f.while_(op("i32.atomic.load", f.state, offset=_MEETINGS) == meetings):
            f.set(turns, turns + 1)
            with f.if_(turns > _PATIENCE):
                f.do(op("memory.atomic.wait32", f.state, meetings, -1, offset=_MEETINGS))
