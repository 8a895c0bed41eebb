"""Training and teaching in Pyodide, whose integers have 32 bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import parser

from tests import training
from tests.support import run_in_pyodide
from tests.training.networks import MLP

pytestmark = pytest.mark.slow
FIGURES = Path(training.__path__[0]) / "fixtures" / "ort_steps.npz"

CODE = """
import numpy as np
import sardonyx
from sardonyx.training import artifacts
from sardonyx.training.api import CheckpointState, Module, Optimizer

artifacts.generate_artifacts(
    "mlp.onnx",
    requires_grad=["w1", "b1", "w2", "b2"],
    loss=artifacts.LossType.CrossEntropyLoss,
    optimizer=artifacts.OptimType.AdamW,
)
module = Module("training_model.onnx", CheckpointState.load_checkpoint("checkpoint"))
optimizer = Optimizer("optimizer_model.onnx", module)
optimizer.set_learning_rate(0.01)
random = np.random.default_rng(2)
x, labels = random.standard_normal((6, 4)).astype(np.float32), random.integers(0, 3, 6).astype(np.int64)
for _ in range(10):
    print(float(module(x, labels)))
    optimizer.step()
    module.lazy_reset_grad()
points = [np.full((3, 2), 2 * (k % 2) - 1, np.float32) + k / 100 for k in range(12)]
taught = sardonyx.teach("tokens.onnx", points, ["a", "b"] * 6, steps=40)
print(taught.accuracy, sorted(taught.confusion.tolist()))
"""
TOKENS = "g (float[N,T,2] x) => (float[N,T,2] y) { y = Identity (x) }"


def test_a_page_learns_as_onnxruntime_does() -> None:
    tokens = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> {TOKENS}')
    files = {"mlp.onnx": MLP.model().SerializeToString(), "tokens.onnx": tokens.SerializeToString()}
    *losses, told = run_in_pyodide(CODE, files).splitlines()
    with np.load(FIGURES) as figures:
        expected = figures["CrossEntropyLoss/AdamW/losses"]
    np.testing.assert_allclose([float(line) for line in losses], expected, rtol=1e-5)
    assert told == "1.0 [[0, 2], [2, 0]]"
