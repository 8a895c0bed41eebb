"""The module of a plan: a function for each code, one that launches it, and a driver for each segment.

`segment_<n>(words, thread, threads)` runs the launches of a segment one after another; every thread calls it. The words
there are: the address of the scratch memory, that of the barrier, then for each launch the addresses of its buffers and
its parameters. It returns 1 if it stopped because it was asked to, else 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sardonyx.compiler import loops, transcendental
from sardonyx.compiler.kernel import Kernel, Routine
from sardonyx.compiler.program import Program
from sardonyx.device import Launch

from . import kernels, programs, routines
from .assembler import Expr, Function, Module, Operand, Variable, i32
from .code import Code
from .driver import CONVOLUTIONS, HEADER, SCRATCH
from .halves import HELPERS
from .synchronize import meet


def generate(
    codes: Sequence[Any],
    segments: Sequence[Sequence[Launch]],
    features: frozenset[str] = frozenset(),
    target: str = "v8",
) -> Module:
    """The module for these segments; launches give the numbers of their codes.

    `features` are those of the host, see `hosts.Host`; `target` says whose compiler it is, "wasmtime" or "v8".
    """
    unit = Unit(codes, features, target)
    for number, launches in enumerate(segments):
        unit.segment(number, launches)
    for number, code in enumerate(codes):
        if isinstance(code, Routine):
            unit.convolution(number, code)
    return unit.module


class Unit:
    """A module being written, with each function once."""

    def __init__(self, codes: Sequence[Any], features: frozenset[str], target: str) -> None:
        self.module = Module("sardonyx")
        self.features = features
        self.target = target
        self._codes = codes
        self._known: dict[tuple[str, str], Any] = {}

    def once(self, kind: str, name: str, write: Callable[[], Any]) -> Any:
        """What `write` gives, called the first time that this is asked for."""
        key = (kind, name)
        if key not in self._known:
            self._known[key] = write()
        return self._known[key]

    def helper(self, name: str) -> Function:
        """A function of `halves`."""
        return self.once("helper", name, lambda: HELPERS[name](self.module))  # type: ignore[no-any-return]

    def written(self, function: transcendental.Function) -> Function:
        """A transcendental function of scalars."""
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

    # ---- segments

    def segment(self, number: int, launches: Sequence[Launch]) -> None:
        """The driver of a segment."""
        params = {"words": i32, "thread": i32, "threads": i32}
        with self.module.function(f"segment_{number}", params, [i32], export=True) as f:
            scratch = f.let(i32.load(f.words) + f.thread * SCRATCH)
            state = f.let(i32.load(f.words, offset=4))
            place = HEADER
            for launch in launches:
                launcher, count = self._launcher(launch.code)
                with f.if_(launcher(f.words + 4 * place, f.thread, f.threads, scratch, state)):
                    f.return_(1)
                place += count
            f.return_(0)

    def _launcher(self, number: int) -> tuple[Function, int]:
        """The function that launches a code with the words at an address, and how many there are."""
        code, source = self.code(number), self._codes[number]
        count = len(code.function.signature) - 3
        buffers = len(source.reads + source.writes)

        def write() -> Function:
            together = self.once("helper", "meet", lambda: meet(self.module, "threads" in self.features))
            names = ("words", "thread", "threads", "scratch", "state")
            with self.module.function(f"launch_{source.key}", dict.fromkeys(names, i32), [i32]) as f:
                words = [i32.load(f.words, offset=4 * k) for k in range(count)]
                self._call(f, code, words[:buffers], [f.let(word) for word in words[buffers:]])
                f.return_(together(f.state, f.threads))
            return f

        return self.once("launcher", f"{type(source).__name__} {source.key}", write), count

    def _call(self, f: Function, code: Code, buffers: Sequence[Expr], params: Sequence[Variable]) -> None:
        """Do this thread's share of the units."""
        units = f.let(programs.size(self, f, code.units, params))
        share = f.let(_divided_up(units, f.threads))
        if code.align > 1:
            share = f.let(_divided_up(share, code.align) * code.align)
        begin = f.let(_least(f, f.thread * share, units))
        f.call(code.function, begin, _least(f, begin + share, units), f.scratch, *buffers, *params)


def _divided_up(a: Expr, b: Operand) -> Expr:
    return i32.div_u(a + b - 1, b)


def _least(f: Function, a: Expr, b: Expr) -> Expr:
    a = f.let(a)
    return f.select(i32.lt_u(a, b), a, b)
