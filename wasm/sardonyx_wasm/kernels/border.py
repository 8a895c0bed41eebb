"""Kernels that pad along an axis: inside of the border neither tests nor clamped indices are needed along it.

Conditions are that an index along the axis, of stride 1, is not below a size, or below one; `max` and `min` of such an
index and a size are that index where similar conditions hold. Where all of them do, the kernel is a simpler one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sardonyx.code.kernel import Kernel
from sardonyx.common.record import record, replace

from .graph import Size


@record(frozen=True)
class Bound:
    """A place along the axis: `size - offset + more`."""

    size: Size
    offset: Size
    more: int = 0

    @property
    def place(self) -> int | None:
        """The place, None if only the run tells it."""
        known = isinstance(self.size, int) and isinstance(self.offset, int)
        return int(self.size) - int(self.offset) + self.more if known else None


@record(frozen=True)
class Interior:
    """The kernel inside of a border along an axis: from the greatest of `first` to the least of `last`."""

    axis: int
    kernel: Kernel
    first: list[Bound]
    last: list[Bound]


def interior(kernel: Kernel, axis: int) -> Interior | None:
    """What a kernel without folds is inside of its border along an axis, None if it has none there."""
    if any(at[2] for _, at, _ in kernel.stores):
        return None
    facts = _Facts(kernel.nodes, axis)
    return Interior(axis, facts.simpler(kernel), facts.first, facts.last) if facts.first or facts.last else None


class _Facts:
    """What is known inside: `same` are nodes that others stand for, `true` hold, `offsets` are indices on the axis."""

    def __init__(self, nodes: Sequence[Any], axis: int) -> None:
        self.nodes, self.axis = nodes, axis
        self.first: list[Bound] = []
        self.last: list[Bound] = []
        self.offsets: dict[int, Size] = {}
        self.same: dict[int, int] = {}
        self.true: set[int] = set()
        for number, (function, dtype, operands, detail) in enumerate(nodes):
            if function == "index" and detail[1] == [[axis, 1]] and not detail[2]:
                self.offsets[number] = detail[0]
            elif function in ("ge", "lt"):
                self._test(number, function, *operands)
            elif function in ("max", "min"):
                self._clamp(number, function, *operands)
            elif function == "cast" and dtype in ("int32", "int64") and operands[0] in self.offsets:
                self.offsets[number] = self.offsets[operands[0]]
            elif function in ("add", "sub"):
                self._move(number, -1 if function == "sub" else 1, *operands)
            elif function == "and" and (certain := set(operands) & self.true):
                self._stands_for(number, operands[operands[0] in certain])
            elif function == "where" and operands[0] in self.true:
                self._stands_for(number, operands[1])

    def _stands_for(self, number: int, other: int) -> None:
        self.same[number] = self.same.get(other, other)
        if other in self.true:
            self.true.add(number)
        if other in self.offsets:
            self.offsets[number] = self.offsets[other]

    def _size(self, number: int) -> Any:
        """The size that a node is, None if it is none."""
        function, _, _, detail = self.nodes[number]
        if function == "const":
            return detail if type(detail) is int else None
        return detail[0] if function == "index" and not detail[1] and not detail[2] else None

    def _test(self, number: int, function: str, x: int, limit: int) -> None:
        size = self._size(limit)
        if x in self.offsets and size is not None:
            (self.first if function == "ge" else self.last).append(Bound(size, self.offsets[x]))
            self.true.add(number)

    def _clamp(self, number: int, function: str, *operands: int) -> None:
        for x, limit in (operands, operands[::-1]):
            size = self._size(limit)
            if x in self.offsets and size is not None:
                bounds, more = (self.first, 0) if function == "max" else (self.last, 1)
                bounds.append(Bound(size, self.offsets[x], more))
                self._stands_for(number, x)
                return

    def _move(self, number: int, sign: int, x: int, other: int) -> None:
        """An index is moved by a number."""
        offset, more = self.offsets.get(x), self._size(other)
        if isinstance(offset, int) and isinstance(more, int):
            self.offsets[number] = offset + sign * more

    def simpler(self, kernel: Kernel) -> Kernel:
        """The kernel with what is known; sizes that indices are moved by come first."""
        sizes: dict[Size, int] = {}
        changed = [self._changed(node, sizes) for node in self.nodes]
        needed = self._needed(changed, [self.same.get(node, node) for _, _, node in kernel.stores])
        place = {number: len(sizes) + k for k, number in enumerate(sorted(needed))}

        def index(detail: Any) -> Any:
            terms = [[place[node] if node >= 0 else -1 - node, stride] for node, stride in detail[2]]
            return [detail[0], detail[1], terms]

        nodes: list[Any] = [["index", "int32", [], [size, [], []]] for size in sizes]
        for number in sorted(needed):
            function, dtype, operands, detail = changed[number]
            if function == "load":
                detail = [detail[0], index(detail[1])]
            elif function == "index":
                detail = index(detail)
            nodes.append([function, dtype, [place[operand] for operand in operands], detail])
        stores = [
            [buffer, index(self._moved(at, sizes)), place[self.same.get(node, node)]]
            for buffer, at, node in kernel.stores
        ]
        return replace(kernel, nodes=tuple(nodes), stores=tuple(stores))

    def _changed(self, node: Any, sizes: dict[Size, int]) -> Any:
        function, dtype, operands, detail = node
        if function == "load":
            detail = [detail[0], self._moved(detail[1], sizes)]
        elif function == "index":
            detail = self._moved(detail, sizes)
        return [function, dtype, [self.same.get(operand, operand) for operand in operands], detail]

    def _moved(self, index: Any, sizes: dict[Size, int]) -> Any:
        """An Index without the nodes that are indices along the axis; -1 - k stands for the k-th of the sizes."""
        offset, axes, terms = index
        others = []
        for node, stride in terms:
            along = any(axis == self.axis for axis, _ in axes)
            if node not in self.offsets or along:
                others.append([self.same.get(node, node), stride])
                continue
            axes = sorted([*axes, [self.axis, stride]])
            more = self.offsets[node]
            if isinstance(more, int) and isinstance(stride, int) and isinstance(offset, int):
                offset += more * stride
            elif more != 0:
                others.append([-1 - sizes.setdefault(more, len(sizes)), stride])
        return [offset, axes, others]

    def _needed(self, nodes: Sequence[Any], roots: Sequence[int]) -> set[int]:
        needed: set[int] = set()
        stack = list(roots)
        while stack:
            number = stack.pop()
            if number in needed or number < 0:
                continue
            needed.add(number)
            function, _, operands, detail = nodes[number]
            stack += operands
            if function in ("load", "index"):
                stack += [node for node, _ in (detail[1] if function == "load" else detail)[2]]
        return needed
