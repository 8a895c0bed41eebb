"""Trains what a quantized model rounds, until it gives what the float model gives for the same samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sardonyx.api.session import InferenceSession
from sardonyx.common import dtypes
from sardonyx.common.record import record
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Model, TensorType, Value
from sardonyx.model.serde.writer import write
from sardonyx.passes.copy import copy_model
from sardonyx.quantization.tuning.samples import Feeds
from sardonyx.training.api import CheckpointState, Module, Optimizer
from sardonyx.training.aware.rounded import Rounded, rounded
from sardonyx.training.aware.written import written
from sardonyx.training.checkpoint import Checkpoint
from sardonyx.training.draft import Draft
from sardonyx.training.gradient_model import differentiate
from sardonyx.training.onnxblock import empty_base
from sardonyx.training.onnxblock.optim import AdamW

CAREFUL = 0.2
"""The share of its rate with which training is tried again, where it made a model worse."""
SHARES = ("Softmax", "Sigmoid")
LEAST = 1e-6
"""What shares are at least, before their logarithm is taken."""


@record(frozen=True)
class Plan:
    """How it is trained: `batch` samples a step, at a rate that falls to 0; a weight moves by `learning_rate` of its
    scale in a step, at first."""

    steps: int = 300
    batch: int = 16
    learning_rate: float = 0.02
    seed: int = 0


def train_quantized(
    quantized: Model,
    original: Model,
    samples: Sequence[Feeds],
    plan: Plan | None = None,
    *,
    providers: Sequence[Any] | None = None,
    step: Callable[[], None] = lambda: None,
) -> Model | None:
    """The quantized model with integers and scales that give more nearly what `original` gives for the samples.

    What is compared are all outputs that are floats: shares by their cross-entropy, others by squares. The result is
    None where training made them no nearer. `step` is called after each step. Raises InvalidArgument where the model
    is not in the format qdq, or its outputs are not those of the original.
    """
    plan = plan or Plan()
    if not samples:
        raise InvalidArgument("there are no samples to train with")
    teacher = InferenceSession(write(original), providers=providers)
    names = [port.name for port in teacher.get_outputs()]
    if names != [value.name for value in quantized.graph.outputs]:
        raise InvalidArgument(f"the quantized model's outputs are not those of the original: {', '.join(names)}")
    batches = _Batches(quantized, samples, plan)
    expected = teacher.run(None, batches.first)
    powers = [float(np.mean(np.square(each, dtype=np.float64))) if each.dtype.kind == "f" else 0.0 for each in expected]
    makers = map(_maker, quantized.graph.outputs)
    terms = [_Term(maker, power) for maker, power in zip(makers, powers, strict=True)]
    before = _error(quantized, teacher, batches, terms, providers)
    for share, told in ((1.0, step), (CAREFUL, lambda: None)):
        module, optimizer, found = _begin(quantized, terms, expected, providers)
        for number in range(plan.steps):
            for feeds in batches.drawn():
                targets = [each for each, term in zip(teacher.run(None, feeds), terms, strict=True) if term.counts]
                module(*feeds.values(), *targets)
            optimizer.set_learning_rate(share * plan.learning_rate * (1 - number / plan.steps))
            optimizer.step()
            module.lazy_reset_grad()
            told()
        trained = {name: module.state.parameters[name].data for name, _ in module.state.parameters}
        result = written(quantized, found, trained)
        if _error(result, teacher, batches, terms, providers) < before:
            return result
    return None


class _Batches:
    """Samples in the order of the model's inputs, side by side where its first sizes are open."""

    def __init__(self, model: Model, samples: Sequence[Feeds], plan: Plan) -> None:
        held = {value.name for value in model.graph.initializers}
        self._inputs = [value for value in model.graph.inputs if value.name not in held]
        self._samples, self._plan = samples, plan
        self._random = np.random.default_rng(plan.seed)
        self._open = all(value.shape and not isinstance(value.shape[0], int) for value in self._inputs)
        self.first = self._fed([0])

    def drawn(self) -> Iterator[dict[str, NDArray[Any]]]:
        """The feeds of one step."""
        count = min(self._plan.batch, len(self._samples))
        chosen = self._random.choice(len(self._samples), count, replace=False)
        return self._grouped([int(number) for number in chosen])

    def all(self) -> Iterator[dict[str, NDArray[Any]]]:
        """All samples once."""
        for start in range(0, len(self._samples), self._plan.batch):
            yield from self._grouped(list(range(start, min(start + self._plan.batch, len(self._samples)))))

    def _grouped(self, numbers: list[int]) -> Iterator[dict[str, NDArray[Any]]]:
        if self._open and len({self._form(number) for number in numbers}) == 1:
            yield self._fed(numbers)
        else:
            for number in numbers:
                yield self._fed([number])

    def _form(self, number: int) -> tuple[tuple[int, ...], ...]:
        return tuple(np.shape(self._samples[number][value.name])[1:] for value in self._inputs)

    def _fed(self, numbers: list[int]) -> dict[str, NDArray[Any]]:
        parts = [self._samples[number] for number in numbers]
        return {
            value.name: np.concatenate([np.asarray(each[value.name]) for each in parts])
            if len(parts) > 1
            else np.asarray(parts[0][value.name])
            for value in self._inputs
        }


