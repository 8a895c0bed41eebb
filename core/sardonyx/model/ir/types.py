"""What a Value may hold: tensors, and the containers that ONNX builds from them."""

from __future__ import annotations

from typing import TypeAlias

from sardonyx.common.dtypes import DType
from sardonyx.common.record import field, record

DimLike: TypeAlias = int | str | None
"""A static size, a named symbolic one, or one of which nothing is known."""


def size_name(input: str, axis: int, dim: str | None) -> str:
    """The name of an input's open size: the model's own, or else its place. `?` stands for any size in each place.

    >>> size_name("x", 0, "batch"), size_name("x", 1, "?"), size_name("x", 2, None)
    ('batch', 'x.shape[1]', 'x.shape[2]')
    """
    return f"{input}.shape[{axis}]" if dim in (None, "", "?") else str(dim)


@record(frozen=True)
class _Said:
    """What a model says of the meaning of a Value (`IMAGE`, `TEXT` ...); types that differ in it alone are equal."""

    denotation: str = field(default="", compare=False, kw_only=True)


@record(frozen=True)
class TensorType(_Said):
    """A tensor of one element type; `shape` None means that not even the rank is known.

    `dim_denotations` is empty, or says of each dimension what it means (`DATA_BATCH`, `DATA_CHANNEL` ...).

    >>> from sardonyx.common import dtypes
    >>> print(TensorType(dtypes.float32, ("N", 3, None)))
    float32[N,3,?]
    """

    dtype: DType | None
    shape: tuple[DimLike, ...] | None = None
    dim_denotations: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        name = self.dtype.name if self.dtype else "?"
        if self.shape is None:
            return f"{name}[...]"
        return f"{name}[{','.join('?' if dim is None else str(dim) for dim in self.shape)}]"


@record(frozen=True)
class SparseTensorType(_Said):
    """A sparse tensor (COO), as `TypeProto.SparseTensor`."""

    dtype: DType | None
    shape: tuple[DimLike, ...] | None = None
    dim_denotations: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return f"sparse({TensorType(self.dtype, self.shape)})"


@record(frozen=True)
class SequenceType(_Said):
    """A list of values of one type."""

    element: ValueType | None

    def __str__(self) -> str:
        return f"seq({self.element or '?'})"


@record(frozen=True)
class MapType(_Said):
    """A dictionary from an integer or string type to values of one type."""

    key: DType
    value: ValueType | None

    def __str__(self) -> str:
        return f"map({self.key.name},{self.value or '?'})"


@record(frozen=True)
class OptionalType(_Said):
    """A value of one type, or nothing."""

    element: ValueType | None

    def __str__(self) -> str:
        return f"optional({self.element or '?'})"


@record(frozen=True)
class OpaqueType(_Said):
    """A type that only the operators of its domain know."""

    domain: str
    name: str

    def __str__(self) -> str:
        return f"opaque({self.domain},{self.name})"


ValueType: TypeAlias = TensorType | SparseTensorType | SequenceType | MapType | OptionalType | OpaqueType
