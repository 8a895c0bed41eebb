"""Kernels while they are being joined: axes have names of their own, sizes are polynomials."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sardonyx.code.cost import cost
from sardonyx.code.kernel import Kernel
from sardonyx.code.parameters import SizeTable
from sardonyx.common.record import field, record, replace
from sardonyx.sizes.polynomial import ONE, Poly, constant
from sardonyx.sizes.symbolic import hint, size


class Axes:
    """The extents of axes, by their names."""

    def __init__(self, extents: Mapping[int, Poly] | None = None) -> None:
        self.extents = dict(extents or {})

    def add(self, extent: Poly) -> int:
        """A new axis."""
        self.extents[len(self.extents)] = extent
        return len(self.extents) - 1

    def hint(self, axis: int) -> int:
        """The extent in the call at hand."""
        return hint(size(self.extents[axis]))


@record(frozen=True)
class Place:
    """An Index: an offset, and the strides of axes and of nodes."""

    offset: Poly
    axes: Mapping[int, Poly]
    nodes: Mapping[int, Poly]

    @property
    def key(self) -> Any:
        return self.offset, tuple(sorted(self.axes.items())), tuple(self.nodes.items())

    def split(self, axis: int, names: tuple[int, int], inner: Poly) -> Place:
        if axis not in self.axes:
            return self
        axes = dict(self.axes)
        stride = axes.pop(axis)
        return replace(self, axes={**axes, names[0]: stride * inner, names[1]: stride})

    def renamed(self, names: Mapping[int, int]) -> Place:
        return replace(self, axes={names.get(axis, axis): stride for axis, stride in self.axes.items()})

    def moved(self, nodes: Sequence[int] | Mapping[int, int]) -> Place:
        return replace(self, nodes={nodes[node]: stride for node, stride in self.nodes.items()})


@record(frozen=True)
class Node:
    """As in a Kernel; the detail of `index` is a Place, that of `load` a plan's buffer and a Place."""

    function: str
    dtype: str
    operands: tuple[int, ...]
    detail: Any

    @property
    def place(self) -> Place | None:
        if self.function == "index":
            index: Place = self.detail
            return index
        return self.detail[1] if self.function == "load" else None

    def at(self, place: Place) -> Node:
        return replace(self, detail=place if self.function == "index" else (self.detail[0], place))

    def moved(self, nodes: Sequence[int] | Mapping[int, int]) -> Node:
        """With other numbers of nodes."""
        node = self if self.place is None else self.at(self.place.moved(nodes))
        return replace(node, operands=tuple(nodes[operand] for operand in self.operands))

    @property
    def needs(self) -> list[int]:
        return [*self.operands, *(self.place.nodes if self.place is not None else ())]

    @property
    def key(self) -> Any:
        detail = self.detail
        if self.place is not None:
            detail = self.place.key if self.function == "index" else (self.detail[0], self.place.key)
        return self.function, self.dtype, self.operands, repr(detail) if isinstance(detail, float) else detail


@record(frozen=True)
class Store:
    """An element that goes to a place of a plan's buffer."""

    buffer: int
    place: Place
    node: int


