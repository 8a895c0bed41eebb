"""Networks that PyTorch exported in training mode, ten steps of each beside PyTorch's own."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from sardonyx.training import artifacts, onnxblock
from sardonyx.training.api import CheckpointState, Module, Optimizer

pytestmark = pytest.mark.nightly
RATE, STEPS, CLASSES = 0.05, 10, 4


def residual(nn: Any) -> tuple[Any, tuple[int, ...]]:
    """Convolutions, one of them by channels, with BatchNormalization and a way around."""

    class Residual(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
            self.second = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False), nn.BatchNorm2d(8))
            self.act, self.pool, self.head = nn.Hardswish(), nn.AvgPool2d(2), nn.Linear(8, CLASSES)

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            return self.head(self.pool(x + self.act(self.second(x))).mean((2, 3)))

    return Residual(), (6, 3, 8, 8)


def transformer(nn: Any) -> tuple[Any, tuple[int, ...]]:
    class Encoder(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, activation="gelu")
            self.head = nn.Linear(16, CLASSES)

        def forward(self, x: Any) -> Any:
            return self.head(self.layer(x).mean(1))

    return Encoder(), (6, 7, 16)


def recurrent(nn: Any) -> tuple[Any, tuple[int, ...]]:
    """Two layers of LSTM in both directions, and a GRU behind them."""

    class Recurrent(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(3, 6, 2, batch_first=True, bidirectional=True)
            self.gru, self.head = nn.GRU(12, 5, batch_first=True), nn.Linear(5, CLASSES)

        def forward(self, x: Any) -> Any:
            return self.head(self.gru(self.lstm(x)[0])[0][:, -1])

    return Recurrent(), (6, 5, 3)


def sequences(nn: Any) -> tuple[Any, tuple[int, ...]]:
    layers = [nn.Conv1d(3, 8, 5, stride=2), nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv1d(8, 8, 3, dilation=2)]
    layers += [nn.InstanceNorm1d(8, affine=True), nn.ELU(), nn.AdaptiveMaxPool1d(1), nn.Flatten()]
    layers += [nn.Linear(8, CLASSES), nn.PReLU(), nn.LayerNorm(CLASSES)]
    return nn.Sequential(*layers), (6, 3, 32)


def upwards(nn: Any) -> tuple[Any, tuple[int, ...]]:
    layers = [nn.Conv2d(3, 4, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2), nn.ConvTranspose2d(4, 4, 2, stride=2)]
    layers += [nn.Upsample(scale_factor=2.0, mode="nearest"), nn.Conv2d(4, CLASSES, 1), nn.Softplus()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), (6, 3, 8, 8)


@pytest.mark.parametrize("make", [residual, transformer, recurrent, sequences, upwards])
def test_ten_steps_are_those_of_torch(tmp_path: Path, make: Callable[[Any], tuple[Any, tuple[int, ...]]]) -> None:
    import torch
    from torch.nn import functional

    torch.manual_seed(0)
    network, shape = make(torch.nn)
    x, labels = torch.randn(shape), torch.arange(shape[0]) % CLASSES
    network.train()
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network,
            (x,),
            str(tmp_path / "network.onnx"),
            input_names=["x"],
            output_names=["y"],
            dynamo=False,
            training=torch.onnx.TrainingMode.TRAINING,
            do_constant_folding=False,
            dynamic_axes={"x": {0: "N"}},
        )
    initializers = onnx.load(tmp_path / "network.onnx").graph.initializer
    trained = [each.name for each in initializers if each.data_type == 1 and "running" not in each.name and each.dims]
    artifacts.generate_artifacts(
        str(tmp_path / "network.onnx"),
        trained,
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=onnxblock.optim.SGD(),
        artifact_directory=tmp_path,
    )
    module = Module(tmp_path / "training_model.onnx", CheckpointState.load_checkpoint(tmp_path / "checkpoint"))
    step = Optimizer(tmp_path / "optimizer_model.onnx", module)
    step.set_learning_rate(RATE)
    descent = torch.optim.SGD(network.parameters(), lr=RATE)
    for _ in range(STEPS):
        loss = functional.cross_entropy(network(x), labels)
        descent.zero_grad()
        loss.backward()
        descent.step()
        np.testing.assert_allclose(module(x.numpy(), labels.numpy()), loss.item(), rtol=1e-5)
        step.step()
        module.lazy_reset_grad()
