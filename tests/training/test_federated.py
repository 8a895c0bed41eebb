"""The example of federated learning, its rounds played by hand: Flower itself is not installed for tests."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from sardonyx.training import artifacts
from tests.training.networks import MLP

EXAMPLE = Path(__file__).parents[2] / "examples" / "federated" / "client.py"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example's module, where Flower is a name."""
    flower, client = ModuleType("flwr"), ModuleType("flwr.client")
    vars(client).update(NumPyClient=object, start_client=None)
    monkeypatch.setitem(sys.modules, "flwr", flower)
    monkeypatch.setitem(sys.modules, "flwr.client", client)
    spec = spec_from_file_location("federated_client", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_round_of_two_halves_is_a_step_on_the_whole(tmp_path: Path, example: Any) -> None:
    """The mean of two steps of descent on halves of the same size is one step on all (McMahan et al., 2017)."""
    artifacts.generate_artifacts(
        MLP.model(),
        MLP.trained(),
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=artifacts.OptimType.SGD,
        artifact_directory=tmp_path,
    )
    random = np.random.default_rng(0)
    x = random.standard_normal((40, 4)).astype(np.float32)
    labels = x[:, :3].argmax(1)
    halves = [example.Client(tmp_path, x[k::2], labels[k::2]) for k in (0, 1)]
    whole = example.Client(tmp_path, x, labels)
    averaged = together = whole.get_parameters({})
    told = {"learning_rate": 0.5}
    losses = []
    for _ in range(5):
        results = [client.fit(averaged, told) for client in halves]
        assert [count for _, count, _ in results] == [20, 20]
        averaged = [np.mean([parameters[0] for parameters, _, _ in results], axis=0)]
        together, *_ = whole.fit(together, told)
        np.testing.assert_allclose(averaged[0], together[0], rtol=1e-4, atol=1e-6)
        losses.append(whole.evaluate(averaged, {})[0])
    assert losses == sorted(losses, reverse=True)