@record
class Part:
    """A kernel whose space is of the axes `space`. `copies` are the nodes that stand for elements of earlier parts:
    by the part's number, the node, and the names that its axes have here."""

    space: list[int]
    reduce: list[int]
    folds: list[tuple[str, str, int]]
    nodes: list[Node] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    copies: dict[int, tuple[int, dict[int, int]]] = field(default_factory=dict)
    _known: dict[Any, int] = field(default_factory=dict)

    @classmethod
    def of(cls, kernel: Kernel, params: Sequence[Poly], buffers: Sequence[int], axes: Axes) -> Part:
        """A kernel that is launched with these parameters and buffers."""

        def known(value: Any) -> Poly:
            return params[int(value[1:])] if isinstance(value, str) else constant(value)

        names = [axes.add(known(extent)) for extent in (*kernel.space, *kernel.reduce)]

        def place(index: Any) -> Place:
            offset, over, extra = index
            strides = {names[axis]: known(stride) for axis, stride in over}
            return Place(known(offset), strides, {node: known(stride) for node, stride in extra})

        part = cls(names[: len(kernel.space)], names[len(kernel.space) :], [tuple(fold) for fold in kernel.folds])
        for function, dtype, operands, detail in kernel.nodes:
            if function == "index":
                detail = place(detail)
            elif function == "load":
                detail = buffers[detail[0]], place(detail[1])
            part.nodes.append(Node(function, dtype, tuple(operands), detail))
        part.stores = [Store(buffers[buffer], place(index), node) for buffer, index, node in kernel.stores]
        part._known = {node.key: number for number, node in enumerate(part.nodes)}
        return part

    def copy(self) -> Part:
        return Part(
            list(self.space),
            list(self.reduce),
            list(self.folds),
            list(self.nodes),
            list(self.stores),
            dict(self.copies),
            dict(self._known),
        )

    def loads(self) -> list[Node]:
        return [node for node in self.nodes if node.function == "load"]

    def store(self, buffer: int) -> Store:
        """What is stored in a buffer."""
        return next(store for store in self.stores if store.buffer == buffer)

    def loaded(self) -> set[int]:
        """The buffers that are loaded."""
        return {node.detail[0] for node in self.loads()}

    def walks(self, axis: int) -> bool:
        """Whether a load goes along an axis by ones."""
        return any(node.place is not None and node.place.axes.get(axis) == ONE for node in self.loads())

    def cost(self, number: int) -> int:
        """What a node takes to compute, with all that it needs."""
        return sum(cost(self.nodes[k].function) for k in self.used([number]))

    def used(self, roots: Iterable[int]) -> list[int]:
        """The nodes that some nodes need, and they themselves, in order."""
        found: set[int] = set()
        stack = [*roots]
        while stack:
            if (number := stack.pop()) not in found:
                found.add(number)
                stack += self.nodes[number].needs
        return sorted(found)

    def add(self, node: Node) -> int:
        """The number of a node; equal ones are one."""
        if (number := self._known.get(node.key)) is None:
            number = self._known[node.key] = len(self.nodes)
            self.nodes.append(node)
        return number

    # ---- axes

    def _place_all(self, change: Callable[[Place], Place]) -> None:
        self.nodes = [node if node.place is None else node.at(change(node.place)) for node in self.nodes]
        self.stores = [replace(store, place=change(store.place)) for store in self.stores]
        self._known = {node.key: number for number, node in enumerate(self.nodes)}

    def split(self, axis: int, names: tuple[int, int], inner: Poly) -> None:
        """Make two axes of one."""
        for axes in (self.space, self.reduce):
            if axis in axes:
                k = axes.index(axis)
                axes[k : k + 1] = names
                self._place_all(lambda place: place.split(axis, names, inner))

    def rename(self, names: Mapping[int, int]) -> None:
        """Give axes other names."""
        self.space = [names.get(axis, axis) for axis in self.space]
        self.reduce = [names.get(axis, axis) for axis in self.reduce]
        self._place_all(lambda place: place.renamed(names))

    # ---- nodes

    def rebuild(self, choose: Callable[[Node], int | None]) -> None:
        """Have other nodes stand where `choose` adds them, and gives their numbers."""
        old, self.nodes, self._known = self.nodes, [], {}
        numbers: list[int] = []
        for node in old:
            moved = node.moved(numbers)
            number = choose(moved)
            numbers.append(self.add(moved) if number is None else number)
        self.folds = [(function, dtype, numbers[node]) for function, dtype, node in self.folds]
        self.stores = [Store(s.buffer, s.place.moved(numbers), numbers[s.node]) for s in self.stores]

    def inline(self, number: int, other: Part, node: int, names: dict[int, int]) -> int:
        """The node of part number `number`, whose axes but those of the row have these names here."""
        numbers: dict[int, int] = {}
        for k in other.used([node]):
            moved = other.nodes[k].moved(numbers)
            numbers[k] = self.add(moved if moved.place is None else moved.at(moved.place.renamed(names)))
        self.copies[number] = numbers[node], names
        return numbers[node]

    def take_over(self, number: int, other: Part) -> None:
        """Store what an earlier part would, if the fold computes exactly these elements."""
        if number not in self.copies or any(store.place.nodes for store in other.stores):
            return
        node, names = self.copies[number]
        if not self._varies(node):
            return
        if sorted(names.values()) == sorted(self.reduce) and {*other.space} == {*self.space, *names}:
            self.stores = [*(Store(s.buffer, s.place.renamed(names), node) for s in other.stores), *self.stores]
            other.stores = []

    def _varies(self, number: int) -> bool:
        """Whether a node depends on an axis that is folded."""
        places = [self.nodes[k].place for k in self.used([number])]
        return any(place is not None and not place.axes.keys().isdisjoint(self.reduce) for place in places)

    def compact(self, roots: Iterable[int], known: Mapping[tuple[int, int], tuple[int, int]]) -> dict[int, int]:
        """Drop the nodes that neither these, nor stores and folds need: the new numbers of those that stay. `known`
        are the new numbers of what earlier parts made."""
        used = self.used([*roots, *(store.node for store in self.stores), *(node for _, _, node in self.folds)])
        numbers: dict[int, int] = {}
        nodes = []
        for k in used:
            node = self.nodes[k].moved(numbers)
            nodes.append(replace(node, detail=known[node.detail]) if node.function == "row" else node)
            numbers[k] = len(nodes) - 1
        self.nodes = nodes
        self.folds = [(function, dtype, numbers[node]) for function, dtype, node in self.folds]
        self.stores = [Store(s.buffer, s.place.moved(numbers), numbers[s.node]) for s in self.stores]
        return numbers

    def kernel(self, buffers: Sequence[int], table: SizeTable, axes: Axes) -> list[Any]:
        """The kernel as Rows have it."""
        places = {axis: k for k, axis in enumerate((*self.space, *self.reduce))}

        def index(place: Place) -> list[Any]:
            strides = [(places[axis], place.axes[axis]) for axis in sorted(place.axes, key=places.__getitem__)]
            return [
                table.size(place.offset),
                [[axis, table.size(stride)] for axis, stride in strides],
                [[node, table.size(stride)] for node, stride in place.nodes.items()],
            ]

        def detail(node: Node) -> Any:
            match node.function:
                case "index":
                    return index(node.detail)
                case "load":
                    return [buffers.index(node.detail[0]), index(node.detail[1])]
                case "row":
                    return list(node.detail)
            return node.detail

        return [
            [table.size(axes.extents[axis]) for axis in self.space],
            [table.size(axes.extents[axis]) for axis in self.reduce],
            [list(fold) for fold in self.folds],
            [[node.function, node.dtype, list(node.operands), detail(node)] for node in self.nodes],
            [[buffers.index(store.buffer), index(store.place), store.node] for store in self.stores],
        ]
