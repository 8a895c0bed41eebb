"""The module of a plan: a function for each code, and the drivers that launch them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sardonyx.code.approximation import Approximation
from sardonyx.code.kernel import Kernel, Routine
from sardonyx.code.program import Program
from sardonyx.common.record import replace

from . import drivers, kernels, programs, routines
from .abi import HOSTED, PARTS_OF
from .assembler import Function, Module
from .code import Code, Unit


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
    generator = Generator(features, target)
    own = [code for number, code in enumerate(codes) if number not in halves]
    drivers.write(generator, own, {number: codes[number] for number in halves}, generator.code)
    for number in halves:
        generator.parts(number, codes[number])
    return generator.module


class Generator(Unit):
    """Writes codes of any kind into its module."""

    def written(self, function: Approximation) -> Function:
        return self.once("written", function.name, lambda: programs.write_function(self, function))  # type: ignore[no-any-return]

    def code(self, source: Program | Kernel | Routine) -> Code:
        """The code of a source, written once."""
        return self.once("code", f"{type(source).__name__} {source.key}", lambda: self._write(source))  # type: ignore[no-any-return]

    def _write(self, source: Program | Kernel | Routine) -> Code:
        if isinstance(source, Routine):
            return routines.write(self, source)
        if isinstance(source, Kernel) and "simd" in self.features:
            return kernels.write(self, source)
        if isinstance(source, Program):
            return programs.write(self, source)
        from sardonyx.code import loops  # for hosts without SIMD

        return programs.write(self, loops.program(source))

    def parts(self, number: int, routine: Routine) -> None:
        """What a routine whose products are the host's does besides, `<part>_<number>`."""
        if HOSTED not in routine.attributes:
            return
        name = PARTS_OF[routine.primitive]
        part = replace(routine, primitive=name)
        if name == "widen_nbits":
            part = replace(part, reads=routine.reads[1:4], inputs=routine.inputs[1:], writes=(), outputs=())
        code = self._write(part)
        with self.module.function(f"{name}_{number}", code.function.signature, export=True) as f:
            f.call(code.function, *f.params)
