"""Sparse tensors say what onnxruntime's say."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import sardonyx
from sardonyx.errors import InvalidArgument
from tests.engine.providers import NUMPY, PROVIDERS, require_provider

VALUES = np.array([1, 2], np.float32)
PLACES = {
    "coordinates": np.array([[0, 1], [1, 2]], np.int64),
    "row-major": np.array([1, 5], np.int64),
}


def facts(tensor: Any) -> list[Any]:
    return [tensor.values().tolist(), list(tensor.dense_shape()), tensor.data_type(), tensor.device_name()]


@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
def test_coordinates(places: np.ndarray) -> None:
    ours, theirs = (
        side.SparseTensor.sparse_coo_from_numpy([3, 3], VALUES, places, side.OrtDevice.make("cpu", 0))
        for side in (sardonyx, onnxruntime)
    )
    assert facts(ours) == facts(theirs)
    assert int(ours.format()) == int(theirs.format())
    np.testing.assert_array_equal(ours.as_coo_view().indices(), theirs.as_coo_view().indices())


@pytest.mark.parametrize("side", [sardonyx, onnxruntime])
def test_what_it_is_not(side: ModuleType) -> None:
    cpu = side.OrtDevice.make("cpu", 0)
    tensor = side.SparseTensor.sparse_coo_from_numpy([3, 3], VALUES, PLACES["row-major"], cpu)
    with pytest.raises(RuntimeError, match=r"does not contain CSR\(C\) format"):
        tensor.as_csrc_view()
    with pytest.raises(RuntimeError, match="does not contain BlockSparse format"):
        tensor.as_blocksparse_view()
    with pytest.raises(RuntimeError):
        side.SparseTensor.sparse_coo_from_numpy([3, 3], VALUES, np.zeros(3, np.int64), cpu)


def test_rows() -> None:
    inner, outer = np.array([1, 2], np.int64), np.array([0, 1, 1, 2], np.int64)
    ours, theirs = (
        side.SparseTensor.sparse_csr_from_numpy([3, 3], VALUES, inner, outer, side.OrtDevice.make("cpu", 0))
        for side in (sardonyx, onnxruntime)
    )
    assert facts(ours) == facts(theirs)
    assert int(ours.format()) == int(theirs.format())
    for name in ("inner", "outer"):
        np.testing.assert_array_equal(getattr(ours.as_csrc_view(), name)(), getattr(theirs.as_csrc_view(), name)())
    with pytest.raises(RuntimeError, match="does not contain COO format"):
        ours.as_coo_view()


@pytest.mark.parametrize("side", [sardonyx, onnxruntime], ids=lambda side: side.__name__)
def test_what_it_holds_cannot_be_written_to(side: ModuleType) -> None:
    cpu = side.OrtDevice.make("cpu", 0)
    values = VALUES.copy()
    places = side.SparseTensor.sparse_coo_from_numpy([3, 3], values, PLACES["coordinates"], cpu)
    inner, outer = np.array([1, 2], np.int64), np.array([0, 1, 1, 2], np.int64)
    rows = side.SparseTensor.sparse_csr_from_numpy([3, 3], values, inner, outer, cpu)
    views = [places.values(), places.as_coo_view().indices(), rows.as_csrc_view().inner(), rows.as_csrc_view().outer()]
    for view in views:
        with pytest.raises(ValueError, match="read-only"):
            view[:] = 0
    assert values.flags.writeable


def kinds(side: ModuleType) -> dict[str, Any]:
    """One matrix in its three forms."""
    cpu, values = side.OrtDevice.make("cpu", 0), np.array([1, 2, 3], np.float32)
    outer = np.array([0, 1, 2, 2, 2, 2, 2, 2, 2, 3])
    return {
        "coordinates": side.SparseTensor.sparse_coo_from_numpy([9, 9], values, np.array([[0, 0], [1, 1], [8, 8]]), cpu),
        "row-major": side.SparseTensor.sparse_coo_from_numpy([9, 9], values, np.array([0, 10, 80]), cpu),
        "rows": side.SparseTensor.sparse_csr_from_numpy([9, 9], values, np.array([0, 1, 8]), outer, cpu),
    }


def product() -> bytes:
    node = helper.make_node("SparseToDenseMatMul", ["a", "b"], ["y"], domain="com.microsoft")
    inputs = [
        helper.make_sparse_tensor_value_info("a", TensorProto.FLOAT, [9, 9]),
        helper.make_tensor_value_info("b", TensorProto.FLOAT, [9, "N"]),
    ]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [9, "N"])])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("form", ["coordinates", "row-major", "rows"])
def test_sparse_inputs(form: str, provider: str) -> None:
    require_provider(provider)
    b = np.arange(18, dtype=np.float32).reshape(9, 2)
    wanted = np.zeros((9, 2), np.float32)
    wanted[[0, 1, 8]] = np.array([[1], [2], [3]]) * b[[0, 1, 8]]
    ours = sardonyx.InferenceSession(product(), providers=[provider])
    theirs = onnxruntime.InferenceSession(product(), providers=["CPUExecutionProvider"])
    assert list(map(str, ours.get_inputs())) == list(map(str, theirs.get_inputs()))
    if form != "row-major":  # onnxruntime multiplies by no such
        value = onnxruntime.OrtValue.ort_value_from_sparse_tensor(kinds(onnxruntime)[form])
        np.testing.assert_array_equal(theirs.run(None, {"a": value, "b": b})[0], wanted)
    value = sardonyx.OrtValue.ort_value_from_sparse_tensor(kinds(sardonyx)[form])
    for given in (value, kinds(sardonyx)[form]):
        np.testing.assert_array_equal(ours.run(None, {"a": given, "b": b})[0], wanted)
    (y,) = ours.run_with_ort_values(["y"], {"a": value, "b": sardonyx.OrtValue.ortvalue_from_numpy(b)})
    np.testing.assert_array_equal(y.numpy(), wanted)


def test_sparse_inputs_that_do_not_fit() -> None:
    session = sardonyx.InferenceSession(product(), providers=[NUMPY])
    cpu, b = sardonyx.OrtDevice.make("cpu", 0), np.zeros((9, 2), np.float32)
    for shape, places in (([8, 9], [0, 1]), ([9, 9], [0, 81]), ([9, 9], [-1, 0]), ([9, 9], [[0, 9], [0, 0]])):
        tensor = sardonyx.SparseTensor.sparse_coo_from_numpy(shape, VALUES, np.array(places), cpu)
        with pytest.raises(InvalidArgument, match=r"wants float32\[9,9\]|has values at"):
            session.run(None, {"a": tensor, "b": b})
    for outer in ([0, 1, 2, 2, 2, 2, 2, 2, 2, 1], [0, 2, 1, 2, 2, 2, 2, 2, 2, 2]):
        tensor = sardonyx.SparseTensor.sparse_csr_from_numpy([9, 9], VALUES, np.array([0, 1]), np.array(outer), cpu)
        with pytest.raises(InvalidArgument, match="the rows of a sparse matrix begin at"):
            session.run(None, {"a": tensor, "b": b})
    with pytest.raises(InvalidArgument, match="give a SparseTensor, not a list"):
        session.run(None, {"a": [1.0], "b": b})


def with_sparse(values: list[float], places: list[int], inputs: str, outputs: str, node: Any) -> bytes:
    """A model with a sparse initializer `w` of [3], which may be an input, too."""
    data = helper.make_tensor("w", TensorProto.FLOAT, [len(values)], values)
    sparse = helper.make_sparse_tensor(data, helper.make_tensor("i", TensorProto.INT64, [len(places)], places), [3])
    infos = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in side] for side in (inputs, outputs)
    ]
    graph = helper.make_graph([node], "g", *infos, sparse_initializer=[sparse])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


@pytest.mark.parametrize("side", [sardonyx, onnxruntime], ids=lambda side: side.__name__)
def test_a_sparse_initializer_that_is_an_input(side: ModuleType) -> None:
    data = with_sparse([2, 3], [0, 2], "xw", "y", helper.make_node("Add", ["x", "w"], ["y"]))
    session = side.InferenceSession(data, providers=["CPUExecutionProvider"])
    assert [each.name for each in session.get_inputs()] == ["x"]
    assert [each.name for each in session.get_overridable_initializers()] == ["w"]
    x = np.ones(3, np.float32)
    for _ in range(2):
        assert session.run(None, {"x": x})[0].tolist() == [3, 1, 4]
        assert session.run(None, {"x": x, "w": 5 * x})[0].tolist() == [6, 6, 6]


def test_a_sparse_initializer_that_is_an_output() -> None:
    """onnxruntime fails to run it."""
    data = with_sparse([2, 3], [0, 2], "x", "yw", helper.make_node("Add", ["x", "w"], ["y"]))
    session = sardonyx.InferenceSession(data, providers=[NUMPY])
    assert [each.tolist() for each in session.run(None, {"x": np.ones(3, np.float32)})] == [[3, 1, 4], [2, 0, 3]]


def sparse_constant() -> bytes:
    """onnxruntime's own test has the constant in the attribute `value`."""
    data = helper.make_tensor("v", TensorProto.FLOAT, [3], [1.5, 0.5, -2])
    sparse = helper.make_sparse_tensor(data, helper.make_tensor("i", TensorProto.INT64, [3], [2, 3, 5]), [3, 3])
    output = helper.make_sparse_tensor_value_info("y", TensorProto.FLOAT, [3, 3])
    graph = helper.make_graph([helper.make_node("Constant", [], ["y"], value=sparse)], "g", [], [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=8).SerializeToString()


@pytest.mark.parametrize("side", [sardonyx, onnxruntime], ids=lambda side: side.__name__)
def test_sparse_outputs(side: ModuleType) -> None:
    session = side.InferenceSession(sparse_constant(), providers=["CPUExecutionProvider"])
    for _ in range(2):
        (value,) = session.run_with_ort_values(["y"], {})
        assert value.is_sparse_tensor()
        tensor = value.as_sparse_tensor()
        assert (tensor.values().tolist(), tensor.as_coo_view().indices().tolist()) == ([1.5, 0.5, -2], [2, 3, 5])
        assert list(tensor.dense_shape()) == [3, 3]
        assert session.run(None, {})[0].values().tolist() == [1.5, 0.5, -2]
