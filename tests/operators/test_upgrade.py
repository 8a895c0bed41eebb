"""Models in old operator sets, lifted and evaluated: against onnxruntime, NumPy, or data that an exporter left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from sardonyx import InferenceSession, errors
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import write
from sardonyx.passes.upgrade import NEWEST, upgrade
from tests.support import eager

from .test_samples import assert_near

Arrays = list[np.ndarray]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 3, 4)).astype(np.float32)
IMAGE = RNG.normal(size=(2, 3, 4, 5)).astype(np.float32)
CHANNEL = RNG.normal(size=3).astype(np.float32)
POSITIVE = np.array([0.5, 1.0, 2.0], np.float32)


def model_of(op_type: str, opset: int, arrays: Arrays, attributes: dict[str, Any], outputs: int = 1) -> onnx.ModelProto:
    names = [f"x{number}" for number in range(len(arrays))]
    results = [f"y{number}" for number in range(outputs)]
    node = helper.make_node(op_type, names, results, **attributes)
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim)
        for name, array in zip(names, arrays, strict=True)
    ]
    graph = helper.make_graph([node], op_type, inputs, [onnx.ValueInfoProto(name=name) for name in results])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def run(model: onnx.ModelProto, arrays: Arrays) -> Arrays:
    return eager.evaluate(model, {f"x{number}": array for number, array in enumerate(arrays)})


def runtime(model: onnx.ModelProto, arrays: Arrays) -> Arrays:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, {f"x{number}": array for number, array in enumerate(arrays)}))


def case(op_type: str, opset: int, *arrays: np.ndarray, expected: np.ndarray | None = None, **attributes: Any) -> Any:
    text = "-".join(f"{key}{value}" for key, value in attributes.items()).replace(" ", "")
    return pytest.param(op_type, opset, list(arrays), attributes, expected, id=f"{op_type}-{opset}-{text}")


REDUCTIONS = ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"]

LIFTED_FOR_RUNTIME = [
    *(case(name, 9, X) for name in ("Softmax", "LogSoftmax", "Hardmax")),
    *(case(name, 9, X, axis=axis) for name in ("Softmax", "LogSoftmax", "Hardmax") for axis in (0, 2)),
    *(case(name, 12, X, axis=axis) for name in ("Softmax", "LogSoftmax", "Hardmax") for axis in (-1, -2)),
    *(case(f"Reduce{name}", 11, np.abs(X), axes=[0, -1], keepdims=0) for name in REDUCTIONS),
    *(case(f"Reduce{name}", 11, np.abs(X)) for name in REDUCTIONS),
    *(case(f"Reduce{name}", 13, np.abs(X), axes=[1]) for name in REDUCTIONS[1:]),
    case("Clip", 6, X, min=-0.5, max=0.25),
    case("Clip", 6, X, min=-0.5),
    case("Clip", 10, X, max=0.25),
    case("Clip", 6, X),
    case("Dropout", 7, X, ratio=0.25),
    case("Dropout", 10, X),
    case("BatchNormalization", 7, IMAGE, CHANNEL, CHANNEL, CHANNEL, POSITIVE, epsilon=0.1),
    case("BatchNormalization", 9, X, CHANNEL, CHANNEL, CHANNEL, POSITIVE, momentum=0.5),
    case("BatchNormalization", 7, IMAGE, IMAGE[0], IMAGE[1], IMAGE[0], np.abs(IMAGE[1]), spatial=0),
    case("PRelu", 7, X, CHANNEL[:, None]),
    case("PRelu", 9, X, CHANNEL[:, None]),
    case("GroupNormalization", 18, IMAGE[:, [0, 1, 2, 0]], CHANNEL[:2], CHANNEL[1:], num_groups=2),
    case("QuantizeLinear", 10, X, np.array(0.02, np.float32), np.array(7, np.uint8)),
    case("DequantizeLinear", 10, np.array([-3, 7], np.int8), np.array(0.5, np.float32), np.array(1, np.int8)),
    case("CumSum", 11, X, np.array(1, np.int32), reverse=1),
    case("ArgMax", 11, X, axis=-1),
    case("MeanVarianceNormalization", 1, IMAGE),
    case("MeanVarianceNormalization", 8, IMAGE, across_channels=1),
    case("MeanVarianceNormalization", 8, IMAGE, normalize_variance=0),
    case("MeanVarianceNormalization", 8, IMAGE, across_channels=1, normalize_variance=0),
    *(case("Affine", 1, X, **attributes) for attributes in ({}, {"alpha": 2.5}, {"alpha": 0.5, "beta": -3.0})),
    *(case("Scale", 9, X, **attributes) for attributes in ({}, {"scale": -1.5})),
    *(case("ImageScaler", 9, IMAGE, bias=[1.0, 0.0, -2.0], **scale) for scale in ({}, {"scale": 0.5})),
    case("ImageScaler", 9, IMAGE[:, :1], bias=[0.25], scale=2.0),
    *(case(name, 1, X, alpha=2.0, beta=-30.0) for name in ("ParametricSoftplus", "ScaledTanh")),
    case("Crop", 9, IMAGE, border=[1, 0, 2, 1]),
    case("Crop", 9, IMAGE, border=[0, 0, 0, 0]),
    case("Crop", 9, IMAGE, border=[2, 1, 0, 0], scale=[2, 3]),
    case("DynamicSlice", 9, X, np.array([1, 0]), np.array([3, -1])),
    case("DynamicSlice", 9, X, np.array([1], np.int32), np.array([9], np.int32), np.array([-1], np.int32)),
]

ROW, SLOPES = np.array([0.5, -1, 2, 3], np.float32), np.array([0.25, -0.5, 2], np.float32)
NEGATIVE = np.minimum(X, 0)

LIFTED_BY_HAND = [
    case("Add", 6, X, ROW, broadcast=1, expected=X + ROW),
    case("Add", 1, X, SLOPES, broadcast=1, axis=1, consumed_inputs=[0, 0], expected=X + SLOPES[:, None]),
    case("Sub", 6, X, X[:, :, 0], broadcast=1, axis=0, expected=X - X[:, :, :1]),
    case("Mul", 6, X, np.array(2, np.float32), broadcast=1, expected=X * 2),
    case("Div", 6, X, np.array([4], np.float32), broadcast=1, axis=0, expected=X / 4),
    case("Pow", 1, np.abs(X), SLOPES, broadcast=1, axis=1, expected=np.abs(X) ** SLOPES[:, None]),
    case("Sub", 6, X, ROW, broadcast=1, axis=-1, expected=X - ROW),
    case("Equal", 1, X.astype(np.int32), np.array([0, 1, 2], np.int32), broadcast=1, axis=1,
         expected=X.astype(np.int32) == np.array([[0], [1], [2]])),
    case("Greater", 1, X, SLOPES, broadcast=1, axis=1, expected=SLOPES[:, None] < X),
    case("Less", 1, X, SLOPES, broadcast=1, axis=1, expected=SLOPES[:, None] > X),
    case("And", 1, X > 0, SLOPES > 0, broadcast=1, axis=1, expected=(X > 0) & (SLOPES > 0)[:, None]),
    case("Or", 1, X > 0, ROW > 0, broadcast=1, expected=(X > 0) | (ROW > 0)),
    case("Xor", 1, X > 0, X < 1, expected=(X > 0) ^ (X < 1)),
    case("PRelu", 6, X, SLOPES, expected=np.where(X < 0, SLOPES[:, None] * X, X)),
    case("PRelu", 6, X, SLOPES[:1], expected=np.where(X < 0, SLOPES[0] * X, X)),
    case("Cast", 1, X, to="INT32", expected=X.astype(np.int32)),
    case("Cast", 1, X, to="DOUBLE", expected=X.astype(np.float64)),
    case("Cast", 6, X, to=7, expected=X.astype(np.int64)),
    case("Clip", 6, X.astype(np.float64), min=-0.5, max=0.25, expected=np.clip(X.astype(np.float64), -0.5, 0.25)),
    case("Clip", 1, X.astype(np.float16), min=-0.5, expected=np.maximum(X.astype(np.float16), np.float16(-0.5))),
    case("Selu", 1, NEGATIVE, expected=(1.0507 * 1.6732 * np.expm1(NEGATIVE)).astype(np.float32)),
    case("Dropout", 1, X, is_test=1, ratio=0.25, expected=X),
    case("BatchNormalization", 6, IMAGE, CHANNEL, CHANNEL, CHANNEL, POSITIVE, is_test=1,
         expected=((IMAGE - CHANNEL[:, None, None]) / np.sqrt(POSITIVE + 1e-5)[:, None, None]
                   * CHANNEL[:, None, None] + CHANNEL[:, None, None]).astype(np.float32)),
    case("Relu", 1, X, consumed_inputs=[0], expected=np.maximum(X, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("op_type", "opset", "arrays", "attributes", "expected"), LIFTED_FOR_RUNTIME)
def test_against_onnxruntime(
    op_type: str, opset: int, arrays: Arrays, attributes: dict[str, Any], expected: None
) -> None:
    model = model_of(op_type, opset, arrays, attributes)
    wanted = runtime(model, arrays)
    assert_near(run(model, arrays), wanted, 1e-5)
    check(model, wanted)


@pytest.mark.parametrize(("op_type", "opset", "arrays", "attributes", "expected"), LIFTED_BY_HAND)
def test_against_numpy(
    op_type: str, opset: int, arrays: Arrays, attributes: dict[str, Any], expected: np.ndarray
) -> None:
    model = model_of(op_type, opset, arrays, attributes)
    assert_near(run(model, arrays), [expected], 1e-5)
    check(model, [expected])


@pytest.mark.parametrize(
    ("op_type", "name"),
    [("ImageScaler", "bias"), ("ParametricSoftplus", "alpha"), ("ScaledTanh", "alpha"), ("Crop", "border")],
)
def test_a_missing_attribute(op_type: str, name: str) -> None:
    message = f"{op_type} 'y0' is no {op_type} of operator set 9: the attribute '{name}' is missing"
    with pytest.raises(errors.InvalidGraph, match=message):
        run(model_of(op_type, 9, [IMAGE], {}), [IMAGE])


def test_the_form_of_an_older_operator_set() -> None:
    """As quantizers leave it that say a newer operator set of a model and lift nothing."""
    model = model_of("ReduceMean", 21, [X], {"axes": [1]})
    with pytest.raises(errors.InvalidGraph, match="ReduceMean 'y0' has no attribute 'axes' in this operator set; the"):
        InferenceSession(model.SerializeToString())


def test_known_ranks() -> None:
    """With shapes at hand, the operand of a broadcast from an axis gets axes behind it, and nothing is transposed."""
    model = model_of("Add", 6, [X, SLOPES], {"broadcast": 1, "axis": 1})
    for value, array in zip(model.graph.input, (X, SLOPES), strict=True):
        value.CopyFrom(helper.make_tensor_value_info(value.name, onnx.TensorProto.FLOAT, array.shape))
    assert [node.op_type for node in upgrade(read(model.SerializeToString())).graph.nodes] == ["Unsqueeze", "Add"]
    assert_near(run(model, [X, SLOPES]), [X + SLOPES[:, None]], 1e-6)


def check(model: onnx.ModelProto, results: Arrays) -> None:
    """The lifted model is a valid one of the newest operator set, whose outputs have their names."""
    lifted = upgrade(read(model.SerializeToString()))
    assert lifted.opset_imports[""] == NEWEST[""]
    written = onnx.load_from_string(write(lifted))
    assert [value.name for value in written.graph.output] == [value.name for value in model.graph.output]
    for value, array in zip(written.graph.output, results, strict=True):
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
        value.CopyFrom(helper.make_tensor_value_info(value.name, dtype, array.shape))
    written.ir_version = helper.VERSION_TABLE[-1][1]
    onnx.checker.check_model(written, full_check=True)


DATA = Path(onnx.backend.test.__file__).parent / "data"
TRAINING = {"test_gradient_of_add", "test_gradient_of_add_and_mul"}
EXPORTED = sorted(
    path
    for kind in ("pytorch-operator", "pytorch-converted", "simple")
    for path in (DATA / kind).iterdir()
    if path.name not in TRAINING
)


@pytest.mark.parametrize("path", EXPORTED, ids=lambda path: path.name)
def test_exported(path: Path) -> None:
    model = onnx.load(path / "model.onnx")
    for folder in sorted(path.glob("test_data_set_*")):
        initialized = {tensor.name for tensor in model.graph.initializer}
        names = [value.name for value in model.graph.input if value.name not in initialized]
        feeds = {name: tensor(folder / f"input_{number}.pb") for number, name in enumerate(names)}
        wanted = [tensor(folder / f"output_{number}.pb") for number in range(len(model.graph.output))]
        assert_near(eager.evaluate(model, feeds), wanted, 1e-5)


def tensor(path: Path) -> np.ndarray:
    proto = onnx.TensorProto()
    proto.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(proto)


def test_newest_stays() -> None:
    model = read(model_of("Relu", NEWEST[""], [X], {}).SerializeToString())
    nodes = list(model.graph.nodes)
    assert upgrade(model) is model
    assert model.graph.nodes == nodes


def test_newest_is_that_of_onnx() -> None:
    assert NEWEST[""] == onnx.defs.onnx_opset_version()
    ml = [schema for schema in onnx.defs.get_all_schemas() if schema.domain == "ai.onnx.ml"]
    assert NEWEST["ai.onnx.ml"] == max(schema.since_version for schema in ml)


def test_newer_operator_set() -> None:
    model = read(model_of("Relu", 99, [X], {}).SerializeToString())
    with pytest.raises(errors.NotImplemented, match=r"operator set 99 of ai\.onnx, and 28 is the newest"):
        upgrade(model)


def test_unknown_operator() -> None:
    model = model_of("Relu", 6, [X], {})
    model.graph.node[0].domain = "example.org"
    model.opset_import.append(helper.make_opsetid("example.org", 3))
    lifted = upgrade(read(model.SerializeToString()))
    assert [node.op_type for node in lifted.graph.nodes] == ["Relu"]
    assert lifted.opset_imports == {"": 28, "example.org": 3}


def test_subgraphs() -> None:
    """A node inside a branch is lifted there, and its constants are that branch's."""

    def branch(axis: int) -> onnx.GraphProto:
        node = helper.make_node("ReduceMax", ["x0"], ["z"], axes=[axis])
        return helper.make_graph([node], "branch", [], [onnx.ValueInfoProto(name="z")])

    model = model_of("If", 11, [np.array(True), X], {})
    node = model.graph.node[0]
    node.input[:] = ["x1"]
    model.graph.input[0].name, model.graph.input[1].name = "x1", "x0"
    node.attribute.append(helper.make_attribute("then_branch", branch(0)))
    node.attribute.append(helper.make_attribute("else_branch", branch(1)))
    lifted = upgrade(read(model.SerializeToString()))
    for number, graph in enumerate(lifted.graph.nodes[0].subgraphs()):
        (axes,) = graph.initializers
        assert axes.constant is not None
        assert axes.constant.array().tolist() == [number]
        assert graph.nodes[0].inputs[1] is axes
    assert not lifted.graph.initializers
    check(model, [X.max(0, keepdims=True)])


def test_functions() -> None:
    """The functions of a model have operator sets of their own."""
    body = [helper.make_node("ReduceMax", ["a"], ["b"], axes=[1])]
    function = helper.make_function("example.org", "Top", ["a"], ["b"], body, [helper.make_opsetid("", 11)])
    model = model_of("Top", 18, [X], {})
    model.graph.node[0].domain = "example.org"
    model.opset_import.append(helper.make_opsetid("example.org", 1))
    model.functions.append(function)
    lifted = upgrade(read(model.SerializeToString()))
    (kept,) = lifted.functions.values()
    assert kept.opset_imports == {"": 28}
    assert len(kept.graph.nodes[0].inputs) == 2


@pytest.mark.parametrize(
    ("opset", "dtype"), [(7, np.float32), (9, np.float32), (10, np.bool_), (11, np.bool_), (12, np.bool_)]
)
def test_the_mask_of_dropout(opset: int, dtype: type[np.generic]) -> None:
    """Its type, and what it says at inference, changed."""
    attributes = {"ratio": 0.25} if opset < 12 else {}
    model = model_of("Dropout", opset, [X], attributes, 2)
    found, wanted = run(model, [X]), runtime(model, [X])
    assert found[1].dtype == wanted[1].dtype == dtype
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
