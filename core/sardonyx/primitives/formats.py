"""Conversions to and from the element types that NumPy lacks, spelled in arithmetic on bits.

Every backend has them with its integers and float32: bfloat16, the 8, 6 and 4 bit floats, the 4 and 2 bit integers.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.common.record import record
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.elementwise import (
    absolute,
    bitcast,
    cast,
    conversion,
    equal,
    isnan,
    minimum,
    round_even,
    shift_left,
    shift_right,
    where,
)
from sardonyx.primitives.indexing import gather


@record(frozen=True)
class Format:
    """A float of a sign, then exponent and mantissa bits. `largest`, `overflow` and `nan` are codes without the sign;
    one without signed zero uses the code of -0 for NaN."""

    exponent: int
    mantissa: int
    bias: int
    largest: int
    overflow: int
    nan: int
    signed_zero: bool = True

    @property
    def sign(self) -> int:
        return 1 << (self.exponent + self.mantissa)


FORMATS = {
    dtypes.bfloat16: Format(8, 7, 127, 0x7F7F, 0x7F80, 0x7FC0),
    dtypes.float8e4m3fn: Format(4, 3, 7, 0x7E, 0x7F, 0x7F),
    dtypes.float8e4m3fnuz: Format(4, 3, 8, 0x7F, 0x80, 0x80, signed_zero=False),
    dtypes.float8e5m2: Format(5, 2, 15, 0x7B, 0x7C, 0x7E),
    dtypes.float8e5m2fnuz: Format(5, 2, 16, 0x7F, 0x80, 0x80, signed_zero=False),
    dtypes.float4e2m1: Format(2, 1, 1, 0x7, 0x7, 0x8),
    dtypes.float6e2m3: Format(2, 3, 1, 0x1F, 0x1F, 0x20),
    dtypes.float6e3m2: Format(3, 2, 3, 0x1F, 0x1F, 0x20),
}
_INFINITY, _NAN = 0x7F800000, 0x7FC00000
"""Bits of float32."""


@conversion(lambda source, target: dtypes.string not in (source, target))
def cast_formats(x: Array, dtype: DType) -> Array:
    """Conversion from or to types that NumPy lacks."""
    numbers = x if x.dtype.is_native else decode(x)
    return cast(numbers, dtype) if dtype.is_native else encode(numbers, dtype)


def decode(x: Array) -> Array:
    """Elements as float32, or as the integers of one byte that store them."""
    if not x.dtype.is_float:
        return bitcast(x, dtypes.of(x.dtype.storage))
    if x.dtype is dtypes.bfloat16:
        bits = cast(bitcast(x, dtypes.uint16), dtypes.uint32)
        return bitcast(shift_left(bits, 16), dtypes.float32)
    return gather(constant(_values(x.dtype)), [cast(bitcast(x, dtypes.uint8), dtypes.int32)], [0])


def narrow_of(table: Array) -> DType | None:
    """The float of 8 bits or fewer whose values `decode` looks up in this table."""
    if table.value is None or table.shape != (256,):
        return None
    tables = [dtypes.float8e8m0, *(dtype for dtype in FORMATS if dtype.bits <= 8)]
    return next((dtype for dtype in tables if table.value is _values(dtype)), None)


def value_of_bits(bits: Array, dtype: DType) -> Array:
    """As `decode`, of the uint32 bits of a float of 8 bits or fewer: without a table."""
    if dtype is dtypes.float8e8m0:
        single = where(equal(bits, 0), 1 << 22, shift_left(bits, 23))
        return bitcast(where(equal(bits, 255), _NAN, single), dtypes.float32)
    form = FORMATS[dtype]
    magnitude = bits & (form.sign - 1)
    single = shift_left(magnitude, 23 - form.mantissa) + ((127 - form.bias) << 23)
    small = cast(magnitude, dtypes.float32) * 2.0 ** (1 - form.bias - form.mantissa)
    single = where(magnitude < 1 << form.mantissa, bitcast(small, dtypes.uint32), single)
    if form.largest < form.sign - 1:
        nothing = form.overflow if form.overflow < form.nan else form.largest
        single = where(magnitude > nothing, _NAN, single)
        single = where(equal(magnitude, form.overflow), _INFINITY, single) if form.overflow < form.nan else single
    single = single | shift_left(bits & form.sign, 31 - form.exponent - form.mantissa)
    if not form.signed_zero:
        single = where(equal(bits, form.sign), _NAN, single)
    return bitcast(single, dtypes.float32)


def encode(x: Array, dtype: DType, saturate: bool = True, rounding: str = "up") -> Array:
    """Elements of a native type in a type that NumPy lacks.

    Floats round to the nearest, ties to even; those out of range become the largest finite value, or, not saturated,
    infinity or NaN, whichever the type has (bfloat16 always gives infinity). `rounding` (`up`, `down` or `nearest`)
    is for float8e8m0. Integers wrap, floats turned to integers too.
    """
    if dtype.is_int:
        return _encode_integer(x, dtype)
    x = cast(x, dtypes.float32)
    if dtype is dtypes.float8e8m0:
        return _encode_exponent(x, saturate, rounding)
    form = FORMATS[dtype]
    bits = bitcast(x, dtypes.uint32)
    magnitude = bits & 0x7FFFFFFF
    drop = 23 - form.mantissa
    halves = ((1 << (drop - 1)) - 1) + (shift_right(magnitude, drop) & 1)
    code = shift_right(magnitude + halves, drop)
    if form.bias != 127:
        small = absolute(x) * 2.0 ** (form.bias - 1 + form.mantissa)
        tiny = cast(round_even(small), dtypes.uint32)
        code = where(small < 2.0**form.mantissa, tiny, code - ((127 - form.bias) << form.mantissa))
    beyond = form.largest if saturate and dtype is not dtypes.bfloat16 else form.overflow
    code = where(code > form.largest, beyond, code)
    code = where(isnan(x), form.nan, code)
    signed = code | shift_left(shift_right(bits, 31), form.exponent + form.mantissa)
    if not form.signed_zero:
        signed = where(equal(code, 0), 0, signed)
    return bitcast(cast(signed, dtypes.of(dtype.storage)), dtype)


def _encode_integer(x: Array, dtype: DType) -> Array:
    storage = dtypes.of(dtype.storage)
    free = storage.bits - dtype.bits
    integers = cast(cast(x, dtypes.int32) if x.dtype.is_float else x, storage)
    return bitcast(shift_right(shift_left(integers, free), free), dtype)


def _encode_exponent(x: Array, saturate: bool, rounding: str) -> Array:
    bits = bitcast(x, dtypes.uint32) & 0x7FFFFFFF
    rest = bits & 0x7FFFFF
    threshold = {"up": 1, "down": 1 << 23, "nearest": 1 << 22}[rounding]
    code = shift_right(bits, 23) + cast(rest >= threshold, dtypes.uint32)
    code = minimum(code, 254 if saturate else 255)
    nothing = isnan(x) if saturate else isnan(x) | equal(bits, 0)
    code = where(nothing, 255, code)
    return bitcast(cast(code, dtypes.uint8), dtypes.float8e8m0)


@cache
def _values(dtype: DType) -> np.ndarray:
    """The float32 value of every code of a float of 8 bits or fewer."""
    codes = np.arange(256)
    if dtype is dtypes.float8e8m0:
        return np.where(codes == 255, np.nan, 2.0 ** (codes - 127.0)).astype(np.float32)
    form = FORMATS[dtype]
    magnitude = codes & (form.sign - 1)
    exponent, mantissa = magnitude >> form.mantissa, (magnitude & ((1 << form.mantissa) - 1)) / (1 << form.mantissa)
    values = np.where(exponent == 0, mantissa * 2.0 ** (1 - form.bias), (1 + mantissa) * 2.0 ** (exponent - form.bias))
    values[magnitude > form.largest] = np.nan
    if form.largest < form.overflow < form.nan:
        values[magnitude == form.overflow] = np.inf
    values = np.where(codes & form.sign, -values, values)
    if not form.signed_zero:
        values[form.sign] = np.nan
    return values.astype(np.float32)
