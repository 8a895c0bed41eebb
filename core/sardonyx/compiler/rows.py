"""Consecutive launches over the same rows become one: softmax and normalisations read each row while it is near.

A launch joins those before it if all that it reads of their results lies in its own row. What they made for the row is
a variable then; an element of the row is computed again, or loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import prod

from sardonyx.code.kernel import Kernel, Rows
from sardonyx.code.parameters import SizeTable
from sardonyx.common.record import record
from sardonyx.compiler.finish import KernelCall
from sardonyx.compiler.parts import Axes, Node, Part
from sardonyx.plans import plan as plans
from sardonyx.plans.setup import touched
from sardonyx.sizes.polynomial import ONE, Poly
from sardonyx.sizes.symbolic import size

WIDE = 64
"""Elements of a row from which on several threads share it, where threads are many."""
SHORT = 8192
"""Rows with more elements must be many: else their elements keep more threads busy as launches of their own."""
ROWS_PER_SHORT = 64
CHEAP = 20
"""What an element may cost to be computed again instead of loaded (`Part.cost`)."""
MOST_NODES = 256


@record
class Joined:
    """Rows instead of `count` launches from step `first` on; nothing uses the buffers `dropped` any more."""

    first: int
    count: int
    code: Rows
    buffers: list[int]
    params: list[Poly]
    dropped: list[int]


def join(
    steps: Sequence[plans.Step],
    calls: Mapping[int, KernelCall],
    outputs: Collection[int],
    most_buffers: int,
    lanes: int,
) -> list[Joined]:
    """What becomes Rows. `calls` tells of the launches that may, by the step's `id`; `outputs` are buffers that are
    needed after the steps."""
    uses: dict[int, set[int]] = {}
    for number, step in enumerate(steps):
        for buffer in touched(step):
            uses.setdefault(buffer, set()).add(number)

    def is_needed(buffer: int, first: int, count: int) -> bool:
        return buffer in outputs or not uses[buffer] <= {*range(first, first + count)}

    result: list[Joined] = []
    group: _Group | None = None
    for number, step in enumerate(steps):
        call = calls.get(id(step))
        longer = None
        if isinstance(step, plans.Launch) and call is not None:
            longer = group.joined(call, step.buffers, most_buffers) if group is not None else None
            if longer is not None:
                group = longer
                continue
            longer = _Group.of(number, call, step.buffers, is_needed)
        if group is not None and group.is_worth:
            result.append(group.finished(lanes))
        group = longer
    if group is not None and group.is_worth:
        result.append(group.finished(lanes))
    return result


class _Group:
    """Kernels that are `count` launches from step `first` on. `rows` are the axes that all have, None while that is
    open; `made` tells which part stores a buffer."""

    def __init__(self, first: int, is_needed: Callable[[int, int, int], bool]) -> None:
        self.first = first
        self.is_needed = is_needed
        self.axes = Axes()
        self.rows: list[int] | None = None
        self.parts: list[Part] = []
        self.made: dict[int, int] = {}
        self.words: list[str] = []
        self.dtypes: dict[int, str] = {}

    @classmethod
    def of(
        cls, first: int, call: KernelCall, buffers: Sequence[int], is_needed: Callable[[int, int, int], bool]
    ) -> _Group:
        group = cls(first, is_needed)
        part = Part.of(call.kernel, call.params, buffers, group.axes)
        if part.folds:
            group.rows = list(part.space)
        group._add(part, call.kernel, buffers)
        return group

    def _copy(self) -> _Group:
        copy = _Group(self.first, self.is_needed)
        copy.axes = Axes(self.axes.extents)
        copy.rows = None if self.rows is None else list(self.rows)
        copy.parts = [part.copy() for part in self.parts]
        copy.made, copy.words, copy.dtypes = dict(self.made), list(self.words), dict(self.dtypes)
        return copy

    def _add(self, part: Part, kernel: Kernel, buffers: Sequence[int]) -> None:
        self.dtypes |= dict(zip(buffers, (*kernel.reads, *kernel.writes), strict=True))
        self.made |= {buffer: len(self.parts) for buffer in buffers[len(kernel.reads) :]}
        self.words += [word for word in kernel.name.split("_") if word not in self.words]
        self.parts.append(part)

    # ---- whether to

    @property
    def is_worth(self) -> bool:
        """Whether this is better as Rows: several launches, or a fold whose elements threads can share."""
        if self.rows is None:
            return False
        (*_, last) = self.parts
        return len(self.parts) > 1 or (self._is_wide and not any(map(last.walks, last.space[-1:])))

    @property
    def _is_wide(self) -> bool:
        """Whether all folds go along elements that lie side by side, and are many."""
        lines = [(part, part.reduce[-1]) for part in self.parts if part.reduce]
        return bool(lines) and all(part.walks(axis) and self.axes.hint(axis) >= WIDE for part, axis in lines)

    def _is_open(self, axes: Sequence[int]) -> bool:
        """Whether a plan is for any extents of these axes."""
        return not all(isinstance(size(self.axes.extents[axis]), int) for axis in axes)

    def _pays(self, most_buffers: int) -> bool:
        assert self.rows is not None
        if sum(len(part.nodes) for part in self.parts) > MOST_NODES or len(self._buffers()) > most_buffers:
            return False
        if not self.rows and any(part.space and self._is_open([*part.space, *part.reduce]) for part in self.parts):
            return False  # its elements, however many they turn out to be, are for many threads to share
        count, *lengths = (
            prod(map(self.axes.hint, axes))
            for axes in (self.rows, *([*part.space[len(self.rows) :], *part.reduce] for part in self.parts))
        )
        return max(lengths) <= SHORT or count >= ROWS_PER_SHORT * (max(lengths) // SHORT)

    def _loaded(self) -> set[int]:
        return set().union(*(part.loaded() for part in self.parts))

    def _stored(self) -> list[int]:
        loaded = self._loaded()
        return [buffer for buffer in self.made if buffer in loaded or self._is_kept(buffer)]

    def _is_kept(self, buffer: int) -> bool:
        return self.is_needed(buffer, self.first, len(self.parts))

    def _buffers(self) -> set[int]:
        return {*self._loaded(), *self._stored()}

    # ---- joining

    def joined(self, call: KernelCall, buffers: Sequence[int], most_buffers: int) -> _Group | None:
        """The group with another launch, or None where it should not be part of it."""
        kernel = call.kernel
        reads, writes = buffers[: len(kernel.reads)], buffers[len(kernel.reads) :]
        if not any(buffer in self.made for buffer in reads) or any(buffer in self.dtypes for buffer in writes):
            return None
        if self.rows is None and not kernel.folds:
            return None
        group = self._copy()
        part = Part.of(kernel, call.params, buffers, group.axes)
        if not group._take(part):
            return None
        group._add(part, kernel, buffers)
        return group if group._pays(most_buffers) else None

    def _take(self, part: Part) -> bool:
        """Have a part go by the rows, and use what earlier ones made; False where it may reach into other rows."""
        numbers = [number for number, node in enumerate(part.nodes) if node.function == "load"]
        if not all(self._align(part, number) for number in numbers if part.nodes[number].detail[0] in self.made):
            return False
        assert self.rows is not None
        if not {*self.rows} <= {*part.space} or (part.folds and len(part.space) > len(self.rows)):
            return False
        part.space = [*self.rows, *(axis for axis in part.space if axis not in self.rows)]
        part.rebuild(lambda node: self._known(part, node))
        return True

    def _align(self, part: Part, load: int) -> bool:
        """Have a load go by the same axes as the store that it reads, those of the row by the same names."""
        buffer = part.nodes[load].detail[0]
        maker = self.parts[self.made[buffer]]
        pairs = self._pairs(maker, part, load)
        if pairs is None:
            return False
        if self.rows is None:
            if not {*part.space} <= pairs.keys():
                return False
            self.rows = list(part.space)
            maker.rename({pairs[axis]: axis for axis in self.rows})
            maker.space = [*self.rows, *(axis for axis in maker.space if axis not in self.rows)]
            return True
        own = {axis: other for axis, other in pairs.items() if other in self.rows}
        if not {*self.rows} <= {*own.values()} or not {*own} <= {*part.space}:
            return False
        if any(axis != other and (axis in self.rows or other in part.space) for axis, other in own.items()):
            return False
        part.rename(own)
        return True

    def _pairs(self, maker: Part, part: Part, load: int) -> dict[int, int] | None:
        """For each axis of a load the one of the store, once those are split that the other has in two."""
        buffer = part.nodes[load].detail[0]
        while True:
            target, source = part.nodes[load].detail[1], maker.store(buffer).place
            if target.nodes or source.nodes or target.offset != source.offset:
                return None
            strides = {stride: axis for axis, stride in source.axes.items()}
            pairs = {axis: strides[stride] for axis, stride in target.axes.items() if stride in strides}
            uneven = [pair for pair in pairs.items() if len({self.axes.extents[axis] for axis in pair}) > 1]
            if not uneven:
                fits = len(pairs) == len(target.axes) == len(source.axes) == len({*pairs.values()})
                return pairs if fits else None
            if not self._split(part, *uneven[0]):
                return None

    def _split(self, part: Part, a: int, b: int) -> bool:
        """Split the longer one of two axes, so that its inner half is as long as the other one."""
        for axis, inner in ((a, self.axes.extents[b]), (b, self.axes.extents[a])):
            extent = self.axes.extents[axis]
            outer = extent.floordiv(inner)
            if outer * inner == extent and ONE not in (outer, inner):
                names = self.axes.add(outer), self.axes.add(inner)
                for other in (*self.parts, part):
                    other.split(axis, names, inner)
                if self.rows is not None and axis in self.rows:
                    k = self.rows.index(axis)
                    self.rows[k : k + 1] = names
                return True
        return False

    def _known(self, part: Part, node: Node) -> int | None:
        """The node of a part that stands for a load of what an earlier one made, if there is one."""
        if node.function != "load" or node.detail[0] not in self.made:
            return None
        buffer, place = node.detail
        number = self.made[buffer]
        maker = self.parts[number]
        store = maker.store(buffer)
        assert self.rows is not None
        if len(maker.space) == len(self.rows):
            return part.add(Node("row", node.dtype, (), (number, store.node)))
        if maker.cost(store.node) > CHEAP:
            return None
        axes = {stride: axis for axis, stride in place.axes.items()}
        names = {axis: axes[stride] for axis, stride in store.place.axes.items() if axis not in self.rows}
        return part.inline(number, maker, store.node, names)

    # ---- the result

    def finished(self, lanes: int) -> Joined:
        """The Rows, which store what others need and what a later part loads."""
        assert self.rows is not None
        stored, count, wide = self._stored(), len(self.parts), self._is_wide
        for part in self.parts:
            part.stores = [store for store in part.stores if store.buffer in stored]
        self._move_stores()
        parts = self._needed()
        reads = sorted(set().union(*(part.loaded() for part in parts)).difference(stored))
        buffers = [*reads, *stored]
        table = SizeTable()
        rows = tuple(table.size(self.axes.extents[axis]) for axis in self.rows)
        kernels = tuple(part.kernel(buffers, table, self.axes) for part in parts)
        dtypes = [self.dtypes[buffer] for buffer in buffers]
        code = Rows(
            "_".join(self.words[:6]),
            tuple(dtypes[: len(reads)]),
            tuple(dtypes[len(reads) :]),
            len(table.params),
            rows,
            kernels,
            wide,
            table.multiples(lanes),
        )
        dropped = [buffer for buffer in self.made if buffer not in stored]
        return Joined(self.first, count, code, buffers, table.params, dropped)

    def _move_stores(self) -> None:
        """Have folds store the elements that they compute anyway, instead of parts before them."""
        loaded = self._loaded()
        for number, maker in enumerate(self.parts):
            if maker.stores and not maker.folds and loaded.isdisjoint(store.buffer for store in maker.stores):
                for part in self.parts[number + 1 :]:
                    if part.folds and maker.stores:
                        part.take_over(number, maker)

    def _needed(self) -> list[Part]:
        """The parts that store something, or make what a later one uses."""
        wanted: dict[int, set[int]] = {}
        kept: list[int] = []
        for number in reversed(range(len(self.parts))):
            part = self.parts[number]
            if part.stores or number in wanted:
                kept.insert(0, number)
                roots = [*wanted.get(number, ()), *(store.node for store in part.stores)]
                for node in part.used([*roots, *(node for _, _, node in part.folds)]):
                    if part.nodes[node].function == "row":
                        maker, made = part.nodes[node].detail
                        wanted.setdefault(maker, set()).add(made)
        known: dict[tuple[int, int], tuple[int, int]] = {}
        for place, number in enumerate(kept):
            numbers = self.parts[number].compact(wanted.get(number, ()), known)
            known |= {(number, old): (place, new) for old, new in numbers.items()}
        return [self.parts[number] for number in kept]
