"""The functions by which a module runs itself: lists of launches, shared by threads, and loops of them.

`run(words, thread, threads)` runs a list of launches one after another; any of the threads may call it. The words there
are the header: the address of the scratch memory, that of the state, that of the counters by which threads share the
launches, and the end of the list. Then for each launch: the number of its code, how many words follow, the addresses of
its buffers and its parameters. It returns 1 if it stopped because it was asked to, else 0. So a module knows codes and
no plan: any plans of these codes, and those of their loops, run on it.

What the words mean is said in `abi`, for the host as well. What a launch computes belongs elsewhere.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sardonyx.code.kernel import Routine

from .. import programs
from ..abi import COUNTERS, HEADER, LAUNCH, SCRATCH, STOP, own_of
from ..assembler import Expr, Function, Operand, i32
from ..code import Code, Unit
from ..routines.frame import divided_up, least
from . import hosted, synchronize, turns

_LAUNCH = ("words", "counter", "thread", "threads", "scratch", "state")
"""What a launch is given: where its words and its counter are, and what the segment knows."""


def write(unit: Unit, sources: Sequence[Any], products: Mapping[int, Routine], code_of: Callable[[Any], Code]) -> None:
    """The functions `run` and `turns` for launches of what these are the sources of, by their numbers.

    If there are products that the host does, `walk` as well. They are numbered behind the sources: first what does
    nothing, then three numbers each: before, the product, and after. Before a product without stages stands what the
    module does instead, if it is light.
    """
    launchers = [_launcher(unit, source, code_of(source)) for source in sources]
    if products:
        launchers.append(hosted.nothing(unit, _LAUNCH))
    for number, source in products.items():
        launchers += _product_launchers(unit, number, source, code_of)
    if not launchers:
        return
    first = unit.module.table(launchers)
    launch = unit.module.indirect(dict.fromkeys(_LAUNCH, i32), [i32])
    with unit.module.function("run", {"words": i32, "thread": i32, "threads": i32}, [i32], export=True) as f:
        scratch = f.let(i32.load(f.words) + f.thread * SCRATCH)
        state, end = (f.let(i32.load(f.words, offset=4 * k)) for k in (1, 3))
        counter = f.local(i32, init=i32.load(f.words, offset=8))
        at = f.local(i32, init=f.words + 4 * HEADER)
        with f.while_(i32.lt_u(at, end)):
            pointer = first + i32.load(at)
            with f.if_(launch(at + 4 * LAUNCH, counter, f.thread, f.threads, scratch, state, pointer)):
                f.return_(1)
            f.set(at, at + 4 * LAUNCH + i32.load(at, offset=4) * 4)
            f.set(counter, counter + COUNTERS)
        f.return_(0)
    turns.write(unit.module, f)
    if products:
        hosted.walk(unit.module, first, launch)


def _product_launchers(
    unit: Unit, number: int, source: Routine, code_of: Callable[[Any], Code]
) -> tuple[Function, Function, Function]:
    """What launches the stages of a product of the host, and the product between them."""
    sources = hosted.stages(source)
    parts = {name: code_of(part) for name, part in sources.items()}
    before, after = (
        _launcher(unit, sources[name], parts[name]) if name in parts else hosted.nothing(unit, _LAUNCH)
        for name in ("before", "after")
    )
    if own := own_of(source):
        before = _launcher(unit, own, code_of(own))
    shared = synchronizers(unit) if "threads" in unit.features else None
    return before, hosted.launcher(unit, number, _LAUNCH, parts, shared), after


def _launcher(unit: Unit, source: Any, code: Code) -> Function:
    """The function that launches a code with the words at an address."""
    count = len(code.function.signature) - 3
    buffers = len(source.reads + source.writes)

    def write() -> Function:
        share = unit.once("helper", f"share {count}", lambda: _share(unit, count))
        with unit.module.function(f"launch_{source.key}", dict.fromkeys(_LAUNCH, i32), [i32]) as f:
            params = [i32.load(f.words, offset=4 * k) for k in range(buffers, count)]
            if (empty := _empty(source, params)) is not None:  # routines need not bear sizes of 0
                with f.if_(empty):
                    f.return_(i32.load(f.state, offset=STOP))
            units, align = (programs.size(unit, f, size, params) for size in (code.units, code.align))
            f.return_(share(*f.params, units, align, unit.module.pointer(code.function)))
        return f

    return unit.once("launcher", f"{type(source).__name__} {source.key}", write)  # type: ignore[no-any-return]


def _empty(source: Any, params: Sequence[Expr]) -> Expr | None:
    """Whether there is no element to be written, where a routine's parameters decide on that."""
    if not isinstance(source, Routine):
        return None
    result = None
    for shape in source.outputs:
        sizes = [i32.eqz(params[int(size[1:])]) for size in shape if isinstance(size, str)]
        if 0 in shape:
            continue
        if not sizes:
            return None
        empty = functools.reduce(lambda x, y: x | y, sizes)
        result = empty if result is None else result & empty
    return result


def _share(unit: Unit, count: int) -> Function:
    """The function that calls a code of `count` words for all of its units; returns whether the run is to end."""
    operands = ["begin", "end", "scratch", *(f"word{k}" for k in range(count))]
    code = unit.module.indirect(dict.fromkeys(operands, i32))
    params = dict.fromkeys([*_LAUNCH, "units", "align", "pointer"], i32)
    with unit.module.function(f"share_{count}", params, [i32]) as f:
        words = [i32.load(f.words, offset=4 * k) for k in range(count)]

        def call(begin: Operand, end: Operand) -> None:
            f.call(code, begin, end, f.scratch, *words, f.pointer)

        if "threads" in unit.features:
            with f.if_(f.threads == 1):
                call(0, f.units)
            with f.else_():
                _take_turns(unit, f, call)
        else:
            call(0, f.units)
        f.return_(i32.load(f.state, offset=STOP))
    return f


def synchronizers(unit: Unit) -> tuple[Function, Function, Function]:
    """What takes ranges, tells that they are done, and waits for all."""
    take = unit.once("helper", "take", lambda: synchronize.take(unit.module))
    finish = unit.once("helper", "finish", lambda: synchronize.finish(unit.module))
    join = unit.once("helper", "join", lambda: synchronize.join(unit.module))
    return take, finish, join


def _take_turns(unit: Unit, f: Function, call: Callable[[Operand, Operand], None]) -> None:
    """Take ranges of units until none is left, and wait for those of others.

    They differ by one step of `align` at most, where they do, so that as many of them for each thread are equal parts.
    """
    take, finish, join = synchronizers(unit)
    number, begin, end = f.local(i32), f.local(i32), f.local(i32)
    with f.if_(f.units):
        groups = f.let(divided_up(f.units, f.align))
        ranges = f.let(least(f, groups, least(f, f.threads * synchronize.RANGES, i32.const(synchronize.MOST))))
        size = f.let(i32.div_u(groups, ranges))
        rest = f.let(groups - size * ranges)
        first = f.let(i32.div_u(ranges * f.thread, f.threads))

        def start(number: Expr) -> Expr:
            return (number * size + i32.div_u(number * rest, ranges)) * f.align

        with f.block() as done, f.repeat() as again:
            f.set(number, take(f.counter, first, ranges))
            f.br_if(done, i32.lt_s(number, 0))
            f.set(begin, start(number))
            f.set(end, least(f, start(number + 1), f.units))
            call(begin, end)
            f.call(finish, f.counter, end - begin, f.units, f.threads)
            f.br(again)
        hosted.remember(unit, f, join(f.counter, f.units, f.state))
