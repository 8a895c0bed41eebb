"""Typed expressions of WebAssembly: a type, and the code that leaves such a value on the stack.

Operators are the signed instructions; both operands must have one type. Every other instruction is an attribute of its
type: `i32.lt_u(a, b)`, `f32.sqrt(x)`, `f32x4.relaxed_madd(a, b, c)`, `i32.load8_u(p, offset=3)`,
`i8x16.extract_lane_u(v, lane=3)`. Python numbers become constants. Vectors are typed by their lanes; `x.as_(i32x4)`
sees the same bits as others, and plain `v128` fits all.

>>> a, b = i32.const(5), i32.load(64)
>>> a + b * 2
<Expr i32 41 05 41 c0 00 28 02 00 41 02 6c 6a>
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

from . import opcodes
from .opcodes import CONTROL, INSTRUCTIONS, VALUE_TYPES, Instruction, uleb

# Python's operator -> the instruction that it means: the first of these that the type has.
_OPERATORS = {
    "+": ("add",), "-": ("sub",), "*": ("mul",), "/": ("div",), "&": ("and",), "|": ("or",), "^": ("xor",),
    "<<": ("shl",), ">>": ("shr_s",), "==": ("eq",), "!=": ("ne",), "<": ("lt", "lt_s"), "<=": ("le", "le_s"),
    ">": ("gt", "gt_s"), ">=": ("ge", "ge_s"), "unary -": ("neg",), "~": ("not",), "abs": ("abs",),
}  # fmt: skip


class ValueType:
    """A type of WebAssembly, or a view of the lanes of v128; its instructions are its attributes.

    >>> f32.sqrt(f32.const(2)), i32x4.const(1, 2, 3, 4).type
    (<Expr f32 43 00 00 00 40 91>, i32x4)
    """

    def __init__(self, name: str) -> None:
        self.name = name
        code, _, bits, lanes = VALUE_TYPES[name]
        self.code = bytes([code])
        self.is_vector = code == opcodes.V128
        self.size = bits * lanes // 8
        self._builders: dict[str, Builder] = {}

    def const(self, *values: float) -> Expr:
        """The constant; a vector takes one value for all its lanes, or one for each. Floats are rounded to nearest."""
        return Expr(self, opcodes.constant(self.name, *values))

    def bits(self, pattern: int) -> Expr:
        """The constant of exactly these bits: `f32.bits(0x7FC00001)` is a NaN with a payload."""
        return Expr(self, opcodes.bit_pattern(self.name, pattern.to_bytes(self.size, "little")))

    def find(self, name: str) -> Builder | None:
        """What builds the instruction of this name, if this type has it; a vector has those of v128 too."""
        for prefix in (self.name, "v128") if self.is_vector else (self.name,):
            if f"{prefix}.{name}" in INSTRUCTIONS:
                return _builder(INSTRUCTIONS[f"{prefix}.{name}"], self)
        return None

    def __getattr__(self, name: str) -> Builder:
        builder = None if name.startswith("__") else self.find(name.removesuffix("_"))
        if builder is None:
            raise AttributeError(f"{self.__dict__.get('name')} has no instruction {name!r}")
        setattr(self, name, builder)
        return builder

    def operator(self, symbol: str) -> Builder:
        """What Python's operator builds from operands of this type."""
        builder = self._builders.get(symbol)
        if builder is None:
            builder = next(filter(None, map(self.find, _OPERATORS[symbol])), None)
            if builder is None:
                remedy = f"; use {self}.div_s or {self}.div_u" if symbol == "/" and self in (i32, i64) else ""
                raise TypeError(f"{self} has no operator {symbol}{remedy}")
            self._builders[symbol] = builder
        return builder

    def __repr__(self) -> str:
        return self.name


i32, i64, f32, f64 = ValueType("i32"), ValueType("i64"), ValueType("f32"), ValueType("f64")
v128, i8x16, i16x8, i32x4 = ValueType("v128"), ValueType("i8x16"), ValueType("i16x8"), ValueType("i32x4")
i64x2, f32x4, f64x2, void = ValueType("i64x2"), ValueType("f32x4"), ValueType("f64x2"), ValueType("void")
TYPES = {t.name: t for t in (i32, i64, f32, f64, v128, i8x16, i16x8, i32x4, i64x2, f32x4, f64x2, void)}


def _binary(symbol: str, reflected: bool = False) -> Callable[[Expr, Any], Expr]:
    if reflected:
        return lambda self, other: self.type.operator(symbol)(other, self)
    return lambda self, other: self.type.operator(symbol)(self, other)


