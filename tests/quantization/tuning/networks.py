"""Small networks in which it is known what quantizing does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT
CPU = ["CPUExecutionProvider"]
Array = np.ndarray[Any, Any]


def saved(path: Path, nodes: list[onnx.NodeProto], weights: dict[str, Array], shape: list[Any], out: list[Any]) -> Path:
    """Write a network from x to y."""
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    ports = [helper.make_tensor_value_info(name, FLOAT, sizes) for name, sizes in (("x", shape), ("y", out))]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def outlier(path: Path) -> Path:
    """Scores of ten classes of x [N, 16]; between `scale` and `second` one channel is 2000 times as large as others.

    A scale for all of that tensor leaves nothing of the others, so both nodes have to stay in float, and they alone.
    """
    random = np.random.default_rng(5)
    scale = np.ones(32, np.float32)
    scale[7] = 2000
    second = random.normal(0, 0.4, (32, 10)).astype(np.float32)
    second[7] /= 2000
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h"], "first"),
        helper.make_node("Add", ["h", "b1"], ["a"], "bias"),
        helper.make_node("Relu", ["a"], ["r"], "relu"),
        helper.make_node("Mul", ["r", "scale"], ["s"], "scale"),
        helper.make_node("MatMul", ["s", "w2"], ["y"], "second"),
    ]
    weights = {
        "w1": random.normal(0, 0.4, (16, 32)).astype(np.float32),
        "b1": random.normal(0, 0.4, 32).astype(np.float32),
        "scale": scale,
        "w2": second,
    }
    return saved(path, nodes, weights, ["N", 16], ["N", 10])


def convolutions(path: Path) -> Path:
    """Two convolutions with a Relu between, of x [N, 3, 8, 8], the second with zeros around it and in two groups."""
    random = np.random.default_rng(6)
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["h"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["h"], ["r"], "relu"),
        helper.make_node("Conv", ["r", "w2"], ["y"], "second", pads=[1, 1, 1, 1], group=2),
    ]
    weights = {
        "w1": random.normal(0, 0.3, (8, 3, 3, 3)).astype(np.float32),
        "b1": random.normal(0, 0.3, 8).astype(np.float32),
        "w2": random.normal(0, 0.3, (4, 4, 3, 3)).astype(np.float32),
    }
    return saved(path, nodes, weights, ["N", 3, 8, 8], ["N", 4, 8, 8])


def normalized(path: Path, *, shared: bool = False) -> Path:
    """Two products after a LayerNormalization whose channel 3 is a hundred times as large, and its weights as small.

    With `shared` its result is added, too.
    """
    random = np.random.default_rng(7)
    gamma = np.ones(16, np.float32)
    gamma[3] = 100
    first, second = random.normal(0, 0.3, (2, 16, 16)).astype(np.float32)
    first[3] /= 100
    second[3] /= 100
    nodes = [
        helper.make_node("LayerNormalization", ["x", "gamma", "beta"], ["n"], "norm", axis=-1),
        helper.make_node("MatMul", ["n", "w1"], ["p"], "one"),
        helper.make_node("MatMul", ["n", "w2"], ["q"], "other"),
        helper.make_node("Add", ["p", "q"], ["pq" if shared else "y"], "sum"),
    ]
    if shared:
        nodes.append(helper.make_node("Add", ["pq", "n"], ["y"], "residual"))
    weights = {
        "gamma": gamma,
        "beta": random.normal(0, 0.2, 16).astype(np.float32),
        "w1": first,
        "w2": second,
    }
    return saved(path, nodes, weights, ["N", 4, 16], ["N", 4, 16])


def samples(*shape: int, count: int = 12, seed: int = 0) -> list[dict[str, Array]]:
    """Random x, which is not the same twice."""
    random = np.random.default_rng(seed)
    return [{"x": random.normal(0, 1, shape).astype(np.float32)} for _ in range(count)]
