"""How shaders hold values: the WGSL type of each dtype, its bits in memory, literals."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from sardonyx import errors
from sardonyx.common import dtypes

WGSL = {"float": "f32", "int": "i32", "uint": "u32", "bool": "bool", "i64": "vec2<u32>", "u64": "vec2<u32>"}
"""The WGSL type of each family of dtypes. WGSL has no others everywhere: narrow ones are held in 32 bits."""

MOVES = frozenset({"bitcast", "reshape", "transpose", "broadcast", "slice", "pad", "concat", "gather", "scatter"})
"""The primitives that floats of 8 bits or fewer, which are bits to shaders, can take part in."""

_ARGUMENT = re.compile(r"(\(|, )\{(\d)\}(?=[,)])")


def bare(text: str) -> str:
    """Without the parentheses around the whole.

    >>> bare("(a + b)"), bare("(a + b) * (c)")
    ('a + b', '(a + b) * (c)')
    """
    if not text.startswith("(") or not text.endswith(")"):
        return text
    depth = 0
    for position, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 0:
            return text[1:-1] if position == len(text) - 1 else text
    return text


def fill(template: str, *operands: str, **details: object) -> str:
    """The template with its operands; those that are arguments of a call lose their parentheses.

    >>> fill("f({0}, {1}) * {0}", "(a + b)", "c")
    'f(a + b, c) * (a + b)'
    """
    arguments = {f"argument{k}": bare(operand) for k, operand in enumerate(operands)}
    return _ARGUMENT.sub(r"\1{argument\2}", template).format(*operands, **arguments, **details)


_FLOATS = {"float32": "{0}", "float16": "float16_round({0})", "bfloat16": "bfloat16_round({0})"}


class Kind(NamedTuple):
    """What a shader knows of a dtype: its family, the bits of a value, and the bits that memory gives it."""

    dtype: str
    family: str
    bits: int
    stored: int

    @property
    def wgsl(self) -> str:
        return WGSL[self.family]

    def fitted(self, text: str) -> str:
        """The expression, wrapped or rounded to what the dtype can hold."""
        if self.family == "float":
            return fill(_FLOATS[self.dtype], text)
        return f"extractBits({bare(text)}, 0u, {self.bits}u)" if self.bits < 32 and self.family != "bool" else text

    def to_bits(self, text: str) -> str:
        """The value's bits as a u32, or for 64 bits as a vec2<u32>; of a narrow integer, all 32 bits."""
        if self.family == "bool":
            return fill("u32({0})", text)
        if self.family == "float" and self.bits == 16:
            return fill(self.dtype + "_bits({0})", text)
        return fill("bitcast<u32>({0})", text) if self.family in ("float", "int") else text

    def from_bits(self, text: str) -> str:
        """The value of bits, as `to_bits` gives them, those above the stored ones clear."""
        if self.family == "bool":
            return f"({text} != 0u)"
        if self.family == "float" and self.bits == 16:
            return fill(self.dtype + "_value({0})", text)
        if self.family in ("float", "int"):
            text = fill(f"bitcast<{self.wgsl}>({{0}})", text)
        return self.fitted(text)


def kind(name: str) -> Kind:
    """How shaders hold the dtype of this name; raises errors.NotImplemented where they cannot."""
    dtype = dtypes.by_name(name)
    stored = dtype.itemsize * 8
    if name in _FLOATS or dtype.kind == "bool":
        return Kind(name, dtype.kind, dtype.bits, stored)
    if is_bits(dtype):
        return Kind(name, "uint", stored, stored)
    if dtype.is_int:
        family = {"int": "i64", "uint": "u64"}[dtype.kind] if dtype.bits == 64 else dtype.kind
        return Kind(name, family, dtype.bits, stored)
    raise errors.NotImplemented(f"WebGpuExecutionProvider: WGSL has no {name}; CPUExecutionProvider runs it")


def supported(dtype: dtypes.DType) -> bool:
    """Whether shaders can hold this dtype."""
    return dtype.name in _FLOATS or dtype.kind == "bool" or dtype.is_int or is_bits(dtype)


def is_bits(dtype: dtypes.DType) -> bool:
    """Whether shaders move this dtype and cannot compute with it: a float of 8 bits or fewer."""
    return dtype.is_float and dtype.bits <= 8


def literal(name: str, number: Any) -> str:
    """A number, exactly.

    >>> literal("float32", 0.1), literal("float32", -2.0), literal("int64", -1)
    ('0x1.99999ap-4f', '(-2.0f)', 'vec2<u32>(0xffffffffu, 0xffffffffu)')
    """
    held = kind(name)
    if held.family == "float":
        return _float(_rounded(name, float(number)))
    if held.family == "bool":
        return "true" if number else "false"
    number = int(number)
    if held.bits == 64:
        return f"vec2<u32>({number & 0xFFFFFFFF:#x}u, {number >> 32 & 0xFFFFFFFF:#x}u)"
    if held.family == "uint":
        return f"{number}u"
    return str(number) if number >= 0 else f"({number})"


def _rounded(name: str, number: float) -> np.float32:
    with np.errstate(over="ignore", under="ignore"):
        if name == "float16":
            return np.float32(np.float16(number))
        value = np.float32(number)
    if name == "bfloat16" and np.isfinite(value):
        bits = int(value.view(np.uint32))
        value = np.uint32((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)
    return value


def _float(value: np.float32) -> str:
    number = float(value)
    if not np.isfinite(value) or (number == 0 and np.signbit(value)):
        # WGSL has no constants for these, and refuses the bitcast of a constant; a function call is none.
        return f"float_of_bits({int(value.view(np.uint32)):#x}u)"
    text = repr(number)
    if "e" in text or len(text) > 8:
        mantissa, exponent = number.hex().split("p")
        text = f"{re.sub('[.]?0+$', '', mantissa)}p{int(exponent)}"
    return f"({text}f)" if text.startswith("-") else f"{text}f"
