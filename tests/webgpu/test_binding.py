"""Values on the GPU: bound, fed to another session, kept from run to run, given back, and lost."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from onnx import helper, numpy_helper

import sardonyx as ort
from sardonyx.errors import Fail, InvalidArgument
from sardonyx_webgpu import provider
from sardonyx_webgpu.runtime.device import WebGpuDevice
from tests.webgpu.counting import counting

GPU = ["WebGpuExecutionProvider"]


def model(nodes: list, inputs: dict[str, list], outputs: list[str], weights: dict[str, np.ndarray]) -> bytes:
    graph = helper.make_graph(
        nodes,
        "bound",
        [helper.make_tensor_value_info(name, 1, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, 1, None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString()


def scaled(by: float) -> bytes:
    """y = x * by"""
    node = helper.make_node("Mul", ["x", "by"], ["y"])
    return model([node], {"x": ["n", 3]}, ["y"], {"by": np.array(by, np.float32)})


def cached() -> bytes:
    """A cache that grows by one row, and the sum of its rows."""
    nodes = [
        helper.make_node("Concat", ["past", "x"], ["present"], axis=0),
        helper.make_node("ReduceSum", ["present", "axis"], ["total"], keepdims=0),
    ]
    return model(nodes, {"past": ["n", 4], "x": [1, 4]}, ["present", "total"], {"axis": np.array([0], np.int64)})


def stepping() -> bytes:
    """A state of a fixed size: next = state + x, as two outputs."""
    nodes = [
        helper.make_node("Add", ["state", "x"], ["next"]),
        helper.make_node("Tanh", ["next"], ["seen"]),
    ]
    return model(nodes, {"state": [2, 5], "x": [2, 5]}, ["next", "seen"], {})


def test_what_an_ortvalue_is(native: WebGpuDevice, rng: np.random.Generator) -> None:
    for kind in ("gpu", "webgpu", "cpu"):
        array = rng.standard_normal((2, 3)).astype(np.float16)
        value = ort.OrtValue.ortvalue_from_numpy(array, kind, 0)
        assert (value.shape(), value.data_type(), value.element_type()) == ([2, 3], "tensor(float16)", 10)
        assert value.device_name() == ("cpu" if kind == "cpu" else "gpu")
        assert (value.has_value(), value.is_tensor(), value.tensor_size_in_bytes()) == (True, True, 12)
        np.testing.assert_array_equal(value.numpy(), array)
        value.update_inplace(array + 1)
        np.testing.assert_array_equal(value.numpy(), array + 1 if kind != "cpu" else array)
        np.testing.assert_array_equal(np.from_dlpack(value), value.numpy())
        with pytest.raises(InvalidArgument, match=r"tensor\(float16\)\[2, 3\] on .*, not float32\[2, 3\]"):
            value.update_inplace(array.astype(np.float32))
    empty = ort.OrtValue.ortvalue_from_numpy(np.zeros((0, 3), np.int64), "gpu")
    assert empty.numpy().shape == (0, 3)
    made = ort.OrtValue.ortvalue_from_shape_and_type([4], np.int64, "gpu", 0)
    assert (made.shape(), made.data_type()) == ([4], "tensor(int64)")
    with pytest.raises(InvalidArgument, match="no device 'cuda' number 0; there are cpu, gpu, webgpu"):
        ort.OrtValue.ortvalue_from_numpy(np.zeros(1), "cuda", 0)
    with pytest.raises(InvalidArgument, match="number 1"):
        ort.OrtValue.ortvalue_from_numpy(np.zeros(1), "gpu", 1)


@pytest.mark.usefixtures("unhurried")
def test_one_session_feeds_another(native: WebGpuDevice) -> None:
    first, second = (ort.InferenceSession(scaled(by), providers=GPU) for by in (2.0, 5.0))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    one, two = first.io_binding(), second.io_binding()
    one.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(x, "gpu", 0))
    one.bind_output("y", "gpu")
    for turn in range(3):
        with counting(native) as gpu:
            first.run_with_iobinding(one)
            two.bind_ortvalue_input("x", one.get_outputs()[0])
            two.bind_output("y", "webgpu")
            second.run_with_iobinding(two)
            counts = gpu.taken()
        if turn:
            assert "read" not in counts
            assert "write" not in counts
            assert "storage_group" not in counts
        (found,) = two.copy_outputs_to_cpu()
        np.testing.assert_array_equal(found, x * 10)


@pytest.mark.usefixtures("unhurried")
def test_a_state_stays_on_the_device(native: WebGpuDevice, rng: np.random.Generator) -> None:
    session = ort.InferenceSession(stepping(), providers=GPU)
    state, x = (rng.standard_normal((2, 5)).astype(np.float32) for _ in range(2))
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(x, "gpu"))
    binding.bind_ortvalue_input("state", ort.OrtValue.ortvalue_from_numpy(state, "gpu"))
    binding.bind_output("next", "gpu")
    for turn in range(5):
        with counting(native) as gpu:
            session.run_with_iobinding(binding)
            counts = gpu.taken()
        if turn:
            assert counts == {"buffer": 1, "submit": 1}
        binding.bind_ortvalue_input("state", binding.get_outputs()[0])
    np.testing.assert_allclose(binding.get_outputs()[0].numpy(), state + 5 * x, rtol=1e-5)


@pytest.mark.usefixtures("unhurried")
def test_a_cache_that_grows_stays_on_the_device(native: WebGpuDevice, rng: np.random.Generator) -> None:
    session = ort.InferenceSession(cached(), providers=GPU)
    rows = rng.standard_normal((6, 1, 4)).astype(np.float32)
    binding = session.io_binding()
    binding.bind_ortvalue_input("past", ort.OrtValue.ortvalue_from_numpy(np.zeros((0, 4), np.float32), "gpu"))
    for k, row in enumerate(rows):
        binding.bind_cpu_input("x", row)
        binding.bind_output("present", "gpu")
        binding.bind_output("total")
        with counting(native) as gpu:
            session.run_with_iobinding(binding)
            counts = gpu.taken()
        present, total = binding.get_outputs()
        if k > 1:
            assert counts["read"] == 1  # the total
            assert counts["write"] == 2  # the row, and the sizes
        assert (present.device_name(), total.device_name(), present.shape()) == ("gpu", "cpu", [k + 1, 4])
        np.testing.assert_allclose(total.numpy(), rows[: k + 1].sum((0, 1)), rtol=1e-5, atol=1e-6)
        binding.bind_ortvalue_input("past", present)
    np.testing.assert_array_equal(present.numpy(), rows[:, 0])


def test_outputs_in_memory_that_is_there(native: WebGpuDevice) -> None:
    session = ort.InferenceSession(scaled(2.0), providers=GPU)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    there = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32, "gpu")
    here = np.zeros((2, 3), np.float32)
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, [2, 3], x.ctypes.data)
    binding.bind_ortvalue_output("y", there)
    session.run_with_iobinding(binding)
    assert binding.get_outputs() == [there]
    np.testing.assert_array_equal(there.numpy(), x * 2)
    binding.bind_ortvalue_input("x", there)  # in place
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(there.numpy(), x * 4)
    binding.bind_output("y", "cpu", 0, np.float32, [2, 3], here.ctypes.data)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(here, x * 8)
    binding.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_shape_and_type([3, 2], np.float32, "gpu"))
    with pytest.raises(InvalidArgument, match=r"'y' is .*\[2, 3\], but is bound to .*\[3, 2\]"):
        session.run_with_iobinding(binding)
    with pytest.raises(InvalidArgument, match="no output 'z'"):
        binding.bind_output("z")
    binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(np.zeros((2, 3), np.int32), "gpu"))
    with pytest.raises(InvalidArgument, match=r"input 'x' wants .*float.*, not int32"):
        session.run_with_iobinding(binding)


@pytest.mark.parametrize("name", ["CPUExecutionProvider", "NumpyExecutionProvider", "WebGpuExecutionProvider"])
def test_values_from_anywhere(native: WebGpuDevice, name: str) -> None:
    session = ort.InferenceSession(scaled(3.0), providers=[name])
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for kind in ("cpu", "gpu"):
        (y,) = session.run_with_ort_values(None, {"x": ort.OrtValue.ortvalue_from_numpy(x, kind)})
        assert y.device_name() == "cpu"
        np.testing.assert_array_equal(y.numpy(), x * 3)
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(x, kind))
        there = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32, "gpu")
        binding.bind_ortvalue_output("y", there)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(there.numpy(), x * 3)
    if name != "WebGpuExecutionProvider":
        binding.bind_output("y", "gpu")
        with pytest.raises(InvalidArgument, match="bound to WebGpuExecutionProvider, which this session does not have"):
            session.run_with_iobinding(binding)


def test_released_values_give_their_memory_back(native: WebGpuDevice) -> None:
    value = ort.OrtValue.ortvalue_from_numpy(np.zeros(1000, np.float32), "gpu")
    assert value.place is not None
    number = value.place.address.chunk.number
    del value
    gc.collect()
    assert number in [dead for dead, _, _ in native._dead]
    native.free(native.allocate(4))
    assert not native._dead


@pytest.mark.filterwarnings("ignore:.*the GPU was lost")
def test_values_of_a_device_that_was_lost(alone: None) -> None:
    session = ort.InferenceSession(scaled(3.0), providers=["WebGpuExecutionProvider"])
    x = np.ones((2, 3), np.float32)
    value = ort.OrtValue.ortvalue_from_numpy(x, "gpu")
    assert session.run_with_ort_values(None, {"x": value})[0].numpy().tolist() == [[3] * 3] * 2
    provider.device({}).gpu._device.destroy()
    for _ in range(2):
        with pytest.raises(Fail, match="is gone, since the GPU was lost: make this OrtValue anew"):
            session.run_with_ort_values(None, {"x": value})
    with pytest.raises(Fail, match="make this OrtValue anew"):
        value.numpy()
    value = ort.OrtValue.ortvalue_from_numpy(x, "gpu")
    assert session.run_with_ort_values(None, {"x": value})[0].numpy().tolist() == [[3] * 3] * 2
