"""Sequences: tuples of Arrays, which are put together and taken apart while the plan is made."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.model.ir import Graph
from sardonyx.model.structure import Ragged, Stack
from sardonyx.ops import stack
from sardonyx.ops.control import ControlFlow
from sardonyx.ops.operator import Operator
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.reading import known_sizes
from sardonyx.sizes.symbolic import Size, same

Items: TypeAlias = tuple[Array, ...]
AnyItems: TypeAlias = Items | Stack[Array] | Ragged[Array]


class SequenceOperator(Operator, abstract=True):
    """An operator that takes or gives sequences."""

    structured = True


def place(position: Array | None, count: int, last: int) -> int:
    """A position counted from the front; `last` is the greatest legal one, and the default."""
    if position is None and last >= 0:
        return last
    if position is None:
        raise ValueError("the sequence is empty; there is nothing to erase")
    index = int(known_sizes(position, guess=0)[0])
    if not -count <= index <= last:
        legal = f"use {-count}..{last}" if last >= 0 else "it is empty"
        raise ValueError(f"position {index} is out of range for a sequence of {count}; {legal}")
    return index + count if index < 0 else index


class SequenceEmpty(SequenceOperator, since=11):
    """A sequence without elements."""

    dtype: int = 1

    def expand(self) -> list[Items]:
        return [()]


class SequenceConstruct(SequenceOperator, since=11):
    """The sequence of the operands."""

    def expand(self, *items: Array) -> list[Items]:
        return [items]


class SequenceLength(SequenceOperator, since=11):
    """The number of elements, an int64 scalar."""

    stacked = True

    def expand(self, items: AnyItems) -> Array:
        if isinstance(items, (Stack, Ragged)):
            return p.literal(stack.length(items), dtypes.int64)
        return constant(np.int64(len(items)))


class SequenceAt(SequenceOperator, since=11):
    """The element at a position, which counts from the end if it is negative."""

    stacked = True

    def expand(self, items: AnyItems, position: Array) -> Array:
        if isinstance(items, (Stack, Ragged)):
            return stack.element(items, position)
        return items[place(position, len(items), len(items) - 1)]


class SequenceInsert(SequenceOperator, since=11):
    """The sequence with one more element before that position, or at the end."""

    def expand(self, items: Items, new: Array, position: Array | None = None) -> list[Items]:
        if items and new.dtype is not items[0].dtype:
            raise TypeError(f"a sequence of {items[0].dtype} takes no {new.dtype}; cast it")
        at = place(position, len(items), len(items))
        return [(*items[:at], new, *items[at:])]


class SequenceErase(SequenceOperator, since=11):
    """The sequence without the element at a position, or without the last."""

    def expand(self, items: Items, position: Array | None = None) -> list[Items]:
        at = place(position, len(items), len(items) - 1)
        return [items[:at] + items[at + 1 :]]


class ConcatFromSequence(SequenceOperator, since=11):
    """The elements joined along an axis, which is new to them if `new_axis` is 1."""

    axis: int
    new_axis: int = 0
    stacked = True

    def expand(self, items: AnyItems) -> Array:
        if isinstance(items, Stack):
            return stack.joined(items, self.axis, bool(self.new_axis))
        rank = items.tensor.rank if isinstance(items, Ragged) else 0
        if isinstance(items, Ragged) and not self.new_axis and self.axis in (items.axis, items.axis - rank):
            return items.tensor
        elements: Items = stack.unstacked(items)
        if not elements:
            raise ValueError("the sequence is empty; there is nothing to join")
        parts = [p.unsqueeze(item, [self.axis]) for item in elements] if self.new_axis else elements
        return p.concat(parts, self.axis)


class SplitToSequence(SequenceOperator, since=11):
    """Parts of a tensor along an axis: of `split` elements (a scalar; the last may be shorter), or of these sizes.

    Without `split` they are single slices, which `keepdims` 0 drops the axis of. Other parts than slices are counted
    when the plan is made, so a size that is cut into equal parts of several is tied to its number.
    """

    axis: int = 0
    keepdims: int = 1

    def expand(self, x: Array, split: Array | None = None) -> list[AnyItems]:
        axis = p.normalize_axis(self.axis, x.rank)
        if not isinstance(x.shape[axis], int) and (split is None or _is_one(split, x.shape[axis])):
            return [stack.sliced(x, axis, split is not None or bool(self.keepdims))]
        sizes = self._sizes(x.shape[axis], split)
        parts: list[Array] = []
        start: Size = 0
        for size in sizes:
            parts.append(p.slice_axis(x, axis, start, size))
            start = start + size
        if start != x.shape[axis]:
            raise ValueError(f"split {sizes} does not sum to the {x.shape[axis]} elements of axis {axis}")
        if split is None and not self.keepdims:
            parts = [p.squeeze(part, [axis]) for part in parts]
        return [tuple(parts)]

    def _sizes(self, total: Size, split: Array | None) -> list[Size]:
        wanted: list[Size] = [1] if split is None else known_sizes(split)
        if split is not None and split.rank:
            return wanted
        each, count = int(wanted[0]), int(total)
        if each < 1:
            raise ValueError(f"split is {each}; a part has 1 element at least")
        return [min(each, count - start) for start in range(0, count, each)]


def _is_one(split: Array, total: Size) -> bool:
    """Whether every part of an axis has one element: `split` is 1, or as many ones as the axis has elements."""
    if not split.rank:
        return known_sizes(split) == [1]
    made = split
    while made.equation is not None and made.equation.primitive.name in ("broadcast", "cast", "reshape"):
        (made,) = made.equation.inputs
    return made.value is not None and bool((made.value == 1).all()) and same(split.shape[0], total)


class SequenceMap(ControlFlow, since=17):
    """The sequences of what `body` gives for each element; inputs that are tensors are the same for all of them."""

    body: Graph

    def expand(self, first: Items, *others: Any) -> list[Items]:
        lengths = {len(item) for item in (first, *others) if isinstance(item, tuple)}
        if len(lengths) > 1:
            counts = " and ".join(map(str, sorted(lengths)))
            raise ValueError(f"the sequences have {counts} elements; give equally many")
        rows = [
            self.run(self.body, [item[k] if isinstance(item, tuple) else item for item in (first, *others)])
            for k in range(len(first))
        ]
        return list(zip(*rows, strict=True)) if rows else [()] * len(self.body.outputs)