class Expr:
    """A value of `type`, as the code that leaves it on the stack. `<`, `>>` and the like are the signed forms."""

    __slots__ = ("code", "type")

    def __init__(self, type: ValueType, code: bytes) -> None:
        self.type = type
        self.code = code

    def as_(self, lanes: ValueType) -> Expr:
        """The same 128 bits seen as other lanes; costs nothing."""
        if not (self.type.is_vector and lanes.is_vector):
            raise TypeError(f"as_ is for vectors: {self.type} cannot be seen as {lanes}")
        return Expr(lanes, self.code)

    __add__, __radd__ = _binary("+"), _binary("+", reflected=True)
    __sub__, __rsub__ = _binary("-"), _binary("-", reflected=True)
    __mul__, __rmul__ = _binary("*"), _binary("*", reflected=True)
    __truediv__, __rtruediv__ = _binary("/"), _binary("/", reflected=True)
    __and__, __rand__ = _binary("&"), _binary("&", reflected=True)
    __or__, __ror__ = _binary("|"), _binary("|", reflected=True)
    __xor__, __rxor__ = _binary("^"), _binary("^", reflected=True)
    __lshift__, __rshift__ = _binary("<<"), _binary(">>")
    __lt__, __le__, __gt__, __ge__ = _binary("<"), _binary("<="), _binary(">"), _binary(">=")
    __eq__ = _binary("==")  # type: ignore[assignment]
    __ne__ = _binary("!=")  # type: ignore[assignment]
    __hash__ = object.__hash__

    def __neg__(self) -> Expr:
        return 0 - self if self.type in (i32, i64) else self.type.operator("unary -")(self)

    def __invert__(self) -> Expr:
        return self ^ -1 if self.type in (i32, i64) else self.type.operator("~")(self)

    def __abs__(self) -> Expr:
        return self.type.operator("abs")(self)

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value while it is built; use f.if_, f.if_expr or f.select")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.type} {self.code.hex(' ')}>"


Operand: TypeAlias = Expr | float
Builder: TypeAlias = Callable[..., Expr]


_GLOBAL = ("global", CONTROL["global.get"], CONTROL["global.set"], CONTROL["local.tee"])
_LOCAL = ("local", CONTROL["local.get"], CONTROL["local.set"], CONTROL["local.tee"])


class Variable(Expr):
    """A global, or a local of its `owner`: reading it is an expression, `f.set` and (locals) `f.tee` assign it."""

    __slots__ = ("name", "owner", "setter", "teer")

    def __init__(self, type: ValueType, index: int, name: str, owner: object = None) -> None:
        scope, get, set_, tee = _GLOBAL if owner is None else _LOCAL
        number = uleb(index)
        self.type = type
        self.code = get + number
        self.name = name or f"{scope} {index}"
        self.owner = owner
        self.setter = set_ + number
        self.teer = tee + number


def code_of(value: Operand, expected: ValueType, where: str) -> bytes:
    """The code of an operand; a Python number becomes a constant of the expected type.

    Raises TypeError, which starts with `where`, for another type.
    """
    if not isinstance(value, Expr):
        return number(value, expected)
    given = value.type
    if given is expected or (given.is_vector and expected.is_vector and (given is v128 or expected is v128)):
        return value.code
    raise TypeError(f"{where} has type {given}, expected {expected}")


def number(value: float, type: ValueType) -> bytes:
    """The code of a Python number."""
    return (opcodes.integer if value.__class__ is int else opcodes.constant)(type.name, value)


def _builder(instruction: Instruction, lanes: ValueType = v128) -> Builder:
    """The function that builds `instruction`; a v128 result takes the lanes asked for, else those of an operand."""
    name, result, immediate = instruction.name, TYPES[instruction.result], instruction.immediates
    operand_types = [TYPES[t] for t in instruction.operands]
    plain = b"" if {"lane", "lanes", "index"} & {*immediate} else opcodes.encode(instruction, {})
    kind = lanes if result is v128 else result
    likely = [lanes if expected is v128 else expected for expected in operand_types]

    def encode(**immediates: Any) -> bytes:
        return opcodes.encode(instruction, immediates)

    if immediate == ("memory",):
        encode = lru_cache(1024)(encode)

    def code(value: Operand, position: int) -> bytes:
        if not isinstance(value, Expr):
            return number(value, likely[position])
        return code_of(value, operand_types[position], f"{name}: operand {position + 1}")

    def build(*operands: Operand, **immediates: Any) -> Expr:
        if len(operands) != len(likely):
            raise TypeError(f"{name} takes {len(likely)} operands, not {len(operands)}")
        built = b""
        for position, value in enumerate(operands):
            if isinstance(value, Expr) and value.type is likely[position]:
                built += value.code
            else:
                built += code(value, position)
        built += encode(**immediates) if immediates or not plain else plain
        if kind is v128:
            seen = next((v.type for v in operands if isinstance(v, Expr) and v.type.is_vector), kind)
            return Expr(seen, built)
        return Expr(kind, built)

    if len(likely) != 2 or kind is v128 or not plain or immediate:
        return build
    first, second = likely

    def build_of_two(*operands: Operand, **immediates: Any) -> Expr:
        if len(operands) != 2 or immediates:
            return build(*operands, **immediates)
        a, b = operands
        left = a.code if isinstance(a, Expr) and a.type is first else code(a, 0)
        right = b.code if isinstance(b, Expr) and b.type is second else code(b, 1)
        return Expr(kind, left + right + plain)

    return build_of_two


def op(name: str, *operands: Operand, **immediates: Any) -> Expr:
    """The instruction of this name: `op("i32.atomic.rmw.add", address, 1, offset=8)`.

    Immediates are keywords: `offset` and `align` (bytes) of a memory access, `lane`, `lanes` (of a shuffle), `index`
    (of a segment). An instruction without a result has type `void` and is executed by `f.do`.
    """
    if name not in INSTRUCTIONS:
        raise ValueError(f"{name!r} is not an instruction")
    return _builder(INSTRUCTIONS[name])(*operands, **immediates)
