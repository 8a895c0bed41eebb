"""Boxes that are kept: sure enough, the best of those that overlap, the surest first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.record import record
from sardonyx.model.ir import Value
from sardonyx.passes.nodes import Nodes, floats, integers
from sardonyx.passes.vision.heads import Candidates

NOBODY = float("-inf")
ALL = 1.0
"""A share of boxes' union that no intersection exceeds: nothing is suppressed."""


@record(frozen=True)
class Limits:
    """Which boxes are kept: see `Detection`. Nothing is suppressed where `overlap` is None."""

    threshold: float
    overlap: float | None
    most: int
    classes: Sequence[int] = ()
    across: bool = False


def keep(nodes: Nodes, found: Candidates, limits: Limits) -> tuple[Value, Value, Value]:
    """Boxes [n, 4], scores [n] and labels int64 [n] in the model's coordinates.

    A box has one label, that of its surest class, and suppresses those of the same one, or of all. Boxes that are not
    finite, and scores that are NaN, are left out. Of equal scores the smaller label comes first, then the earlier box.
    """
    if found.labels is None:
        best = nodes.add("ReduceMax", found.scores, integers([0]), keepdims=1)
        labels = nodes.add("ArgMax", found.scores, axis=0, keepdims=0)
    else:
        best, labels = found.scores, found.labels
    total = nodes.add("ReduceSum", found.boxes, integers([1]), keepdims=0)
    isbroken = nodes.add("Or", nodes.add("IsNaN", total), nodes.add("IsInf", total))
    isbroken = nodes.add("Or", isbroken, nodes.add("IsNaN", nodes.add("Squeeze", best, integers([0]))))
    best = nodes.add("Where", isbroken, floats(NOBODY), best)
    lines = _lines(nodes, best, labels, limits, found.classes)
    chosen = nodes.add(
        "NonMaxSuppression",
        nodes.add("Unsqueeze", found.boxes, integers([0])),
        nodes.add("Unsqueeze", lines, integers([0])),
        integers([limits.most]),
        floats([ALL if limits.overlap is None else limits.overlap]),
        floats([limits.threshold]),
    )
    places = nodes.add("Gather", chosen, integers(2), axis=1)
    scores = nodes.add("Gather", nodes.add("Squeeze", best, integers([0])), places, axis=0)
    length = nodes.add("Min", nodes.add("Shape", scores), integers([limits.most]))
    scores, order = nodes.add_many(2, "TopK", scores, length, axis=0)
    places = nodes.add("Gather", places, order, axis=0)
    return (
        nodes.add("Gather", found.boxes, places, axis=0),
        scores,
        nodes.add("Gather", labels, places, axis=0),
    )


def _lines(nodes: Nodes, best: Value, labels: Value, limits: Limits, count: int) -> Value:
    """The scores [lines, N] among which boxes suppress each other: one line for each class, or one for all."""
    isone = limits.across or limits.overlap is None
    if isone and not limits.classes:
        return best
    classes = np.array(limits.classes or range(count))[:, None]
    isown = nodes.add("Equal", labels, integers(classes))
    if isone:
        numbers = nodes.add("Cast", isown, to=dtypes.int32.number)
        isown = nodes.add("Cast", nodes.add("ReduceMax", numbers, integers([0]), keepdims=1), to=dtypes.bool_.number)
    return nodes.add("Where", isown, best, floats(NOBODY))
