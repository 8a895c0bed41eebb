"""How threads share the launches of a segment: each takes ranges of units until none is left, then waits for the rest.

No thread is waited for that has not taken a range: one that the system lets sleep delays nobody. A launch has two words
of memory, both 0 before the segment: `taken`, the units that were handed out, and `done`, those that are finished.
Who waits long sleeps, so that one who has lost its processor gets another. No page's main thread may: there the host
writes so into the state, and everybody stays awake.
"""

from __future__ import annotations

from ..abi import AWAKE
from ..assembler import Function, Module, i32, op

_DONE = 4
_PATIENCE = {"wasmtime": 2000, "v8": 20000}
"""Turns of waiting awake: a few microseconds, less than it takes to be woken, which takes browsers longer."""
RANGES = 3
"""Ranges for each thread: more of them are shared out more evenly, and cost more."""


def finish(module: Module) -> Function:
    """A function (counter, count, units) that tells that so many units more are done, of all of the launch."""
    with module.function("finish", {"counter": i32, "count": i32, "units": i32}) as f:
        before = op("i32.atomic.rmw.add", f.counter, f.count, offset=_DONE)
        with f.if_(before + f.count == f.units):
            f.do(op("memory.atomic.notify", f.counter, -1, offset=_DONE))
    return f


def join(module: Module, target: str) -> Function:
    """A function (counter, units, state) that returns when all units of a launch are done."""
    with module.function("join", {"counter": i32, "units": i32, "state": i32}) as f:
        turns, done = f.local(i32), f.local(i32)
        with f.while_(f.tee(done, op("i32.atomic.load", f.counter, offset=_DONE)) != f.units):
            f.set(turns, turns + 1)
            with f.if_(turns > _PATIENCE[target]), f.if_(i32.eqz(i32.load(f.state, offset=AWAKE))):
                f.do(op("memory.atomic.wait32", f.counter, done, -1, offset=_DONE))
    return f
