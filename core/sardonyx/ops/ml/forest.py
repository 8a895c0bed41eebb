"""Decision trees as flat tables, made by NumPy alone: models have millions of nodes.

Every node asks whether a feature is at most a number, or whether it is one of a set; the other comparisons of ONNX are
these with their branches exchanged. `next[stride * node + answer]` is the node that follows: 0 for no, 1 for yes, and,
if `stride` is 3, 2 for a feature that is NaN. A leaf follows itself, so steps beyond it do no harm. Nodes are in order
of their trees and, within one, of their depth; the last one is a leaf of no tree.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sardonyx.common.record import record

LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF = range(8)
DEEPEST = 10_000
"""Levels of a tree that are followed; deeper ones are chains that no training makes."""


@record
class Nodes:
    """The nodes as a file has them: arrays [nodes], children being places in these; those of leaves mean nothing.

    `roots` are the trees. `sets` holds the members of the nodes of mode MEMBER, one set behind the other, `sizes`
    [nodes] their numbers.
    """

    mode: np.ndarray
    feature: np.ndarray
    split: np.ndarray
    true: np.ndarray
    false: np.ndarray
    missing: np.ndarray
    roots: np.ndarray
    sizes: np.ndarray
    sets: np.ndarray


@record(frozen=True)
class Forest:
    """The tables. `place` [given nodes] is where a given node is now (-1: no tree has it), `tree` whose it is.

    With sets of more than one member those of a node are `members[start[node]:end[node]]`, ascending; without, a set
    is the number itself, and `members` is empty. `in_set` is None where no node asks for one.
    """

    roots: np.ndarray
    depth: int
    stride: int
    feature: np.ndarray
    split: np.ndarray
    next: np.ndarray
    leaf: np.ndarray
    tree: np.ndarray
    place: np.ndarray
    in_set: np.ndarray | None
    start: np.ndarray
    end: np.ndarray
    members: np.ndarray

    @property
    def tables(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The tables that a walk reads for every node."""
        return self.feature, self.split, self.next

    @property
    def has_denormals(self) -> bool:
        """Whether numbers are float32 that some hardware takes for zero, such as the one before 0."""
        tiny = (self.split != 0) & (np.abs(self.split) < np.finfo(np.float32).tiny)
        return self.split.dtype == np.float32 and bool(tiny.any())

    @property
    def features(self) -> int:
        """How many features a row needs."""
        return int(self.feature.max()) + 1


def plant(nodes: Nodes, dtype: np.dtype[Any]) -> Forest:
    """The tables for features of a dtype; ValueError where the nodes are no trees."""
    if not len(nodes.roots):
        raise ValueError("there are no trees")
    tree, depth = _walk(nodes)
    order = np.append(_breadth_first(tree, depth), 0)
    count = len(order)
    place = np.full(len(tree), -1)
    place[order[:-1]] = np.arange(count - 1)
    leaf = nodes.mode == LEAF
    in_set = (nodes.mode == EQ) | (nodes.mode == NEQ) | (nodes.mode == MEMBER)
    split, swapped = _at_most(nodes, dtype)
    # A missing feature answers no; where branches are exchanged, ONNX's no is the yes of here.
    absent = np.where(in_set, nodes.missing & ~swapped, nodes.missing != swapped) & ~leaf
    no, yes = np.where(swapped, nodes.true, nodes.false), np.where(swapped, nodes.false, nodes.true)
    answers = [no, yes, np.where(absent, yes, no)] if absent.any() else [no, yes]
    own = np.arange(count, dtype=np.int32)
    following = [np.where(leaf[order], own, place[branch[order]]) for branch in answers]
    for branch in following:
        branch[-1] = count - 1
    start, end, members = _sets(nodes, split, order)
    leaf = leaf[order]
    leaf[-1] = True
    return Forest(
        place[nodes.roots].astype(np.int32),
        int(depth.max(initial=0)),
        len(answers),
        np.where(leaf, 0, nodes.feature[order]).astype(np.int32),
        split[order],
        np.stack(following, 1).astype(np.int32).reshape(-1),
        leaf,
        np.append(tree[order[:-1]], -1),
        place,
        in_set[order] if in_set.any() else None,
        start,
        end,
        members,
    )


