"""Losses of classifiers: the classes are axis 1 of the scores [N, C, d1, ...], and the labels are [N, d1, ...]."""

from __future__ import annotations

import numpy as np

from sardonyx import primitives as p
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array


class Loss(Operator, abstract=True):
    """The negative log-probability of the label, times the label's weight; the label `ignore_index` counts nothing.

    `reduction` is `none`, `sum`, or `mean`: the sum by the sum of the weights.
    """

    ignore_index: int | None = None
    reduction: str = "mean"

    def loss(self, log_probabilities: Array, labels: Array, weights: Array | None) -> Array:
        """The loss for float32 or float64 operands."""
        counted = None if self.ignore_index is None else p.not_equal(labels, self.ignore_index)
        indices = labels if counted is None else p.where(counted, labels, 0)
        lines = [p.iota(labels.shape, axis, labels.dtype) for axis in range(labels.rank)]
        picked = p.gather(log_probabilities, [lines[0], indices, *lines[1:]], range(log_probabilities.rank))
        weight = p.full(labels.shape, 1, picked.dtype) if weights is None else p.gather(weights, [indices], [0])
        if counted is not None:
            weight = p.where(counted, weight, 0)
            picked = p.where(counted, picked, 0)
        losses = -picked * weight
        axes = range(labels.rank)
        if self.reduction == "none":
            return losses
        if self.reduction == "sum":
            return p.sum_(losses, axes)
        if self.reduction == "mean":
            return p.sum_(losses, axes) / p.sum_(weight, axes)
        raise ValueError(f"reduction {self.reduction!r} is unknown; use none, sum or mean")


LABELS = np.array([[0, 3], [2, 1], [3, 3]])
WEIGHTS = np.array([0.25, 1, 2, 0.5], np.float32)


class NegativeLogLikelihoodLoss(Loss, since=12):
    """`Loss` of log-probabilities."""

    def expand(self, x: Array, labels: Array, weights: Array | None = None) -> Array:
        wide = None if weights is None else p.widen(weights)
        return p.cast(self.loss(p.widen(x), labels, wide), x.dtype)

    samples = [
        sample((3, 4), np.array([0, 3, 2])),
        sample((3, 4, 2), LABELS, WEIGHTS),
        sample((3, 4, 2), LABELS, WEIGHTS, ignore_index=3),
        sample((3, 4, 2), LABELS, reduction="sum", ignore_index=3),
        sample((3, 4, 1, 2), LABELS[:, None].astype(np.int32), WEIGHTS, reduction="none", ignore_index=-1),
    ]


class SoftmaxCrossEntropyLoss(Loss, since=12):
    """`Loss` of the logarithm of softmax, which is the second output."""

    def expand(self, scores: Array, labels: Array, weights: Array | None = None) -> tuple[Array, Array]:
        wide = p.widen(scores)
        shifted = wide - p.max_(wide, [1], keepdims=True)
        log_probabilities = shifted - p.log(p.sum_(p.exp(shifted), [1], keepdims=True))
        loss = self.loss(log_probabilities, labels, None if weights is None else p.widen(weights))
        return p.cast(loss, scores.dtype), p.cast(log_probabilities, scores.dtype)

    samples = [
        sample((3, 4), np.array([0, 3, 2]), outputs=2),
        sample((3, 4, 2), LABELS, WEIGHTS, outputs=2),
        sample((3, 4, 2), LABELS, WEIGHTS, ignore_index=3),
        sample((3, 4, 2), LABELS, reduction="sum", ignore_index=3),
        sample((3, 4, 1, 2), LABELS[:, None].astype(np.int32), WEIGHTS, reduction="none"),
    ]
