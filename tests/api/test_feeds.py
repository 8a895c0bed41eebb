"""What may be fed to a session, and what is said of the rest, as onnxruntime has it."""

from __future__ import annotations

import io
from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import sardonyx
from sardonyx import errors
from sardonyx.api import feeds

CPU = ["CPUExecutionProvider"]
SIDES = pytest.mark.parametrize("side", [sardonyx, onnxruntime], ids=lambda side: side.__name__)


def model(op_type: str, types: dict[str, int], result: int) -> bytes:
    inputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in types.items()]
    node = helper.make_node(op_type, list(types), ["y"])
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", result, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def identity(kind: int) -> bytes:
    return model("Identity", {"x": kind}, kind)


@SIDES
@pytest.mark.parametrize(
    ("kind", "given", "wanted"),
    [
        ("BOOL", [True, False], [True, False]),
        ("BOOL", [1, 0], [True, False]),
        ("BOOL", [0.5, 0], [True, False]),
        ("BOOL", [], []),
        ("INT64", [True, False], [1, 0]),
        ("FLOAT", [True, False], [1.0, 0.0]),
        ("FLOAT16", [1, 2.5], [1.0, 2.5]),
    ],
)
def test_lists(side: ModuleType, kind: str, given: list[Any], wanted: list[Any]) -> None:
    session = side.InferenceSession(identity(TensorProto.DataType.Value(kind)), providers=CPU)
    (y,) = session.run(None, {"x": given})
    assert y.dtype == helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(kind))
    assert y.tolist() == wanted


@SIDES
def test_an_element_of_any_rank_is_a_scalar(side: ModuleType) -> None:
    x, s, y = (helper.make_tensor_value_info(*told) for told in (("x", 1, [2]), ("s", 1, []), ("y", 1, [2])))
    graph = helper.make_graph([helper.make_node("Mul", ["x", "s"], ["y"])], "g", [x, s], [y])
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    session = side.InferenceSession(data, providers=CPU)
    for scale in (np.full((), 3, np.float32), np.full(1, 3, np.float32)):
        (found,) = session.run(None, {"x": np.ones(2, np.float32), "s": scale})
        assert found.tolist() == [3, 3]


def test_lists_that_would_lose_something() -> None:
    session = sardonyx.InferenceSession(identity(TensorProto.INT64), providers=CPU)
    with pytest.raises(errors.InvalidArgument, match="wants int64, not NumPy's float64"):
        session.run(None, {"x": [1.5, 2.0]})


def test_numpys_own_integers_where_they_have_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """`np.array([1, 2])` in Pyodide, and on boards of 32 bits."""
    session = sardonyx.InferenceSession(identity(TensorProto.INT64), providers=CPU)
    array = np.array([1, -2], np.int32)
    with pytest.raises(errors.InvalidArgument, match="wants int64, not NumPy's int32"):
        session.run(None, {"x": array})
    monkeypatch.setattr(feeds, "OWN", np.dtype(np.int32))
    (y,) = session.run(None, {"x": array})
    assert y.dtype == np.int64
    assert y.tolist() == [1, -2]
    with pytest.raises(errors.InvalidArgument, match="wants int64, not NumPy's int16"):
        session.run(None, {"x": array.astype(np.int16)})
    others = sardonyx.InferenceSession(identity(TensorProto.INT32), providers=CPU)
    assert others.run(None, {"x": array})[0].dtype == np.int32


@SIDES
@pytest.mark.parametrize(
    ("array", "wanted"),
    [
        (np.array(["a", "bcd", ""]), ["a", "bcd", ""]),
        (np.array([b"ab", b"cd"], np.void), ["ab", "cd"]),
        (np.array([b"A\0A\0", b"B\0B\0"], np.void), ["A\0A\0", "B\0B\0"]),  # a void keeps the zeros at its end
        (np.array(["é", "你好"], object), ["é", "你好"]),
        (["a", "b"], ["a", "b"]),
    ],
    ids=["U", "V", "V with zeros", "O", "list"],
)
def test_strings(side: ModuleType, array: Any, wanted: list[str]) -> None:
    session = side.InferenceSession(identity(TensorProto.STRING), providers=CPU)
    for _ in range(2):
        assert session.run(None, {"x": array})[0].tolist() == wanted


def test_bytes() -> None:
    """onnxruntime reads on behind their ends."""
    session = sardonyx.InferenceSession(identity(TensorProto.STRING), providers=CPU)
    assert session.run(None, {"x": np.array([b"a", b"bcd"])})[0].tolist() == ["a", "bcd"]


@SIDES
def test_inputs_that_are_missing(side: ModuleType) -> None:
    session = side.InferenceSession(model("Add", {"x": 1, "z": 1}, 1), providers=CPU)
    for feed, missing in (({}, r"\['x', 'z'\]"), ({"x": np.ones(1, np.float32)}, r"\['z'\]")):
        with pytest.raises(ValueError, match=rf"Required inputs \({missing}\) are missing from input feed \("):
            session.run(None, feed)


@SIDES
def test_none_for_a_tensor(side: ModuleType) -> None:
    """Clip takes none for `low`, too; but the model says that there is one."""
    session = side.InferenceSession(model("Clip", {"x": 1, "low": 1}, 1), providers=CPU)
    x, low = np.array([-2, 2], np.float32), np.array(-1, np.float32)
    with pytest.raises(Exception, match="Missing Input: low") as caught:
        session.run(None, {"x": x, "low": None})
    assert type(caught.value).__name__ == "Fail"
    assert session.run(None, {"x": x, "low": low})[0].tolist() == [-1, 2]


@SIDES
def test_keys_of_another_type(side: ModuleType) -> None:
    kind = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    node = helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", int64_vocabulary=[3, 1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", [helper.make_value_info("x", kind)], [y])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    data = helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()
    session = side.InferenceSession(data, providers=CPU)
    with pytest.raises(RuntimeError, match="Unexpected key type  <class 'str'>, it cannot be linked to C type int64_t"):
        session.run(None, {"x": {1: 2.0, "a": 5.6}})


@pytest.mark.parametrize(
    ("given", "way"), [(io.BytesIO(), "which its getvalue() gives"), (helper.make_model, ""), (3, ""), (None, "")]
)
def test_what_is_no_model(given: Any, way: str) -> None:
    with pytest.raises(TypeError) as wanted:
        onnxruntime.InferenceSession(given)
    with pytest.raises(TypeError) as caught:
        sardonyx.InferenceSession(given)
    assert str(caught.value).startswith(f"{wanted.value}: a model is a path, or bytes")
    assert str(caught.value).endswith(way)
