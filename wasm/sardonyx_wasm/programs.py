"""Programs as functions of scalars: what the language of `sardonyx.code.program` comes to, statement by statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from sardonyx.code.approximation import Approximation
from sardonyx.code.program import Program

from .assembler import Expr, Function, Variable, i32
from .code import Code, Unit, signature
from .scalars import functions, values
from .scalars.values import Kind, kind
from .vectors import lanewise

_LOWEST = 1024
"""No buffer starts at a lower address, so constant parts of an index up to here can be offsets of the instruction."""


def write(unit: Unit, program: Program) -> Code:
    """The code of a program; a unit is a step along the first axis of its grid, or all of it if there is none."""
    with unit.module.function(program.name, signature(len(program.reads + program.writes), program.params)) as f:
        body = Body(unit, f, program)
        first, *others = program.grid or (["const", "int32", 1],)
        extents = [f.let(body.value(extent)) for extent in others]
        with ExitStack() as loops:
            body.grid.append(f.local(i32))
            loops.enter_context(f.loop(body.grid[0], f.begin, f.end))
            for extent in extents:
                body.grid.append(f.local(i32))
                loops.enter_context(f.loop(body.grid[-1], 0, extent))
            body.block(program.body)
    return Code(f, first)


def write_function(unit: Unit, function: Approximation) -> Function:
    """A pure function of scalars."""
    if lanewise.is_fused(unit.features) and lanewise.is_straight(function):
        return lanewise.write_scalar(unit, function)
    params = {name: kind(dtype).type for name, dtype in function.params}
    with unit.module.function(function.name, params, [kind(function.dtype).type]) as f:
        lanewise.return_beyond(unit, f, function)
        body = Body(unit, f)
        body.variables = dict(zip(params, f.params))
        body.block(function.body)
    return f


def size(unit: Unit, f: Function, units: Any, params: Sequence[Expr]) -> Expr:
    """The value of `Code.units` in `f`, for these parameters of the code."""
    if isinstance(units, int):
        return i32.const(units)
    if isinstance(units, str):
        return params[int(units[1:])]
    body = Body(unit, f)
    body.params = params
    return body.value(units)


class Body:
    """The statements and expressions of one function."""

    def __init__(self, unit: Unit, f: Function, program: Program | None = None) -> None:
        self.unit = unit
        self.f = f
        self.predictable = program is None
        self.select, self.if_expr, self.helper = f.select, f.if_expr, unit.helper
        self.kinds = [kind(dtype) for dtype in (*program.reads, *program.writes)] if program else []
        self.buffers = f.params[3 : 3 + len(self.kinds)]
        self.params: Sequence[Expr] = f.params[3 + len(self.kinds) :]
        self.grid: list[Variable] = []
        self.variables: dict[str, Variable] = {}

    def let(self, value: Expr) -> Expr:
        """The value, evaluated once; variables and constants are that anyway."""
        return value if isinstance(value, (Variable, values.Literal)) else self.f.let(value)

    # ---- statements

    def block(self, statements: Sequence[Any]) -> None:
        outer = dict(self.variables)
        for name, *operands in statements:
            _STATEMENTS[name](self, *operands)
        self.variables = outer

    def _let(self, name: str, value: Any) -> None:
        self.variables[name] = self.f.let(self.value(value))

    def _set(self, name: str, value: Any) -> None:
        self.f.set(self.variables[name], self.value(value))

    def _for(self, name: str, count: Any, block: Any) -> None:
        stop = self.f.let(self.value(count))
        self.variables[name] = index = self.f.local(i32)
        with self.f.loop(index, 0, stop):
            self.block(block)

    def _while(self, condition: Any, block: Any) -> None:
        # The condition may need statements of its own, so it stands inside.
        with self.f.block() as end, self.f.repeat() as again:
            self.f.br_if(end, i32.eqz(self.value(condition)))
            self.block(block)
            self.f.br(again)

    def _if(self, condition: Any, yes: Any, no: Any) -> None:
        with self.f.if_(self.value(condition)):
            self.block(yes)
        if no:
            with self.f.else_():
                self.block(no)

    def _store(self, buffer: int, index: Any, value: Any) -> None:
        k = self.kinds[buffer]
        address, offset = self._address(buffer, index)
        bits = values.to_bits(self, k, self.value(value)) if k.is_half else self.value(value)
        self.f.store(address, bits, bits=k.bits if k.bits < 32 else None, offset=offset)

    def _return(self, value: Any) -> None:
        self.f.return_(self.value(value))

    # ---- expressions

    def value(self, expression: Any) -> Expr:
        function, dtype, *operands = expression
        k = kind(dtype)
        if function == "const":
            return values.literal(k, operands[0])
        if function in _PLACES:
            return _PLACES[function](self, operands[0])
        if function == "load":
            return values.load(self, k, *self._address(operands[0], operands[1]))
        if function == "pick":
            return self._pick(k, *operands)
        of = kind(operands[-1][1])
        arguments = [self.value(operand) for operand in operands]
        if function == "cast":
            return functions.cast(self, k, of, arguments[0])
        if function == "bitcast":
            return functions.bitcast(self, k, of, arguments[0])
        return self._call(function, of, arguments)

    def _pick(self, k: Kind, numbers: Sequence[float], first: int, index: Any) -> Expr:
        at = self.let(self.value(index))
        result: Expr = values.literal(k, numbers[-1])
        for place, number in enumerate(numbers[:-1]):
            result = self.select(at == first + place, values.literal(k, number), result)
        return result

    def _call(self, function: str, k: Kind, arguments: list[Expr]) -> Expr:
        own = functions.written(function, k)
        if own is None:
            return functions.apply(self, function, k, arguments)
        result = self.unit.written(own)(*arguments)
        return values.fitted(self, k, result) if k.is_half else result

    def _address(self, buffer: int, index: Any) -> tuple[Expr, int]:
        """The address of an element as an expression and the constant part of it."""
        base, size = self.buffers[buffer], self.kinds[buffer].bits // 8
        offset = 0
        if index[0] == "const":
            return base, index[2] * size
        if index[0] == "add" and index[3][0] == "const" and 0 <= index[3][2] * size <= _LOWEST:
            index, offset = index[2], index[3][2] * size
        at = self.value(index)
        return base + (at << (size.bit_length() - 1) if size > 1 else at), offset


_STATEMENTS: dict[str, Callable[..., None]] = {
    "let": Body._let, "set": Body._set, "for": Body._for, "while": Body._while, "if": Body._if,
    "store": Body._store, "return": Body._return,
}  # fmt: skip
_PLACES: dict[str, Callable[[Body, Any], Variable]] = {
    "param": lambda body, number: body.params[number],
    "grid": lambda body, axis: body.grid[axis],
    "var": lambda body, name: body.variables[name],
}
