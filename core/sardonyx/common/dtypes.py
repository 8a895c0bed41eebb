"""Element types: ONNX's numbers and names, how NumPy stores them, and what kind of arithmetic they have.

Types that NumPy lacks (bfloat16, floats of 8 bits and fewer, the 2 and 4 bit integers) are stored as unsigned integers
of the nearest width; the `DType` beside the array says what the bits mean. Strings are stored as the int32 ids that
`sardonyx.common.strings` gives them.
"""

from __future__ import annotations

import numpy as np

from sardonyx.common.record import record


@record(frozen=True, eq=False)
class DType:
    """One ONNX element type.

    >>> float32.number, float32.onnx_name, float32.itemsize, float32.kind
    (1, 'float', 4, 'float')
    """

    name: str
    number: int
    onnx_name: str
    storage: np.dtype[np.generic]
    kind: str
    bits: int

    @property
    def itemsize(self) -> int:
        """Bytes of one stored element; packed types are unpacked, one element a byte."""
        return int(self.storage.itemsize)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_int(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def is_native(self) -> bool:
        """Whether NumPy computes with this type itself."""
        return self.name in _NATIVE_NAMES

    @property
    def lowered(self) -> DType:
        """The type that generated code computes with: the ids of strings are integers to it."""
        return int32 if self is string else self

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return by_name, (self.name,)


def _dtype(name: str, number: int, onnx_name: str, storage: str, kind: str, bits: int) -> DType:
    return DType(name, number, onnx_name, np.dtype(storage), kind, bits)


float32 = _dtype("float32", 1, "float", "f4", "float", 32)
uint8 = _dtype("uint8", 2, "uint8", "u1", "uint", 8)
int8 = _dtype("int8", 3, "int8", "i1", "int", 8)
uint16 = _dtype("uint16", 4, "uint16", "u2", "uint", 16)
int16 = _dtype("int16", 5, "int16", "i2", "int", 16)
int32 = _dtype("int32", 6, "int32", "i4", "int", 32)
int64 = _dtype("int64", 7, "int64", "i8", "int", 64)
string = _dtype("string", 8, "string", "i4", "string", 0)
bool_ = _dtype("bool", 9, "bool", "?", "bool", 8)
float16 = _dtype("float16", 10, "float16", "f2", "float", 16)
float64 = _dtype("float64", 11, "double", "f8", "float", 64)
uint32 = _dtype("uint32", 12, "uint32", "u4", "uint", 32)
uint64 = _dtype("uint64", 13, "uint64", "u8", "uint", 64)
complex64 = _dtype("complex64", 14, "complex64", "c8", "complex", 64)
complex128 = _dtype("complex128", 15, "complex128", "c16", "complex", 128)
bfloat16 = _dtype("bfloat16", 16, "bfloat16", "u2", "float", 16)
float8e4m3fn = _dtype("float8e4m3fn", 17, "float8e4m3fn", "u1", "float", 8)
float8e4m3fnuz = _dtype("float8e4m3fnuz", 18, "float8e4m3fnuz", "u1", "float", 8)
float8e5m2 = _dtype("float8e5m2", 19, "float8e5m2", "u1", "float", 8)
float8e5m2fnuz = _dtype("float8e5m2fnuz", 20, "float8e5m2fnuz", "u1", "float", 8)
uint4 = _dtype("uint4", 21, "uint4", "u1", "uint", 4)
int4 = _dtype("int4", 22, "int4", "i1", "int", 4)
float4e2m1 = _dtype("float4e2m1", 23, "float4e2m1", "u1", "float", 4)
float8e8m0 = _dtype("float8e8m0", 24, "float8e8m0", "u1", "float", 8)
uint2 = _dtype("uint2", 25, "uint2", "u1", "uint", 2)
int2 = _dtype("int2", 26, "int2", "i1", "int", 2)
float6e2m3 = _dtype("float6e2m3", 27, "float6e2m3", "u1", "float", 6)
float6e3m2 = _dtype("float6e3m2", 28, "float6e3m2", "u1", "float", 6)

ALL: tuple[DType, ...] = tuple(value for value in list(globals().values()) if isinstance(value, DType))
ML_NAMES = {dtype.name: dtype.name for dtype in ALL} | {
    "float4e2m1": "float4_e2m1fn",
    "float6e2m3": "float6_e2m3fn",
    "float6e3m2": "float6_e3m2fn",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
}
"""What NumPy or `ml_dtypes` calls each type."""

_BY_NUMBER = {dtype.number: dtype for dtype in ALL}
_BY_NAME = {name: dtype for dtype in ALL for name in (dtype.onnx_name, dtype.name, ML_NAMES[dtype.name])}
_NATIVE: tuple[DType, ...] = (float32, uint8, int8, uint16, int16, int32, int64, bool_, float16, float64)
_NATIVE += (uint32, uint64, complex64, complex128)
_NATIVE_NAMES = {dtype.name for dtype in _NATIVE}
_BY_STORAGE = {dtype.storage: dtype for dtype in _NATIVE}


def by_number(number: int) -> DType | None:
    """The type with this `TensorProto.DataType` number, or None."""
    return _BY_NUMBER.get(number)


def by_name(name: str) -> DType:
    """The type with this ONNX or NumPy name.

    >>> by_name("float") is by_name("float32") is float32
    True
    """
    return _BY_NAME[name]


def of(dtype: np.dtype[np.generic]) -> DType:
    """The type of a NumPy array; `ml_dtypes`' types are known by name.

    >>> of(np.dtype("int64"))
    int64
    """
    element_type = _BY_STORAGE.get(dtype)
    if element_type is not None:
        return element_type
    if dtype.kind in "OSUT":
        return string
    if dtype.name in _BY_NAME:
        return _BY_NAME[dtype.name]
    raise TypeError(f"ONNX has no element type for NumPy's {dtype}")
