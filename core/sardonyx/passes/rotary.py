"""Rules that recognise rotary position embeddings where exporters spelled them out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sardonyx.common import dtypes
from sardonyx.model.ir import Node, Value
from sardonyx.model.ir.build import constant
from sardonyx.passes.checks import array_of, integers, is_float, maker, range_of, rank
from sardonyx.passes.infer import Inference
from sardonyx.passes.pattern import op, variables
from sardonyx.passes.rule import rule

x, cos, sin, one, other = variables("x cos sin one other")

LARGEST = 1 << 22
"""Elements up to which constant tables are compared with themselves."""

SAME_ELEMENTS = frozenset({"Cos", "Sin", "Cast", "Unsqueeze", "Squeeze", "Identity", "Expand", "Neg"})
"""Operators whose result has, along the last axis, each element computed from the operand's element there."""


def _turned(x: Value, cos: Value, sin: Value, facts: Inference, pairs: int, interleaved: bool) -> Value | None:
    """RotaryEmbedding(x, cos, sin), where `pairs` angles along the last axis are those of all heads."""
    tables = [_table(x, table, facts, pairs, interleaved) for table in (cos, sin)]
    if tables[0] is None or tables[1] is None:
        return None
    return op.RotaryEmbedding(x, *tables, interleaved=1 if interleaved else None)


def _table(x: Value, table: Value, facts: Inference, pairs: int, interleaved: bool) -> Value | None:
    """A cache [B, S, pairs] from a table that broadcasts to x [B, H, S, D] and is the same for each head."""
    if x.shape is None or table.shape is None or len(x.shape) != 4 or not 2 <= len(table.shape) <= 4:
        return None
    batch, length = x.shape[0], x.shape[2]
    if None in (batch, length) or table.shape[-2] != length or table.dtype is not x.dtype:
        return None
    if len(table.shape) == 4 and table.shape[1] != 1:
        return None
    node = maker(table, "Unsqueeze")
    if len(table.shape) == 4 and node is not None and integers(node.inputs[1]) == [1] and node.inputs[0] is not None:
        cache = node.inputs[0]
    elif len(table.shape) == 4:
        cache = facts.inferred(op.Squeeze(table, constant(np.array([1], np.int64))))
    elif len(table.shape) == 2:
        cache = facts.inferred(op.Unsqueeze(table, constant(np.array([0], np.int64))))
    elif table.shape[0] == 1:
        cache = table
    else:
        return None
    if cache.shape is None or cache.shape[0] not in (1, batch):
        return None
    if cache.shape[-1] != pairs:
        start, end, step = ([0], [1 << 62], [2]) if interleaved else ([0], [pairs], [1])
        numbers = (constant(np.array(each, np.int64)) for each in (start, end, [2], step))
        cache = facts.inferred(op.Slice(cache, *numbers))
    if cache.shape is not None and cache.shape[0] != batch:
        rest = constant(np.ones(2, np.int64))
        cache = op.Expand(cache, op.Concat(op.Shape(x, start=0, end=1), rest, axis=0))
    return cache


def _repeats(value: Value | None, same: Callable[[np.ndarray], bool], halves: bool) -> bool:
    """Whether the two halves along the last axis are equal, or the two elements of each pair."""
    while value is not None:
        if value.constant is not None:
            array = array_of(value) if value.constant.size <= LARGEST else None
            return array is not None and array.ndim > 0 and array.shape[-1] % 2 == 0 and same(array)
        node = value.producer
        size = rank(value)
        if node is None or node.domain or size is None:
            return False
        if node.op_type == "Concat":
            last = node.attribute("axis") in (-1, size - 1)
            return halves and last and len(node.inputs) == 2 and node.inputs[0] is node.inputs[1]
        if not _keeps_last(node, size):
            return False
        value = node.inputs[0] if node.op_type not in ("Mul", "Div") else _varying(node)
    return False


def _keeps_last(node: Node, size: int) -> bool:
    """Whether equal elements along the operand's last axis are equal in the result, in the same places."""
    source = rank(node.inputs[0])
    if node.op_type == "Gather":
        return source is not None and node.attribute("axis", 0) % source < source - 1
    if node.op_type in ("Mul", "Div"):
        return _varying(node) is not None
    if node.op_type in ("Unsqueeze", "Squeeze"):
        axes, of = integers(node.inputs[1]) if len(node.inputs) > 1 else None, max(size, source or 0)
        return axes is not None and all(axis % of != of - 1 for axis in axes)
    if node.op_type == "Expand":
        shapes = [value.shape for value in (node.inputs[0], node.outputs[0]) if value is not None]
        return None not in shapes and shapes[0][-1:] == shapes[1][-1:]  # type: ignore[index]
    if node.op_type == "Slice":
        axes = integers(node.inputs[3]) if len(node.inputs) > 3 else None
        return axes is not None and all(axis % size != size - 1 for axis in axes)
    return node.op_type in SAME_ELEMENTS


