"""From the attributes of ONNX's tree operators to `Nodes` and votes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx.common.record import record
from sardonyx.model.ir import Tensor
from sardonyx.ops.ml.forest import LEAF, MEMBER, Nodes

MODES = {
    name: number
    for number, name in enumerate(
        [f"BRANCH_{name}" for name in ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")] + ["LEAF"]
    )
}


@record
class Votes:
    """What leaves give: each entry adds `weight` to the score of `target` where a row ends at `node`."""

    node: np.ndarray
    target: np.ndarray
    weight: np.ndarray


def integers(values: Any) -> np.ndarray:
    return np.asarray(values, np.int64).reshape(-1)


def numbers(values: Any, tensor: Tensor | None) -> np.ndarray:
    """Floats that an operator has in a list, or, with other precision, in a tensor."""
    return np.asarray(values, np.float32) if tensor is None else tensor.array().reshape(-1)


def equal_lengths(**lists: np.ndarray) -> None:
    """ValueError where lists that describe the same things differ in length."""
    first, *others = lists.items()
    for name, values in others:
        if len(values) != len(first[1]):
            raise ValueError(f"{first[0]} has {len(first[1])} entries, and {name} {len(values)}; they need as many")


class Names:
    """The nodes of TreeEnsembleClassifier and -Regressor, which (tree, node) names; `places` finds them."""

    def __init__(self, trees: np.ndarray, nodes: np.ndarray) -> None:
        count = len(nodes)
        begins = np.flatnonzero(np.append(True, trees[1:] != trees[:-1])) if count else np.empty(0, np.intp)
        self.roots = begins
        self.trees, self.nodes = trees, nodes
        number = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, count)))
        self.plain = bool((nodes == np.arange(count) - begins[number]).all())  # numbered from 0 on in every tree
        self.tree_ids, self.first = np.unique(trees[begins], return_inverse=True)
        self.plain &= len(self.tree_ids) == len(begins)
        if self.plain:
            self.begin = np.empty(len(begins) + 1, np.int64)
            self.begin[self.first] = begins
            self.sizes = np.empty(len(begins), np.int64)
            self.sizes[self.first] = np.diff(np.append(begins, count))
            return
        self.numbers, node = np.unique(nodes, return_inverse=True)
        self.keys, self.order = np.unique(self.first[number] * len(self.numbers) + node, return_index=True)
        if len(self.keys) < count:
            again = int(np.setdiff1d(np.arange(count), self.order)[0])
            raise ValueError(f"node {nodes[again]} of tree {trees[again]} is there twice")

    def places(self, trees: np.ndarray, nodes: np.ndarray, name: str) -> np.ndarray:
        """The places of these nodes; raises ValueError for one that is not there."""
        if not len(nodes):
            return nodes
        places: np.ndarray
        tree, present = _search(self.tree_ids, trees)
        if self.plain:
            present &= (nodes >= 0) & (nodes < self.sizes[tree])
            places = self.begin[tree] + nodes
        else:
            node, there = _search(self.numbers, nodes)
            key, paired = _search(self.keys, tree * len(self.numbers) + node)
            present &= there & paired
            places = self.order[key]
        if not present.all():
            lost = int(np.flatnonzero(~present)[0])
            raise ValueError(f"{name} names node {nodes[lost]} of tree {trees[lost]}, which is not there")
        return places


def _search(ordered: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The places of values in an ordered list, and whether each value is in it."""
    if len(ordered) and ordered[-1] - ordered[0] == len(ordered) - 1:
        places = values - ordered[0]
        present = (places >= 0) & (places < len(ordered))
        return np.where(present, places, 0), present
    places = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    return places, ordered[places] == values


