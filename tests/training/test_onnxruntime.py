"""Losses, optimizers and checkpoints against those of onnxruntime-training 1.19.2."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from sardonyx.errors import InvalidArgument
from sardonyx.training import artifacts
from sardonyx.training.api import CheckpointState, Module, Optimizer
from tests.training.networks import LOSSES, MLP

FIXTURES = Path(__file__).parent / "fixtures"
FIGURES = dict(np.load(FIXTURES / "ort_steps.npz"))
"""What `tests/training/fixtures/ort_checkpoint.py` found."""
STEPS, SAVED = 10, 5


def begin(loss: str, optimizer: str, folder: Path, checkpoint: Path | None = None) -> tuple[Module, Optimizer]:
    artifacts.generate_artifacts(
        MLP.model(),
        requires_grad=MLP.trained(),
        loss=artifacts.LossType[loss],
        optimizer=artifacts.OptimType[optimizer],
        artifact_directory=folder,
    )
    module = Module(
        folder / "training_model.onnx", CheckpointState.load_checkpoint(checkpoint or folder / "checkpoint")
    )
    step = Optimizer(folder / "optimizer_model.onnx", module)
    step.set_learning_rate(0.01)
    return module, step


@pytest.mark.parametrize("optimizer", ["AdamW", "SGD"])
@pytest.mark.parametrize("loss", LOSSES)
def test_steps_are_the_same(tmp_path: Path, loss: str, optimizer: str) -> None:
    module, step = begin(loss, optimizer, tmp_path)
    batch = LOSSES[loss](np.random.default_rng(2))
    prefix = f"{loss}/{optimizer}/"
    for number in range(STEPS):
        np.testing.assert_allclose(module(*batch), FIGURES[f"{prefix}losses"][number], rtol=1e-5)
        if number == 0:
            for name, parameter in module.state.parameters:
                np.testing.assert_allclose(parameter.grad, FIGURES[f"{prefix}{name}_grad"], rtol=1e-5, atol=1e-6)
        step.step()
        module.lazy_reset_grad()
    for name, parameter in module.state.parameters:
        np.testing.assert_allclose(parameter.data, FIGURES[f"{prefix}{name}"], rtol=1e-5, atol=1e-6)


def test_its_checkpoint_goes_on_here(tmp_path: Path) -> None:
    module, step = begin("CrossEntropyLoss", "AdamW", tmp_path, FIXTURES / "checkpoint")
    assert step.steps == SAVED
    losses = FIGURES["CrossEntropyLoss/AdamW/losses"]
    properties = dict(module.state.properties)
    assert properties == {"epoch": SAVED, "name": "mlp", "loss": pytest.approx(losses[SAVED - 1])}
    batch = LOSSES["CrossEntropyLoss"](np.random.default_rng(2))
    for number in range(SAVED, STEPS):
        np.testing.assert_allclose(module(*batch), losses[number], rtol=1e-5)
        step.step()
        module.lazy_reset_grad()
    for name, parameter in module.state.parameters:
        figure = FIGURES[f"CrossEntropyLoss/AdamW/{name}"]
        np.testing.assert_allclose(parameter.data, figure, rtol=1e-5, atol=1e-6)


FOREIGN = """optimizer (float[1] learning_rate, seq(float[]) params, seq(float[]) gradients) => (bool[1] done) {
    done = com.microsoft.SGDOptimizerV2 (learning_rate, params, gradients)
}"""


def test_models_of_its_own_tool_are_refused_with_what_to_do(tmp_path: Path) -> None:
    module, _ = begin("MSELoss", "SGD", tmp_path)
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]> {FOREIGN}')
    onnx.save(model, tmp_path / "foreign.onnx")
    with pytest.raises(InvalidArgument, match=r"foreign\.onnx was written by onnxruntime's generate_artifacts"):
        Optimizer(tmp_path / "foreign.onnx", module)
