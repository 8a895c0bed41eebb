"""Tensors that are larger than what the GPU binds at once."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sardonyx import InferenceSession
from sardonyx_webgpu import WebGpuProvider
from tests.support import require

PROVIDERS = ["WebGpuExecutionProvider", "CPUExecutionProvider"]
LARGEST = 4096


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    require("webgpu")
    monkeypatch.setattr(WebGpuProvider, "largest", lambda self: LARGEST)


def session(nodes: list[onnx.NodeProto], weight: np.ndarray, inputs: dict[str, np.ndarray]) -> InferenceSession:
    declared = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "giant", declared, outputs, [numpy_helper.from_array(weight, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    return InferenceSession(model.SerializeToString(), providers=PROVIDERS)


@pytest.mark.parametrize(("rows", "transposed"), [(100, False), (64, False), (70, True)])
def test_products(rng: np.random.Generator, rows: int, transposed: bool) -> None:
    w = rng.standard_normal((rows, 64), np.float32)
    x = rng.standard_normal((3, 64 if transposed else rows), np.float32)
    made = session([helper.make_node("Gemm", ["x", "w"], ["y"], transB=int(transposed))], w, {"x": x})
    (y,) = made.run(None, {"x": x})
    expected = x.astype(float) @ (w.T if transposed else w)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-4)
    assert made.plans[0].placement == [0]
    assert all(array.nbytes <= LARGEST for array in made.plans[0].weights.values())


@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
def test_lookups(rng: np.random.Generator, shape: tuple[int, ...]) -> None:
    w = rng.standard_normal((100, 4, 16), np.float32)
    index = rng.integers(-100, 100, shape)
    made = session([helper.make_node("Gather", ["w", "i"], ["y"], axis=0)], w, {"i": index})
    np.testing.assert_array_equal(made.run(None, {"i": index})[0], w[index])
    assert made.plans[0].placement == [0]


def test_others_fall_to_the_next_provider(rng: np.random.Generator) -> None:
    x, w = rng.standard_normal((40, 40), np.float32), np.ones(1, np.float32)
    made = session([helper.make_node("Add", ["x", "w"], ["y"])], w, {"x": x})
    np.testing.assert_array_equal(made.run(None, {"x": x})[0], x + 1)
    assert made.plans[0].placement == [1]
