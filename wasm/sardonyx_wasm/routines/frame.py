"""What the function of every routine starts with: its signature, its buffers, its sizes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

from sardonyx.code.kernel import Routine

from ..assembler import Expr, Function, Operand, Variable, i32
from ..code import Unit, signature


def function(unit: Unit, routine: Routine) -> Function:
    """The routine's function, to be written in a `with` block: `(begin, end, scratch, buffer0 ..., param0 ...)`."""
    return unit.module.function(routine.name, signature(len(routine.reads + routine.writes), routine.params))


def general(
    unit: Unit, routine: Routine, write: Callable[[Unit, Routine], Function], attributes: Collection[str] = ()
) -> Function:
    """The routine's function, which calls one that all routines share that differ in sizes alone.

    `write` makes that of a routine whose sizes are parameters, and which has these attributes.
    """
    known: list[int] = []

    def named(size: int | str) -> str:
        if isinstance(size, str):
            return size
        known.append(size)
        return f"p{routine.params + len(known) - 1}"

    inputs, outputs = (
        tuple([tuple([named(size) for size in shape]) for shape in shapes])
        for shapes in (routine.inputs, routine.outputs)
    )
    kept = {name: value for name, value in routine.attributes.items() if name in attributes}
    params = routine.params + len(known)
    shared = Routine(routine.primitive, routine.primitive, routine.reads, routine.writes, params, kept, inputs, outputs)
    callee = unit.once("general", f"{write.__name__} {shared.key}", lambda: write(unit, shared))
    with function(unit, routine) as f:
        f.call(callee, *f.params, *known)
    return f


def buffers(f: Function, routine: Routine) -> tuple[Variable, ...]:
    """The addresses of those read, then of those written."""
    return f.params[3 : 3 + len(routine.reads + routine.writes)]


def size(f: Function, value: int | str) -> Expr:
    """A size, which is an integer or the name of a parameter, as an i32."""
    return getattr(f, f"param{value[1:]}") if isinstance(value, str) else i32.const(value)


def product(f: Function, sizes: Sequence[Any]) -> Expr:
    """The product of sizes, computed once."""
    literal, named = 1, None
    for value in sizes:
        if isinstance(value, str):
            named = size(f, value) if named is None else named * size(f, value)
        else:
            literal *= value
    if named is None:
        return i32.const(literal)
    return f.let(named * literal)


def least(f: Function, x: Operand, y: Operand) -> Expr:
    """The smaller of two i32 that are not negative, each evaluated once."""
    x, y = (f.let(value) if isinstance(value, Expr) else i32.const(value) for value in (x, y))
    return f.select(i32.lt_u(x, y), x, y)


def divided_up(x: Expr, y: Operand) -> Expr:
    """The quotient of two i32 that are not negative, rounded up."""
    return i32.div_u(x + y - 1, y)


def units(sizes: Sequence[Any]) -> Any:
    """The product of sizes as `Code.units` has it.

    >>> units([2, 3]), units(["p1", 4])
    (6, ['mul', 'int32', ['param', 'int32', 1], ['const', 'int32', 4]])
    """
    if all(isinstance(value, int) for value in sizes):
        return math.prod(sizes)
    factors = [
        ["param", "int32", int(value[1:])] if isinstance(value, str) else ["const", "int32", value] for value in sizes
    ]
    return functools.reduce(lambda x, y: ["mul", "int32", x, y], factors)
