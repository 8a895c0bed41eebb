"""A client of Flower that trains with Sardonyx: what it learns leaves the machine, and its data do not.

    pip install flwr
    python examples/federated/client.py artifacts/ data.npz 192.168.1.2:8080

The first is a folder that `generate_artifacts` wrote, with a loss of classes and an optimizer; the second has `x` and
`labels`; the third is where a server of Flower waits, as `server.py` starts one.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from flwr.client import NumPyClient, start_client

from sardonyx import OrtValue
from sardonyx.training.api import CheckpointState, Module, Optimizer


class Client(NumPyClient):
    """All trained parameters travel as one vector, which Flower averages."""

    def __init__(self, folder: Path, x: np.ndarray, labels: np.ndarray) -> None:
        state = CheckpointState.load_checkpoint(folder / "checkpoint")
        self.module = Module(folder / "training_model.onnx", state, folder / "eval_model.onnx")
        self.optimizer = Optimizer(folder / "optimizer_model.onnx", self.module)
        self.data = x, labels

    def get_parameters(self, config: dict[str, Any]) -> list[np.ndarray]:
        return [self.module.get_contiguous_parameters(trainable_only=True).numpy()]

    def fit(self, parameters: list[np.ndarray], config: dict[str, Any]) -> tuple[list[np.ndarray], int, dict[str, Any]]:
        self.module.train().copy_buffer_to_parameters(OrtValue.ortvalue_from_numpy(parameters[0]))
        self.optimizer.set_learning_rate(config.get("learning_rate", 0.01))
        for _ in range(config.get("steps", 1)):
            self.module(*self.data)
            self.optimizer.step()
            self.module.lazy_reset_grad()
        return self.get_parameters(config), len(self.data[0]), {}

    def evaluate(self, parameters: list[np.ndarray], config: dict[str, Any]) -> tuple[float, int, dict[str, Any]]:
        self.module.eval().copy_buffer_to_parameters(OrtValue.ortvalue_from_numpy(parameters[0]))
        return float(self.module(*self.data)), len(self.data[0]), {}


if __name__ == "__main__":
    folder, data, server = sys.argv[1:]
    with np.load(data) as arrays:
        client = Client(Path(folder), arrays["x"], arrays["labels"])
    start_client(server_address=server, client=client.to_client())
