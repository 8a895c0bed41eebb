"""OrtValues beyond tensors, and runs on lists of them, as onnxruntime's interface has them."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import sardonyx
from sardonyx.api.ort_value import fetched
from sardonyx.common import dtypes
from sardonyx.errors import InvalidArgument
from sardonyx.providers.contract import Address, Device
from sardonyx.runtime.handles import Handle
from tests.engine.providers import require_provider

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


@PACKAGES
def test_values_are_arrays(package):
    value = package.OrtValue.ortvalue_from_numpy(X)
    assert np.asarray(value).dtype == np.float32
    np.testing.assert_array_equal(np.asarray(value), X)
    assert np.shares_memory(np.asarray(value), X)
    assert np.asarray(value, np.float64).dtype == np.float64
    copy = np.array(value)
    copy[:] = 0
    np.testing.assert_array_equal(value.numpy(), X)


def test_what_is_no_tensor_is_no_array():
    sparse = sardonyx.SparseTensor.sparse_coo_from_numpy(
        [3, 3], np.ones(2, np.float32), np.array([1, 5]), sardonyx.OrtDevice.make("cpu", 0)
    )
    with pytest.raises(InvalidArgument, match="no tensor, so there is no array"):
        np.asarray(sardonyx.OrtValue.ort_value_from_sparse_tensor(sparse))


@PACKAGES
def test_values_are_fed(package):
    session = package.InferenceSession(double(), providers=["CPUExecutionProvider"])
    for _ in range(3):  # the second and third feed are like the ones before
        (y,) = session.run(None, {"x": package.OrtValue.ortvalue_from_numpy(X)})
        np.testing.assert_array_equal(y, 2 * X)
    with pytest.raises(Exception, match=r"float64|double"):
        session.run(None, {"x": package.OrtValue.ortvalue_from_numpy(X.astype(np.float64))})


@pytest.mark.parametrize("provider", ["NumpyExecutionProvider", "WasmExecutionProvider", "WebGpuExecutionProvider"])
def test_values_of_a_device_are_fed(provider):
    require_provider(provider)
    session = sardonyx.InferenceSession(double(), providers=[provider])
    kind = "gpu" if provider == "WebGpuExecutionProvider" else "cpu"
    value = sardonyx.OrtValue.ortvalue_from_numpy(X, kind)
    np.testing.assert_array_equal(session.run(None, {"x": value})[0], 2 * X)
    np.testing.assert_array_equal(np.asarray(value), X)


class Legacy:
    """What gives a capsule, and does not say of which device."""

    def __dlpack__(self):
        return X.__dlpack__()


@PACKAGES
@pytest.mark.parametrize("given", [X, X.__dlpack__, Legacy()], ids=["object", "capsule", "legacy"])
def test_capsules(package, given):
    value = package.OrtValue.from_dlpack(given() if callable(given) else given)
    assert value.data_type() == "tensor(float)"
    assert value.__dlpack_device__() == (1, 0)
    np.testing.assert_array_equal(value.numpy(), X)
    assert np.shares_memory(value.numpy(), X)


def test_truth_values_by_dlpack():
    assert sardonyx.OrtValue.from_dlpack(np.ones(2, bool)).data_type() == "tensor(bool)"
    legacy = np.ones(2, np.uint8).__dlpack__()
    assert sardonyx.OrtValue.from_dlpack(legacy, True).data_type() == "tensor(bool)"


@PACKAGES
def test_what_is_no_capsule(package):
    with pytest.raises(TypeError, match="from_dlpack expected"):
        package.OrtValue.from_dlpack(3)


@PACKAGES
def test_updates_by_values(package):
    value = package.OrtValue.ortvalue_from_numpy(np.zeros_like(X))
    value.update_inplace(package.OrtValue.ortvalue_from_numpy(X))
    np.testing.assert_array_equal(value.numpy(), X)
    with pytest.raises(TypeError, match=r"numpy\.ndarray or an OrtValue"):
        value.update_inplace(X.tolist())


class Faulty(Device):
    """A device whose reading has a fault."""

    allocate = upload = load = None

    def download_all(self, tensors):
        return self.no_such_member

    def download(self, *tensor):
        raise AssertionError("it has download_all")


def test_a_fault_in_a_download_shows():
    value = sardonyx.OrtValue.placed(Faulty(), Handle(0, Address(None, 0, 8), dtypes.float32, (2,)))
    with pytest.raises(AttributeError, match="no_such_member"):
        fetched([value])
