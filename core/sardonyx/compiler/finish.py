"""The last step of lowering: split and merge loop axes, turn polynomials into Index data, number the parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from sardonyx.code.kernel import Kernel
from sardonyx.code.parameters import SizeTable
from sardonyx.common import dtypes
from sardonyx.common.record import record
from sardonyx.compiler.indices import Node
from sardonyx.compiler.lower import KernelBuilder
from sardonyx.primitives.array import PRIMITIVES, Equation
from sardonyx.sizes.functions import substitute
from sardonyx.sizes.polynomial import ONE, ZERO, Atom, Monomial, Operation, Poly, Ranges, symbol, total


@record
class KernelCall:
    """A launch of a kernel, with its parameters as polynomials."""

    kernel: Kernel
    params: Sequence[Poly]


def finish(b: KernelBuilder, name: str, table: SizeTable | None = None, lanes: int = 1) -> tuple[Kernel, list[Poly]]:
    """The kernel that a builder describes and its parameters, as polynomials of sizes: those of the table, which gets
    those that it lacks."""
    table = SizeTable() if table is None else table
    polys = [detail if function == "index" else detail[1] for function, _, _, detail in b.nodes if function in _INDEXED]
    polys += [place for _, place, _ in b.stores]
    parts = _Parts(b, polys)
    space, renamed = _merge(parts.axes["i"], "i", parts.polys)
    reduce, inner = _merge(parts.axes["r"], "r", parts.polys)
    renamed |= inner
    writer = _Writer(b.nodes, lambda value: substitute(parts.here(value), renamed), len(space), table)
    extents = [table.size(extent) for extent in space]
    inner_extents = [table.size(extent) for extent in reduce]
    folds = [[function, dtype, writer.node(value)] for function, dtype, value in b.folds]
    stores = [[len(b.reads) + buffer, writer.index(place), writer.node(value)] for buffer, place, value in b.stores]
    kernel = Kernel(
        name,
        tuple(array.dtype.lowered.name for array in b.reads),
        tuple(array.dtype.lowered.name for array in b.writes),
        len(table.params),
        tuple(extents),
        tuple(inner_extents),
        tuple(folds),
        tuple(writer.nodes),
        tuple(stores),
        table.multiples(lanes),
    )
    return kernel, table.params


def described(b: KernelBuilder) -> tuple[Any, ...]:
    """All that `finish` reads of a builder: those that say the same become one kernel."""
    return (
        tuple(b.known),
        tuple(b.stores),
        tuple(b.folds),
        tuple(b.space),
        tuple(b.reduce),
        tuple(b.ranges.items()),
        tuple(b.ranges.least.items()),
        tuple([array.dtype.lowered for array in (*b.reads, *b.writes)]),
    )


def kernel_name(b: KernelBuilder, equation: Equation) -> str:
    """What a kernel does, in a few words: its fold, and the functions that are not arithmetic of indices."""
    words = [b.core.equation.primitive.name] if b.core is not None and b.core.equation is not None else []
    for function, _, _, _ in b.nodes:
        if function in PRIMITIVES or function in ("const", "index", "load", "acc", "cast"):
            continue
        if function not in words:
            words.append(function)
    return "_".join(words[:5]) or equation.primitive.name


_INDEXED = ("index", "load")


def index_data(value: Poly, table: SizeTable) -> list[Any]:
    """A polynomial over axes i0, i1, ... as `[nodes, Index]`: those nodes of a Kernel that the Index needs."""
    writer = _Writer([], lambda same: same, 0, table)
    index = writer.index(value)
    return [writer.nodes, index]


class _Parts:
    """The axes of a kernel, those split of which indices want quotients and remainders of one divisor.

    `i` with an extent of `n * k` becomes two axes, so that `i // k` and `i % k` are each one of them.
    """

    def __init__(self, b: KernelBuilder, polys: list[Poly]) -> None:
        self.axes = {"i": list(b.space), "r": list(b.reduce)}
        self.polys = polys
        self.ranges = Ranges(b.ranges, b.ranges.least)
        self.turns: list[tuple[dict[str, Poly], Ranges, dict[Operation, Poly]]] = []
        while self._split_one():
            pass

    def here(self, value: Poly) -> Poly:
        """A polynomial over the axes as they were, over those that there are now."""
        for renamed, ranges, done in self.turns:
            value = substitute(value, renamed, ranges, done)
        return value

    def _split_one(self) -> bool:
        divisors = self._divisors()
        return any(
            self._split(letter, k, divisors[name])
            for letter, axes in self.axes.items()
            for k in range(len(axes))
            if (name := f"{letter}{k}") in divisors
        )

    def _split(self, letter: str, k: int, divisors: Iterable[Poly]) -> bool:
        name, extent = f"{letter}{k}", self.axes[letter][k]
        for divisor in divisors:
            count = extent.floordiv(divisor)
            if count * divisor != extent or ONE in (count, divisor):
                continue
            renamed = {f"{letter}{n}": symbol(f"{letter}{n + 1}") for n in range(k + 1, len(self.axes[letter]))}
            renamed[name] = symbol(name) * divisor + symbol(f"{letter}{k + 1}")
            axes = [*self.axes[letter][:k], count, divisor, *self.axes[letter][k + 1 :]]
            kept = {atom: range_ for atom, range_ in self.ranges.items() if not str(atom).startswith(letter)}
            here = {f"{letter}{n}": (ZERO, size - ONE) for n, size in enumerate(axes)}
            ranges = Ranges(kept | here, self.ranges.least)
            done: dict[Operation, Poly] = {}
            self.turns.append((renamed, ranges, done))
            self.polys = [substitute(value, renamed, ranges, done) for value in self.polys]
            self.axes[letter], self.ranges = axes, ranges
            return True
        return False

    def _divisors(self) -> dict[str, dict[Poly, None]]:
        """What quotients and remainders of single axes are by."""
        found: dict[str, dict[Poly, None]] = {}
        stack = [atom for value in self.polys for atom in _calls(value)]
        while stack:
            atom = stack.pop()
            match atom.a.terms:
                case (((str() as axis,), 1),) if atom.name in ("floordiv", "mod"):
                    if not any(map(_is_loop, atom.b.symbols())):
                        found.setdefault(axis, {})[atom.b] = None
            stack += (inner for value in (atom.a, atom.b) for inner in _calls(value))
        return found


def _calls(value: Poly) -> list[Operation]:
    return [atom for monomial, _ in value.terms for atom in monomial if isinstance(atom, Operation)]


def _merge(axes: list[Poly], letter: str, polys: list[Poly]) -> tuple[list[Poly], dict[str, Poly]]:
    """Join neighbouring axes that all indices walk as one: the new extents, and what each old axis is now.

    A merged pair `a, b` becomes one axis: every index has `a` only as `size_b * stride * a + stride * b`, so putting 0
    for `a` and the merged axis for `b` is exact.
    """
    extents: list[Poly] = []
    renamed: dict[str, Poly] = {}
    names: list[str] = []
    for k, extent in enumerate(axes):
        name = f"{letter}{k}"
        if names and all(_walks_as_one(poly, names[-1], name, extent) for poly in polys):
            extents[-1] = extents[-1] * extent
            renamed[names[-1]] = ZERO
            names[-1] = name
        else:
            extents.append(extent)
            names.append(name)
    for k, name in enumerate(names):
        renamed[name] = symbol(f"{letter}{k}")
    return extents, renamed


def _walks_as_one(index: Poly, outer: str, inner: str, size: Poly) -> bool:
    strides = [stride(index, name) for name in (outer, inner)]
    return strides[0] is not None and strides[1] is not None and strides[0] == strides[1] * size


def stride(index: Poly, name: str) -> Poly | None:
    """The factor of an axis in an index, or None where the index is not linear in it."""
    factors: dict[Monomial, int] = {}
    for monomial, factor in index.terms:
        if name in monomial:
            rest = list(monomial)
            rest.remove(name)
            if any(_is_loop(atom) for atom in rest):
                return None
            factors[tuple(rest)] = factor
        elif any(not isinstance(atom, str) and name in atom.symbols for atom in monomial):
            return None
    return total(Poly((item,)) for item in factors.items())


@lru_cache(1 << 12)
def _is_loop(atom: Atom) -> bool:
    """Whether an atom changes inside a kernel: a loop axis, a data-dependent integer, or an expression of one."""
    if isinstance(atom, str):
        return atom[0] in "ire" and atom[1:].isdigit()
    return any(map(_is_loop, atom.symbols))


class _Writer:
    """Copies nodes in the order in which they are needed, so that unused ones vanish.

    `here` gives a polynomial over the axes as they were at first over those of the kernel.
    """

    def __init__(self, given: Sequence[Node], here: Callable[[Poly], Poly], inner: int, table: SizeTable) -> None:
        self.given = given
        self.here = here
        self.inner = inner
        self.table = table
        self.nodes: list[list[Any]] = []
        self._done: dict[int, int] = {}
        self._interned: dict[Any, int] = {}

    def node(self, number: int) -> int:
        stack = [number]
        while stack:
            top = stack[-1]
            if top in self._done:
                stack.pop()
                continue
            function, dtype, operands, detail = self.given[top]
            needed = [*operands, *self._data_nodes(function, detail)]
            if waiting := [operand for operand in reversed(needed) if operand not in self._done]:
                stack += waiting
                continue
            if function == "index":
                self._done[top] = self._value(self.index(detail))
                continue
            if function == "load":
                detail = [detail[0], self.index(detail[1])]
            self._done[top] = self._add(function, dtype, [self._done[operand] for operand in operands], detail)
        return self._done[number]

    def _data_nodes(self, function: str, detail: Any) -> list[int]:
        if function not in _INDEXED:
            return []
        names = (detail if function == "index" else detail[1]).symbols()
        return sorted(int(name[1:]) for name in names if name[0] == "e" and name[1:].isdigit())

    def _add(self, function: str, dtype: str, operands: list[int], detail: Any) -> int:
        key = repr((function, dtype, operands, detail))
        if key not in self._interned:
            self._interned[key] = len(self.nodes)
            self.nodes.append([function, dtype, operands, detail])
        return self._interned[key]

    def _value(self, index: list[Any]) -> int:
        """The node with the value of an Index."""
        match index:
            case [0, [], [[int(node), 1]]]:
                return node
        return self._add("index", dtypes.int32.name, [], index)

    def index(self, value: Poly) -> list[Any]:
        """The Index of a polynomial over the axes as they were at first."""
        return self._index(self.here(value))

    def _index(self, value: Poly) -> list[Any]:
        offset = ZERO
        axes: dict[int, Poly] = {}
        extra: dict[int, Poly] = {}
        for monomial, factor in value.terms:
            loops = [atom for atom in monomial if _is_loop(atom)]
            stride = Poly(((tuple(atom for atom in monomial if not _is_loop(atom)), factor),))
            if not loops:
                offset = offset + stride
            elif len(loops) == 1 and isinstance(loops[0], str) and loops[0][0] in "ir":
                axis = int(loops[0][1:]) + (self.inner if loops[0][0] == "r" else 0)
                axes[axis] = axes.get(axis, ZERO) + stride
            else:
                node = self._product(loops)
                extra[node] = extra.get(node, ZERO) + stride
        size = self.table.size
        return [
            size(offset),
            [[axis, size(stride)] for axis, stride in sorted(axes.items())],
            [[node, size(stride)] for node, stride in extra.items()],
        ]

    def _product(self, atoms: list[Atom]) -> int:
        result: int | None = None
        for atom in atoms:
            node = self._atom(atom)
            result = node if result is None else self._add("mul", dtypes.int32.name, [result, node], None)
        assert result is not None
        return result

    def _atom(self, atom: Atom) -> int:
        if isinstance(atom, str):
            if atom[0] == "e":
                return self.node(int(atom[1:]))
            return self._value(self._index(symbol(atom)))
        operands = [self._value(self._index(atom.a)), self._value(self._index(atom.b))]
        return self._add(_INTEGER[atom.name], dtypes.int32.name, operands, None)


_INTEGER = {"floordiv": "div", "mod": "rem", "min": "min", "max": "max"}
"""Exact because `KernelBuilder` keeps dividends from being negative."""
