"""How WebAssembly holds vectors of 4 elements, whatever their dtype.

Dtypes of up to 32 bits are one v128: f32x4 for floats (float16 and bfloat16 always rounded to what they can hold),
i32x4 for integers (always within the range of their dtype) and for bool, whose lanes are masks: 0 or -1. Dtypes of 64
bits are two, f64x2 or i64x2: lanes 0 and 1, then 2 and 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from sardonyx.code.approximation import Approximation, Beyond

from ..assembler import Callee, Expr, ValueType, Variable, f32x4, f64x2, i8x16, i32, i32x4, i64x2
from ..scalars.values import Kind, Literal, Scope

Vector: TypeAlias = tuple[Expr, ...]
"""4 elements: one v128, or two for dtypes of 64 bits."""


class Constant(Expr):
    """A v128 whose lanes all hold one number, and which knows it; its code may be that of a local."""

    __slots__ = ("is_local", "number")

    def __init__(self, type: ValueType, number: float, local: Variable | None = None) -> None:
        super().__init__(type, type.const(number).code if local is None else local.code)
        self.number = number
        self.is_local = local is not None


class Writer(Protocol):
    """Where code is being written that needs no other function."""

    fused: bool
    """Whether written functions multiply and add in one instruction, which rounds once, or twice on some hosts."""

    def let(self, value: Expr) -> Expr:
        """The value, of any type, evaluated once."""
        ...

    def constant(self, value: Constant) -> Constant:
        """The constant, in a local that was set at the function's start: not every engine moves it out of loops."""
        ...

    def table(self, value: Expr) -> Expr:
        """The same of a constant v128 whose lanes differ."""
        ...


class Choosing(Writer, Protocol):
    """A `Writer` that may evaluate one of two expressions."""

    def if_expr(self, condition: Expr, yes: Expr, no: Expr) -> Expr: ...


class VectorScope(Scope, Writer, Protocol):
    """Where an expression of vectors is being written: what a `Scope` has, and four methods more."""

    def written(self, function: Approximation) -> Callee:
        """The function of this module that computes it, of scalars."""
        ...

    def written_vector(self, function: Approximation) -> Callee:
        """The same of v128: `write_vector`, once per module."""
        ...

    def written_beyond(self, beyond: Beyond) -> Callee:
        """`write_beyond`, once per module."""
        ...


def lanes(k: Kind) -> ValueType:
    """The lanes that hold elements of this dtype; masks are i32x4."""
    if k.family == "float":
        return f64x2 if k.bits == 64 else f32x4
    return i64x2 if k.bits == 64 else i32x4


def types(k: Kind) -> tuple[ValueType, ...]:
    """The types of a vector's parts, for the locals that hold one."""
    return (lanes(k),) * (2 if k.bits == 64 else 1)


def let(s: Writer, x: Vector) -> Vector:
    """The vector, evaluated once: for what is used more than once."""
    return tuple(once(s, part) for part in x)


def once(s: Writer, part: Expr) -> Expr:
    """One part of a vector, evaluated once; variables and constants are that anyway."""
    return part if isinstance(part, (Variable, Constant)) else s.let(part)


def number(s: Writer, type: ValueType, value: float) -> Constant:
    """The number in every lane."""
    return s.constant(Constant(type, value))


def chosen(s: Writer, mask: Expr, yes: Expr, no: Expr) -> Expr:
    """Lane by lane one of two v128; relaxed, it is one instruction, and for masks the same on every host."""
    if not s.fused:
        return yes.type.bitselect(yes, no, mask)
    integers = i64x2 if yes.type in (i64x2, f64x2) else i32x4
    return integers.relaxed_laneselect(yes.as_(integers), no.as_(integers), mask.as_(integers)).as_(yes.type)


def splat(k: Kind, x: Expr) -> Vector:
    """The scalar in every lane."""
    if isinstance(x, Literal):
        part: Expr = Constant(lanes(k), -x.number if k.family == "bool" else x.number)
    else:
        part = lanes(k).splat(i32.const(0) - x if k.family == "bool" else x)
    return (part,) * len(types(k))


def lane(s: Writer, k: Kind, value: Vector, i: int) -> Expr:
    """The scalar in lane `i`, as `values` holds it."""
    part, at = (value[i // 2], i % 2) if k.bits == 64 else (value[0], i)
    return element(k, part, at)


def element(k: Kind, part: Expr, at: int) -> Expr:
    """The scalar in a lane of one v128."""
    if isinstance(part, Constant):
        return Literal(k, abs(part.number) if k.family == "bool" else part.number)
    scalar: Expr = lanes(k).extract_lane(part, lane=at)
    return scalar & 1 if k.family == "bool" else scalar


def collect(k: Kind, scalars: Sequence[Expr]) -> Expr:
    """One v128 of scalars, one for each of its lanes; no bool."""
    part: Expr = lanes(k).splat(scalars[0])
    for at, scalar in enumerate(scalars[1:], 1):
        part = lanes(k).replace_lane(part, scalar, lane=at)
    return part


def widened(s: Writer, mask: Expr) -> Vector:
    """A mask as masks of 64-bit lanes."""
    mask = once(s, mask)
    return i64x2.extend_low_i32x4_s(mask), i64x2.extend_high_i32x4_s(mask)


def even_words(low: Expr, high: Expr) -> Expr:
    """The lower 32 bits of 4 lanes of 64 bits."""
    return words(low, high, 0, 2, 4, 6).as_(i32x4)


def lower_words(low: Expr, high: Expr) -> Expr:
    """The lower halves of two v128."""
    return words(low, high, 0, 1, 4, 5)


def words(a: Expr, b: Expr, *picked: int) -> Expr:
    """These of the 8 words of 32 bits that two v128 hold, with the lanes of the first."""
    order = [4 * word + byte for word in picked for byte in range(4)]
    result: Expr = i8x16.shuffle(a.as_(i8x16), b.as_(i8x16), lanes=order)
    return result.as_(a.type)
