"""A WebAssembly assembler: functions are written as typed Python expressions and come out as bytes.

    m = Module()
    with m.function("saxpy", {"n": i32, "a": f32, "x": i32, "y": i32}, export=True) as f:
        at = f.local(i32)
        with f.loop(at, 0, f.n * 4, step=4):
            f.store(f.y + at, f.a * f32.load(f.x + at) + f32.load(f.y + at))
    m.to_bytes()

An `Expr` is a type and the code that leaves such a value on the stack. Operators are the signed instructions, checked
against both types; every other instruction is an attribute of its type: `i32.lt_u(a, b)`, `f32.sqrt(x)`,
`f32x4.relaxed_madd(a, b, c)`, `i8x16.extract_lane_u(v, lane=3)`. Python numbers become constants. Vectors are typed by
their lanes (`f32x4`, `i16x8`, ...; `x.as_(i32x4)` looks at the same bits in another way) and plain `v128` fits them all.

An expression is evaluated where it is used and as often as it is used: `f.let(expr)` evaluates it once, now.
Statements (`f.store`, `f.set`, `f.loop`, ...) are methods of the function that is being built.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from .opcodes import CONTROL, INSTRUCTIONS, Instruction, sleb, uleb

Builder: TypeAlias = "Callable[..., Expr]"

# Python's operator -> the instruction that it means: the first of these names that the type has.
_OPERATORS = {
    "+": ("add",), "-": ("sub",), "*": ("mul",), "/": ("div",), "&": ("and",), "|": ("or",), "^": ("xor",),
    "<<": ("shl",), ">>": ("shr_s",), "==": ("eq",), "!=": ("ne",), "<": ("lt", "lt_s"), "<=": ("le", "le_s"),
    ">": ("gt", "gt_s"), ">=": ("ge", "ge_s"), "neg": ("neg",), "~": ("not",), "abs": ("abs",),
}  # fmt: skip


class ValueType:
    """A type of WebAssembly, or one view of the lanes of v128; its instructions are its attributes.

    >>> f32.const(-0.0).code.hex(), i32x4.add(i32x4.const(1), i32x4.const(1, 2, 3, 4)).type
    ('4300000080', i32x4)
    """

    def __init__(self, name: str, code: int, kind: str, bits: int, lanes: int = 1) -> None:
        self.name = name
        self.code = bytes([code])
        self.is_vector = code == 0x7B
        self.kind = kind
        self.bits_per_lane = bits
        self.lanes = lanes
        self._operators: dict[str, Builder] = {}

    def const(self, *values: float) -> Expr:
        """The constant; a vector takes one value for all lanes or one for each.

        Integers may be given signed or unsigned; floats are rounded to nearest, and a NaN keeps its sign.
        """
        lanes = values * self.lanes if len(values) == 1 else values
        if not self.kind:
            raise TypeError(f"{self.name} has no constants of its own; use i32x4.const, ... or v128.bits")
        if len(lanes) != self.lanes:
            raise ValueError(f"{self.name}.const takes 1 or {self.lanes} values, not {len(lanes)}")
        return self._literal(b"".join(map(self._pack, lanes)))

    def bits(self, pattern: int) -> Expr:
        """The constant with exactly these bits: `f32.bits(0x7FC00001)`."""
        return self._literal(pattern.to_bytes(self.bits_per_lane * self.lanes // 8, "little"))

    def _literal(self, payload: bytes) -> Expr:
        if self.is_vector:
            return Expr(self, CONTROL["v128.const"] + payload)
        if self.kind == "i":
            payload = sleb(int.from_bytes(payload, "little", signed=True))
        return Expr(self, CONTROL[f"{self.name}.const"] + payload)

    def _pack(self, value: float) -> bytes:
        bits = self.bits_per_lane
        if self.kind == "f":
            try:
                return struct.pack("<f" if bits == 32 else "<d", value)
            except OverflowError:
                raise ValueError(f"{value!r} is too large for {self.name}; use math.inf") from None
            except struct.error:
                raise TypeError(f"{self.name} is not made from {value!r}") from None
        try:
            integer = operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            raise TypeError(f"{self.name} is not made from {value!r}; use an integer") from None
        if not -(1 << bits - 1) <= integer < 1 << bits:
            raise ValueError(f"{integer} does not fit {self.name}")
        return (integer & (1 << bits) - 1).to_bytes(bits // 8, "little")

    def _find(self, name: str) -> Builder | None:
        own, any_lanes = f"{self.name}.{name}", f"v128.{name}"
        if own in INSTRUCTIONS:
            return _builder(INSTRUCTIONS[own])
        if self.is_vector and any_lanes in INSTRUCTIONS:
            return _builder(INSTRUCTIONS[any_lanes], self)
        return None

    def __getattr__(self, name: str) -> Builder:
        builder = None if name.startswith("__") else self._find(name.removesuffix("_"))
        if builder is None:
            raise AttributeError(f"{self.name} has no instruction {name!r}")
        setattr(self, name, builder)
        return builder

    def operator(self, symbol: str) -> Builder:
        """What Python's operator `symbol` builds from operands of this type."""
        found = self._operators.get(symbol)
        if found is None:
            found = next(filter(None, map(self._find, _OPERATORS[symbol])), None)
            if found is None:
                remedy = f"; use {self.name}.div_s or {self.name}.div_u" if symbol == "/" and self.kind == "i" else ""
                raise TypeError(f"{self.name} has no operator {symbol}{remedy}")
            self._operators[symbol] = found
        return found

    def __repr__(self) -> str:
        return self.name


