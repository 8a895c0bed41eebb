"""Losses: what training makes small."""

from __future__ import annotations

import numpy as np

from sardonyx.common import dtypes
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import TensorType
from sardonyx.training.onnxblock import blocks

REDUCTIONS = {"mean": blocks.ReduceMean, "sum": blocks.ReduceSum, "none": blocks.PassThrough}
CROSS_ENTROPY = 12
"""The first operator set with SoftmaxCrossEntropyLoss."""


def _reduction(name: str) -> blocks.Block:
    if name not in REDUCTIONS:
        raise InvalidArgument(f"reduction {name!r} is unknown; there are {', '.join(REDUCTIONS)}")
    return REDUCTIONS[name](keepdims=False)


class _Difference(blocks.Block):
    """A loss of the difference between what the model gives and a target of the same shape."""

    def __init__(self, reduction: str = "mean") -> None:
        self._reduce = _reduction(reduction)

    def _difference(self, name: str, target_name: str) -> str:
        if target_name not in self.base.values:
            target_name = blocks.InputLike(name)(target_name)
        return str(blocks.Sub()(name, target_name))


class MSELoss(_Difference):
    """The mean of (output - target)^2."""

    def build(self, loss_input_name: str, target_name: str = "target") -> str:
        return str(self._reduce(blocks.Pow(2.0)(self._difference(loss_input_name, target_name))))


class L1Loss(_Difference):
    """The mean of |output - target|."""

    def build(self, loss_input_name: str, target_name: str = "target") -> str:
        return str(self._reduce(blocks.Abs()(self._difference(loss_input_name, target_name))))


class CrossEntropyLoss(blocks.Block):
    """-log softmax(scores)[label], classes being axis 1; `labels` is a new input of int64.

    `weight` [classes] rescales classes, and labels that are `ignore_index` do not count.
    """

    def __init__(
        self, weight: np.ndarray | None = None, reduction: str = "mean", ignore_index: int | None = None
    ) -> None:
        _reduction(reduction)
        self._weight = weight
        self._attributes = {"reduction": reduction, "ignore_index": ignore_index}

    def build(self, scores_input_name: str, labels_name: str = "labels") -> str:
        if self.base.opset() < CROSS_ENTROPY:
            raise InvalidArgument(
                f"the model has operator set {self.base.opset()}, SoftmaxCrossEntropyLoss is part of {CROSS_ENTROPY}: "
                "convert it with onnx.version_converter"
            )
        if labels_name not in self.base.values:
            scores = self.base.type_of(scores_input_name)
            shape = scores.shape if scores.shape is None else (scores.shape[:1] + scores.shape[2:])
            labels_name = self.base.input(labels_name, TensorType(dtypes.int64, shape))
        names = [scores_input_name, labels_name]
        if self._weight is not None:
            names.append(self.base.constant(np.asarray(self._weight), "celoss.weight"))
        return self.base.add("SoftmaxCrossEntropyLoss", names, ["loss", "log_prob"], self._attributes)


class BCEWithLogitsLoss(blocks.Block):
    """-(pos_weight t log s(x) + (1 - t) log(1 - s(x))) with s the sigmoid and t the target, in a form that cannot
    overflow: log s(x) is -softplus(-x), and log(1 - s(x)) is -softplus(x).
    """

    def __init__(
        self, weight: np.ndarray | None = None, reduction: str = "mean", pos_weight: np.ndarray | None = None
    ) -> None:
        self._weight = weight
        self._pos_weight = pos_weight
        self._reduce = _reduction(reduction)

    def build(self, loss_input_name: str, target_name: str = "target") -> str:
        base = self.base
        if target_name not in base.values:
            target_name = blocks.InputLike(loss_input_name)(target_name)
        positive = base.add("Mul", [base.add("Softplus", [base.add("Neg", [loss_input_name])]), target_name])
        if self._pos_weight is not None:
            positive = base.add("Mul", [positive, base.constant(np.asarray(self._pos_weight), "bceloss.pos_weight")])
        softplus = base.add("Softplus", [loss_input_name])
        negative = base.add("Sub", [softplus, base.add("Mul", [softplus, target_name])])
        loss = base.add("Add", [positive, negative])
        if self._weight is not None:
            loss = base.add("Mul", [loss, base.constant(np.asarray(self._weight), "bceloss.weight")])
        return str(self._reduce(loss))
