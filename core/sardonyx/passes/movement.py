"""Rules for operators that change shapes or move elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx.model.ir import Node, Value
from sardonyx.model.ir.build import constant
from sardonyx.passes.checks import array_of, integers, rank, same_type
from sardonyx.passes.infer import Inference
from sardonyx.passes.pattern import Variable, changed, constants, op, variables
from sardonyx.passes.rule import rule
from sardonyx.sizes.symbolic import Size, same

x, shape = variables("x shape")
a, s = constants("a s")

RESHAPING = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
"""Operators that leave the elements in their order."""


# ---- transposition


def _perm(node: Node) -> list[int] | None:
    """The permutation of a Transpose, if it, or the rank, is known."""
    size = rank(node.inputs[0])
    reverse = None if size is None else list(range(size))[::-1]
    perm = node.attribute("perm", reverse)
    return None if perm is None else [axis % len(perm) for axis in perm]


@rule(op.Transpose(x).named("node"))
def transpose_of_nothing(x: Value, node: Node) -> Value | None:
    """Transpose(x) -> x, where every axis stays in its place"""
    perm = _perm(node)
    return x if perm is not None and perm == list(range(len(perm))) else None


@rule(op.Transpose(op.Transpose(x).named("inner")).named("outer"))
def transpose_of_transpose(x: Value, inner: Node, outer: Node) -> Value | None:
    """Transpose(Transpose(x)) -> Transpose(x)"""
    first, second = _perm(inner), _perm(outer)
    if first is None or second is None or len(first) != len(second):
        return None
    return op.Transpose(x, perm=[first[axis] for axis in second])


@rule(op.Reshape(op.Transpose(op.Reshape(x, ...).named("rows"), perm=[0, 2, 1]), shape).named("node"))
def transpose_of_merged(x: Value, rows: Node, shape: Value, node: Node) -> Value | None:
    """Reshape(Transpose(Reshape(x)), shape) -> Transpose(x), of which only the last two axes change places"""
    before, middle, after = (value.shape for value in (x, rows.outputs[0], node.outputs[0]))
    if before is None or middle is None or after is None or None in before or len(before) < 3:
        return None
    if middle[1:] != before[-2:] or after != (*before[:-2], before[-1], before[-2]):
        return None
    axes = list(range(len(before)))
    return op.Transpose(x, perm=[*axes[:-2], axes[-1], axes[-2]])


# ---- shapes


@rule(
    op.Reshape(x, shape).named("node"),
    op.Expand(x, shape).named("node"),
    op.Tile(x, shape).named("node"),
    op.Squeeze(x, shape.optional).named("node"),
    op.Unsqueeze(x, shape).named("node"),
)
def shape_of_its_own(x: Value, shape: Value | None, node: Node) -> Value | None:
    """Reshape(x, shape) -> x, where x has the shape already; likewise Expand, Tile, Squeeze, Unsqueeze"""
    return x if same_type(x, node.outputs[0]) else None


@rule(op.Flatten(x).named("node"))
def flatten_of_matrix(x: Value, node: Node) -> Value | None:
    """Flatten(x) -> x, where x has the shape already"""
    return x if same_type(x, node.outputs[0]) else None


def _reshaped(value: Value) -> Value | None:
    """The Value that a node in RESHAPING made this one from."""
    node = value.producer
    return node.inputs[0] if node is not None and not node.domain and node.op_type in RESHAPING else None


@rule(*(make(x, ...).named("node") for make in (op.Reshape, op.Flatten, op.Squeeze, op.Unsqueeze)))
def there_and_back(x: Value, node: Node) -> Value | None:
    """Reshape(Reshape(x)) -> x, where the shape is that of x; likewise Flatten, Squeeze, Unsqueeze"""
    source = _reshaped(x)
    while source is not None:
        if same_type(source, node.outputs[0]):
            return source
        source = _reshaped(source)
    return None


@rule(op.Squeeze(op.Unsqueeze(x, a), a), op.Unsqueeze(op.Squeeze(x, a), a))
def squeeze_of_unsqueeze(x: Value, a: Value) -> Value:
    """Squeeze(Unsqueeze(x, a), a) -> x, and the other way round"""
    return x


@rule(op.Reshape(Variable("y"), s).named("node"))
def reshape_of_reshape(y: Value, s: Value, node: Node) -> Value | None:
    """Reshape(Reshape(x), s) -> Reshape(x, s), where s keeps no size; likewise after Flatten, Squeeze, Unsqueeze"""
    source, sizes = _reshaped(y), integers(s)
    if source is None or sizes is None or 0 in sizes:
        return None
    return op.Reshape(source, s)


@rule(op.Reshape(x, shape).named("node"))
def reshape_to_known_sizes(x: Value, shape: Value, node: Node, facts: Inference) -> Value | None:
    """Reshape(x, shape) -> Reshape(x, s), where each computed size is that of x, or the only one left"""
    array, wanted = facts.array(x), facts.elements(shape)
    if array is None or wanted is None or shape.constant is not None or node.attribute("allowzero", 0):
        return None
    sizes = _spelled(array.shape, wanted)
    return None if sizes is None else op.Reshape(x, constant(np.array(sizes, np.int64)))


def _spelled(shape: Sequence[Size], wanted: Sequence[Size]) -> list[int] | None:
    """The shape in numbers: 0 for a size that stays, -1 for the one that follows from the others."""
    sizes = []
    for axis, size in enumerate(wanted):
        stays = not isinstance(size, int) and axis < len(shape) and same(size, shape[axis])
        sizes.append(0 if stays else size if isinstance(size, int) else -1)
    return sizes if sizes.count(-1) <= 1 else None


@rule(
    *(
        op.Reshape(make(op.Flatten(x).named("rows")).named("node").once, op.Shape(x))
        for make in (op.Softmax, op.LogSoftmax, op.Hardmax)
    )
)
def softmax_of_rows(x: Value, rows: Node, node: Node) -> Value | None:
    """Reshape(Softmax(Flatten(x)), Shape(x)) -> Softmax(x), along the last axis; likewise LogSoftmax, Hardmax"""
    last, axis = rank(x), rows.attribute("axis", 1)
    if last is None or axis % max(last, 1) != last - 1 or node.attribute("axis", -1) not in (-1, 1):
        return None
    return changed(node, x, axis=-1)


# ---- parts and borders


@rule(op.Slice(x, ...).named("node"))
def slice_of_everything(x: Value, node: Node) -> Value | None:
    """Slice(x) -> x, where nothing is left out and the order stays"""
    steps = node.inputs[4] if len(node.inputs) > 4 else None
    forwards = steps is None or all(step == 1 for step in integers(steps) or [0])
    return x if forwards and same_type(x, node.outputs[0]) else None


@rule(op.Pad(x, a, ...))
def pad_of_nothing(x: Value, a: Value) -> Value | None:
    """Pad(x, 0) -> x"""
    widths = array_of(a)
    return x if widths is not None and not widths.any() else None


@rule(op.Split(x, ...).named("node"))
def split_into_one(x: Value, node: Node) -> Value | None:
    """Split(x) -> x, where there is one part"""
    return x if len(node.outputs) == 1 and same_type(x, node.outputs[0]) else None


RULES = [
    transpose_of_nothing,
    transpose_of_transpose,
    transpose_of_merged,
    shape_of_its_own,
    flatten_of_matrix,
    there_and_back,
    squeeze_of_unsqueeze,
    reshape_of_reshape,
    softmax_of_rows,
    reshape_to_known_sizes,
    slice_of_everything,
    pad_of_nothing,
    split_into_one,
]