i32 = ValueType("i32", 0x7F, "i", 32)
i64 = ValueType("i64", 0x7E, "i", 64)
f32 = ValueType("f32", 0x7D, "f", 32)
f64 = ValueType("f64", 0x7C, "f", 64)
v128 = ValueType("v128", 0x7B, "", 128)
i8x16 = ValueType("i8x16", 0x7B, "i", 8, 16)
i16x8 = ValueType("i16x8", 0x7B, "i", 16, 8)
i32x4 = ValueType("i32x4", 0x7B, "i", 32, 4)
i64x2 = ValueType("i64x2", 0x7B, "i", 64, 2)
f32x4 = ValueType("f32x4", 0x7B, "f", 32, 4)
f64x2 = ValueType("f64x2", 0x7B, "f", 64, 2)
void = ValueType("void", 0x40, "", 0)  # the type of what leaves nothing on the stack

TYPES = {t.name: t for t in (i32, i64, f32, f64, v128, i8x16, i16x8, i32x4, i64x2, f32x4, f64x2)}


def _binary(symbol: str, swapped: bool = False) -> Callable[[Expr, Any], Expr]:
    if swapped:
        return lambda self, other: self.type.operator(symbol)(other, self)
    return lambda self, other: self.type.operator(symbol)(self, other)


class Expr:
    """A value of `type`, as the code that leaves it on the stack.

    `<`, `>>` and the like are signed; `i32.lt_u(a, b)`, `i32.shr_u(a, 3)` are the unsigned ones.
    """

    __slots__ = ("code", "type")

    def __init__(self, type: ValueType, code: bytes) -> None:  # noqa: A002 - the field's name
        self.type = type
        self.code = code

    def as_(self, lanes: ValueType) -> Expr:
        """The same 128 bits seen as other lanes; costs nothing."""
        if not (self.type.is_vector and lanes.is_vector):
            raise TypeError(f"as_ is for vectors: {self.type} cannot be seen as {lanes}; use {lanes}.reinterpret_...")
        return Expr(lanes, self.code)

    __add__, __radd__ = _binary("+"), _binary("+", swapped=True)
    __sub__, __rsub__ = _binary("-"), _binary("-", swapped=True)
    __mul__, __rmul__ = _binary("*"), _binary("*", swapped=True)
    __truediv__, __rtruediv__ = _binary("/"), _binary("/", swapped=True)
    __and__, __rand__ = _binary("&"), _binary("&", swapped=True)
    __or__, __ror__ = _binary("|"), _binary("|", swapped=True)
    __xor__, __rxor__ = _binary("^"), _binary("^", swapped=True)
    __lshift__, __rshift__ = _binary("<<"), _binary(">>")
    __lt__, __le__, __gt__, __ge__ = _binary("<"), _binary("<="), _binary(">"), _binary(">=")
    __eq__ = _binary("==")  # type: ignore[assignment]
    __ne__ = _binary("!=")  # type: ignore[assignment]
    __hash__ = object.__hash__

    def __neg__(self) -> Expr:
        return 0 - self if self.type in (i32, i64) else self.type.operator("neg")(self)

    def __invert__(self) -> Expr:
        return self ^ -1 if self.type in (i32, i64) else self.type.operator("~")(self)

    def __abs__(self) -> Expr:
        return self.type.operator("abs")(self)

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value while it is being built; use f.if_, f.if_expr or f.select")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.type} {self.code.hex(' ')}>"


Operand: TypeAlias = "Expr | float"


class Variable(Expr):
    """A local or a global: reading it is an expression, `f.set` and (for locals) `f.tee` assign it."""

    __slots__ = ("name", "scope", "setter", "teer")

    def __init__(self, scope: str, type: ValueType, index: int, name: str, owner: object) -> None:  # noqa: A002
        super().__init__(type, CONTROL[f"{scope}.get"] + uleb(index))
        self.name = name
        self.scope = owner
        self.setter = CONTROL[f"{scope}.set"] + uleb(index)
        self.teer = CONTROL["local.tee"] + uleb(index) if scope == "local" else b""


