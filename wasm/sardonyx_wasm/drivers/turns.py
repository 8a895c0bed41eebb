"""Loops inside of the module: turn after turn, without the host."""

from __future__ import annotations

from ..abi import BROKEN, CONDITION, COPIES, COPY, COUNTER, FALSE, GOING, MOVES_END, NUMBER, SLICES_END, TAKEN
from ..assembler import Callee, Expr, Function, Module, i32, i64, op


def write(module: Module, run: Callee) -> None:
    """The function `turns(words, record, count)`, which takes `count` turns at most; `run` launches the body.

    The record (see `abi`) keeps the number of the next turn. The result tells how it came to the end.
    """
    with module.function("turns", {"words": i32, "record": i32, "count": i32}, [i32], export=True) as f:
        number, going, condition = (f.let(i32.load(f.record, offset=place)) for place in (NUMBER, GOING, CONDITION))
        slices, end = (f.let(i32.load(f.record, offset=place)) for place in (SLICES_END, MOVES_END))
        turn, goes_on, at, size = f.local(i64), f.local(i32, init=1), f.local(i32), f.local(i32)
        f.set(turn, i64.load(f.record, offset=COUNTER))
        with f.while_(f.count != 0):
            f.set(f.count, f.count - 1)
            with f.if_(number):
                f.store(number, turn)
            with f.if_(going):
                f.store(going, i32.const(1), bits=8)
            with f.if_(run(f.words, 0, 1)):
                f.return_(BROKEN)
            f.set(turn, turn + 1)
            f.store(f.record, turn, offset=COUNTER)
            with f.if_(condition):
                f.set(goes_on, i32.load8_u(condition))
            f.set(at, f.record + COPIES)
            with f.while_(i32.lt_u(at, slices)):
                target = f.let(i32.load(at, offset=4))
                f.set(size, i32.load(at, offset=8))
                _copy(f, target, i32.load(at), size)
                f.store(at, target + size, offset=4)
                f.set(at, at + COPY)
            with f.while_(i32.lt_u(at, end)):
                _copy(f, i32.load(at, offset=4), i32.load(at), i32.load(at, offset=8))
                f.set(at, at + COPY)
            with f.if_(i32.eqz(goes_on)):
                f.return_(FALSE)
        f.return_(TAKEN)


def _copy(f: Function, target: Expr, source: Expr, size: Expr) -> None:
    f.do(op("memory.copy", target, source, size))
