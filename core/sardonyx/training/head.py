"""A linear head on embeddings: trained by this package's own training, with a part held out to stop by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sardonyx.common import dtypes
from sardonyx.common.record import record
from sardonyx.model.ir import Graph, Model, TensorType
from sardonyx.model.serde.writer import write
from sardonyx.training import onnxblock
from sardonyx.training.api import CheckpointState, Module, Optimizer
from sardonyx.training.checkpoint import Checkpoint
from sardonyx.training.draft import Draft
from sardonyx.training.onnxblock.optim import AdamW

BATCH = 256
"""Embeddings of a step, where there are more."""
TINY = 1e-6
FAINT = 0.01
"""The least deviation that counts, of the mean one."""
GAIN = 1e-3
"""By how much, in nats, a step has to make the loss smaller."""


@record
class Plan:
    """How a head is trained: it stops after `patience` steps that did not make the loss of what is held out smaller."""

    steps: int = 1000
    patience: int = 50
    learning_rate: float = 0.01
    weight_decay: float = 0.01
    seed: int = 0


@record(frozen=True)
class Head:
    """Scores of classes are `embedding @ weight.T + bias`; `steps` were made, the best of them is what this is."""

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]
    steps: int

    def scores(self, embeddings: NDArray[Any]) -> NDArray[Any]:
        """[n, D] to [n, classes]."""
        found: NDArray[Any] = embeddings @ self.weight.T + self.bias
        return found


def train_head(
    embeddings: NDArray[np.float32],
    numbers: NDArray[np.int64],
    held_out: NDArray[np.bool_],
    classes: int,
    plan: Plan,
    providers: Sequence[Any] | None = None,
) -> Head:
    """The head for embeddings [n, D] and the numbers of their classes, those that are `held_out` but for stopping.

    Embeddings are standardized while the head learns; what is given takes them as they are.
    """
    known = embeddings[~held_out]
    mean, deviation = known.mean(0), known.std(0)
    deviation = np.maximum(deviation, FAINT * deviation.mean() + TINY)  # what hardly varies is noise
    inputs, targets = ((known - mean) / deviation).astype(np.float32), numbers[~held_out].astype(np.int64)
    judged = held_out if held_out.any() else ~held_out
    tested = (embeddings[judged] - mean) / deviation
    module, optimizer = _begin(embeddings.shape[1], classes, plan, providers)
    random = np.random.default_rng(plan.seed)
    best, lowest, waited, step = _current(module), float(np.log(classes)), 0, 0
    while step < plan.steps and waited < plan.patience:
        chosen = random.choice(len(inputs), BATCH, replace=False) if len(inputs) > BATCH else slice(None)
        module(inputs[chosen], targets[chosen])
        optimizer.step()
        module.lazy_reset_grad()
        weight, bias = _current(module)
        loss = _cross_entropy(tested @ weight.T + bias, numbers[judged])
        step, waited = step + 1, waited + 1
        if loss < lowest - GAIN:
            best, lowest, waited = (weight, bias), loss, 0
    weight = best[0] / deviation
    return Head(weight.astype(np.float32), (best[1] - weight @ mean).astype(np.float32), step)


def _begin(size: int, classes: int, plan: Plan, providers: Sequence[Any] | None) -> tuple[Module, Optimizer]:
    """The head as a network that is trained, its parameters 0."""
    draft = Draft(Model(Graph(name="head"), {"": 17}))
    given = draft.input("embedding", TensorType(dtypes.float32, ("N", size)))
    weight = draft.constant(np.zeros((classes, size), np.float32), "weight")
    bias = draft.constant(np.zeros(classes, np.float32), "bias")
    draft.output(draft.add("Gemm", [given, weight, bias], "scores", {"transB": 1}))
    draft.record_types()
    network = _Network()
    with onnxblock.base(draft.model):
        network("scores")
    with onnxblock.empty_base():
        step = AdamW(eps=1e-8, weight_decay=plan.weight_decay, adam_mode=0)
        step(network.parameters())
    trainable, frozen = network.parameters()
    state = CheckpointState(Checkpoint(trainable, frozen))
    module = Module(write(network.models().training), state, providers=providers)
    optimizer = Optimizer(write(step.to_model()), module)
    optimizer.set_learning_rate(plan.learning_rate)
    return module, optimizer


class _Network(onnxblock.TrainingBlock):
    def __init__(self) -> None:
        super().__init__()
        self.requires_grad("weight")
        self.requires_grad("bias")

    def build(self, scores: str) -> str:
        return str(onnxblock.loss.CrossEntropyLoss()(scores))


def _current(module: Module) -> tuple[NDArray[Any], NDArray[Any]]:
    parameters = module.state.parameters
    return parameters["weight"].data, parameters["bias"].data


def _cross_entropy(scores: NDArray[Any], numbers: NDArray[np.int64]) -> float:
    shifted = scores - scores.max(1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return float(-logs[np.arange(len(numbers)), numbers].mean())
