"""Predicates over Values and nodes, for rules."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from sardonyx.common import dtypes
from sardonyx.model.ir import Node, Tensor, Value
from sardonyx.model.ir.build import constant

LARGEST = 1 << 22
"""Elements up to which constants are looked at one by one."""
FLOATS = (dtypes.float32, dtypes.float16, dtypes.float64)


def words(text: str) -> frozenset[str]:
    """The names in a text, as of operators."""
    return frozenset(text.split())


def array_of(value: Value | None) -> np.ndarray | None:
    """The elements of a constant whose type NumPy has."""
    tensor: Tensor | None = value.constant if value is not None else None
    return tensor.array() if tensor is not None and tensor.dtype.is_native else None


def integers(value: Value | None) -> list[int] | None:
    """The elements of a constant integer tensor."""
    array = array_of(value)
    return None if array is None or array.dtype.kind not in "iu" else [int(item) for item in array.reshape(-1)]


def maker(value: Value | None, *op_types: str) -> Node | None:
    """The node that makes a Value, if it is one of these of ai.onnx."""
    node = value.producer if value is not None else None
    return node if node is not None and node.op_type in op_types and not node.domain else None


def small_array(value: Value | None) -> np.ndarray | None:
    """The elements of a constant that has no more than are looked at."""
    tensor = value.constant if value is not None else None
    return array_of(value) if tensor is not None and prod(tensor.shape) <= LARGEST else None


def fill_of(value: Value | None) -> float | None:
    """The number that all elements equal; None where they differ or are unknown."""
    array = small_array(value)
    if array is not None:
        line = array.reshape(-1)
        return float(line[0]) if line.size and array.dtype.kind in "iufb" and bool((line == line[0]).all()) else None
    if (node := maker(value, "ConstantOfShape")) is not None:
        tensor = node.attribute("value")
        return 0.0 if tensor is None else float(tensor.array().reshape(-1)[0])
    if (node := maker(value, "Expand", "Cast", "Unsqueeze", "Reshape")) is not None:
        return fill_of(node.inputs[0])
    return None


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


def range_of(node: Node, axis: int) -> tuple[int, int] | None:
    """The start and end of a Slice that cuts this axis alone, with step 1; None for any other."""
    starts, ends, axes = (integers(node.inputs[place]) if place < len(node.inputs) else None for place in (1, 2, 3))
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    steps = node.inputs[4] if len(node.inputs) > 4 else None
    if starts is None or ends is None or axes is None or shape is None or len(axes) != 1:
        return None
    size = shape[axis]
    if axes[0] % len(shape) != axis % len(shape) or not isinstance(size, int):
        return None
    if steps is not None and integers(steps) != [1]:
        return None
    start, end = (max(min(place + size if place < 0 else place, size), 0) for place in (starts[0], ends[0]))
    return start, end


def like(array: np.ndarray, value: Value) -> Value:
    """A constant with these elements in the element type of another one."""
    assert value.constant is not None
    with np.errstate(over="ignore"):
        return constant(array.astype(value.constant.dtype.storage, copy=False))
