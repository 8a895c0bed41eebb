"""Ten steps on four networks against PyTorch's: losses, parameters, running statistics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sardonyx import SessionOptions
from sardonyx.training import artifacts, onnxblock
from sardonyx.training.api import CheckpointState, Module, Optimizer
from tests.engine.providers import PROVIDERS, WASM, require_provider
from tests.training.networks import NETWORKS, Network

STEPS = 10
FIGURES = dict(np.load(Path(__file__).parent / "fixtures" / "steps.npz"))
"""What `tests/training/fixtures/torch_steps.py` found."""
OPTIMIZERS: dict[str, tuple[onnxblock.ForwardBlock, float]] = {
    "sgd": (onnxblock.optim.SGD(), 0.05),
    "adamw": (onnxblock.optim.AdamW(eps=1e-8, weight_decay=0.1, adam_mode=0), 0.01),
}
VALUES = {"bn1": 5 * 8 * 8, "bn2": 5 * 2 * 2}
"""How many values each variance of a batch is of."""


def taught(
    network: Network, optimizer: str, folder: Path, provider: str, options: SessionOptions | None = None
) -> dict[str, np.ndarray]:
    """Losses and parameters, as the fixture has them."""
    block, rate = OPTIMIZERS[optimizer]
    artifacts.generate_artifacts(
        network.model(),
        network.trained(),
        loss=artifacts.LossType[network.loss],
        optimizer=block,
        artifact_directory=folder,
    )
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    module = Module(folder / "training_model.onnx", state, session_options=options, providers=[provider])
    step = Optimizer(folder / "optimizer_model.onnx", module)
    step.set_learning_rate(rate)
    batches, losses = network.batches(), []
    for number in range(STEPS):
        losses.append(module(*batches[number % len(batches)]))
        step.step()
        module.lazy_reset_grad()
    return {"losses": np.array(losses), **{name: parameter.data for name, parameter in state.parameters}}


def expected(name: str, optimizer: str) -> dict[str, np.ndarray]:
    """PyTorch's figures. Its running variances are of n - 1, ONNX's of n; both begin with 1."""
    prefix = f"{name}/{optimizer}/"
    found = {key.removeprefix(prefix): array for key, array in FIGURES.items() if key.startswith(prefix)}
    for layer, count in VALUES.items():
        if (key := f"{layer}_var") in found:
            left = 0.9**STEPS
            found[key] = left + (found[key] - left) * (count - 1) / count
    return found


CASES = [
    *(pytest.param("adamw", *provider.values, id=f"adamw-{provider.id}") for provider in PROVIDERS),
    pytest.param("sgd", WASM, id="sgd-wasm"),
]


@pytest.mark.parametrize(("optimizer", "provider"), CASES)
@pytest.mark.parametrize("name", NETWORKS)
def test_ten_steps_are_those_of_torch(tmp_path: Path, provider: str, name: str, optimizer: str) -> None:
    require_provider(provider)
    found = taught(NETWORKS[name], optimizer, tmp_path, provider)
    figures = expected(name, optimizer)
    assert found.keys() == figures.keys()
    for key, figure in figures.items():
        np.testing.assert_allclose(found[key], figure, rtol=1e-5, atol=1e-5, err_msg=key)
    assert found["losses"][-2:].mean() < found["losses"][:2].mean()


@pytest.mark.nightly
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", NETWORKS)
def test_the_figures_are_those_of_torch_today(name: str, optimizer: str) -> None:
    from tests.training.fixtures.torch_steps import run

    found = run(NETWORKS[name], optimizer)
    for key, figure in found.items():
        np.testing.assert_allclose(FIGURES[f"{name}/{optimizer}/{key}"], figure, rtol=1e-5, atol=1e-6, err_msg=key)
