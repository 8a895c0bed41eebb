"""Steps of training against formulas in float64 NumPy, on every provider."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from sardonyx.training import artifacts
from sardonyx.training.api import CheckpointState, Module, Optimizer
from tests.engine.providers import PROVIDERS, require_provider
from tests.training.networks import MLP

RNG = np.random.default_rng(1)
X, LABELS = RNG.standard_normal((6, 4)).astype(np.float32), np.array([0, 1, 2, 0, 1, 2])
NAMES = ["w1", "b1", "w2", "b2"]


def begin(folder: Path, optimizer: artifacts.OptimType, provider: str = "CPUExecutionProvider") -> Module:
    artifacts.generate_artifacts(
        MLP.model(), requires_grad=NAMES, loss=artifacts.LossType.CrossEntropyLoss, optimizer=optimizer,
        artifact_directory=folder,
    )  # fmt: skip
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    return Module(folder / "training_model.onnx", state, folder / "eval_model.onnx", providers=[provider])


def reference(parameters: dict[str, np.ndarray]) -> tuple[float, dict[str, np.ndarray]]:
    """The loss and its gradients, in float64."""
    w1, b1, w2, b2 = (parameters[name].astype(np.float64) for name in NAMES)
    x = X.astype(np.float64)
    h = x @ w1.T + b1
    scores = np.maximum(h, 0) @ w2.T + b2
    softmax = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    loss = -np.log(softmax[np.arange(6), LABELS]).mean()
    dy = (softmax - np.eye(3)[LABELS]) / 6
    dh = dy @ w2 * (h > 0)
    return loss, {"w1": dh.T @ x, "b1": dh.sum(0), "w2": dy.T @ np.maximum(h, 0), "b2": dy.sum(0)}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_losses_gradients_and_steps_are_those_of_formulas(tmp_path: Path, provider: str) -> None:
    require_provider(provider)
    module = begin(tmp_path, artifacts.OptimType.SGD, provider)
    optimizer = Optimizer(tmp_path / "optimizer_model.onnx", module)
    optimizer.set_learning_rate(0.1)
    parameters = {name: array.astype(np.float64) for name, array in MLP.parameters().items()}
    for _ in range(3):
        loss, gradients = reference(parameters)
        np.testing.assert_allclose(module(X, LABELS), loss, rtol=1e-5)
        for name in NAMES:
            np.testing.assert_allclose(module.state.parameters[name].grad, gradients[name], rtol=1e-4, atol=1e-6)
            parameters[name] -= 0.1 * gradients[name]
        optimizer.step()
        module.lazy_reset_grad()
    for name in NAMES:
        np.testing.assert_allclose(module.state.parameters[name].data, parameters[name], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(module.eval()(X, LABELS), reference(parameters)[0], rtol=1e-5)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_gradients_accumulate_until_they_are_reset(tmp_path: Path, provider: str) -> None:
    require_provider(provider)
    module = begin(tmp_path, artifacts.OptimType.SGD, provider)
    _, gradients = reference(MLP.parameters())
    for count in (1, 2, 3):
        module(X, LABELS)
        np.testing.assert_allclose(module.state.parameters["w1"].grad, count * gradients["w1"], rtol=1e-4, atol=1e-6)
    module.lazy_reset_grad()
    module(X, LABELS)
    np.testing.assert_allclose(module.state.parameters["w1"].grad, gradients["w1"], rtol=1e-4, atol=1e-6)


def test_models_are_valid_and_hold_operators_alone(tmp_path: Path) -> None:
    begin(tmp_path, artifacts.OptimType.AdamW)
    training, evaluation, optimizer = (
        onnx.load(tmp_path / f"{name}.onnx") for name in ("training_model", "eval_model", "optimizer_model")
    )
    for model in (training, evaluation, optimizer):
        onnx.checker.check_model(model, full_check=True)
    assert [each.name for each in training.graph.input] == ["x", "labels", *NAMES]
    assert [each.name for each in training.graph.output] == ["loss", *(f"{name}_grad" for name in NAMES)]
    assert [each.name for each in evaluation.graph.output] == ["loss"]
    assert training.graph.node[-1].op_type == "Gradient"
    assert not training.graph.initializer
    assert [each.name for each in optimizer.graph.output[:4]] == [f"{name}_next" for name in NAMES]
