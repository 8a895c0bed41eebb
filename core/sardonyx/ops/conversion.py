"""Conversions between element types, and the operator that changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.model.ir import Node
from sardonyx.model.ir.build import attribute
from sardonyx.ops.operator import Operator, Rewriter, sample
from sardonyx.primitives.array import Array
from sardonyx.primitives.formats import decode, encode

VALUES = np.array([-300.5, -2.5, -0.5, 0, 0.3, 1.5, 2.5, 300.75], np.float32)
SPECIAL = np.array([0.0, -1.0, np.inf, -np.inf, np.nan], np.float32)


def type_of(number: int) -> DType:
    """The element type with this number."""
    dtype = dtypes.by_number(number)
    if dtype is None:
        raise NotImplementedError(f"element type {number} is unknown; use one of 1..{dtypes.ALL[-1].number}")
    return dtype


class Conversion(Operator, abstract=True):
    """`saturate` and `round_mode` are for floats of 8 bits; see `primitives.formats.encode`."""

    saturate: int = 1
    round_mode: str = "up"

    def convert(self, x: Array, dtype: DType) -> Array:
        if x.dtype is dtype or not dtype.is_float or dtype.is_native:
            return p.cast(x, dtype)
        if x.dtype is dtypes.string:
            x = p.cast(x, dtypes.float32)
        decoded = x if x.dtype.is_native else decode(x)
        return encode(decoded, dtype, bool(self.saturate), self.round_mode)


class Cast(Conversion):
    """The elements in another type."""

    to: int

    def expand(self, x: Array) -> Array:
        return self.convert(x, type_of(self.to))

    @staticmethod
    def number_of_type(node: Node, make: Rewriter) -> None:
        """The type used to be given by its name."""
        name: Any = node.attribute("to")
        if isinstance(name, str):
            node.attributes["to"] = attribute("to", dtypes.by_name(name.lower()).number)

    upgrades = {6: number_of_type}
    samples = [
        *(sample(VALUES, to=dtypes.by_name(name).number) for name in ("float16", "double", "bool", "int32", "int64")),
        sample(np.array([300, -200, 5], np.int32), to=dtypes.uint8.number),
        sample(np.array([0, 1, 200], np.uint8), to=dtypes.bool_.number),
        sample(np.array([True, False]), to=dtypes.float32.number),
        sample(SPECIAL, to=dtypes.float16.number),
        sample(VALUES, to=dtypes.bfloat16.number),
        sample(SPECIAL, to=dtypes.bfloat16.number),
        sample(VALUES, to=dtypes.float8e4m3fn.number),
        sample(SPECIAL, to=dtypes.float8e5m2.number, saturate=0),
        sample(np.array([1, -3, 7, -8, 9], np.int32), to=dtypes.int4.number),
        sample((), to=dtypes.int32.number),
        sample((0, 3), to=dtypes.int64.number),
    ]


class CastLike(Conversion, since=15):
    """The elements in the type of another tensor."""

    def expand(self, x: Array, like: Array) -> Array:
        return self.convert(x, like.dtype)

    samples = [sample(VALUES, np.array([1], np.int16)), sample((2, 3), np.array(1, np.float16))]


class BitCast(Operator, since=26):
    """The same bits read as another type of the same width."""

    to: int

    def expand(self, x: Array) -> Array:
        dtype = type_of(self.to)
        if x.dtype.bits != dtype.bits:
            raise TypeError(f"{x.dtype} has {x.dtype.bits} bits and {dtype} has {dtype.bits}; use types of one width")
        # Integers of 4 and 2 bits are stored with their sign, the other types of that width without.
        if x.dtype.kind == "int" and x.dtype.bits < 8:
            unsigned = p.bitcast(x, dtypes.uint8) & (2**x.dtype.bits - 1)
            return p.bitcast(unsigned, dtype) if dtype.kind != "int" else x
        if dtype.kind == "int" and dtype.bits < 8:
            return p.cast(p.bitcast(x, dtypes.uint8), dtype)
        return p.bitcast(x, dtype)

    samples = [
        sample((3, 4), to=dtypes.int32.number),
        sample(np.array([1.5, -2], np.float64), to=dtypes.uint64.number),
        sample(np.array([-1, 5], np.int8), to=dtypes.uint8.number),
        sample(np.array([0, 1], np.uint8), to=dtypes.bool_.number),
        sample(np.array([0x3C00, 0xC000], np.uint16), to=dtypes.float16.number),
    ]


class Identity(Operator):
    """The value itself, of whatever kind."""

    structured = True

    def expand(self, x: Any) -> list[Any]:
        return [x]

    samples = [sample((3, 4)), sample(np.array([True])), sample(())]