def named_nodes(node: Any, names: Names, split: np.ndarray) -> Nodes:
    """The nodes of TreeEnsembleClassifier and TreeEnsembleRegressor, from the operator's attributes."""
    feature = integers(node.nodes_featureids)
    true, false = integers(node.nodes_truenodeids), integers(node.nodes_falsenodeids)
    mode, missing = modes(node.nodes_modes), integers(node.nodes_missing_value_tracks_true)
    missing = missing if len(missing) else np.zeros(len(mode), np.int64)
    equal_lengths(
        nodes_treeids=names.trees,
        nodes_nodeids=names.nodes,
        nodes_featureids=feature,
        nodes_values=split,
        nodes_truenodeids=true,
        nodes_falsenodeids=false,
        nodes_modes=mode,
        nodes_missing_value_tracks_true=missing,
    )
    inner = np.flatnonzero(mode != LEAF)
    check_features(feature[inner])
    yes, no = np.zeros(len(mode), np.int64), np.zeros(len(mode), np.int64)
    yes[inner] = names.places(names.trees[inner], true[inner], "nodes_truenodeids")
    no[inner] = names.places(names.trees[inner], false[inner], "nodes_falsenodeids")
    sizes, sets = np.zeros(len(mode), np.int64), np.empty(0, split.dtype)
    return Nodes(mode, feature, split, yes, no, missing == 1, names.roots, sizes, sets)


def modes(names: Sequence[str]) -> np.ndarray:
    """The numbers of modes given by name."""
    try:
        return np.fromiter(map(MODES.__getitem__, names), np.uint8, len(names))
    except KeyError as error:
        raise ValueError(f"mode {error} is not one of {', '.join(MODES)}") from None


def check_features(feature: np.ndarray) -> None:
    if len(feature) and (feature.min() < 0 or feature.max() >= 1 << 31):
        raise ValueError(f"a node asks for feature {int(feature.min())}; features count from 0")


def numbered_nodes(node: Any) -> Nodes:
    """The nodes of TreeEnsemble: interior ones as they stand, leaves behind them."""
    split = node.nodes_splits.array().reshape(-1)
    split = split.astype(np.float32) if split.dtype == np.float16 else split
    mode, feature = node.nodes_modes.array().reshape(-1), integers(node.nodes_featureids)
    true, false = integers(node.nodes_truenodeids), integers(node.nodes_falsenodeids)
    true_leaf, false_leaf = integers(node.nodes_trueleafs), integers(node.nodes_falseleafs)
    missing = integers(node.nodes_missing_value_tracks_true)
    missing = missing if len(missing) else np.zeros(len(mode), np.int64)
    equal_lengths(
        nodes_modes=mode,
        nodes_featureids=feature,
        nodes_splits=split,
        nodes_truenodeids=true,
        nodes_trueleafs=true_leaf,
        nodes_falsenodeids=false,
        nodes_falseleafs=false_leaf,
        nodes_missing_value_tracks_true=missing,
    )
    if len(mode) and mode.max() > MEMBER:
        raise ValueError(f"mode {int(mode.max())} is not one of 0..{MEMBER}")
    check_features(feature)
    inner, leaves = len(mode), len(node.leaf_targetids)
    roots = integers(node.tree_roots)
    for name, ids, most in (
        ("tree_roots", roots, inner),
        ("nodes_truenodeids", true, np.where(true_leaf, leaves, inner)),
        ("nodes_falsenodeids", false, np.where(false_leaf, leaves, inner)),
    ):
        if ((ids < 0) | (ids >= most)).any():
            raise ValueError(f"{name} names {int(ids[(ids < 0) | (ids >= most)][0])}, which is not there")
    sizes, sets = _member_sets(node.membership_values, mode == MEMBER)
    fill = np.zeros(leaves, np.int64)
    return Nodes(
        np.append(mode, np.full(leaves, LEAF, np.uint8)),
        np.append(feature, fill),
        np.append(split, np.zeros(leaves, split.dtype)),
        np.append(np.where(true_leaf, true + inner, true), fill),
        np.append(np.where(false_leaf, false + inner, false), fill),
        np.append(missing, fill) == 1,
        roots,
        np.append(sizes, fill),
        sets.astype(split.dtype),
    )


def _member_sets(values: Tensor | None, of_sets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many members the set of each node has, and all members: sets follow one another, with NaN between."""
    sizes = np.zeros(len(of_sets), np.int64)
    wanted = int(of_sets.sum())
    if not wanted:
        return sizes, np.empty(0, np.float32)
    members = np.empty(0, np.float32) if values is None else values.array().reshape(-1)
    ends = np.append(np.flatnonzero(np.isnan(members)), len(members))[:wanted]
    if len(ends) < wanted:
        raise ValueError(f"membership_values has {len(ends)} sets, and {wanted} nodes want one")
    sizes[of_sets] = np.diff(ends, prepend=-1) - 1
    inside = members[: ends[-1]]
    return sizes, inside[~np.isnan(inside)]