@lru_cache(4096)
def _integer_code(type: ValueType, value: int) -> bytes:  # noqa: A002
    return type.const(value).code


def _code(value: Operand, expected: ValueType, where: str) -> bytes:
    """The code of an operand; a Python number becomes a constant of the expected type."""
    if isinstance(value, Expr):
        given = value.type
        if given is expected or (given.is_vector and expected.is_vector and v128 in (given, expected)):
            return value.code
        raise TypeError(f"{where} has type {given}, expected {expected}")
    return _integer_code(expected, value) if type(value) is int else expected.const(value).code


def _memory(instruction: Instruction, offset: int = 0, align: int = 0) -> bytes:
    align = align or instruction.width
    if align.bit_count() != 1 or align > instruction.width:
        raise ValueError(f"{instruction.name}: align={align} is not a power of two up to {instruction.width}")
    if not 0 <= offset < 1 << 32:
        raise ValueError(f"{instruction.name}: offset={offset} is outside 0..4294967295")
    return uleb(align.bit_length() - 1) + uleb(offset)


def _lane(instruction: Instruction, lane: int) -> bytes:
    prefix = instruction.name.partition(".")[0]
    count = 16 // instruction.width if instruction.width else TYPES[prefix].lanes
    if not 0 <= lane < count:
        raise ValueError(f"{instruction.name}: lane={lane} is outside 0..{count - 1}")
    return bytes([lane])


def _lanes(instruction: Instruction, lanes: Sequence[int]) -> bytes:
    if len(lanes) != 16 or not all(0 <= lane < 32 for lane in lanes):
        raise ValueError(f"{instruction.name}: lanes={lanes} are not 16 numbers in 0..31")
    return bytes(lanes)


# How each immediate is encoded, and the keywords that give it.
_IMMEDIATES: dict[str, tuple[Callable[..., bytes], tuple[str, ...]]] = {
    "memory": (_memory, ("offset", "align")),
    "lane": (_lane, ("lane",)),
    "lanes": (_lanes, ("lanes",)),
    "index": (lambda instruction, index: uleb(index), ("index",)),
    "zero": (lambda instruction: b"\x00", ()),
}


def _immediates(instruction: Instruction, given: dict[str, Any]) -> bytes:
    encoded = instruction.code
    left = dict(given)
    for kind in instruction.immediates:
        encode, keywords = _IMMEDIATES[kind]
        encoded += encode(instruction, **{key: left.pop(key) for key in keywords if key in left})
    if left:
        raise TypeError(f"{instruction.name} has no immediate {next(iter(left))!r}")
    return encoded


def _builder(instruction: Instruction, lanes: ValueType | None = None) -> Builder:
    """The function that builds `instruction`; a v128 result gets the type `lanes`, or that of a vector operand."""
    name, types = instruction.name, tuple(TYPES[operand] for operand in instruction.operands)
    result = TYPES[instruction.result] if instruction.result else void
    wanted = [key for kind in instruction.immediates for key in _IMMEDIATES[kind][1] if key not in ("offset", "align")]
    plain = b"" if wanted else _immediates(instruction, {})

    def build(*operands: Operand, **immediates: Any) -> Expr:
        if len(operands) != len(types):
            raise TypeError(f"{name} takes {len(types)} operands, not {len(operands)}")
        code = b""
        kind = result
        for position, (value, expected) in enumerate(zip(operands, types), 1):
            if isinstance(value, Expr) and value.type is expected:
                code += value.code
            else:
                code += _code(value, expected, f"{name}: operand {position}")
        if kind is v128:
            kind = lanes or next((v.type for v in operands if isinstance(v, Expr) and v.type.is_vector), v128)
        if immediates or wanted:
            if missing := [key for key in wanted if key not in immediates]:
                raise TypeError(f"{name} needs {missing[0]}=")
            return Expr(kind, code + _immediates(instruction, immediates))
        return Expr(kind, code + plain)

    return build


def op(name: str, *operands: Operand, **immediates: Any) -> Expr:
    """The instruction of this name: `op("i32.atomic.rmw.add", address, 1, offset=8)`.

    Immediates are keywords: `offset`, `align` (bytes) of memory accesses, `lane`, `lanes` (of a shuffle), `index`.
    One without a result has the type `void` and is executed by `f.do`.
    """
    if name not in INSTRUCTIONS:
        raise ValueError(f"{name!r} is not an instruction")
    return _builder(INSTRUCTIONS[name])(*operands, **immediates)
