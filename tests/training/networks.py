"""Small networks that learn, as ONNX models; what they learn from; and the losses that they make small.

No bias stands before a normalization, nor in keys of attention: its gradient is 0, and Adam would make steps of what
rounding leaves of it. Parameters are drawn by NumPy, so that PyTorch's networks
(`tests/training/fixtures/torch_steps.py`) begin as they do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser

from sardonyx.training import artifacts

BATCHES = 2
"""Steps go through so many batches by turns."""


@dataclass(frozen=True)
class Network:
    """A graph, the shapes of its parameters, those that are not trained, and how a batch is drawn."""

    text: str
    shapes: dict[str, tuple[int, ...]]
    loss: str
    batch: Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]
    statistics: tuple[str, ...] = ()

    def parameters(self) -> dict[str, np.ndarray]:
        """The parameters before the first step."""
        random = np.random.default_rng(0)
        found = {}
        for name, shape in self.shapes.items():
            if name.endswith(("mean", "bias")):
                found[name] = np.zeros(shape, np.float32)
            elif name.endswith(("var", "scale")):
                found[name] = np.ones(shape, np.float32)
            else:
                found[name] = (random.standard_normal(shape) * 0.3).astype(np.float32)
        return found

    def trained(self) -> list[str]:
        return [name for name in self.shapes if name not in self.statistics]

    def model(self) -> onnx.ModelProto:
        """The network, its parameters initializers."""
        model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> {self.text}')
        for name, array in self.parameters().items():
            model.graph.initializer.append(numpy_helper.from_array(array, name))
        onnx.checker.check_model(model)
        return model

    def write(self, folder: Path) -> None:
        """Write the files with which it is trained by SGD."""
        artifacts.generate_artifacts(
            self.model(),
            self.trained(),
            loss=artifacts.LossType[self.loss],
            optimizer=artifacts.OptimType.SGD,
            artifact_directory=folder,
        )

    def batches(self) -> list[tuple[np.ndarray, np.ndarray]]:
        random = np.random.default_rng(1)
        return [self.batch(random) for _ in range(BATCHES)]


def floats(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


MLP = Network(
    "mlp (float[N,4] x) => (float[N,3] y) { h = Gemm <transB = 1> (x, w1, b1) a = Relu (h) "
    "y = Gemm <transB = 1> (a, w2, b2) }",
    {"w1": (5, 4), "b1": (5,), "w2": (3, 5), "b2": (3,)},
    "CrossEntropyLoss",
    lambda random: (floats(random, 6, 4), random.integers(0, 3, 6)),
)
CNN = Network(
    """cnn (float[N,2,8,8] x) => (float[N,3] y) {
        c1 = Conv <pads = [1,1,1,1]> (x, conv1)
        n1, m1, v1 = BatchNormalization <training_mode = 1, momentum = 0.9> (c1, bn1_scale, bn1_bias, bn1_mean, bn1_var)
        r1 = Relu (n1)
        p1 = MaxPool <kernel_shape = [2,2], strides = [2,2]> (r1)
        c2 = Conv <pads = [1,1,1,1], strides = [2,2]> (p1, conv2)
        n2, m2, v2 = BatchNormalization <training_mode = 1, momentum = 0.9> (c2, bn2_scale, bn2_bias, bn2_mean, bn2_var)
        r2 = Relu (n2)
        g = GlobalAveragePool (r2)
        f = Flatten (g)
        y = Gemm <transB = 1> (f, w, w_bias)
    }""",
    {
        "conv1": (4, 2, 3, 3), "bn1_scale": (4,), "bn1_bias": (4,), "bn1_mean": (4,),
        "bn1_var": (4,), "conv2": (6, 4, 3, 3), "bn2_scale": (6,), "bn2_bias": (6,), "bn2_mean": (6,),
        "bn2_var": (6,), "w": (3, 6), "w_bias": (3,),
    },
    "CrossEntropyLoss",
    lambda random: (floats(random, 5, 2, 8, 8), random.integers(0, 3, 5)),
    ("bn1_mean", "bn1_var", "bn2_mean", "bn2_var"),
)  # fmt: skip
TRANSFORMER = Network(
    """transformer (int64[N,6] x) => (float[N,2] y) <
        int64[4] heads = {0, 6, 2, 4}, int64[3] joined = {0, 6, 8}, int64[3] thirds = {8, 8, 8},
        float quarter = {0.5}, int64[1] one = {1}
    > {
        e = Gather (table, x)
        h = Add (e, places)
        n = LayerNormalization <axis = -1> (h, ln1_scale, ln1_bias)
        qkv0 = MatMul (n, qkv)
        q0, k0, v0 = Split <axis = 2> (qkv0, thirds)
        q1 = Reshape (q0, heads)
        k1 = Reshape (k0, heads)
        v1 = Reshape (v0, heads)
        q2 = Transpose <perm = [0,2,1,3]> (q1)
        k2 = Transpose <perm = [0,2,3,1]> (k1)
        v2 = Transpose <perm = [0,2,1,3]> (v1)
        s0 = MatMul (q2, k2)
        s1 = Mul (s0, quarter)
        s = Softmax <axis = -1> (s1)
        a0 = MatMul (s, v2)
        a1 = Transpose <perm = [0,2,1,3]> (a0)
        a2 = Reshape (a1, joined)
        o = MatMul (a2, out)
        h1 = Add (h, o)
        n1 = LayerNormalization <axis = -1> (h1, ln2_scale, ln2_bias)
        f0 = MatMul (n1, wide)
        f1 = Add (f0, wide_bias)
        f2 = Sigmoid (f1)
        f3 = Mul (f1, f2)
        f4 = MatMul (f3, narrow)
        h2 = Add (h1, f4)
        p = ReduceMean <axes = [1], keepdims = 0> (h2)
        y = MatMul (p, head)
    }""",
    {
        "table": (11, 8), "places": (6, 8), "ln1_scale": (8,), "ln1_bias": (8,), "qkv": (8, 24), 
        "out": (8, 8), "ln2_scale": (8,), "ln2_bias": (8,), "wide": (8, 16), "wide_bias": (16,), "narrow": (16, 8),
        "head": (8, 2),
    },
    "BCEWithLogitsLoss",
    lambda random: (random.integers(0, 11, (4, 6)), random.integers(0, 2, (4, 2)).astype(np.float32)),
)  # fmt: skip
LSTM = Network(
    """lstm (float[5,N,3] x) => (float[N,2] y) <int64[1] zero = {0}> {
        o, h, c = LSTM <hidden_size = 4> (x, w, r, b)
        last = Squeeze (h, zero)
        y = Gemm <transB = 1> (last, head, head_bias)
    }""",
    {"w": (1, 16, 3), "r": (1, 16, 4), "b": (1, 32), "head": (2, 4), "head_bias": (2,)},
    "MSELoss",
    lambda random: (floats(random, 5, 4, 3), floats(random, 4, 2)),
)
LOSSES = {
    "CrossEntropyLoss": MLP.batch,
    "MSELoss": lambda random: (floats(random, 6, 4), floats(random, 6, 3)),
    "L1Loss": lambda random: (floats(random, 6, 4), floats(random, 6, 3)),
    "BCEWithLogitsLoss": lambda random: (floats(random, 6, 4), random.integers(0, 2, (6, 3)).astype(np.float32)),
}
"""How a batch for the MLP is drawn, for each loss."""
NETWORKS = {"mlp": MLP, "cnn": CNN, "transformer": TRANSFORMER, "lstm": LSTM}
