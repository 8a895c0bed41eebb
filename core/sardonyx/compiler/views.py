"""Operands and results of Routines that lie in memory in another order: movement as an index, both ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sardonyx.code.parameters import SizeTable
from sardonyx.common.record import record
from sardonyx.compiler.finish import index_data, stride
from sardonyx.compiler.indices import Indices, flat_index
from sardonyx.compiler.lower import KernelBuilder, unflatten
from sardonyx.primitives.array import Array
from sardonyx.sizes.joining import joined
from sardonyx.sizes.polynomial import ONE, ZERO, Poly, symbol
from sardonyx.sizes.symbolic import poly, same

SHIFTS = frozenset({"reshape", "transpose", "broadcast", "slice"})
"""Movement after which every element is one of the operand's."""
_KEEPS = frozenset({"elementwise", "cast", "bitcast", "reshape", "transpose"})


@record(frozen=True)
class View:
    """An operand of a Routine: `source` lies in memory, and the operand's element at i0, i1, ... is the one at `index`
    of that, None where that is the row-major order."""

    source: Array
    index: Poly | None = None

    def data(self, table: SizeTable) -> Any:
        """What a Routine says of it."""
        return None if self.index is None else index_data(self.index, table)


def view(array: Array, linear: int, is_source: Callable[[Array], bool]) -> View:
    """An Array as a view of the first one that it can be made of. The index is linear in so many of the last axes, or
    has the elements in the same order if that is 0. Movement of a source is not followed."""
    best = View(array)
    for source in _sources(array, linear > 0, is_source):
        index = _index(array, source)
        if index == _in_order(array):
            best = View(source)
        elif linear and index is not None and _is_linear(index, array.rank, linear):
            best = View(source, index)
    return best


def _sources(array: Array, moves: bool, is_source: Callable[[Array], bool]) -> Iterator[Array]:
    while array.equation is not None and not is_source(array):
        name = array.equation.primitive.name
        if name not in SHIFTS or (not moves and name != "reshape"):
            return
        (array,) = array.equation.inputs
        yield array


def _axes(array: Array) -> Indices:
    return tuple(ZERO if poly(size) == ONE else symbol(f"i{k}") for k, size in enumerate(array.shape))


def _in_order(array: Array) -> Poly:
    return flat_index(array.shape, _axes(array))


def _index(array: Array, source: Array) -> Poly | None:
    """Where in the source the elements of an Array are; None if not all of them are there."""
    b = KernelBuilder(lambda x: x is source)
    b.ranges |= {f"i{k}": (ZERO, poly(size) - ONE) for k, size in enumerate(array.shape)}
    function, _, _, detail = b.nodes[b.element(array, _axes(array))]
    return joined(detail[1]) if function == "load" else None


def _is_linear(index: Poly, rank: int, count: int) -> bool:
    return all(stride(index, f"i{axis}") is not None for axis in range(max(0, rank - count), rank))


def store_core(b: KernelBuilder, array: Array) -> bool:
    """Compute an Array that has a buffer, element by element in the order of the Routine's result that is the builder's
    core, and say whether each goes to a place of its own that is known."""
    assert b.core is not None
    b.root = array
    index = tuple(b.axis(size) for size in b.core.shape)
    b.place = flat_index(b.core.shape, index)
    goal = carried(b, b.core, array, index)
    if goal is None:
        return False
    b.store_at(array, goal, b.element(array, goal))
    return b.in_order


def carried(b: KernelBuilder, array: Array, goal: Array, index: Indices) -> Indices | None:
    """Where the element of an Array at an index goes, of which element-wise primitives and movement make one of `goal`;
    None where that is not known."""
    for result in _path(array, goal):
        equation = result.equation
        assert equation is not None
        if equation.primitive.name == "reshape":
            index = unflatten(joined(flat_index(array.shape, index)), result.shape, b)
        elif equation.primitive.name == "transpose":
            index = tuple(index[axis] for axis in equation.params["perm"])
        else:
            more = result.rank - array.rank
            if not all(map(same, result.shape[more:], array.shape)):
                return None
            index = (ZERO,) * more + index
        array = result
    return index if array is goal else None


def _path(array: Array, goal: Array) -> list[Array]:
    """The Arrays on one of the ways from an Array to another, without the first."""
    readers: dict[Array, Array | None] = {goal: None}
    stack = [goal]
    while stack:
        top = stack.pop()
        if top is array:
            break
        if top.equation is not None and top.equation.primitive.name in _KEEPS:
            for x in top.equation.inputs:
                if x not in readers:
                    readers[x] = top
                    stack.append(x)
    else:
        return []
    path = []
    at: Array | None = readers[array]
    while at is not None:
        path.append(at)
        at = readers[at]
    return path