def _varying(node: Node) -> Value | None:
    """The operand of a product or quotient whose other operand is a single number."""
    one, other = node.inputs
    for value, number in ((one, other), (other, one)) if node.op_type == "Mul" else ((one, other),):
        if number is not None and number.constant is not None and number.constant.size == 1:
            return value
    return None


def _equal_halves(array: np.ndarray) -> bool:
    half = array.shape[-1] // 2
    return bool(np.array_equal(array[..., :half], array[..., half:]))


def _equal_pairs(array: np.ndarray) -> bool:
    return bool(np.array_equal(array[..., ::2], array[..., 1::2]))


def _part(value: Value, x: Value, half: int, output: int) -> bool:
    """Whether a Value is one of the two halves of x along the last axis."""
    node = maker(value, "Slice", "Split")
    if node is None or node.inputs[0] is not x:
        return False
    if node.op_type == "Slice":
        return range_of(node, -1) == ((0, half), (half, 2 * half))[output]
    sizes = integers(node.inputs[1]) if len(node.inputs) > 1 else None
    even = node.attribute("num_outputs") == 2 if sizes is None else sizes == [half, half]
    last = node.attribute("axis", 0) in (-1, (rank(x) or 0) - 1)
    return last and even and node.outputs[output] is value


def _half(x: Value) -> int | None:
    size = x.shape[-1] if x.shape else None
    ok = isinstance(size, int) and size % 2 == 0 and is_float(x, (dtypes.float32, dtypes.float16))
    return size // 2 if ok and isinstance(size, int) else None


def _along_last(axis: int) -> bool:
    return axis in (-1, 3)


@rule(x * cos + op.Concat(op.Neg(other), one, axis=_along_last) * sin)
def rotary_embedding(x: Value, cos: Value, one: Value, other: Value, sin: Value, facts: Inference) -> Value | None:
    """x * cos + Concat(-x[half:], x[:half]) * sin -> RotaryEmbedding(x, cos, sin), of heads"""
    half = _half(x)
    if half is None or not _part(one, x, half, 0) or not _part(other, x, half, 1):
        return None
    if not _repeats(cos, _equal_halves, True) or not _repeats(sin, _equal_halves, True):
        return None
    return _turned(x, cos, sin, facts, half, False)


@rule(op.Concat(one * cos - other * sin, other * cos + one * sin, axis=_along_last))
def rotary_embedding_of_halves(one: Value, other: Value, cos: Value, sin: Value, facts: Inference) -> Value | None:
    """Concat(a * cos - b * sin, b * cos + a * sin) -> RotaryEmbedding(x, cos, sin), where a and b are halves of x"""
    node = maker(one, "Slice", "Split")
    x = node.inputs[0] if node is not None else None
    half = _half(x) if x is not None else None
    if x is None or half is None or not _part(one, x, half, 0) or not _part(other, x, half, 1):
        return None
    return _turned(x, cos, sin, facts, half, False)


_PAIR = op.Concat(op.Unsqueeze(op.Neg(other), ...), op.Unsqueeze(one, ...), axis=lambda axis: axis in (-1, 4))


@rule(x * cos + op.Reshape(_PAIR, ...) * sin)
def rotary_embedding_of_pairs(
    x: Value, cos: Value, one: Value, other: Value, sin: Value, facts: Inference
) -> Value | None:
    """x * cos + Reshape(Concat(-x[1::2], x[::2])) * sin -> RotaryEmbedding(x, cos, sin, interleaved=1), of heads"""
    half = _half(x)
    if half is None or not _every_second(one, x, 0) or not _every_second(other, x, 1):
        return None
    if not _repeats(cos, _equal_pairs, False) or not _repeats(sin, _equal_pairs, False):
        return None
    return _turned(x, cos, sin, facts, half, True)


def _every_second(value: Value, x: Value, first: int) -> bool:
    """Whether a Value is x[..., first::2]."""
    node = maker(value, "Slice")
    if node is None or node.inputs[0] is not x or len(node.inputs) < 5:
        return False
    starts, ends, axes, steps = map(integers, node.inputs[1:])
    if None in (starts, ends, axes, steps) or starts != [first] or steps != [2] or x.shape is None:
        return False
    size = x.shape[-1]
    return axes in ([-1], [len(x.shape) - 1]) and isinstance(size, int) and ends is not None and ends[0] >= size


RULES = [rotary_embedding, rotary_embedding_of_halves, rotary_embedding_of_pairs]
