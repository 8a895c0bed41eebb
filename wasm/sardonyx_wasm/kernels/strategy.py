"""Which axis becomes lanes, in which order the loops run, and how much is done at a time.

A kernel without folds has its lanes along the axis where most of what it touches is contiguous. A reduction has them
along a reduced axis (`rows`: lanes are combined at the end) or along one that stays (`columns`: each lane is a result).
Where a load is contiguous along another axis than the store, blocks of 4 by 4 are transposed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sardonyx.code.cost import cost
from sardonyx.common.record import record

from ..vectors.lanewise import WRITTEN
from .border import interior
from .graph import Access, Graph
from .shuffled import STRIDES

LANES = 4
_SHUFFLED, _GATHER, _SCATTER, _INDIRECT = 2, 5, 6, 7
"""Costs of 4 elements that are not contiguous, in loads of 4 that are; `_INDIRECT` where the index is computed."""


@record(frozen=True)
class Strategy:
    """`order` lists the axes of the loops from the outermost; `lanes` is None for scalar code.

    `across` is the axis along which transposed loads are contiguous, if there are such; `most` vectors (along `lanes`)
    are done at a time, `together` if steps of one are to come between those of another.
    """

    order: tuple[int, ...]
    lanes: int | None = None
    across: int | None = None
    most: int = 1
    together: bool = False


def choose(graph: Graph, target: str) -> Strategy:
    """The strategy for a kernel; V8 keeps the order of what it is given, wasmtime has one of its own."""
    return (_fold if graph.kernel.folds else _map)(graph, target == "v8")


def _map(graph: Graph, ordered: bool) -> Strategy:
    axes = range(graph.rank)
    long = [axis for axis in axes if _is_long(graph, axis) and _has_inside(graph, axis)]
    best = min(((_cost(_inside(graph, axis), axis), -axis) for axis in long), default=None)
    if best is None:
        return Strategy(tuple(axes))
    lanes = -best[1]
    across = _across(graph, lanes)
    order = tuple(axis for axis in axes if axis not in (lanes, across))
    order += (lanes,) if across is None else (across, lanes)
    if across is not None:
        return Strategy(order, lanes, across)
    nodes = range(len(graph.nodes))
    if ordered and _has_written(graph, lanes, nodes):
        return Strategy(order, lanes, None, _most(graph, lanes, nodes, 25, 50), True)
    most = _most(graph, lanes, nodes, 6, 16)
    return Strategy(order, lanes, None, max(most, _packed(graph, lanes, _most(graph, lanes, nodes, 25, 50))))


def _packed(graph: Graph, lanes: int, most: int) -> int:
    """How many vectors of the shortest elements that are stored fill a v128, if so many are not too many."""
    widths = [
        graph.places[number][0].kind.bits for number in graph.stores if graph.places[number][0].axes.get(lanes) == 1
    ]
    count = 32 // min(widths, default=32)
    return count if 1 < count <= most else 1


def _inside(graph: Graph, axis: int) -> Graph:
    """The kernel inside of its border along an axis, where most of its elements are."""
    inside = interior(graph.kernel, axis)
    return Graph(inside.kernel) if inside else graph


def _has_inside(graph: Graph, axis: int) -> bool:
    """Whether vectors may fit inside of the kernel's border along an axis."""
    inside = interior(graph.kernel, axis)
    if inside is None:
        return True
    first, last = ([each.place for each in ends if each.place is not None] for ends in (inside.first, inside.last))
    extent = graph.extents[axis]
    stops = [*last, *([extent] if isinstance(extent, int) else [])]
    return not stops or min(stops) - max(first, default=0) >= LANES


