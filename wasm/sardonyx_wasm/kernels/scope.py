"""Where the scalars and vectors of a kernel are written: its function, and sums and products of sizes in it."""

from __future__ import annotations

from collections.abc import Sequence

from .. import vectors
from ..assembler import Expr, Function, Operand, Variable, i32
from ..code import Unit
from ..scalars import functions, values
from ..scalars.values import Kind
from ..vectors import Vector
from .graph import Size


class Scope(vectors.FunctionScope):
    """A function of a unit."""

    def __init__(self, unit: Unit, f: Function, params: Sequence[Variable]) -> None:
        super().__init__(unit, f)
        self.params = params
        self._products: dict[tuple[str, int], Expr] = {}

    def scalar(self, function: str, k: Kind, operands: Sequence[Expr]) -> Expr:
        """A scalar function of scalars, the last of kind `k`."""
        own = functions.written(function, k)
        if own is None:
            return functions.apply(self, function, k, operands)
        result = self.written(own)(*operands)
        return values.fitted(self, k, result) if k.is_half else result

    def call(self, function: str, k: Kind, operands: Sequence[Vector]) -> Vector:
        """A scalar function of vectors, or of scalars, which are tuples of one that is no v128."""
        if operands[0][0].type.is_vector:
            return vectors.apply(self, function, k, operands)
        return (self.scalar(function, k, [operand for (operand,) in operands]),)

    def call_each(self, function: str, k: Kind, copies: Sequence[Sequence[Vector]]) -> list[Vector]:
        """The same for several copies."""
        if copies[0][0][0].type.is_vector:
            return vectors.apply_each(self, function, k, copies)
        return [self.call(function, k, operands) for operands in copies]

    def assign(self, variables: Sequence[Variable], value: Vector) -> None:
        """Set the variables of a vector, or the one of a scalar."""
        for variable, part in zip(variables, value, strict=True):
            self.f.set(variable, part)

    # ---- sizes

    def size(self, size: Size) -> Operand:
        return self.params[int(size[1:])] if isinstance(size, str) else size

    def product(self, size: Size, factor: int) -> Operand:
        """A size times a literal: a variable if `keep` was told of it."""
        if isinstance(size, int):
            return size * factor
        computed = self._products.get((size, factor))
        return times(self.size(size), factor) if computed is None else computed

    def keep(self, size: Size, factor: int) -> None:
        """Compute a product of a size here, for what follows."""
        if isinstance(size, str) and factor != 1 and (size, factor) not in self._products:
            product = times(self.size(size), factor)
            assert isinstance(product, Expr)
            self._products[size, factor] = self.f.let(product)


def times(a: Operand, b: Operand) -> Operand:
    """The product of two i32."""
    if not isinstance(b, Expr):
        a, b = b, a
    if not isinstance(b, Expr) or not isinstance(a, Expr):
        if not isinstance(b, Expr):
            return a * b
        if a in (0, 1):
            return b if a else 0
        if isinstance(a, int) and a > 0 and a & (a - 1) == 0:
            return b << (a.bit_length() - 1)
    return b * a


def plus(a: Operand, b: Operand) -> Operand:
    """The sum of two i32."""
    if not isinstance(b, Expr) and b == 0:
        return a
    if not isinstance(a, Expr) and a == 0:
        return b
    return a + b


def minus(a: Operand, b: Operand) -> Operand:
    """The difference of two i32."""
    return a if not isinstance(b, Expr) and b == 0 else a - b


def expr(value: Operand) -> Expr:
    """An i32 as an expression."""
    return value if isinstance(value, Expr) else i32.const(value)
