"""onnxruntime's native classes, which scripts reach past its Python ones, on both sides."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import sardonyx
from sardonyx.errors import InvalidArgument
from tests.api.sides import inner

SIDES = pytest.mark.parametrize("side", [sardonyx, onnxruntime], ids=lambda side: side.__name__)
X = np.arange(6, dtype=np.float32).reshape(2, 3)
CPU = "CPUExecutionProvider"


def native(side: ModuleType) -> Any:
    return inner(side, "capi._pybind_state")


def double() -> bytes:
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "double", infos[:1], infos[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


@SIDES
def test_native_sessions(side: ModuleType) -> None:
    classes = native(side)
    session = classes.InferenceSession(classes.get_default_session_options(), double(), False, False)
    session.initialize_session([CPU], [{}], set())
    assert session.get_providers()[0] == CPU
    assert [each.name for each in session.inputs_meta + session.outputs_meta] == ["x", "y"]
    assert session.model_meta.graph_name == "double"
    assert len(session.overridable_initializers) == 0
    np.testing.assert_array_equal(session.run(["y"], {"x": X}, None)[0], 2 * X)
    value = classes.OrtValue.ortvalue_from_numpy(X, classes.OrtDevice(0, 0, 0))
    found = session.run_with_ort_values({"x": value}, ["y"], classes.RunOptions())
    assert isinstance(found, classes.OrtValueVector)
    np.testing.assert_array_equal(found[0].numpy(), 2 * X)
    assert session.webgpu_context_id() == -1
    assert not session.is_webgpu_graph_capture_enabled()


@SIDES
def test_private_names_that_packages_read(side: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "double.onnx"
    path.write_bytes(double())
    session = side.InferenceSession(path, providers=[CPU])
    assert session._model_path == str(path)
    assert session._model_bytes is None
    of_bytes = side.InferenceSession(double(), providers=[CPU])
    assert of_bytes._model_path is None
    assert of_bytes._model_bytes == double()
    assert session._providers == session.get_providers()
    assert session._provider_options == session.get_provider_options()
    assert isinstance(session._sess_options, side.SessionOptions)
    assert [each.name for each in (*session._inputs_meta, *session._outputs_meta)] == ["x", "y"]
    assert list(session._overridable_initializers) == []
    assert session._model_meta.graph_name == "double"


def test_a_native_session_is_made_late() -> None:
    session = native(sardonyx).InferenceSession(None, double(), False)
    with pytest.raises(InvalidArgument, match="call initialize_session"):
        session.run(["y"], {"x": X}, None)
    with pytest.raises(RuntimeError, match="Unknown Provider Type: NoSuchProvider"):
        session.initialize_session(["NoSuchProvider"], [{}])


@SIDES
def test_native_bindings(side: ModuleType) -> None:
    classes, cpu = native(side), native(side).OrtDevice(0, 0, 0)
    session = side.InferenceSession(double(), providers=[CPU])
    binding = side.SessionIOBinding(session._sess)
    binding.bind_input("x", X)
    binding.bind_output("y", cpu)
    session._sess.run_with_iobinding(binding, None)
    found = binding.get_outputs()
    assert isinstance(found, classes.OrtValueVector)
    np.testing.assert_array_equal(found[0].numpy(), 2 * X)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], 2 * X)
    result = np.zeros_like(X)
    binding.bind_input("x", cpu, np.float32, X.shape, (x := X + 1).ctypes.data)
    binding.bind_output("y", cpu, np.float32, result.shape, result.ctypes.data)
    session._sess.run_with_iobinding(binding, None)
    np.testing.assert_array_equal(result, 2 * x)


@SIDES
def test_vectors(side: ModuleType) -> None:
    classes = native(side)
    vector = classes.OrtValueVector()
    vector.reserve(4)
    vector.push_back(classes.OrtValue.ortvalue_from_numpy(X, classes.OrtDevice(0, 0, 0)))
    vector.push_back(np.arange(3).__dlpack__(), False)
    vector.push_back(np.ones(2, np.uint8).__dlpack__(), True)
    tensor = np.full((2, 2), 7, np.int64)
    vector.push_back_batch([tensor], [tensor.ctypes.data], [np.int64], [[2, 2]], [classes.OrtDevice(0, 0, 0)])
    vector.shrink_to_fit()
    assert len(vector) == 4
    kinds = [TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.INT64]
    assert [vector.element_type_at(k) for k in range(4)] == kinds
    assert list(vector.bool_tensor_indices()) == [2]
    assert [value.shape() for value in vector] == [[2, 3], [3], [2], [2, 2]]
    back = classes.OrtValue.from_dlpack(vector.dlpack_at(0), False)
    assert back.data_ptr() == X.ctypes.data
    assert len(vector.to_dlpacks(None)) == 4
    np.testing.assert_array_equal(vector[3].numpy(), tensor)


@SIDES
def test_runs_on_vectors(side: ModuleType) -> None:
    classes, cpu = native(side), native(side).OrtDevice(0, 0, 0)
    feeds, fetches = classes.OrtValueVector(), classes.OrtValueVector()
    feeds.push_back(classes.OrtValue.ortvalue_from_numpy(X, cpu))
    session = side.InferenceSession(double(), providers=[CPU])
    session.run_with_ortvaluevector(side.RunOptions(), ["x"], feeds, ["y"], fetches, [cpu])
    np.testing.assert_array_equal(fetches[0].numpy(), 2 * X)


@SIDES
def test_capsules_tell_their_type(side: ModuleType) -> None:
    tell = native(side).is_dlpack_uint8_tensor
    assert [tell(np.ones(2, kind).__dlpack__()) for kind in (np.uint8, np.int8, np.float32)] == [True, False, False]


def test_tensors_are_copied() -> None:
    """onnxruntime has nobody who would do so between two tensors of the host."""
    source, target = (sardonyx.OrtValue.ortvalue_from_numpy(np.full(3, k)) for k in (1, 2))
    sardonyx.copy_tensors([source], [target])
    assert target.numpy().tolist() == [1, 1, 1]


@SIDES
def test_what_scripts_ask_of_the_collection(side: ModuleType) -> None:
    collection = inner(side, "capi.onnxruntime_inference_collection")
    normalize = collection.check_and_normalize_provider_args
    assert normalize(None, None, ["a"]) == ([], [])
    assert normalize([("a", {1: 2}), "b"], None, ["a", "b"]) == (["a", "b"], [{"1": "2"}, {}])
    assert normalize(["a", "b"], [{1: 2}, {}], ["a", "b"]) == (["a", "b"], [{"1": "2"}, {}])
    with pytest.warns(UserWarning, match="Duplicate provider 'a'"):
        assert normalize(["a", "a"], [{"x": 1}, {"y": 2}], ["a"]) == (["a"], [{"x": "1"}])
    with pytest.warns(UserWarning, match="'c' is not in available provider names"):
        assert normalize(["c"], None, ["a"]) == (["c"], [{}])
    for wrong in ((3, None), ([3], None), (["a"], 3), (["a"], ["x"]), (["a"], []), ([("a", {})], [{}])):
        with pytest.raises(ValueError, match="provider"):
            normalize(*wrong, ["a"])
    kinds = ["cpu", "cuda", "dml", "gpu", "npu", "cann", "webgpu"]
    assert [collection.get_ort_device_type(kind) for kind in kinds] == [0, 1, 4, 1, 3, 3, 1]
    assert [collection.get_vendor_id_for_device_type(kind) for kind in kinds] == [
        None,
        side.OrtDeviceVendorId.NVIDIA,
        side.OrtDeviceVendorId.MICROSOFT,
        None,
        None,
        side.OrtDeviceVendorId.HUAWEI,
        side.OrtDeviceVendorId.NONE,
    ]
