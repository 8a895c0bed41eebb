"""Ensembles of decision trees, as flat tables (`forest`) that the primitive `TreeEnsemble` walks.

Those with sets in their nodes, or long lists of votes, are walked here, all trees and rows a step at a time.
onnxruntime says what ONNX leaves open: which scores binary classifiers have, and which label wins.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.common.record import record
from sardonyx.model.ir import Node, Tensor
from sardonyx.ops.ml.forest import Forest, plant
from sardonyx.ops.ml.nodes import Names, Votes, equal_lengths, integers, named_nodes, numbered_nodes, numbers
from sardonyx.ops.ml.rows import matrix
from sardonyx.ops.ml.scores import column, label, labels, pair, probit, transformed
from sardonyx.ops.ml.tally import Tally, Voters
from sardonyx.ops.operator import Operator
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.ensemble import walk
from sardonyx.primitives.rows import by_rows

ML = "ai.onnx.ml"
_planted: WeakKeyDictionary[Node, dict[Any, Any]] = WeakKeyDictionary()


class Trees(Operator, abstract=True):
    """What the operators share: features in, scores out; tables are made once for a node and a type."""

    def cached(self, key: Any, make: Callable[[], Any]) -> Any:
        """The result of `make`, computed once for each node and key."""
        cache = _planted.setdefault(self.node, {})
        if key not in cache:
            cache[key] = make()
        return cache[key]

    def score(self, x: Array, forest: Forest, tallies: Sequence[Tally]) -> list[Array]:
        """The scores [rows, targets] of each tally; all of them walk the same trees."""
        if x.shape[1] < forest.features:
            raise ValueError(f"the trees ask for feature {forest.features - 1}, and x {p.show(x.shape)} has none such")
        targets = tallies[0].targets

        if forest.in_set is None and all(tally.which is None for tally in tallies):
            return [tally.of_rows(x) for tally in tallies]

        def of_block(block: Array) -> Array:
            leaves = walk(block, constant(tallies[0].roots), [*map(constant, forest.tables)], forest.depth, agree)
            return p.concat([tally.scores(leaves) for tally in tallies], 1)

        at_most = _at_most if forest.has_denormals else operator.le

        def agree(value: Array, number: Array, node: Array) -> Array:
            if forest.in_set is None:
                return at_most(value, number)
            equals = member(forest, node, value) if len(forest.members) else p.equal(value, number)
            return p.where(p.gather(constant(forest.in_set), [node], [0]), equals, at_most(value, number))

        scores = by_rows(x, max(tally.elements for tally in tallies), of_block)
        return [p.slice_axis(scores, 1, k * targets, targets) for k in range(len(tallies))]


def _at_most(x: Array, y: Array) -> Array:
    """Whether x <= y, where hardware takes denormal float32 numbers for zero."""
    return (_place(x) <= _place(y)) & ~p.isnan(x) & ~p.isnan(y)


def _place(x: Array) -> Array:
    """An int32 for each number but NaN, in their order; both zeros have the same."""
    bits = p.bitcast(x, dtypes.int32)
    return p.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def member(forest: Forest, node: Array, value: Array) -> Array:
    """Whether values are in the sets of nodes, by halving."""
    members, start, end = map(constant, (forest.members, forest.start, forest.end))
    place, behind = p.gather(start, [node], [0]), p.gather(end, [node], [0])
    width = int((forest.end - forest.start).max())
    for power in reversed(range((width - 1).bit_length())):
        further = place + (1 << power)
        reached = (further < behind) & (p.gather(members, [further], [0]) <= value)
        place = p.where(reached, further, place)
    return p.equal(p.gather(members, [place], [0]), value) & (place < behind)


class NamedTrees(Trees, domain=ML, abstract=True):
    """The form of the older operators: nodes and votes are lists, in which (tree, node) names a node."""

    nodes_treeids: Sequence[int] = ()
    nodes_nodeids: Sequence[int] = ()
    nodes_featureids: Sequence[int] = ()
    nodes_values: Sequence[float] = ()
    nodes_values_as_tensor: Tensor | None = None
    nodes_hitrates: Sequence[float] = ()
    nodes_hitrates_as_tensor: Tensor | None = None
    nodes_modes: Sequence[str] = ()
    nodes_truenodeids: Sequence[int] = ()
    nodes_falsenodeids: Sequence[int] = ()
    nodes_missing_value_tracks_true: Sequence[int] = ()
    base_values: Sequence[float] = ()
    base_values_as_tensor: Tensor | None = None
    post_transform: str = "NONE"

    def base(self) -> np.ndarray:
        return numbers(self.base_values, self.base_values_as_tensor)

    def grow(self, prefix: str, targets: int, dtype: DType) -> tuple[Forest, Votes]:
        """The trees, and the votes in the attributes that start with a prefix."""
        names = Names(integers(self.nodes_treeids), integers(self.nodes_nodeids))
        nodes = named_nodes(self, names, numbers(self.nodes_values, self.nodes_values_as_tensor))
        lists = {name: integers(getattr(self, f"{prefix}_{name}")) for name in ("treeids", "nodeids", "ids")}
        weights = numbers(getattr(self, f"{prefix}_weights"), getattr(self, f"{prefix}_weights_as_tensor"))
        equal_lengths(weights=weights, **{f"{prefix}_{name}": values for name, values in lists.items()})
        check_targets(lists["ids"], targets, f"{prefix}_ids")
        places = names.places(lists["treeids"], lists["nodeids"], f"{prefix}_nodeids")
        with np.errstate(over="ignore"):
            return plant(nodes, dtype.storage), Votes(places, lists["ids"], weights.astype(dtype.storage))


def check_targets(ids: np.ndarray, targets: int, name: str) -> None:
    if targets < 1:
        raise ValueError("there are no targets or class labels")
    if len(ids) and not 0 <= ids.min() <= ids.max() < targets:
        raise ValueError(f"{name} has {ids.min()}..{ids.max()}, and there are {targets} targets")


AGGREGATES = {"AVERAGE": "sum", "SUM": "sum", "MIN": "min", "MAX": "max"}


def aggregated(
    score: Array, name: str, trees: int, base: np.ndarray, transform: str, voted: Array | None = None
) -> Array:
    """The scores [rows, targets] of regressors after averaging, their base values and the post_transform.

    Where only some have votes, the others get no base value either.
    """
    if name == "AVERAGE":
        score = score / float(trees)
    if len(base):
        score = score + constant(base.astype(score.dtype.storage))
    if voted is not None:
        score = p.where(voted, score, 0.0)
    if score.shape[1] == 1:  # there the others mean nothing
        return probit(score) if transform == "PROBIT" else score
    return p.cast(transformed(score, transform), score.dtype) if transform != "NONE" else score


class TreeEnsembleRegressor(NamedTrees, domain=ML):
    """The sum, average, least or largest of what the trees give, for each target."""

    target_treeids: Sequence[int] = ()
    target_nodeids: Sequence[int] = ()
    target_ids: Sequence[int] = ()
    target_weights: Sequence[float] = ()
    target_weights_as_tensor: Tensor | None = None
    n_targets: int = 0
    aggregate_function: str = "SUM"

    def expand(self, x: Array) -> Array:
        if self.aggregate_function not in AGGREGATES:
            raise ValueError(f"aggregate_function {self.aggregate_function!r} is not one of {', '.join(AGGREGATES)}")
        x, base = matrix(x, wide=True), self.base()
        if len(base) not in (0, self.n_targets):
            raise ValueError(f"base_values has {len(base)} entries; it needs none, or one of {self.n_targets} targets")
        forest, tally, voters = self.cached(x.dtype, lambda: self.tables(x.dtype))
        counted = len(base) > 1 and not voters.settled
        score, *ballots = self.score(x, forest, [tally, voters.ballots] if counted else [tally])
        voted = ballots[0] > 0 if counted else None
        result = aggregated(score, self.aggregate_function, len(forest.roots), base, self.post_transform, voted)
        return p.cast(result, dtypes.float32)

    def tables(self, dtype: DType) -> tuple[Forest, Tally, Voters]:
        forest, votes = self.grow("target", self.n_targets, dtype)
        tally = Tally(forest, votes, self.n_targets, AGGREGATES[self.aggregate_function])
        return forest, tally, Voters(forest, votes, self.n_targets)


@record(frozen=True)
class Classes:
    """The tables of a classifier. `alone`: all votes are for one class of two; `positive`: none is negative."""

    forest: Forest
    tally: Tally
    voters: Voters
    alone: bool
    positive: bool


class TreeEnsembleClassifier(NamedTrees, domain=ML):
    """The class with the highest sum of votes, and all sums."""

    class_treeids: Sequence[int] = ()
    class_nodeids: Sequence[int] = ()
    class_ids: Sequence[int] = ()
    class_weights: Sequence[float] = ()
    class_weights_as_tensor: Tensor | None = None
    classlabels_int64s: Sequence[int] = ()
    classlabels_strings: Sequence[str] = ()

    def expand(self, x: Array) -> tuple[Array, Array]:
        x, base = matrix(x, wide=True), self.base()
        names = labels(self.classlabels_strings, self.classlabels_int64s)
        count = int(names.shape[0])
        if len(base) not in ((0, 1, 2) if count <= 2 else (0, count)):
            raise ValueError(f"base_values has {len(base)} entries for {count} classes")
        classes = self.cached(x.dtype, lambda: self.tables(x.dtype, count))
        counted = not classes.voters.settled and (count == 2 or not (classes.positive or len(base)))
        scores, *ballots = self.score(x, classes.forest, [classes.tally, *[classes.voters.ballots] * counted])
        voted = ballots[0] > 0 if counted else constant(classes.voters.sure.reshape(1, -1))
        if count == 1:
            score = p.cast(scores + float(base[-1]) if len(base) else scores, dtypes.float32)
            wins, result = column(score, 0) > 0, probit(score) if self.post_transform == "PROBIT" else score
        elif count == 2:
            wins, result = self.binary(scores, voted, base, classes)
        else:
            if len(base):
                scores = scores + constant(base.astype(scores.dtype.storage))
            elif not classes.positive:  # a class without votes is no choice, even if all others have fewer than none
                voted = p.where(voted, scores, -np.inf)
                return label(names, p.arg(voted, "argmax", 1)), transformed(scores, self.post_transform)
            return label(names, p.arg(scores, "argmax", 1)), transformed(scores, self.post_transform)
        plain = not classes.alone and not len(self.classlabels_strings)  # then onnxruntime gives 0 and 1, not labels
        return label(constant(np.arange(2), dtypes.int64) if plain else names, wins), result

    def tables(self, dtype: DType, count: int) -> Classes:
        forest, votes = self.grow("class", count, dtype)
        tally, voters = Tally(forest, votes, count, "sum"), Voters(forest, votes, count)
        positive = bool((votes.weight > 0 if count > 2 else votes.weight >= 0).all())
        return Classes(forest, tally, voters, count == 2 and int(voters.never.sum()) == 1, positive)

    def binary(self, scores: Array, voted: Array, base: np.ndarray, classes: Classes) -> tuple[Array, Array]:
        """Whether the second class wins, and the scores, of two classes.

        Where the second one has no votes, the score of the first one decides and makes both; a score without votes is
        0. Two base values set the second score by the first one's votes.
        """
        first, second = p.slice_axis(scores, 1, 0, 1), p.slice_axis(scores, 1, 1, 1)
        voted_first, voted_second = p.slice_axis(voted, 1, 0, 1), p.slice_axis(voted, 1, 1, 1)
        positive, alone = classes.positive and classes.alone, first + float(base[0]) if len(base) else first
        if len(base) == 2:
            second = first + float(base[1])
            left, right = p.where(voted_second, -second, alone), p.where(voted_second, second, 0.0)
            result = transformed(p.concat([p.where(voted_first, left, 0.0), right], 1), self.post_transform)
        else:
            left = p.where(voted_first, alone, 0.0)
            both = transformed(p.concat([left, second], 1), self.post_transform)
            result = p.where(voted_second, both, pair(alone, self.post_transform, positive))
        decisive = p.where(voted_second, second, alone)
        return column(decisive, 0) > (0.5 if positive else 0.0), result


TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
"""TreeEnsemble's numbers as onnxruntime reads them; ONNX's text has 1 and 2 the other way round."""


class TreeEnsemble(Trees, domain=ML, since=5):
    """What the trees give for each target; interior nodes and leaves are numbered apart."""

    aggregate_function: int = 1
    leaf_targetids: Sequence[int]
    leaf_weights: Tensor
    membership_values: Tensor | None = None
    n_targets: int = 1
    nodes_falseleafs: Sequence[int]
    nodes_falsenodeids: Sequence[int]
    nodes_featureids: Sequence[int]
    nodes_hitrates: Tensor | None = None
    nodes_missing_value_tracks_true: Sequence[int] = ()
    nodes_modes: Tensor
    nodes_splits: Tensor
    nodes_trueleafs: Sequence[int]
    nodes_truenodeids: Sequence[int]
    post_transform: int = 0
    tree_roots: Sequence[int]

    def expand(self, x: Array) -> Array:
        if not 0 <= self.aggregate_function < len(AGGREGATES) or not 0 <= self.post_transform < len(TRANSFORMS):
            raise ValueError(
                f"aggregate_function {self.aggregate_function} and post_transform {self.post_transform} must be in "
                f"0..{len(AGGREGATES) - 1} and 0..{len(TRANSFORMS) - 1}"
            )
        aggregate = list(AGGREGATES)[self.aggregate_function]
        wide = matrix(x, wide=True)
        forest, tally = self.cached(wide.dtype, lambda: self.tables(wide.dtype, AGGREGATES[aggregate]))
        (score,) = self.score(wide, forest, [tally])
        transform = TRANSFORMS[self.post_transform]
        return p.cast(aggregated(score, aggregate, len(forest.roots), np.empty(0), transform), x.dtype)

    def tables(self, dtype: DType, function: str) -> tuple[Forest, Tally]:
        targets, weights = integers(self.leaf_targetids), self.leaf_weights.array().reshape(-1)
        equal_lengths(leaf_targetids=targets, leaf_weights=weights)
        check_targets(targets, self.n_targets, "leaf_targetids")
        nodes = numbered_nodes(self)
        places = len(nodes.mode) - len(targets) + np.arange(len(targets))
        forest = plant(nodes, dtype.storage)
        return forest, Tally(forest, Votes(places, targets, weights.astype(dtype.storage)), self.n_targets, function)
