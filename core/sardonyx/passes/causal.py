"""Proofs that a mask is causal: true, or 0, exactly where column <= row."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from sardonyx.model.ir import Node, Value
from sardonyx.passes.checks import array_of, fill_of, integers, rank, small_array
from sardonyx.passes.infer import Inference
from sardonyx.passes.pattern import scalar

HIDDEN = -1e4
"""A bias at most this hides a score: exp(HIDDEN) is 0 in all types of floats."""

_ORDERS: Mapping[str, tuple[int, int]] = {
    "LessOrEqual": (1, 0),
    "Less": (1, 1),
    "GreaterOrEqual": (0, 0),
    "Greater": (0, 1),
}
"""For each comparison, the index of the larger operand, and the least difference to the other."""


def is_triangle(value: Value, facts: Inference) -> bool:
    """Whether a mask is true exactly where column <= row."""
    return _shape_of_truth(value, facts) is True


def is_causal_bias(value: Value, facts: Inference) -> bool:
    """Whether a float mask is 0 exactly where column <= row, and HIDDEN or less elsewhere."""
    array = small_array(value)
    if array is not None:
        return array.dtype.kind == "f" and _is_lower(array == 0) and bool((array[array != 0] <= HIDDEN).all())
    node = value.producer
    if node is None or node.domain:
        return False
    if node.op_type in _MOVING:
        return _keeps_corner(node, facts) and node.inputs[0] is not None and is_causal_bias(node.inputs[0], facts)
    if node.op_type == "Trilu" and node.attribute("upper", 1) and _number(node.inputs, 1) == 1:
        filled = fill_of(node.inputs[0])
        return filled is not None and filled <= HIDDEN
    if node.op_type == "Where" and node.inputs[0] is not None:
        seen = _shape_of_truth(node.inputs[0], facts)
        inside, outside = (fill_of(value) for value in node.inputs[1:])
        if seen is False:
            inside, outside = outside, inside
        return seen is not None and inside == 0 and outside is not None and outside <= HIDDEN
    return False


_MOVING = frozenset({"Unsqueeze", "Slice", "Expand", "Cast", "Identity"})
"""Operators after which the last two axes may still hold the same triangle."""


def _shape_of_truth(value: Value, facts: Inference) -> bool | None:
    """True for the triangle column <= row, False for all that is not in it, None for anything else."""
    array = small_array(value)
    if array is not None:
        truth = array.astype(bool)
        return True if _is_lower(truth) else False if _is_lower(~truth) else None
    node = value.producer
    if node is None or node.domain or node.inputs[0] is None:
        return None
    if node.op_type in _MOVING:
        return _shape_of_truth(node.inputs[0], facts) if _keeps_corner(node, facts) else None
    if node.op_type == "Not":
        inner = _shape_of_truth(node.inputs[0], facts)
        return None if inner is None else not inner
    if node.op_type == "Trilu" and fill_of(node.inputs[0]) == 1:
        upper, k = bool(node.attribute("upper", 1)), _number(node.inputs, 1)
        return None if k != upper else not upper
    if node.op_type in _ORDERS and node.inputs[1] is not None:
        larger, least = _ORDERS[node.op_type]
        places = [_counted(each, facts) for each in node.inputs if each is not None]
        if None in places:
            return None
        (above, more), (below, less) = (place for place in (places[larger], places[1 - larger]) if place is not None)
        margin = more - less - least  # of `above` + margin >= `below`
        if (above, below, margin) == (-2, -1, 0):
            return True
        return False if (above, below, margin) == (-1, -2, -1) else None
    return None


def _counted(value: Value, facts: Inference) -> tuple[int, int] | None:
    """The axis, counted from the last, along which elements increase by 1, and the first element."""
    array = small_array(value)
    if array is not None:
        line = array.reshape(-1)
        long = [axis - array.ndim for axis, size in enumerate(array.shape) if size != 1]
        counts = len(long) == 1 and line.dtype.kind in "iu" and (line == line[0] + np.arange(line.size)).all()
        return (long[0], int(line[0])) if counts else None
    node = value.producer
    if node is None or node.domain or node.inputs[0] is None:
        return None
    if node.op_type == "Range":
        return (
            (-1, int(first))
            if (first := _number(node.inputs, 0)) is not None and _number(node.inputs, 2) == 1
            else None
        )
    if node.op_type == "Add" and node.inputs[1] is not None:
        numbers = [scalar(each) for each in node.inputs]
        for one, number in ((node.inputs[0], numbers[1]), (node.inputs[1], numbers[0])):
            if number is not None and (place := _counted(one, facts)):
                return place[0], place[1] + int(number)
        return None
    place = _counted(node.inputs[0], facts) if node.op_type in ("Cast", "Identity", "Unsqueeze") else None
    if place is None or node.op_type != "Unsqueeze":
        return place
    axes, size = integers(node.inputs[1]), rank(node.outputs[0])
    if axes is None or size is None:
        return None
    behind = {axis % size for axis in axes}
    old = [axis for axis in range(size) if axis not in behind]
    return old[place[0]] - size, place[1]


def _keeps_corner(node: Node, facts: Inference) -> bool:
    """Whether the last two axes start at the first row and column of the operand."""
    source, size = node.inputs[0], rank(node.outputs[0])
    before = rank(source)
    if node.op_type == "Cast":
        return True
    if before is None or size is None or before < 2:
        return False
    if node.op_type == "Unsqueeze":
        axes = integers(node.inputs[1])
        return axes is not None and all(axis % size < size - 2 for axis in axes)
    if node.op_type == "Expand":
        return (
            source is not None
            and source.shape is not None
            and node.outputs[0].shape is not None
            and (source.shape[-2:] == node.outputs[0].shape[-2:] and None not in source.shape[-2:])
        )
    if node.op_type == "Slice":
        starts, steps = (node.inputs[place] if place < len(node.inputs) else None for place in (1, 4))
        first = None if starts is None else facts.elements(starts)
        forwards = steps is None or set(integers(steps) or [0]) == {1}
        return forwards and first is not None and all(isinstance(start, int) and start == 0 for start in first)
    return True


def _number(inputs: list[Value | None], place: int) -> float | None:
    """The one element of a constant input; 0 where the input is missing."""
    value = inputs[place] if place < len(inputs) else None
    array = array_of(value)
    if value is None:
        return 0.0
    return None if array is None or array.size != 1 else float(array.reshape(())[()])


def _is_lower(truth: np.ndarray) -> bool:
    """Whether each matrix of the last two axes, of which there is one, is true exactly where column <= row."""
    if truth.ndim < 2 or math.prod(truth.shape[:-2]) != 1:
        return False
    rows, columns = truth.shape[-2:]
    return bool(np.array_equal(truth.reshape(rows, columns), np.tri(rows, columns, dtype=bool)))
