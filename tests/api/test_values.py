"""OrtValues beyond tensors, and runs on lists of them, as onnxruntime's interface has them."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import sardonyx
from sardonyx.errors import InvalidArgument

PACKAGES = pytest.mark.parametrize("package", [sardonyx, onnxruntime], ids=lambda package: package.__name__)
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def double() -> bytes:
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "double", info[:1], info[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


@PACKAGES
def test_sparse_values(package):
    sparse = package.SparseTensor.sparse_coo_from_numpy(
        [3, 3], np.ones(2, np.float32), np.array([1, 5]), package.OrtDevice.make("cpu", 0)
    )
    value = package.OrtValue.ort_value_from_sparse_tensor(sparse)
    assert value.is_sparse_tensor()
    assert not value.is_tensor()
    assert list(value.shape()) == [3, 3]
    assert value.data_type() == "sparse_tensor(float)"
    assert list(value.as_sparse_tensor().dense_shape()) == [3, 3]


def test_a_tensor_is_not_sparse():
    with pytest.raises(InvalidArgument, match="no sparse tensor"):
        sardonyx.OrtValue.ortvalue_from_numpy(X).as_sparse_tensor()


def test_runs_on_lists_of_values():
    session = sardonyx.InferenceSession(double(), providers=["NumpyExecutionProvider"])
    results = [None]
    feeds = [sardonyx.OrtValue.ortvalue_from_numpy(X)]
    session.run_with_ortvaluevector(None, ["x"], feeds, ["y"], results, [sardonyx.OrtDevice.make("cpu", 0)])
    np.testing.assert_array_equal(results[0].numpy(), 2 * X)


@PACKAGES
def test_values_for_a_session(package):
    session = package.InferenceSession(double(), providers=["CPUExecutionProvider"])
    value = session.create_ortvalue_from_shape_and_type([2, 3], np.float32, "cpu")
    value.update_inplace(X)
    np.testing.assert_array_equal(session.run_with_ort_values(["y"], {"x": value})[0].numpy(), 2 * X)


@PACKAGES
def test_values_go_by_dlpack(package):
    value = package.OrtValue.ortvalue_from_numpy(X)
    np.testing.assert_array_equal(np.from_dlpack(value), X)
    np.testing.assert_array_equal(package.OrtValue.from_dlpack(X).numpy(), X)
