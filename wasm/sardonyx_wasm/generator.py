"""The module of a plan: a function for each code, one that launches it, and the drivers.

`run(words, thread, threads)` runs a list of launches one after another; any of the threads may call it. The words there
are the header: the address of the scratch memory, that of the state, that of the counters by which threads share the
launches, and the end of the list. Then for each launch: the number of its code, how many words follow, the addresses of
its buffers and its parameters. It returns 1 if it stopped because it was asked to, else 0. So a module knows codes and
no plan: any plans of these codes, and those of their loops, run on it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from sardonyx.code import loops, transcendental
from sardonyx.code.kernel import Kernel, Routine
from sardonyx.code.program import Program

from . import kernels, programs, routines, synchronize, turns
from .assembler import Function, Module, Operand, i32, op
from .code import Code
from .driver import CONVOLUTIONS, COUNTERS, HEADER, HOSTED, LAUNCH, SCRATCH, STOP
from .routines.frame import divided_up, least
from .unit import Unit


def generate(
    codes: Sequence[Any],
    features: frozenset[str] = frozenset(),
    target: str = "v8",
    halves: Collection[int] = (),
) -> Module:
    """The module for these codes, which launches know by their numbers.

    `features` are those of the host, see `hosts.Host`; `target` says whose compiler it is, "wasmtime" or "v8". Of the
    codes in `halves` there is only what surrounds the product, which the host does.
    """
    generator = Generator(codes, features, target)
    generator.drivers(halves)
    for number in halves:
        generator.convolution(number, codes[number])
        generator.unpacking(number, codes[number])
    return generator.module


class Generator(Unit):
    """Writes the module for some codes."""

    def __init__(self, codes: Sequence[Any], features: frozenset[str], target: str) -> None:
        super().__init__(features, target)
        self._codes = codes

    def written(self, function: transcendental.Function) -> Function:
        return self.once("written", function.name, lambda: programs.write_function(self, function))  # type: ignore[no-any-return]

    def program(self, program: Program) -> Code:
        """The scalar code of a program."""
        return programs.write(self, program)

    def code(self, number: int) -> Code:
        """The code of this number."""
        code = self._codes[number]
        return self.once("code", f"{type(code).__name__} {code.key}", lambda: self._write(code))  # type: ignore[no-any-return]

    def _write(self, code: Program | Kernel | Routine) -> Code:
        if isinstance(code, Routine):
            return routines.write(self, code)
        if isinstance(code, Program):
            return self.program(code)
        return kernels.write(self, code) if "simd" in self.features else self.program(loops.program(code))

    def convolution(self, number: int, routine: Routine) -> None:
        """`before_<number>` and `after_<number>` of a convolution whose product the host does."""
        for name, primitive in CONVOLUTIONS.get(routine.primitive, {}).items():
            part = replace(routine, primitive=primitive, reads=routine.reads[:1], inputs=routine.inputs[:1])
            code = self._write(part)
            with self.module.function(f"{name}_{number}", code.function.signature, export=True) as f:
                f.call(code.function, *f.params)

    def unpacking(self, number: int, routine: Routine) -> None:
        """`widen_<number>` and `alone_<number>` of a product with weights of few bits that the host does, or may do."""
        if HOSTED not in routine.attributes:
            return
        weights = replace(
            routine, primitive="widen_nbits", reads=routine.reads[1:4], inputs=routine.inputs[1:], writes=(), outputs=()
        )
        for name, part in (("widen", weights), ("alone", routine)):
            code = self._write(part)
            with self.module.function(f"{name}_{number}", code.function.signature, export=True) as f:
                f.call(code.function, *f.params)

    # ---- launches

    def drivers(self, halves: Collection[int]) -> None:
        """The functions `run` and `turns`. They number all codes but those in `halves`, which they cannot launch."""
        launchers = [self._launcher(k) for k in range(len(self._codes)) if k not in halves]
        if not launchers:
            return
        first = self.module.table(launchers)
        launch = self.module.indirect(dict.fromkeys(_LAUNCH, i32), [i32])
        with self.module.function("run", {"words": i32, "thread": i32, "threads": i32}, [i32], export=True) as f:
            scratch = f.let(i32.load(f.words) + f.thread * SCRATCH)
            state, end = (f.let(i32.load(f.words, offset=4 * k)) for k in (1, 3))
            counter = f.local(i32, init=i32.load(f.words, offset=8))
            at = f.local(i32, init=f.words + 4 * HEADER)
            with f.while_(i32.lt_u(at, end)):
                pointer = first + i32.load(at)
                with f.if_(launch(at + 4 * LAUNCH, counter, f.threads, scratch, state, pointer)):
                    f.return_(1)
                f.set(at, at + 4 * LAUNCH + i32.load(at, offset=4) * 4)
                f.set(counter, counter + COUNTERS)
            f.return_(0)
        turns.write(self.module, f)

    def _launcher(self, number: int) -> Function:
        """The function that launches a code with the words at an address."""
        code, source = self.code(number), self._codes[number]
        count = len(code.function.signature) - 3
        buffers = len(source.reads + source.writes)

        def write() -> Function:
            share = self.once("helper", f"share {count}", lambda: self._share(count))
            with self.module.function(f"launch_{source.key}", dict.fromkeys(_LAUNCH, i32), [i32]) as f:
                params = [i32.load(f.words, offset=4 * k) for k in range(buffers, count)]
                units = programs.size(self, f, code.units, params)
                f.return_(share(*f.params, units, code.align, self.module.pointer(code.function)))
            return f

        return self.once("launcher", f"{type(source).__name__} {source.key}", write)  # type: ignore[no-any-return]

    def _share(self, count: int) -> Function:
        """The function that calls a code of `count` words for all of its units; returns whether the run is to end."""
        operands = ["begin", "end", "scratch", *(f"word{k}" for k in range(count))]
        code = self.module.indirect(dict.fromkeys(operands, i32))
        params = dict.fromkeys([*_LAUNCH, "units", "align", "pointer"], i32)
        with self.module.function(f"share_{count}", params, [i32]) as f:
            words = [i32.load(f.words, offset=4 * k) for k in range(count)]

            def call(begin: Operand, end: Operand) -> None:
                f.call(code, begin, end, f.scratch, *words, f.pointer)

            if "threads" in self.features:
                with f.if_(f.threads == 1):
                    call(0, f.units)
                with f.else_():
                    self._take_turns(f, call)
            else:
                call(0, f.units)
            f.return_(i32.load(f.state, offset=STOP))
        return f

    def _take_turns(self, f: Function, call: Callable[[Operand, Operand], None]) -> None:
        """Take ranges of units until none is left, and wait for those of others."""
        sleeps = self.target == "wasmtime"
        finish = self.once("helper", "finish", lambda: synchronize.finish(self.module, sleeps))
        join = self.once("helper", "join", lambda: synchronize.join(self.module, sleeps))
        size = f.let(divided_up(divided_up(f.units, f.threads * synchronize.RANGES), f.align) * f.align)
        begin, end = f.local(i32), f.local(i32)
        with f.block() as done, f.repeat() as again:
            f.set(begin, op("i32.atomic.rmw.add", f.counter, size))
            f.br_if(done, i32.ge_u(begin, f.units))
            f.set(end, least(f, begin + size, f.units))
            call(begin, end)
            f.call(finish, f.counter, end - begin, f.units)
            f.br(again)
        f.call(join, f.counter, f.units)


_LAUNCH = ("words", "counter", "threads", "scratch", "state")
"""What a launch is given: where its words and its counter are, and what the segment knows."""