def _begin(
    quantized: Model, terms: Sequence[_Term], expected: Sequence[NDArray[Any]], providers: Sequence[Any] | None
) -> tuple[Module, Optimizer, Rounded]:
    """The module that trains, its optimizer, and what is trained."""
    draft = Draft(copy_model(quantized))
    found = rounded(draft)
    parts = []
    for value, term, example in list(zip(draft.graph.outputs, terms, expected, strict=True)):
        if term.counts:
            shape = tuple(f"{value.name}_{k}" for k in range(example.ndim))
            target = draft.input(f"{value.name}_target", TensorType(dtypes.of(example.dtype), shape))
            parts.append(term.build(draft, value.name, target))
    if not parts:
        raise InvalidArgument("no output of the model is a float that differs from 0: nothing is to be learnt")
    loss = draft.add("Sum", parts, "loss")
    learnt = [weight.parameter for weight in found.weights] + [scale.parameter for scale in found.scales.values()]
    models = differentiate(draft, [loss], learnt, [], found.errors)
    with empty_base():
        rule = AdamW(eps=1e-8, weight_decay=0.0, adam_mode=0)
        rule((models.trainable, models.frozen))
    module = Module(
        write(models.training), CheckpointState(Checkpoint(models.trainable, models.frozen)), providers=providers
    )
    return module, Optimizer(write(rule.to_model()), module), found


@record(frozen=True)
class _Term:
    """What an output adds to the loss: shares the cross-entropy, whose gradient does not vanish where they are all but
    0 or 1, others the mean of squares over that of the original's; those that are no floats nothing."""

    maker: str
    power: float

    @property
    def counts(self) -> bool:
        return self.power > 0

    def build(self, draft: Draft, name: str, target: str) -> str:
        """The term as a tensor."""
        if self.maker not in SHARES:
            error = draft.add("Sub", [name, target])
            mean = draft.add("ReduceMean", [draft.add("Mul", [error, error])], "", {"keepdims": 0})
            return draft.add("Mul", [mean, draft.constant(np.array(1 / self.power, np.float32), "weight")])
        least, one = (
            draft.constant(np.array(LEAST, np.float32), "least"),
            draft.constant(np.array(1, np.float32), "one"),
        )
        likely = draft.add("Mul", [target, draft.add("Log", [draft.add("Max", [name, least])])])
        if self.maker == "Sigmoid":
            others = [draft.add("Sub", [one, each]) for each in (target, name)]
            unlikely = draft.add("Mul", [others[0], draft.add("Log", [draft.add("Max", [others[1], least])])])
            likely = draft.add("Add", [likely, unlikely])
        return draft.add("Neg", [draft.add("ReduceMean", [likely], "", {"keepdims": 0})])

    def distance(self, found: NDArray[np.float64], target: NDArray[np.float64]) -> float:
        """The same of arrays, summed."""
        if self.maker not in SHARES:
            return float(np.square(found - target).sum()) / self.power
        likely = target * np.log(np.maximum(found, LEAST))
        if self.maker == "Sigmoid":
            likely += (1 - target) * np.log(np.maximum(1 - found, LEAST))
        return -float(likely.sum())


def _maker(value: Value) -> str:
    """The operator that made an output, before it was rounded."""
    node = value.producer
    while node is not None and node.op_type in ("QuantizeLinear", "DequantizeLinear") and node.inputs[0] is not None:
        node = node.inputs[0].producer
    return "" if node is None else node.op_type


def _error(
    model: Model, teacher: InferenceSession, batches: _Batches, terms: Sequence[_Term], providers: Sequence[Any] | None
) -> float:
    """How far a model's outputs are from the teacher's, summed over all samples."""
    session, total = InferenceSession(write(model), providers=providers), 0.0
    for feeds in batches.all():
        for one, other, term in zip(session.run(None, feeds), teacher.run(None, feeds), terms, strict=True):
            total += term.distance(one.astype(np.float64), other.astype(np.float64)) if term.counts else 0.0
    return total