def _fold(graph: Graph, ordered: bool) -> Strategy:
    """Rows or columns, by what an element costs to read."""
    space, total = tuple(range(graph.rank)), len(graph.extents)
    inner = graph.ancestors([node for _, _, node in graph.kernel.folds])
    arg = any(function in ("argmax", "argmin") for function, _, _ in graph.kernel.folds)
    rows = [axis for axis in range(graph.rank, total) if _is_long(graph, axis) and not (arg and axis != total - 1)]
    columns = [axis for axis in space if _is_long(graph, axis)]
    scored = [(_cost(graph, axis, inner), axis in space, -axis) for axis in rows + columns]
    reduce = tuple(range(graph.rank, total))
    if not scored:
        return Strategy(space + reduce)
    _, column, negative = min(scored)
    lanes = -negative
    inside = [node for node in inner if graph.phase[node] == 1]
    if column:
        order = (*(axis for axis in space if axis != lanes), lanes, *reduce)
        return Strategy(order, lanes, None, _most(graph, lanes, inside, 10, 24))
    order = (*space, *(axis for axis in reduce if axis != lanes), lanes)
    most = 1 if arg or _most(graph, lanes, inside, 25, 25) < LANES else LANES
    return Strategy(order, lanes, None, most, ordered and most > 1 and _has_written(graph, lanes, inside))


def _has_written(graph: Graph, lanes: int, nodes: Iterable[int]) -> bool:
    """Whether some of the nodes are long functions of vectors."""
    return any(graph.nodes[node][0] in WRITTEN and graph.depends(node, lanes) for node in nodes)


def _is_long(graph: Graph, axis: int) -> bool:
    """Whether an axis may have lanes: not if it is short, or all elements along it have one place, there being none."""
    extent = graph.extents[axis]
    if axis < graph.rank and any(not graph.places[number][0].axes.get(axis, 0) for number in graph.stores):
        return False
    return isinstance(extent, str) or extent >= LANES


def _cost(graph: Graph, axis: int, inner: set[int] | None = None) -> float:
    """What 4 elements along an axis cost; of a reduction only what happens inside of it counts fully."""
    cost = 0.0
    for number, (access, _) in graph.places.items():
        step = _step(graph, access, axis)
        if number in graph.stores:
            cost += {0: 0, 1: 1}.get(step, _SCATTER) * (1 if inner is None else 0.1)
        elif inner is None or number in inner:
            strided = _SHUFFLED if is_shuffled(access, step) else _GATHER
            cost += {0: 0.5 if inner else 0, 1: 1, None: _INDIRECT}.get(step, strided)
    return cost


def _step(graph: Graph, access: Access, axis: int) -> Any:
    """The stride of an access along an axis, None where an index on the way is computed from it."""
    if any(graph.depends(node, axis) for node, _ in access.extra):
        return None
    return access.axes.get(axis, 0)


def _across(graph: Graph, lanes: int) -> int | None:
    """The axis along which loads are contiguous that are not so along the lanes."""
    others = [axis for axis in range(graph.rank) if axis != lanes and _is_long(graph, axis)]
    gain = {axis: sum(is_transposed(graph, number, lanes, axis) for number in graph.places) for axis in others}
    best = max(others, key=lambda axis: gain[axis], default=None)
    return best if best is not None and gain[best] else None


def is_shuffled(access: Access, stride: Any) -> bool:
    """Whether `load_strided` loads elements so far apart."""
    return access.kind.bits == 32 and stride in STRIDES


def is_transposed(graph: Graph, number: int, lanes: int, across: int) -> bool:
    """Whether a load is contiguous along `across`, strided along the lanes, and of no computed index along either."""
    access, _ = graph.places[number]
    if number in graph.stores or _step(graph, access, across) != 1:
        return False
    return _step(graph, access, lanes) not in (0, 1, None)


def _most(graph: Graph, lanes: int, nodes: Any, small: int, medium: int) -> int:
    """How many vectors to do at a time: few where much happens to each, or where they are not contiguous."""
    busy = [node for node in nodes if graph.depends(node, lanes)]
    weight = sum(_weight(graph, node) for node in busy)
    strided = any(
        _step(graph, graph.places[node][0], lanes) not in (0, 1, *STRIDES)
        for node in busy
        if graph.nodes[node][0] == "load"
    )
    most = 1 if strided or weight > medium else 2 if weight > small else 4
    extent = graph.extents[lanes]
    while isinstance(extent, int) and most * LANES > extent:
        most //= 2
    return max(1, most)


def _weight(graph: Graph, node: int) -> int:
    """What a node adds to the registers and the latency of a vector; a load is one register."""
    function = graph.nodes[node][0]
    return (1 if function == "load" else cost(function)) * (2 if graph.kinds[node].bits == 64 else 1)
