"""What is bound goes on with other sizes while its buffers lie where they lay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from sardonyx import InferenceSession
from sardonyx.providers.contract import SegmentLaunch
from sardonyx_webgpu.runtime.device import WebGpuDevice, WebGpuExecutable
from tests.webgpu.harness import elementwise, put

pytestmark = pytest.mark.usefixtures("native")


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The segments that were bound."""
    segments: list[int] = []
    bind = WebGpuExecutable.bind

    def counted(self: WebGpuExecutable, segment: int, *rest: Any) -> Any:
        segments.append(segment)
        return bind(self, segment, *rest)

    monkeypatch.setattr(WebGpuExecutable, "bind", counted)
    return segments


def session(weights: np.ndarray) -> InferenceSession:
    """How alike the rows of x [T, 8] are: softmax((x w) (x w)')."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["t"]),
        helper.make_node("Transpose", ["t"], ["u"], perm=[1, 0]),
        helper.make_node("MatMul", ["t", "u"], ["s"]),
        helper.make_node("Softmax", ["s"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["T", 8])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["T", "T"])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(weights, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return InferenceSession(model.SerializeToString(), providers=["WebGpuExecutionProvider"])


def test_lengths_that_fit_bind_nothing(bound: list[int], rng: np.random.Generator) -> None:
    weights = rng.normal(size=(8, 5)).astype("f4")
    alike = session(weights)
    lengths = [5, 40, *range(9, 36), 7, 40, 12]
    for length in lengths:
        x = rng.normal(size=(length, 8)).astype("f4")
        (y,) = alike.run(None, {"x": x})
        t = x.astype("f8") @ weights
        powers = np.exp(t @ t.T - (t @ t.T).max(1, keepdims=True))
        np.testing.assert_allclose(y, powers / powers.sum(1, keepdims=True), rtol=1e-4, atol=1e-6)
    assert len(bound) < len(lengths) / 3


def test_results_that_stay_are_those_of_their_run(native: WebGpuDevice, rng: np.random.Generator) -> None:
    weights = rng.normal(size=(8, 5)).astype("f4")
    alike = session(weights)
    binding = alike.io_binding()
    results = []
    arrays = [rng.normal(size=(length, 8)).astype("f4") for length in (30, 20, 25)]
    for x in arrays:
        binding.clear_binding_outputs()
        binding.bind_cpu_input("x", x)
        binding.bind_output("y", "webgpu")
        alike.run_with_iobinding(binding)
        results.append(binding.get_outputs()[0])
    for x, result in zip(arrays, results, strict=True):
        t = x.astype("f8") @ weights
        powers = np.exp(t @ t.T - (t @ t.T).max(1, keepdims=True))
        np.testing.assert_allclose(result.numpy(), powers / powers.sum(1, keepdims=True), rtol=1e-4, atol=1e-6)


def test_what_waits_has_the_parameters_that_it_was_given(device: WebGpuDevice) -> None:
    """They are written before anything that is not submitted yet."""
    x, y = put(device, np.arange(8, dtype=np.float32)), put(device, np.zeros(8, np.float32))
    executable = device.load([elementwise(["float32"], "float32", lambda x: x + 1, "next")], [[SegmentLaunch(0)]])
    run = executable.bind(0, [[x, y]], [[8]])
    run()
    assert executable.rebind(run, np.array([3], np.int64))
    assert device.download(y, np.dtype("f4"), (8,)).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
