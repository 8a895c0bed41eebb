"""LoRA adapters: what one side writes, the other reads, and runs take it."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import sardonyx
from sardonyx.api.capi.convert_npz_to_onnx_adapter import main
from sardonyx.errors import InvalidArgument, InvalidProtobuf, NotImplemented
from sardonyx.model.serde.adapter_format import read_adapter

SIDES = [sardonyx, onnxruntime]
BOTH = pytest.mark.parametrize("side", SIDES, ids=lambda side: side.__name__)
ARRAYS: dict[str, np.ndarray] = {
    "b": np.arange(4, dtype=np.float32).reshape(1, 4) + 7,
    "a": np.arange(4, dtype=np.float32).reshape(4, 1) + 3,
    "numbers": np.arange(10).reshape(2, 5),
    "half": np.array([1, 2, 3], np.float16),
    "empty": np.zeros((0, 3)),
    "é": np.ones((2, 1, 1), np.int8),
}


def written(side: ModuleType, path: Path, arrays: dict[str, np.ndarray]) -> Path:
    adapter = side.AdapterFormat()
    adapter.set_adapter_version(5)
    adapter.set_model_version(7)
    adapter.set_parameters({name: side.OrtValue.ortvalue_from_numpy(array) for name, array in arrays.items()})
    adapter.export_adapter(str(path))
    return path


@pytest.mark.parametrize("writer", SIDES, ids=lambda side: f"written by {side.__name__}")
@pytest.mark.parametrize("reader", SIDES, ids=lambda side: f"read by {side.__name__}")
def test_what_is_written_is_read(writer: ModuleType, reader: ModuleType, tmp_path: Path) -> None:
    adapter = reader.AdapterFormat.read_adapter(str(written(writer, tmp_path / "a.onnx_adapter", ARRAYS)))
    assert (adapter.get_adapter_version(), adapter.get_model_version(), adapter.get_format_version()) == (5, 7, 1)
    found = adapter.get_parameters()
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert found[name].numpy().dtype == array.dtype
        np.testing.assert_array_equal(found[name].numpy(), array)


def test_types_that_numpy_lacks(tmp_path: Path) -> None:
    array = np.array([[1.5, -2.0]], ml_dtypes.bfloat16)
    path = written(sardonyx, tmp_path / "a.onnx_adapter", {"w": array})
    theirs = onnxruntime.AdapterFormat.read_adapter(str(path)).get_parameters()["w"]
    assert theirs.element_type() == TensorProto.BFLOAT16
    assert sardonyx.AdapterFormat.read_adapter(path).get_parameters()["w"].element_type() == TensorProto.BFLOAT16


def adapted() -> bytes:
    """x W + x A B, where A and B have no columns and rows unless they are given."""

    def info(name: str, *shape: Any) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["xw"]),
        helper.make_node("MatMul", ["x", "a"], ["xa"]),
        helper.make_node("MatMul", ["xa", "b"], ["xab"]),
        helper.make_node("Add", ["xw", "xab"], ["y"]),
    ]
    constants = [
        helper.make_tensor("w", 1, [4, 4], np.arange(16)),
        helper.make_tensor("a", 1, [4, 0], []),
        helper.make_tensor("b", 1, [0, 4], []),
    ]
    inputs = [info("x", 4, 4), info("a", 4, "rank"), info("b", "rank", 4)]
    graph = helper.make_graph(nodes, "g", inputs, [info("y", 4, 4)], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


@BOTH
def test_runs_take_adapters(side: ModuleType, tmp_path: Path) -> None:
    x, weights = np.ones((4, 4), np.float32), np.arange(16, dtype=np.float32).reshape(4, 4)
    arrays = {name: ARRAYS[name] for name in "ab"}
    adapter, options = side.LoraAdapter(), side.RunOptions()
    adapter.Load(str(written(side, tmp_path / "a.onnx_adapter", arrays)))
    options.add_active_adapter(adapter)
    session = side.InferenceSession(adapted(), providers=["CPUExecutionProvider"])
    for _ in range(2):
        np.testing.assert_allclose(session.run(None, {"x": x})[0], x @ weights)
        (y,) = session.run(None, {"x": x}, options)
        np.testing.assert_allclose(y, x @ weights + x @ arrays["a"] @ arrays["b"])
    (y,) = session.run_with_ort_values(["y"], {"x": side.OrtValue.ortvalue_from_numpy(x)}, options)
    np.testing.assert_allclose(y.numpy(), x @ weights + x @ arrays["a"] @ arrays["b"])


def test_arrays_become_an_adapter(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **{name: ARRAYS[name] for name in "ab"})
    paths = ["--npz_file_path", str(tmp_path / "a.npz"), "--output_file_path", str(tmp_path / "a.onnx_adapter")]
    assert main([*paths, "--adapter_version", "2", "--model_version", "3"]) == 0
    theirs = onnxruntime.AdapterFormat.read_adapter(str(tmp_path / "a.onnx_adapter"))
    assert (theirs.get_adapter_version(), theirs.get_model_version()) == (2, 3)
    assert theirs.get_parameters().keys() == {"a", "b"}


def test_what_is_no_adapter(tmp_path: Path) -> None:
    with pytest.raises(InvalidProtobuf, match="no adapter in onnxruntime's format"):
        read_adapter(adapted())
    data = written(sardonyx, tmp_path / "a.onnx_adapter", ARRAYS).read_bytes()
    with pytest.raises(NotImplemented, match="version 9 of adapters is unknown"):
        read_adapter(data[:28] + b"\x09" + data[29:])
    with pytest.raises(InvalidProtobuf, match="a damaged adapter"):
        read_adapter(data[:100])
    with pytest.raises(InvalidArgument, match="no tensor of numbers"):
        sardonyx.AdapterFormat().set_parameters({"w": sardonyx.OrtValue.ortvalue_from_numpy(np.array(["a"]))})
