"""What the nodes of a kernel depend on, and the places in memory that it touches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from sardonyx.code.kernel import Kernel
from sardonyx.common.record import record

from ..scalars.values import Kind, kind

Size: TypeAlias = int | str
"""An integer, or "p3" for the fourth parameter."""

OUTSIDE = -1
"""Stands among the users of a node for the stores and folds."""


@record(eq=False)
class Access:
    """Elements of a buffer that one running pointer reaches: their indices differ by literals alone.

    `low` is the smallest literal, at which the pointer is: that element exists, so offsets from it are not negative.
    """

    buffer: int
    kind: Kind
    start: Size
    axes: dict[int, Size]
    extra: tuple[tuple[int, Size], ...]
    low: int = 0

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return self.kind.bits // 8


class Graph:
    """A kernel with, for every node, `axes` (a bit for each axis it depends on), `phase` and `users`.

    `phase` is 0 for what is known before the reduction, 1 inside of it, 2 for what depends on a fold. `places` gives
    the Access of each load, and of each store, which is numbered after the nodes, with the literal in its index.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.nodes = kernel.nodes
        self.kinds = [kind(dtype) for _, dtype, _, _ in kernel.nodes]
        self.rank = len(kernel.space)
        self.extents: list[Size] = [*kernel.space, *kernel.reduce]
        self.phase = kernel.depths()
        self.axes = self._dependencies()
        self.users = self._users()
        self.stores = range(len(self.nodes), len(self.nodes) + len(kernel.stores))
        self.accesses: list[Access] = []
        self.places: dict[int, tuple[Access, int]] = {}
        self._collect()

    def depends(self, node: int, axis: int) -> bool:
        return bool(self.axes[node] >> axis & 1)

    def _dependencies(self) -> list[int]:
        result: list[int] = []
        space = (1 << self.rank) - 1
        for function, _, operands, detail in self.nodes:
            bits = space if function == "acc" else 0
            for operand in operands:
                bits |= result[operand]
            if index := index_of(function, detail):
                for axis, _ in index[1]:
                    bits |= 1 << axis
                for node, _ in index[2]:
                    bits |= result[node]
            result.append(bits)
        return result

    def _users(self) -> list[list[int]]:
        users: list[list[int]] = [[] for _ in self.nodes]
        for number, (function, _, operands, detail) in enumerate(self.nodes):
            for operand in operands:
                users[operand].append(number)
            if index := index_of(function, detail):
                for node, _ in index[2]:
                    users[node].append(number)
        for _, _, node in self.kernel.folds:
            users[node].append(OUTSIDE)
        for _, index, node in self.kernel.stores:
            users[node].append(OUTSIDE)
            for extra, _ in index[2]:
                users[extra].append(OUTSIDE)
        return users

    def _collect(self) -> None:
        kernel, known = self.kernel, {}
        kinds = [kind(name) for name in (*kernel.reads, *kernel.writes)]
        loads = [(number, *detail) for number, (function, _, _, detail) in enumerate(self.nodes) if function == "load"]
        stores = [(number, *store[:2]) for number, store in zip(self.stores, kernel.stores, strict=True)]
        for number, buffer, (offset, axes, extra) in [*loads, *stores]:
            start, literal = (offset, 0) if isinstance(offset, str) else (0, offset)
            key = (buffer, start, str(axes), str(extra), number in self.stores)
            if key not in known:
                terms = tuple((node, stride) for node, stride in extra)
                known[key] = Access(buffer, kinds[buffer], start, dict(map(tuple, axes)), terms, literal)
                self.accesses.append(known[key])
            access = known[key]
            access.low = min(access.low, literal)
            self.places[number] = (access, literal)

    def is_data(self, node: int) -> bool:
        """Whether a node depends on what is loaded."""
        return any(self.nodes[needed][0] == "load" for needed in self.ancestors([node]))

    def ancestors(self, roots: Sequence[int]) -> set[int]:
        """The nodes that these need, themselves included."""
        result: set[int] = set()
        stack = list(roots)
        while stack:
            node = stack.pop()
            if node not in result:
                result.add(node)
                function, _, operands, detail = self.nodes[node]
                stack += operands
                if index := index_of(function, detail):
                    stack += [extra for extra, _ in index[2]]
        return result


def index_of(function: str, detail: Any) -> Any:
    """The Index in a node's detail, None if there is none."""
    return detail[1] if function == "load" else detail if function == "index" else None
