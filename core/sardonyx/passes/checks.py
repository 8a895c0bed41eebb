"""Questions that rules ask about Values and nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx import dtypes
from sardonyx.ir import Node, Tensor, Value
from sardonyx.ir.build import constant

FLOATS = (dtypes.float32, dtypes.float16, dtypes.float64)


def array_of(value: Value | None) -> np.ndarray | None:
    """The elements of a constant whose type NumPy has."""
    tensor: Tensor | None = value.constant if value is not None else None
    return tensor.array() if tensor is not None and tensor.dtype.is_native else None


def integers(value: Value | None) -> list[int] | None:
    """The elements of a constant integer tensor."""
    array = array_of(value)
    return None if array is None or array.dtype.kind not in "iu" else [int(item) for item in array.reshape(-1)]


def rank(value: Value | None) -> int | None:
    """The rank, if it is known."""
    return None if value is None or value.shape is None else len(value.shape)


def same_type(one: Value, other: Value) -> bool:
    """Whether two Values surely have the same element type and the same sizes, symbolic ones included."""
    return one.type == other.type and one.dtype is not None and one.shape is not None and None not in one.shape


def axes_of(node: Node, operand: int = 1) -> list[int] | None:
    """The constant `axes` of a node, counted from the front; None if they, or the rank, are not known."""
    axes = integers(node.inputs[operand]) if len(node.inputs) > operand else None
    size = rank(node.inputs[0])
    return None if axes is None or size is None else sorted(axis % size for axis in axes)


def is_float(value: Value, kinds: Sequence[dtypes.DType] = FLOATS) -> bool:
    return value.dtype in kinds


def like(array: np.ndarray, value: Value) -> Value:
    """A constant with these elements in the element type of another one."""
    assert value.constant is not None
    with np.errstate(over="ignore"):
        return constant(array.astype(value.constant.dtype.storage, copy=False))
