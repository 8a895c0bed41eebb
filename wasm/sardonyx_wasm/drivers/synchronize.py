"""How threads share the launches of a segment: each takes ranges of units until none is left, then waits for the rest.

A thread begins with ranges of its own, the same part of each launch, so that it finds what it wrote in its own cache:
to write what another core has read takes many times as long. Then it takes what is left.

No thread is waited for that has not taken a range: one that the system lets sleep delays nobody. A launch has two words
of memory, both 0 before the segment: `taken`, a bit for each range, and `done`, the units that are finished.
Who waits long sleeps, so that one who has lost its processor gets another; or who waits at all, where the host says so
to save energy (onnxruntime's `session.intra_op.allow_spinning`). No page's main thread may: there the host
writes so into the state, and everybody stays awake.
"""

from __future__ import annotations

from ..abi import AWAKE, SLEEPY
from ..assembler import Function, Module, i32, op

_DONE = 4
_PATIENCE = 20000
"""Turns of waiting awake: some 50 microseconds, as long as it takes to be woken."""
_LONGEST = 10**7
"""Nanoseconds of sleep: who gives up a run wakes nobody."""
RANGES = 2
"""Ranges for each thread: more of them are shared out more evenly, and cost more."""
MOST = 32
"""Ranges that there can be."""


def take(module: Module) -> Function:
    """A function (counter, first, ranges) that gives a range that nobody has taken, looked for from the first on, or
    -1."""
    with module.function("take", {"counter": i32, "first": i32, "ranges": i32}, [i32]) as f:
        taken = f.local(i32, init=op("i32.atomic.load", f.counter))
        all_ = f.let(i32.shr_u(i32.const(-1), MOST - f.ranges))
        with f.while_((taken & all_) != all_):
            bit = f.let(i32.const(1) << f.first)
            with f.if_(i32.eqz(taken & bit)):
                f.set(taken, op("i32.atomic.rmw.or", f.counter, bit))
                with f.if_(i32.eqz(taken & bit)):
                    f.return_(f.first)
                f.set(taken, taken | bit)
            f.set(f.first, f.first + 1)
            with f.if_(f.first == f.ranges):
                f.set(f.first, 0)
        f.return_(-1)
    return f


def finish(module: Module) -> Function:
    """A function (counter, count, units, threads) that tells that so many units more are done, of all of the launch.

    Who is alone wakes nobody: that takes a lock of the host's, which a child process would find shut.
    """
    with module.function("finish", {"counter": i32, "count": i32, "units": i32, "threads": i32}) as f:
        before = op("i32.atomic.rmw.add", f.counter, f.count, offset=_DONE)
        with f.if_((before + f.count == f.units) & (f.threads > 1)):
            f.do(op("memory.atomic.notify", f.counter, -1, offset=_DONE))
    return f


def join(module: Module) -> Function:
    """A function (counter, units, state) that returns when all units of a launch are done, and how long that took."""
    with module.function("join", {"counter": i32, "units": i32, "state": i32}, [i32]) as f:
        turns, done = f.local(i32), f.local(i32)
        patience = f.let(f.select(i32.load(f.state, offset=SLEEPY), 0, i32.const(_PATIENCE)))
        with f.while_(i32.lt_u(f.tee(done, op("i32.atomic.load", f.counter, offset=_DONE)), f.units)):
            f.set(turns, turns + 1)
            with f.if_(turns > patience), f.if_(i32.eqz(i32.load(f.state, offset=AWAKE))):
                f.do(op("memory.atomic.wait32", f.counter, done, _LONGEST, offset=_DONE))
        f.return_(turns)
    return f