def _walk(nodes: Nodes) -> tuple[np.ndarray, np.ndarray]:
    """The tree and the depth of every node, -1 where no root leads to it.

    Nodes may be shared by branches of one tree (converters chain comparisons so), and then lie below all of these; a
    node that is never free of what leads to it lies on a circle.
    """
    count, inner = len(nodes.mode), nodes.mode != LEAF
    edges = np.concatenate([nodes.true[inner], nodes.false[inner]])
    if len(edges) and (edges.min() < 0 or edges.max() >= count):
        raise ValueError("a branch leads to a node that is not there")
    waiting = occurrences(edges, count)
    if waiting[nodes.roots].any():
        raise ValueError("a branch leads back to the root of a tree")
    shared = waiting.max(initial=0) > 1
    if shared:
        reached = _reached(nodes)
        within = inner & reached
        waiting = occurrences(np.concatenate([nodes.true[within], nodes.false[within]]), count)
    tree, depth = np.full(count, -1), np.full(count, -1, np.int32)
    level = nodes.roots
    tree[level[::-1]] = np.arange(len(level))[::-1]
    below = 0
    while len(level):
        if below > DEEPEST:
            raise ValueError(f"a tree has more than {DEEPEST} levels")
        depth[level] = below
        parents = level[inner[level]]
        level = _children(nodes, parents)
        tree[level] = np.repeat(tree[parents], 2)
        if shared:
            np.subtract.at(waiting, level, 1)
            level = np.unique(level[waiting[level] == 0])
        below += 1
    if shared and (depth[reached] < 0).any():
        raise ValueError("branches of a tree lead in a circle")
    return tree, depth


def occurrences(values: np.ndarray, count: int) -> np.ndarray:
    """How often each of 0, 1, ... `count` - 1 is among values below `count`."""
    return np.bincount(values.astype(np.intp, copy=False), minlength=count)  # which has 32 bits in Pyodide


def _children(nodes: Nodes, parents: np.ndarray) -> np.ndarray:
    return np.stack([nodes.true[parents], nodes.false[parents]], 1).reshape(-1)


def _reached(nodes: Nodes) -> np.ndarray:
    """Which nodes a root leads to."""
    seen = np.zeros(len(nodes.mode), bool)
    level = nodes.roots
    for _ in range(DEEPEST + 1):
        seen[level] = True
        level = _children(nodes, level[nodes.mode[level] != LEAF])
        level = np.unique(level[~seen[level]])
        if not len(level):
            return seen
    raise ValueError(f"a tree has more than {DEEPEST} levels")


def _breadth_first(tree: np.ndarray, depth: np.ndarray) -> np.ndarray:
    """The nodes that a root leads to, in order of tree and depth."""
    nodes = np.flatnonzero(tree >= 0)
    key = tree[nodes] * (int(depth.max(initial=0)) + 1) + depth[nodes]
    return nodes if (key[1:] >= key[:-1]).all() else nodes[np.argsort(key, kind="stable")]


def _at_most(nodes: Nodes, dtype: np.dtype[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Thresholds of the test `x <= threshold` (or `x == threshold`) at each node, and whether its answer is negated.

    x < y is x <= the number before y. Thresholds that dtype lacks are rounded down, which changes no answer.
    """
    thresholds = nodes.split.astype(np.promote_types(nodes.split.dtype, dtype), copy=False)
    strict, down = (nodes.mode == LT) | (nodes.mode == GTE), thresholds.dtype.type(-np.inf)
    wide = thresholds
    if strict.any():
        wide = np.where(strict, np.where(thresholds == down, np.nan, np.nextafter(thresholds, down)), thresholds)
    with np.errstate(over="ignore"):
        split = wide.astype(dtype, copy=False)
    if split.dtype != wide.dtype:
        exact = (nodes.mode == EQ) | (nodes.mode == NEQ)
        split = np.where(split > wide, np.nextafter(split, split.dtype.type(-np.inf)), split)
        split = np.where(exact & (split != wide), split.dtype.type(np.nan), split)
    above = ((nodes.mode == GT) | (nodes.mode == GTE)) & ~np.isnan(thresholds)
    return split, above | (nodes.mode == NEQ)


def _sets(nodes: Nodes, split: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where the set of each node in this order starts and ends, and all members; nothing where no node has one."""
    of_sets = nodes.mode == MEMBER
    if not of_sets.any():
        return np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, split.dtype)
    sizes = np.where(of_sets, nodes.sizes, 1).astype(np.intp)  # as `repeat` wants them
    owner = np.repeat(np.arange(len(sizes)), sizes)
    members = np.empty(len(owner), split.dtype)
    listed = of_sets[owner]
    members[listed], members[~listed] = nodes.sets, split[~of_sets]
    end = np.cumsum(sizes)
    start = (end - sizes)[order].astype(np.int32)
    return start, end[order].astype(np.int32), members[np.lexsort((members, owner))]
