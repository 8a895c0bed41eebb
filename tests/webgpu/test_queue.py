"""A run is one submission and one reading; long ones are several submissions."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sardonyx import InferenceSession
from sardonyx.demo import assets
from sardonyx.providers.contract import Address, SegmentLaunch
from sardonyx_webgpu.gpu.interface import Dispatch
from sardonyx_webgpu.runtime import queue
from sardonyx_webgpu.runtime.device import WebGpuDevice
from sardonyx_webgpu.runtime.queue import Work
from tests.webgpu.counting import counting
from tests.webgpu.harness import elementwise, put

F4 = np.dtype("f4")


def several_outputs() -> bytes:
    """y = relu(x w), its sum and its largest place, of other types and sizes, one of them empty."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Relu", ["p"], ["y"]),
        helper.make_node("ReduceSum", ["y"], ["total"], keepdims=0),
        helper.make_node("ArgMax", ["y"], ["place"], axis=1),
        helper.make_node("Slice", ["y", "none", "none"], ["empty"]),
    ]
    weights = [
        numpy_helper.from_array(np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32), "w"),
        numpy_helper.from_array(np.zeros(1, np.int64), "none"),
    ]
    outputs = [
        helper.make_tensor_value_info(name, dtype, None)
        for name, dtype in [("y", 1), ("total", 1), ("place", TensorProto.INT64), ("empty", 1)]
    ]
    inputs = [helper.make_tensor_value_info("x", 1, ["n", 7])]
    graph = helper.make_graph(nodes, "outputs", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString()


@pytest.mark.usefixtures("unhurried")
def test_a_second_run_is_one_submission_and_one_reading(native: WebGpuDevice) -> None:
    model = several_outputs()
    session = InferenceSession(model, providers=["WebGpuExecutionProvider"])
    (weight,) = (
        numpy_helper.to_array(t) for t in onnx.load_model_from_string(model).graph.initializer if t.name == "w"
    )
    x = np.random.default_rng(1).standard_normal((3, 7)).astype(np.float32)
    expected = np.maximum(x.astype(float) @ weight, 0)
    with counting(native) as gpu:
        for turn in range(4):
            y, total, place, empty = session.run(None, {"x": x})
            found = gpu.taken()
            if turn:
                assert found == {"write": 1, "submit": 1, "read": 1}
            np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(total, expected.sum(), rtol=1e-5)
            np.testing.assert_array_equal(place, expected.argmax(1)[:, None])
            assert empty.shape == (0, 5)


@pytest.mark.usefixtures("unhurried")
def test_digits(native: WebGpuDevice) -> None:
    session = InferenceSession(assets() / "digits.onnx", providers=["WebGpuExecutionProvider"])
    feed = {"image": np.zeros((1, 1, 28, 28), np.float32)}
    session.run(None, feed)
    with counting(native) as gpu:
        session.run(None, feed)
        assert gpu.taken() == {"write": 1, "submit": 1, "read": 1}


def work(*seconds: float) -> Work:
    return Work(None, [Dispatch(None, None, k, 1, 1) for k in range(len(seconds))], seconds)


def sizes(made: Work) -> list[int]:
    return [len(part.dispatches) for part, _ in made.passes]


def test_long_work_is_in_parts() -> None:
    assert sizes(work(0.01, 0.02)) == [2]
    assert sizes(work(0.03, 0.03, 0.01, 0.2, 0.04)) == [1, 2, 1, 1]
    learnt = work(*[0.01] * 8)
    assert sizes(learnt) == [5, 3]
    learnt.learn(100.0)  # drivers compile
    assert sizes(learnt) == [5, 3]
    learnt.learn(0.2)
    assert sizes(learnt) == [2] * 4
    learnt.learn(0.04)
    assert sizes(learnt) == [8]
    learnt.learn(0.5)
    assert sizes(learnt) == [8]


def test_parts_are_submitted_without_waiting(native: WebGpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "BOUND", 2.5e-10)
    monkeypatch.setattr(queue, "SECONDS_OF_A_BYTE", 1e-10 / 80)
    a, b = put(native, np.zeros(10, np.float32)), put(native, np.zeros(10, np.float32))
    step = elementwise(["float32"], "float32", lambda x: x * 2 + 1, "step")
    run = native.load([step], [[SegmentLaunch(0)] * 6]).bind(0, [[a, b], [b, a]] * 3, [[10]] * 6)
    with counting(native) as gpu:
        run()
        native.copy(Address(a.chunk, 0, 4), Address(b.chunk, 4, 4))
        found = native.download_all([(a, F4, (10,)), (b, F4, (2,))])
        assert gpu.taken() == {"submit": 3, "read": 1}
    assert (found[0] == 63).all()
    assert found[1].tolist() == [31, 63]


@pytest.mark.usefixtures("unhurried")
def test_many_small_commands_do_not_wait_for_ever(native: WebGpuDevice) -> None:
    a, b = put(native, np.arange(4, dtype=np.float32)), put(native, np.zeros(4, np.float32))
    with counting(native) as gpu:
        for _ in range(2 * queue.MOST_WAITING + 1):
            native.copy(a, b)
        assert gpu.taken() == {"submit": 2}
        assert native.download(b, F4, (4,)).tolist() == [0, 1, 2, 3]
        assert gpu.taken() == {"submit": 1, "read": 1}
