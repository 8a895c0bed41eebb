"""Lists of launches some of which are products that the host does: the host asks what to do next, until all is done.

`walk(words, thread, threads)` does launches as `run` does, until it has a part of a product for the host, and gives its
number (see `abi`); the host does it and calls again. So the host does nothing but multiply, and threads share a list
with no more ado than launches.

What is left of a convolution is done here. Either a part has left sides and results of its own, made and used by the
thread that multiplies; or all parts have the same, and launches before and after make and use these.
"""

from __future__ import annotations

from collections.abc import Callable

from sardonyx.code.kernel import Routine
from sardonyx.common.record import replace

from ..abi import (
    BASE,
    CONVOLUTIONS,
    COUNTERS,
    ENDED,
    ENDS,
    HEADER,
    LAUNCH,
    MADE,
    MADE_ROW,
    PARAMS,
    PARTS,
    PLACE,
    RECORD,
    RECORDS,
    SCRATCH,
    SEEN_ROW,
    STOPPED,
    STRIDE,
    X,
    Y,
)
from ..assembler import Callee, Expr, Function, Module, Variable, i32, i64
from ..code import Code, Unit
from ..routines.frame import least
from .synchronize import MOST

AT, COUNTER, PART, NEXT, END, WAITED = 0, 4, 8, 12, 16, 20
"""Bytes in the record of a thread."""
_STAGGER = 24000
"""Turns in which a thread gets through Python: some microseconds."""


def stages(routine: Routine) -> dict[str, Routine]:
    """What the module does of a convolution, by "before" and "after"."""
    return {
        name: replace(routine, primitive=primitive, reads=routine.reads[:1], inputs=routine.inputs[:1])
        for name, primitive in CONVOLUTIONS.get(routine.primitive, {}).items()
    }


def nothing(unit: Unit, signature: tuple[str, ...]) -> Function:
    """The launcher that does nothing."""

    def write() -> Function:
        with unit.module.function("nothing", dict.fromkeys(signature, i32), [i32]) as f:
            f.return_(0)
        return f

    return unit.once("launcher", "nothing", write)  # type: ignore[no-any-return]


def launcher(
    unit: Unit,
    number: int,
    signature: tuple[str, ...],
    parts: dict[str, Code],
    synchronizers: tuple[Function, Function, Function] | None,
) -> Function:
    """The launcher of a product of the host, which has these stages."""
    share: Function = unit.once("launcher", "product", lambda: _share(unit, signature, synchronizers))
    if not parts:
        return share
    with unit.module.function(f"product_{number}", dict.fromkeys(signature, i32), [i32]) as f:
        record = f.let(i32.load(f.state, offset=RECORDS) + f.thread * RECORD)
        result, part, ends = (f.local(i32) for _ in range(3))

        def stage(name: str, row: int, offset: Expr, buffers: Callable[[Expr], tuple[Expr, Expr]]) -> None:
            if name not in parts:
                return
            function = parts[name].function
            params = [i32.load(f.words, offset=4 * (PARAMS + k)) for k in range(len(function.signature) - 5)]
            f.set(part, i32.load(record, offset=PART))
            f.set(ends, i32.load(f.words, offset=4 * ENDS))
            with f.if_((part != 0) & (ends != 0)):
                f.set(ends, ends + part * 4 - 4)
                units = [f.let(i32.load(ends, offset=4 * k)) for k in range(2)]
                place = i32.load(f.words, offset=4 * PLACE) + f.thread * i32.load(f.words, offset=4 * STRIDE) + offset
                rows = f.let(place - units[0] * i32.load(f.words, offset=4 * row))
                f.call(function, *units, f.scratch, *buffers(rows), *params)

        made = i32.load(f.words, offset=4 * MADE)
        stage("after", MADE_ROW, made, lambda rows: (rows, i32.load(f.words, offset=4 * Y)))
        f.set(result, share(*f.params))
        stage("before", SEEN_ROW, i32.const(0), lambda rows: (i32.load(f.words, offset=4 * X), rows))
        f.return_(result)
    return f


