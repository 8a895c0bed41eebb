"""Tensors that are larger than what the GPU binds at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sardonyx import InferenceSession
from sardonyx.cli import main
from sardonyx_webgpu import WebGpuProvider, provider
from tests.support import require

PROVIDERS = ["WebGpuExecutionProvider", "CPUExecutionProvider"]
LARGEST = 4096


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    require("webgpu")
    gpu = provider.device({}).gpu
    monkeypatch.setattr(gpu, "limits", {**gpu.limits, "maxStorageBufferBindingSize": LARGEST})
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


def test_open_sizes_that_become_too_large_make_another_plan(rng: np.random.Generator) -> None:
    nodes = [helper.make_node("Mul", ["x", "w"], ["t"]), helper.make_node("ReduceSum", ["t"], ["y"], keepdims=0)]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])]
    w = numpy_helper.from_array(np.full(8, 0.5, np.float32), "w")
    model = helper.make_model(
        helper.make_graph(nodes, "open", inputs, outputs, [w]), opset_imports=[helper.make_opsetid("", 21)]
    )
    made = InferenceSession(model.SerializeToString(), providers=PROVIDERS)
    for rows, home in ((10, 0), (128, 0), (129, 1), (1000, 1), (11, 0), (130, 1)):
        x = rng.random((rows, 8), np.float32)
        np.testing.assert_allclose(made.run(None, {"x": x})[0], x.sum() / 2, rtol=1e-5)
        assert made.plans[0].placement[0] == home
    assert made.compiled == 2


def test_what_a_provider_makes_too_large_is_left_to_the_next_one(rng: np.random.Generator) -> None:
    """The image fits, but with its channels filled up to four it does not."""
    x, w = rng.standard_normal((1, 3, 17, 17), np.float32), rng.standard_normal((1, 3, 3, 3), np.float32)
    made = session([helper.make_node("Conv", ["x", "w"], ["y"], strides=[2, 2])], w, {"x": x})
    expected = np.zeros((1, 1, 8, 8))
    for i in range(8):
        for j in range(8):
            expected[0, 0, i, j] = (x[0, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3].astype(float) * w[0]).sum()
    np.testing.assert_allclose(made.run(None, {"x": x})[0], expected, rtol=1e-4, atol=1e-5)
    assert made.plans[0].placement == [1]


@pytest.mark.parametrize("size", [8, 12, 20, 40])
def test_networks_of_any_size(rng: np.random.Generator, size: int) -> None:
    """Transforms of convolutions, parts of concatenations and reductions, around the limit."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Concat", ["b", "x", "a"], ["c"], axis=1),
        helper.make_node("ReduceMean", ["c"], ["y"], keepdims=0),
    ]
    x, w = rng.standard_normal((1, 4, size, size), np.float32), rng.standard_normal((4, 4, 3, 3), np.float32)
    made = session(nodes, w, {"x": x})
    a = np.zeros((1, 4, size, size))
    padded = np.pad(x.astype(float), [(0, 0), (0, 0), (1, 1), (1, 1)])
    for i in range(3):
        for j in range(3):
            a += np.einsum("bchw,mc->bmhw", padded[:, :, i : i + size, j : j + size], w[:, :, i, j])
    expected = np.concatenate([np.maximum(a, 0), x, a], 1).mean()
    np.testing.assert_allclose(made.run(None, {"x": x})[0], expected, rtol=1e-4, atol=1e-5)


def test_inspect_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.zeros((40, 40), np.float32)
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    declared = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)]
    graph = helper.make_graph(
        nodes,
        "giant",
        declared,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ones(1, np.float32), "w")],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), path)
    assert main(["inspect", str(path), "--provider", "webgpu"]) == 0
    assert "a tensor has more than 4,096 bytes" in capsys.readouterr().out
