"""The primitive of tree ensembles: the votes of the leaves where rows end, combined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from sardonyx.common import dtypes
from sardonyx.primitives.array import Array, Primitive, primitive
from sardonyx.primitives.binding import bind, constant
from sardonyx.primitives.control import loop
from sardonyx.primitives.elementwise import Types, Values, cast, iota, isnan, where
from sardonyx.primitives.indexing import gather
from sardonyx.primitives.movement import broadcast_to, reshape, transpose
from sardonyx.primitives.reduction import reduce
from sardonyx.primitives.rows import by_rows

Agree: TypeAlias = Callable[[Array, Array, Array], Array]

COMBINE = {"sum": np.add, "min": np.minimum, "max": np.maximum}
NEUTRAL = {"sum": 0.0, "min": np.inf, "max": -np.inf}
UNROLLED = 64
"""Steps that are written out; deeper trees take theirs in a loop."""
_ROWS, _NODES = 1 << 13, 1 << 16
"""How many rows NumPy takes at a time, and how many nodes in a step of some trees: few trees stay in the cache."""


class TreeEnsemble(Primitive):
    """x [rows, features]; roots int32 [trees]; for each node the feature that it asks for, int32 [nodes], the number
    `split` [nodes], and which nodes follow, int32 [nodes * stride]: if the feature is at most the number the second
    one, else the first one, or, where stride is 3, the third one if it is NaN. Leaves follow themselves, and all rows
    are at leaves after `depth` steps. Then votes of x's type: [nodes, targets], or [nodes], where as many trees vote
    for one target as for another, those for the first ones coming first.

    Output: [rows, targets], the `sum`, `min` or `max` of the votes of the leaves."""

    name = "tree_ensemble"

    def infer(self, x: Array, *operands: Array, depth: int, targets: int, function: str) -> Types:
        return [(x.dtype, (x.shape[0], targets))]

    def numpy(
        self, x: np.ndarray, roots: np.ndarray, *operands: np.ndarray, depth: int, targets: int, function: str
    ) -> Values:
        *tables, votes = operands
        result = np.full((len(x), targets), NEUTRAL[function], x.dtype)
        groups = 1 if votes.ndim > 1 else targets
        for start in range(0, len(x), _ROWS):
            block, line = x[start : start + _ROWS], result[start : start + _ROWS]
            for group, trees in enumerate(np.split(roots, groups)):
                scores = line if votes.ndim > 1 else line[:, group]
                some = max(1, _NODES // len(block))
                for first in range(0, len(trees), some):
                    leaf_votes = votes.take(_leaves(block, trees[first : first + some], tables, depth), axis=0)
                    COMBINE[function](scores, COMBINE[function].reduce(leaf_votes, 0), out=scores)
        return [result]

    def expand(
        self, x: Array, roots: Array, *operands: Array, depth: int, targets: int, function: str
    ) -> Sequence[Array]:
        """A walk of all trees for a block of rows, one level of nodes at a time."""
        *tables, votes = operands
        trees = roots.shape[0]

        def of_block(block: Array) -> Array:
            leaves = walk(block, roots, tables, depth)
            return combined(gather(votes, [leaves], [0]), targets, function)

        return [by_rows(x, int(trees) * (targets if votes.rank > 1 else 1), of_block)]


def _leaves(x: np.ndarray, roots: np.ndarray, tables: Sequence[np.ndarray], depth: int) -> np.ndarray:
    """The leaves [trees, rows]."""
    feature, split, following = tables
    stride = len(following) // len(feature)
    first = np.arange(len(x)) * x.shape[1]
    node = np.repeat(roots[:, None], len(x), 1)
    for _ in range(depth):
        value = x.take(feature.take(node) + first)
        answer = value <= split.take(node)
        if stride == 3:
            answer = np.where(np.isnan(value), np.int32(2), answer)
        node = following.take(node * np.int32(stride) + answer)
    return node


TREE_ENSEMBLE = primitive(TreeEnsemble)


def tree_ensemble(
    x: Array, roots: Array, tables: Sequence[Array], votes: Array, depth: int, targets: int, function: str
) -> Array:
    """The combined votes [rows, targets]; the tables are feature, split and next. `TreeEnsemble` says more."""
    return bind(TREE_ENSEMBLE, x, roots, *tables, votes, depth=depth, targets=targets, function=function)[0]


def walk(
    x: Array,
    roots: Array,
    tables: Sequence[Array],
    depth: int,
    agree: Agree = lambda value, number, node: value <= number,
) -> Array:
    """The leaves [trees, rows] to which trees lead the rows of x [rows, features]; a node answers yes where its number
    and the feature `agree`, which takes the feature, the number and the node."""
    feature, split, following = tables
    row = iota((1, x.shape[0]), 1, dtypes.int32)
    stride = following.shape[0] // feature.shape[0]

    def step(node: Array) -> Array:
        value = gather(x, [row, gather(feature, [node], [0])], [0, 1])
        answer = cast(agree(value, gather(split, [node], [0]), node), dtypes.int32)
        if stride == 3:
            answer = where(isnan(value), 2, answer)
        return gather(following, [node * stride + answer], [0])

    node, shape = reshape(roots, (roots.shape[0], 1)), (roots.shape[0], x.shape[0])
    if depth <= UNROLLED:
        for _ in range(depth):
            node = step(node)
        return broadcast_to(node, shape)
    trips = constant(np.int64(depth))
    start = broadcast_to(node, shape)
    return loop(trips, None, [start], lambda number, going, node: [going, step(node)])[0]


def combined(votes: Array, targets: int, function: str) -> Array:
    """The `sum`, `min` or `max` [rows, targets] of votes [trees, rows, targets], or [trees, rows] in groups."""
    if votes.rank > 2:
        return reduce(votes, function, [0])
    grouped = reshape(votes, (targets, votes.shape[0] // targets, votes.shape[1]))
    return transpose(reduce(grouped, function, [1]))
