"""What a Value may hold: tensors, and the containers that ONNX builds from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from sardonyx.dtypes import DType

DimLike: TypeAlias = int | str | None
"""A static size, a named symbolic one, or one of which nothing is known."""


@dataclass(frozen=True)
class TensorType:
    """A tensor of one element type; `shape` None means that not even the rank is known.

    >>> from sardonyx import dtypes
    >>> print(TensorType(dtypes.float32, ("N", 3, None)))
    float32[N,3,?]
    """

    dtype: DType | None
    shape: tuple[DimLike, ...] | None = None

    def __str__(self) -> str:
        name = self.dtype.name if self.dtype else "?"
        if self.shape is None:
            return f"{name}[...]"
        return f"{name}[{','.join('?' if dim is None else str(dim) for dim in self.shape)}]"


@dataclass(frozen=True)
class SparseTensorType:
    """A sparse tensor (COO), as `TypeProto.SparseTensor`."""

    dtype: DType | None
    shape: tuple[DimLike, ...] | None = None

    def __str__(self) -> str:
        return f"sparse({TensorType(self.dtype, self.shape)})"


@dataclass(frozen=True)
class SequenceType:
    """A list of values of one type."""

    element: ValueType | None

    def __str__(self) -> str:
        return f"seq({self.element or '?'})"


@dataclass(frozen=True)
class MapType:
    """A dictionary from an integer or string type to values of one type."""

    key: DType
    value: ValueType | None

    def __str__(self) -> str:
        return f"map({self.key.name},{self.value or '?'})"


@dataclass(frozen=True)
class OptionalType:
    """A value of one type, or nothing."""

    element: ValueType | None

    def __str__(self) -> str:
        return f"optional({self.element or '?'})"


ValueType: TypeAlias = TensorType | SparseTensorType | SequenceType | MapType | OptionalType
