"""Kernels without folds: loops around a body that loads, computes and stores vectors."""

from __future__ import annotations

from .loops import Loops
from .scope import expr, minus
from .strategy import LANES

_TILE = 4 * LANES
"""Elements along the lanes that a strip of transposed blocks has: a cache line of 32-bit elements."""
_ROWS = 128
"""Elements along the other axis: where each is in a page of its own, their addresses should stay known."""


def write_elementwise(body: Loops) -> None:
    """Write the loops of a kernel without folds."""
    body.emit(body.at_level(0))
    order, lanes, across = body.strategy.order, body.lanes, body.strategy.across
    if lanes is None:
        body.nested(order, 0, body.store)
    elif across is None:
        body.nested(order[:-1], 0, lambda: _rows(body, lanes))
    else:
        body.nested(order[:-2], 0, lambda: _blocks(body, across, lanes))


def _rows(body: Loops, lanes: int) -> None:
    def vectors(count: int) -> None:
        _compute(body, range(count))

    body.by_vectors(lanes, body.bounds(lanes), vectors, lambda: _compute(body), body.strategy.most)


def _compute(body: Loops, copies: range = range(1)) -> None:
    """The innermost nodes and the stores, one copy after the other or together."""
    nodes = body.at_level(body.innermost)
    rest = [node for node in nodes if not body.is_transposed(node)]
    for node in nodes:
        if body.is_transposed(node):
            body.load_transposed(node)
    waits = any(body.is_packed(number, len(copies)) for number in body.graph.stores)
    for some in [copies] if body.strategy.together else [(copy,) for copy in copies]:
        body.emit(rest, some)
        if not waits:
            body.store(some)
    if waits:
        body.store(copies)


def _blocks(body: Loops, across: int, lanes: int) -> None:
    """Strips of blocks, each strip one cache line wide where it is written."""
    f = body.f
    rows, columns = body.bounds(across), body.bounds(lanes)
    long = [expr(minus(stop, start)) >= LANES for start, stop in (rows, columns)]
    body.settle()
    with f.if_(long[0] & long[1]):
        _strips(body, across, lanes)
    with f.else_(), body.scalars():
        body.nested((across, lanes), body.innermost - 2, body.store)


def _strips(body: Loops, across: int, lanes: int) -> None:
    level = body.innermost - 1
    (top, bottom), (start, stop) = body.bounds(across), body.bounds(lanes)
    with (
        body.tiles(across, top, bottom, _ROWS) as (row, above),
        body.tiles(lanes, start, stop, _TILE) as (at, end),
        body.walk(across, row, 0),
        body.overlapping(across, above),
    ):
        body.emit(body.at_level(level), range(LANES))
        with body.walk(lanes, at, 0), body.overlapping(lanes, end):
            _compute(body, range(LANES))
