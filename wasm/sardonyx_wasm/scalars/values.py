"""How WebAssembly holds scalars: the value type of each dtype, loads and stores, literals, bits.

Integers below 32 bits are i32, always within the range of their dtype; bool is an i32 of 0 or 1. float16 and bfloat16
are f32, always rounded to what their dtype can hold. The types that NumPy lacks are otherwise bits that travel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

import numpy as np

from sardonyx import errors
from sardonyx.common import dtypes
from sardonyx.common.record import record

from ..assembler import Callee, Expr, ValueType, f32, f64, i32, i64


@record(frozen=True)
class Kind:
    """A dtype: its family (`float`, `int`, `uint`, `bool`, or `bits` where there is no arithmetic) and stored bits."""

    name: str
    family: str
    bits: int

    @property
    def type(self) -> ValueType:
        if self.family == "float":
            return f64 if self.bits == 64 else f32
        return i64 if self.bits == 64 else i32

    @property
    def signed(self) -> str:
        """The suffix of instructions that come in two forms."""
        return "s" if self.family == "int" else "u"

    @property
    def is_half(self) -> bool:
        return self.family == "float" and self.bits == 16


@cache
def kind(name: str) -> Kind:
    """How the dtype of this name is held; raises NotImplemented for strings and complex numbers."""
    dtype = dtypes.by_name(name)
    if not supported(dtype):
        raise errors.NotImplemented(f"WasmExecutionProvider: WebAssembly has no {name}; NumpyExecutionProvider runs it")
    known = dtype.is_native or dtype is dtypes.bfloat16
    return Kind(name, dtype.kind if known else "bits", 8 * dtype.itemsize)


def supported(dtype: dtypes.DType) -> bool:
    return dtype.kind not in ("string", "complex")


class Scope(Protocol):
    """Where an expression is being written."""

    predictable: bool
    """Whether conditions of `where` mostly tell rare cases from the usual one."""

    def let(self, value: Expr) -> Expr:
        """The value, evaluated once: for what is used more than once."""
        ...

    def select(self, condition: Expr, yes: Expr, no: Expr) -> Expr: ...

    def if_expr(self, condition: Expr, yes: Expr, no: Expr) -> Expr: ...

    def helper(self, name: str) -> Callee:
        """A function of `halves` in this module."""
        ...


class Literal(Expr):
    """A constant, which knows its number."""

    __slots__ = ("number",)

    def __init__(self, k: Kind, number: float) -> None:
        super().__init__(k.type, k.type.const(number).code)
        self.number = number


def literal(k: Kind, number: Any) -> Literal:
    """A constant; floats that JSON lacks are text."""
    if k.family != "float":
        return Literal(k, int(number))
    value = float(number)
    if k.is_half and value - value == 0:
        with np.errstate(over="ignore"):
            value = float(np.float16(value)) if k.name == "float16" else float(_bfloat16(np.float32(value)))
    return Literal(k, value)


def _bfloat16(value: np.float32) -> np.float32:
    bits = int(value.view(np.uint32))
    return np.uint32(bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000).view(np.float32)


def load(s: Scope, k: Kind, address: Expr, offset: int) -> Expr:
    """The element of this dtype in memory at `address + offset`."""
    if k.bits >= 32:
        return k.type.find("load")(address, offset=offset)  # type: ignore[misc]
    bits = _narrow_load[k.bits, k.signed](address, offset=offset)
    return from_bits(s, k, bits) if k.is_half else bits


_narrow_load: dict[tuple[int, str], Callable[..., Expr]] = {
    (8, "s"): i32.load8_s, (8, "u"): i32.load8_u, (16, "s"): i32.load16_s, (16, "u"): i32.load16_u,
}  # fmt: skip


def to_bits(s: Scope, k: Kind, x: Expr) -> Expr:
    """The bits of a value as an integer; those above the stored ones may be anything."""
    if k.name == "float16":
        return s.helper("float16_bits")(x)
    if k.family != "float":
        return x
    bits = i64.reinterpret_f64(x) if k.bits == 64 else i32.reinterpret_f32(x)
    return i32.shr_u(bits, 16) if k.is_half else bits


def from_bits(s: Scope, k: Kind, bits: Expr) -> Expr:
    """The value of bits, of which those above the stored ones may be anything."""
    if k.name == "float16":
        return s.helper("float16_value")(bits)
    if k.family != "float":
        return bits != 0 if k.family == "bool" else fitted(s, k, bits)
    if k.bits == 64:
        return f64.reinterpret_i64(bits)
    return f32.reinterpret_i32(bits << 16 if k.is_half else bits)


def fitted(s: Scope, k: Kind, x: Expr) -> Expr:
    """A value, wrapped or rounded to what its dtype can hold."""
    if k.is_half:
        return s.helper(f"{k.name}_round")(x)
    if k.bits >= 32:
        return x
    if k.family == "int":
        return i32.extend8_s(x) if k.bits == 8 else i32.extend16_s(x)
    return x & ((1 << k.bits) - 1)
