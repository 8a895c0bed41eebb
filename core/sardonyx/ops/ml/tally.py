"""The votes of leaves, laid out so that adding them up takes few steps."""

from __future__ import annotations

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.common.cached import cached_property
from sardonyx.ops.ml.forest import Forest, occurrences
from sardonyx.ops.ml.nodes import Votes
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.ensemble import COMBINE, NEUTRAL, combined, tree_ensemble

MOST_CELLS = 1 << 24
"""Cells of a table with a column for each target; larger ones are kept as lists of votes."""


class Tally:
    """Which trees to walk, `roots`, and how `scores` come from the leaves where rows end.

    Scores are a `sum`, `min` or `max`, and 0 for targets without votes. One target: a table [nodes]. Trees with one
    target each: the same, the trees in order of their targets, as many for each (the leaf of no tree fills up). Else a
    table [nodes, targets], or, if that is too large, lists of votes [nodes, most].
    """

    def __init__(self, forest: Forest, votes: Votes, targets: int, function: str) -> None:
        self.forest, self.targets, self.function = forest, targets, function
        place = forest.place[votes.node]
        at_leaf = np.flatnonzero((place >= 0) & forest.leaf[place])
        place, target, weight = place[at_leaf], votes.target[at_leaf], votes.weight[at_leaf]
        nodes, neutral = len(forest.leaf), NEUTRAL[function]
        counts = occurrences(place, nodes)
        slots = None if targets == 1 else _slots(forest, place, target, counts, targets)
        self.roots = forest.roots
        dense = targets > 1 and slots is None and nodes * targets <= MOST_CELLS
        self.which: np.ndarray | None = None
        if slots is not None:
            self.roots = np.append(forest.roots, np.int32(nodes - 1))[slots]
        if targets == 1 or slots is not None:
            self.table = np.full(nodes, neutral, weight.dtype)
            self.table[place[::-1]] = weight[::-1]  # the first vote of a leaf counts
        elif dense:
            self.table = np.full((nodes, targets), neutral, weight.dtype)
            COMBINE[function].at(self.table, (place, target), weight)
        else:
            order = np.argsort(place, kind="stable")
            number = np.arange(len(place)) - (np.cumsum(counts) - counts)[place[order]]
            self.table = np.full((nodes, int(counts.max(initial=1))), neutral, weight.dtype)
            self.which = np.zeros(self.table.shape, np.int32)
            self.table[place[order], number], self.which[place[order], number] = weight[order], target[order]

    @property
    def elements(self) -> int:
        """How many numbers there are for a row before they are combined."""
        return len(self.roots) * (self.table.shape[1] if self.table.ndim > 1 else 1)

    def scores(self, leaves: Array) -> Array:
        """Scores [rows, targets] for the nodes [trees, rows] where rows end."""
        rows = leaves.shape[1]
        votes = p.gather(constant(self.table), [leaves], [0])
        if self.which is None:
            return self._without_votes(combined(votes, self.targets, self.function))
        row = p.broadcast_to(p.iota((1, rows, 1), 1, dtypes.int32), votes.shape)
        which = p.gather(constant(self.which), [leaves], [0])
        start = p.full((rows, self.targets), NEUTRAL[self.function], votes.dtype)
        how = "add" if self.function == "sum" else self.function
        return self._without_votes(p.scatter(start, votes, [row, which], [0, 1], how))

    def of_rows(self, x: Array) -> Array:
        """Scores [rows, targets] of the rows of x, if there are no lists of votes."""
        forest = self.forest
        operands = constant(self.roots), [*map(constant, forest.tables)], constant(self.table)
        return self._without_votes(tree_ensemble(x, *operands, forest.depth, self.targets, self.function))

    def _without_votes(self, scores: Array) -> Array:
        return scores if self.function == "sum" else p.where(p.isinf(scores), 0.0, scores)


def _slots(
    forest: Forest, place: np.ndarray, target: np.ndarray, counts: np.ndarray, targets: int
) -> np.ndarray | None:
    """The trees [targets * most] in order of their targets, -1 where there are no more; None where trees have several.

    A tree with too many of its own company would make the rest idle: then the table is better.
    """
    trees = len(forest.roots)
    if counts.max(initial=0) > 1:
        return None
    own = np.full(trees, -1)
    own[forest.tree[place]] = target
    if (own[forest.tree[place]] != target).any():
        return None
    voting = np.flatnonzero(own >= 0)
    sizes = occurrences(own[voting], targets)
    most = int(sizes.max(initial=1))
    if most * targets > 2 * trees:
        return None
    order = voting[np.argsort(own[voting], kind="stable")]
    slots = np.full((targets, most), -1)
    slots[own[order], np.arange(len(order)) - (np.cumsum(sizes) - sizes)[own[order]]] = order
    return slots.reshape(-1)


class Voters:
    """Which targets have votes: `sure` ones for every row, `never` ones for none; `settled` if each target is either.

    For the others there are `ballots`, whose scores are how many votes a target has.
    """

    def __init__(self, forest: Forest, votes: Votes, targets: int) -> None:
        self.forest, self.votes, self.targets = forest, votes, targets
        self.never = occurrences(votes.target, targets) == 0

    @cached_property
    def sure(self) -> np.ndarray:
        """Whether all leaves of some tree vote for a target."""
        forest, targets = self.forest, self.targets
        place = forest.place[self.votes.node]
        at_leaf = (place >= 0) & forest.leaf[place]
        cells, _ = _counted(place[at_leaf] * targets + self.votes.target[at_leaf])
        keys, counts = _counted(forest.tree[cells // targets] * targets + cells % targets)
        leaves = occurrences(forest.tree[:-1][forest.leaf[:-1]], len(forest.roots))
        mask = np.zeros(targets, bool)
        mask[keys[counts == leaves[keys // targets]] % targets] = True
        return mask

    @cached_property
    def settled(self) -> bool:
        return bool((self.sure | self.never).all())

    @cached_property
    def ballots(self) -> Tally:
        ones = np.ones(len(self.votes.node), self.votes.weight.dtype)
        return Tally(self.forest, Votes(self.votes.node, self.votes.target, ones), self.targets, "sum")


def _counted(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Different keys in order, and how often each occurs."""
    ordered = np.sort(keys)
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
    return ordered[starts], np.diff(np.append(starts, len(ordered)))