def _share(
    unit: Unit, signature: tuple[str, ...], synchronizers: tuple[Function, Function, Function] | None
) -> Function:
    """The launcher of a product without stages: tells that the thread's part is done, and takes the next one.

    It returns 0 where none is left, and the thread's record has none then.
    """
    with unit.module.function("product", dict.fromkeys(signature, i32), [i32]) as f:
        record = f.let(i32.load(f.state, offset=RECORDS) + f.thread * RECORD)
        count = f.let(i32.load(f.words, offset=4 * PARTS))
        part = f.local(i32, init=i32.load(record, offset=PART))
        with f.if_(i32.eqz(count)):
            f.return_(0)
        with f.if_(part):
            f.store(record, i32.const(0), offset=PART)
            if synchronizers:
                f.call(synchronizers[1], f.counter, 1, count, f.threads)
        if synchronizers:
            _next(f, part, count, record, synchronizers[0])
        else:
            f.set(part, i32.load(f.counter))
            f.store(f.counter, part + 1)
        with f.if_(i32.lt_u(part, count)):
            f.store(record, part + 1, offset=PART)
            _stagger(f, record)
            f.return_(i32.load(f.words, offset=4 * BASE) + 2)
        if synchronizers:
            remember(unit, f, synchronizers[2](f.counter, count, f.state))
        f.return_(0)
    return f


def _next(f: Function, part: Variable, count: Expr, record: Expr, take: Function) -> None:
    """Set `part` to one that nobody has taken, or all ones: the next of the thread's range, or of another."""
    ranges = least(f, count, i32.const(MOST))
    f.set(part, i32.load(record, offset=NEXT))
    with f.if_(i32.ge_u(part, i32.load(record, offset=END))):
        taken = f.let(take(f.counter, i32.div_u(ranges * f.thread, f.threads), ranges))
        with f.if_(i32.lt_s(taken, 0)):
            f.store(record, i32.const(0), offset=NEXT)
            f.store(record, i32.const(0), offset=END)
            f.set(part, -1)
        with f.else_():
            f.set(part, i32.div_u(taken * count, ranges))
            f.store(record, i32.div_u((taken + 1) * count, ranges), offset=END)
    f.store(record, part + 1, offset=NEXT)


def remember(unit: Unit, f: Function, waited: Expr) -> None:
    """Have the record of the thread tell how long it waited for others."""
    if unit.target == "wasmtime":
        f.store(i32.load(f.state, offset=RECORDS) + f.thread * RECORD, waited, offset=WAITED)
    else:
        f.do(waited)


def _stagger(f: Function, record: Expr) -> None:
    """Have those who waited leave after the one that they waited for, one after another.

    Python lets one thread in at a time, and to be let in later takes much longer than that.
    """
    turns = f.local(i32)
    with f.if_(i32.load(record, offset=WAITED)):
        f.set(turns, f.select(f.thread, f.thread, 1) * _STAGGER)
        with f.while_(turns):
            f.set(turns, turns - 1)


def walk(module: Module, first: Expr, launch: Callee) -> None:
    """The export `walk`; launchers stand in the table from `first` on."""
    with module.function("walk", {"words": i32, "thread": i32, "threads": i32}, [i64], export=True) as f:
        scratch = f.let(i32.load(f.words) + f.thread * SCRATCH)
        state, counters, end = (f.let(i32.load(f.words, offset=4 * k)) for k in (1, 2, 3))
        record = f.let(i32.load(state, offset=RECORDS) + f.thread * RECORD)
        start = f.let(f.words + 4 * HEADER)
        at = f.local(i32, init=start + i32.load(record, offset=AT))
        counter = f.local(i32, init=counters + i32.load(record, offset=COUNTER))
        result = f.local(i32)
        with f.while_(i32.lt_u(at, end)):
            pointer = first + i32.load(at)
            f.set(result, launch(at + 4 * LAUNCH, counter, f.thread, f.threads, scratch, state, pointer))
            with f.if_(result):
                f.store(record, at - start, offset=AT)
                f.store(record, counter - counters, offset=COUNTER)
                with f.if_(result == 1):
                    f.return_(STOPPED)
                part = i64.extend_i32_u(i32.load(record, offset=PART) - 1)
                f.return_((part << 32) | i64.extend_i32_u(result - 2))
            f.set(at, at + 4 * LAUNCH + i32.load(at, offset=4) * 4)
            f.set(counter, counter + COUNTERS)
        f.return_(ENDED)
