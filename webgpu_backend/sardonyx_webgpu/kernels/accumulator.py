"""Folds as states that any number of threads and lanes keep, and that merge into one in any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sardonyx.code.folds import identity
from sardonyx.code.loops import COMBINE, ELEMENT
from sardonyx.code.program import Value, call, const
from sardonyx.common import dtypes
from sardonyx_webgpu.wgsl.expression import Printer, variable
from sardonyx_webgpu.wgsl.statements import block
from sardonyx_webgpu.wgsl.values import WGSL, kind

NOWHERE = 0x7FFFFFFF
"""The place that argmax has before it has seen an element."""


class Shared(NamedTuple):
    """How a variable of a family lies in memory of a workgroup: drivers lose booleans there, so they are words."""

    family: str

    @property
    def wgsl(self) -> str:
        return "u32" if self.family == "bool" else WGSL[self.family]

    def put(self, text: str) -> str:
        """What is written for a value."""
        return f"u32({text})" if self.family == "bool" else text

    def got(self, text: str) -> str:
        """The value of what is read."""
        return f"({text} != 0u)" if self.family == "bool" else text


class Accumulator:
    """A fold of a kernel. Its state is one variable, of argmax and argmin two: the best element and its place.

    A state called `a` is the variables a_0 and a_1.
    """

    def __init__(self, function: str, dtype: str) -> None:
        self.function = function
        self.finds = function in ELEMENT
        self.dtypes = [dtype, "int32"] if self.finds else [dtype]

    def state(self, name: str) -> list[Value]:
        """The variables of a state."""
        return [Value(["var", dtype, f"{name}_{k}"]) for k, dtype in enumerate(self.dtypes)]

    def texts(self, name: str) -> list[str]:
        """What the variables of a state are called in WGSL."""
        return [variable(value.code[2]) for value in self.state(name)]

    def wgsl(self) -> list[str]:
        """The types of the variables."""
        return [WGSL[kind(dtype).family] for dtype in self.dtypes]

    def shared(self) -> list[Shared]:
        """How the variables lie in memory of a workgroup."""
        return [Shared(kind(dtype).family) for dtype in self.dtypes]

    def start(self, printer: Printer, name: str) -> list[str]:
        """The statements that make a state which has seen nothing."""
        dtype = dtypes.by_name(self.dtypes[0])
        values = [const(dtype.name, identity(ELEMENT.get(self.function, self.function), dtype))]
        values += [const("int32", NOWHERE)] if self.finds else []
        lines, texts = printer.print(*(value.code for value in values))
        typed = zip(self.texts(name), self.wgsl(), texts, strict=True)
        return [*lines, *(f"var {variable}: {wgsl} = {text};" for variable, wgsl, text in typed)]

    def merge(self, printer: Printer, name: str, other: Sequence[Value]) -> list[str]:
        """The statements that add to a state what another one has seen, or an element and its place."""
        state = self.state(name)
        if not self.finds:
            lines, (text,) = printer.print(call(COMBINE[self.function], state[0], other[0]).code)
            return [*lines, f"{self.texts(name)[0]} = {text};"]
        better = self._is_better(other[0], state[0]) | (~self._is_better(state[0], other[0]) & (other[1] < state[1]))
        lines, (test, *texts) = printer.print(better.code, *(value.code for value in other))
        return [*lines, f"if ({test}) {block(f'{a} = {b};' for a, b in zip(self.texts(name), texts, strict=True))}"]

    def _is_better(self, a: Value, b: Value) -> Value:
        better = a > b if self.function == "argmax" else a < b
        if dtypes.by_name(self.dtypes[0]).is_float:
            better = (better | call("isnan", a)) & ~call("isnan", b)  # compilers may turn a comparison around
        return better

    def result(self, printer: Printer, name: str) -> tuple[list[str], str]:
        """The statements and the text of what the fold gives."""
        value = self.state(name)[-1]
        if self.finds:
            value = call("where", call("eq", value, const("int32", NOWHERE)), const("int32", 0), value)
        lines, (text,) = printer.print(value.code)
        return lines, text


def variable_of(dtype: str, name: str) -> Value:
    """A variable."""
    return Value(["var", dtype, name])


def place(axes: Sequence[int], extents: Sequence[Value], moved: int = 0) -> Value:
    """Where along the reduction axes, in row-major order, the last of them `moved` on."""
    total = Value(["grid", "int32", axes[0]]) if axes else const("int32", 0)
    for axis, extent in zip(axes[1:], extents[1:], strict=True):
        total = total * extent + Value(["grid", "int32", axis])
    return total + moved if moved else total
