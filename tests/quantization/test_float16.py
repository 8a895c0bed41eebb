"""float16 in place of float32: the nodes of onnxruntime's tool, but no cast of a cast, and both runtimes run them."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxconverter_common import auto_mixed_precision as their_mixed
from onnxconverter_common import float16 as converter
from onnxruntime.transformers import float16 as theirs

import sardonyx
import sardonyx.compat
from sardonyx.errors import InvalidArgument
from sardonyx.quantization import auto_mixed_precision as mixed
from sardonyx.quantization.float16 import (
    DEFAULT_OP_BLOCK_LIST,
    convert_float_to_float16,
    convert_float_to_float16_model_path,
    convert_np_to_float16,
    float_to_float16_max_diff,
)
from tests.quantization.weights import agree, by_onnxruntime, by_sardonyx, copied, filled, model_of, told

FLOAT, HALF = TensorProto.FLOAT, TensorProto.FLOAT16
Node = helper.make_node


def chain(opset: int = 21) -> Any:
    """Products around a TopK, which keeps float32, and a Cast from integers."""
    nodes = [
        Node("MatMul", ["x", "w"], ["h"], name="product"),
        Node("Add", ["h", "b"], ["s"], name="sum"),
        Node("TopK", ["s", "k"], ["best", "places"], name="best"),
        Node("Relu", ["best"], ["r"], name="relu"),
        Node("Cast", ["places"], ["p"], name="floats", to=FLOAT),
        Node("Add", ["r", "p"], ["y"], name="last"),
    ]
    weights = {"w": filled((8, 6)), "b": filled((6,)), "k": np.array([3])}
    return model_of(nodes, {"x": (FLOAT, ["n", 8])}, weights, {"y": (FLOAT, ["n", 3])}, opset)


def resized() -> Any:
    """Resize, whose scales stay float32, with operators that name a type."""
    nodes = [
        Node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        Node("Resize", ["c", "", "scales"], ["r"], name="resize", mode="nearest"),
        Node("Shape", ["r"], ["shape"], name="shape"),
        Node("ConstantOfShape", ["shape"], ["zeros"], name="zeros"),
        Node("Constant", [], ["one"], name="one", value_float=1.5),
        Node("Add", ["r", "zeros"], ["a"], name="add"),
        Node("Mul", ["a", "one"], ["y"], name="mul"),
    ]
    weights = {"w": filled((2, 3, 3, 3)), "scales": np.array([1, 1, 2, 2], np.float32)}
    return model_of(nodes, {"x": (FLOAT, [1, 3, 4, 4])}, weights, {"y": (FLOAT, None)})


def facts(model: Any) -> dict[str, Any]:
    """What is compared with another tool's file: nodes in any order, since theirs are not in the order of use."""
    found = told(model)
    found["nodes"] = sorted(found["nodes"], key=lambda node: node[1])
    found["types"] = [value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)]
    return found


OPTIONS: list[dict[str, Any]] = [
    {},
    {"keep_io_types": True},
    {"keep_io_types": ["y"]},
    {"op_block_list": ["Relu"]},
    {"op_block_list": [], "node_block_list": ["product"]},
    {"node_block_list": ["sum"], "force_fp16_initializers": True},
    {"min_positive_val": 1e-3, "max_finite_val": 2.0},
]


@pytest.mark.filterwarnings("ignore:.* elements are beyond:UserWarning")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_nodes_are_those_of_onnxruntimes_tool(options: dict[str, Any]) -> None:
    found = convert_float_to_float16(chain(), **options)
    expected = facts(theirs.convert_float_to_float16(copied(chain()), **options))
    if "op_block_list" in options and options["op_block_list"] == ["Relu"]:
        expected["nodes"] = [node for node in expected["nodes"] if node[0] != "TopK"] + [
            node for node in expected["nodes"] if node[0] == "TopK"
        ]
        expected["nodes"].sort(key=lambda node: node[1])
    own = facts(found)
    doubled = _doubled(expected["nodes"])
    assert not _doubled(own["nodes"])
    if not doubled:
        assert own == expected
    onnx.checker.check_model(found, full_check=True)
    kind = np.float32 if options.get("keep_io_types") is True or options.get("keep_io_types") == ["x"] else np.float16
    feeds = {"x": filled((5, 8), seed=2).astype(kind)}
    if not options.get("min_positive_val"):
        _near(found, chain(), feeds, 5e-3)


def _doubled(nodes: list[Any]) -> list[str]:
    """Casts whose operand is a cast's result."""
    casts = {node[4][0] for node in nodes if node[0] == "Cast"}
    return [node[1] for node in nodes if node[0] == "Cast" and node[3][0] in casts]


def _near(found: Any, model: Any, feeds: Mapping[str, np.ndarray], tolerance: float) -> None:
    """Both runtimes run the result, and are near what the model gives."""
    wide = {name: array.astype(np.float32) if array.dtype == np.float16 else array for name, array in feeds.items()}
    for runtime in (by_onnxruntime, by_sardonyx):
        for one, other in zip(runtime(found, feeds), by_onnxruntime(model, wide), strict=True):
            scale = max(float(np.abs(other).max(initial=0)), 1)
            np.testing.assert_allclose(one.astype(np.float32), other, rtol=0, atol=tolerance * scale)


def test_types_and_scales_that_are_named() -> None:
    found, expected = convert_float_to_float16(resized()), theirs.convert_float_to_float16(copied(resized()))
    own, other = facts(found), facts(expected)
    constant = next(node for node in own["nodes"] if node[1] == "one")
    assert constant[5] == {"value": 1.5}  # onnxruntime's tool leaves a float32 there, which no runtime takes
    assert [node for node in own["nodes"] if node[1] != "one"] == [node for node in other["nodes"] if node[1] != "one"]
    assert own["initializers"] == other["initializers"]
    _near(found, resized(), {"x": filled((1, 3, 4, 4)).astype(np.float16)}, 5e-3)


def test_nothing_is_cast_there_and_back() -> None:
    nodes = [
        Node("Range", ["zero", "n", "one"], ["r"], name="range"),
        Node("CumSum", ["r", "axis"], ["c"], name="sum"),
        Node("Max", ["c", "x"], ["m"], name="max"),
        Node("Min", ["m", "x"], ["y"], name="min"),
    ]
    weights = {
        "zero": np.array(0, np.float32),
        "one": np.array(1, np.float32),
        "axis": np.array(0),
    }
    inputs: dict[str, Any] = {"n": (FLOAT, []), "x": (FLOAT, [4])}
    model = model_of(nodes, inputs, weights, {"y": (FLOAT, ["m"])})
    kept = convert_float_to_float16(model, keep_io_types=True)
    assert [node.op_type for node in kept.graph.node] == ["Range", "CumSum", "Max", "Min"]
    feeds = {"n": np.array(4, np.float32), "x": filled((4,))}
    np.testing.assert_array_equal(by_onnxruntime(kept, feeds)[0], by_onnxruntime(model, feeds)[0])
    half = convert_float_to_float16(model)
    assert [node.op_type for node in half.graph.node].count("Cast") == 3
    _near(half, model, {name: array.astype(np.float16) for name, array in feeds.items()}, 1e-3)


def loops() -> Any:
    """A Loop whose body multiplies by a weight outside, keeps a sum, and asks for a maximum, which stays float32."""
    body = helper.make_graph(
        [
            Node("MatMul", ["carried", "w"], ["h"], name="inner_product"),
            Node("Max", ["h", "low"], ["m"], name="inner_max"),
            Node("Add", ["m", "x"], ["next"], name="inner_add"),
            Node("Identity", ["going"], ["goes"], name="inner_going"),
            Node("ReduceMean", ["m"], ["mean"], name="inner_mean", keepdims=0),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("going", TensorProto.BOOL, []),
            helper.make_tensor_value_info("carried", FLOAT, [2, 4]),
        ],
        [
            helper.make_tensor_value_info("goes", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", FLOAT, [2, 4]),
            helper.make_tensor_value_info("mean", FLOAT, []),
        ],
        [numpy_helper.from_array(np.array(-0.5, np.float32), "low")],
    )
    nodes = [
        Node("Relu", ["x"], ["start"], name="start"),
        Node("Loop", ["count", "", "start"], ["y", "means"], name="loop", body=body),
    ]
    weights = {"w": filled((4, 4)) / 8, "count": np.array(3)}
    return model_of(nodes, {"x": (FLOAT, [2, 4])}, weights, {"y": (FLOAT, [2, 4]), "means": (FLOAT, [3])})


@pytest.mark.parametrize(
    "options", [{}, {"op_block_list": ["Loop"]}, {"node_block_list": ["inner_add", "start"]}], ids=str
)
@pytest.mark.parametrize("keep", [True, False])
def test_subgraphs(options: dict[str, Any], keep: bool) -> None:
    found = convert_float_to_float16(loops(), keep_io_types=keep, **options)
    onnx.checker.check_model(found, full_check=True)
    feeds = {"x": filled((2, 4), seed=4).astype(np.float32 if keep else np.float16)}
    _near(found, loops(), feeds, 5e-3)
    body = next(node for node in found.graph.node if node.op_type == "Loop").attribute[0].g
    wide = options.get("op_block_list") == ["Loop"]
    assert body.input[2].type.tensor_type.elem_type == (FLOAT if wide else HALF)


def test_a_branch_that_gives_what_lies_around_it() -> None:
    def branch(name: str, value: str) -> Any:
        return helper.make_graph([], name, [], [helper.make_tensor_value_info(value, FLOAT, None)])

    nodes = [
        Node("CumSum", ["x", "axis"], ["s"], name="sum"),
        Node("If", ["c"], ["y"], name="if", then_branch=branch("a", "s"), else_branch=branch("b", "w")),
    ]
    weights = {"w": filled((3,)), "axis": np.array(0)}
    inputs: dict[str, Any] = {"x": (FLOAT, [3]), "c": (TensorProto.BOOL, [])}
    model = model_of(nodes, inputs, weights, {"y": (FLOAT, [3])})
    found = convert_float_to_float16(model)
    for condition in (True, False):
        feeds = {"x": filled((3,), np.float16, 1), "c": np.array(condition)}
        expected = np.cumsum(feeds["x"].astype(np.float32)) if condition else weights["w"]
        for provider in ("NumpyExecutionProvider", "WasmExecutionProvider", "CPUExecutionProvider"):
            session = sardonyx.InferenceSession(found.SerializeToString(), providers=[provider])
            (result,) = session.run(None, feeds)
            np.testing.assert_allclose(result.astype(np.float32), expected, atol=5e-3)


def test_blocked_nodes_may_be_bfloat16() -> None:
    nodes = [
        Node("MatMul", ["x", "w"], ["h"], name="product"),
        Node("Add", ["h", "b"], ["s"], name="sum"),
        Node("MatMul", ["s", "v"], ["y"], name="last"),
    ]
    weights = {"w": filled((8, 6)), "b": filled((6,)), "v": filled((6, 4))}
    model = model_of(nodes, {"x": (FLOAT, ["n", 8])}, weights, {"y": (FLOAT, None)})
    found = convert_float_to_float16(model, node_block_list=["sum"], use_bfloat16_as_blocked_nodes_dtype=True)
    types = {tensor.name: tensor.data_type for tensor in found.graph.initializer}
    assert types == {"w": HALF, "b": TensorProto.BFLOAT16, "v": HALF}
    (result,) = by_sardonyx(found, {"x": filled((3, 8), np.float16, 1)})
    (expected,) = by_sardonyx(model, {"x": filled((3, 8), np.float16, 1).astype(np.float32)})
    assert np.abs(result - expected).max() < 0.05 * np.abs(expected).max()


def test_operators_without_float16_keep_float32() -> None:
    nodes = [
        Node("QuantizeLinear", ["x", "scale", "zero"], ["q"], name="quantize"),
        Node("DequantizeLinear", ["q", "scale", "zero"], ["d"], name="dequantize"),
        Node("LayerNormalization", ["d", "g"], ["n", "mean"], name="norm"),
        Node("Add", ["n", "mean"], ["y"], name="add"),
    ]
    weights = {"scale": np.array(0.02, np.float32), "zero": np.array(128, np.uint8), "g": filled((8,))}
    model = model_of(nodes, {"x": (FLOAT, ["n", 8])}, weights, {"y": (FLOAT, None)}, opset=17)
    found = convert_float_to_float16(model)
    assert {tensor.name: tensor.data_type for tensor in found.graph.initializer}["scale"] == FLOAT
    onnx.checker.check_model(found, full_check=True)
    _near(found, model, {"x": filled((3, 8), np.float16, 1)}, 2e-2)


def test_sums_of_integers_are_scaled_in_float32() -> None:
    """As dynamic quantizing writes them; they are beyond 65504 here."""
    nodes = [
        Node("Relu", ["x"], ["r"], name="relu"),
        Node("DynamicQuantizeLinear", ["r"], ["q", "s", "z"], name="dynamic"),
        Node("MatMulInteger", ["q", "w", "z"], ["i"], name="sums"),
        Node("Cast", ["i"], ["f"], name="cast", to=FLOAT),
        Node("Mul", ["s", "scale"], ["t"], name="scales"),
        Node("Mul", ["f", "t"], ["h"], name="scaled"),
        Node("Add", ["h", "b"], ["y"], name="bias"),
    ]
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.integers(30, 63, (64, 4)).astype(np.int8),  # products by more saturate in onnxruntime on x86
        "scale": np.array(0.01, np.float32),
        "b": filled((4,)),
    }
    model = model_of(nodes, {"x": (FLOAT, ["n", 64])}, weights, {"y": (FLOAT, None)})
    found = convert_float_to_float16(model)
    _near(found, model, {"x": np.abs(filled((3, 64), np.float16, 1)) + 1}, 1e-2)
    casts = [node for node in found.graph.node if node.op_type == "Cast" and node.name == "cast"]
    assert casts[0].attribute[0].i == FLOAT


def test_functions_of_the_model() -> None:
    function = helper.make_function(
        "own",
        "Twice",
        ["a"],
        ["b"],
        [Node("Constant", [], ["two"], value_float=2.0), Node("Mul", ["a", "two"], ["b"])],
        [helper.make_opsetid("", 21)],
    )
    graph = helper.make_graph(
        [Node("Twice", ["x"], ["y"], name="call", domain="own")],
        "g",
        [helper.make_tensor_value_info("x", FLOAT, [3])],
        [helper.make_tensor_value_info("y", FLOAT, [3])],
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, opset_imports=imports, functions=[function], ir_version=10)
    found = convert_float_to_float16(model)
    _near(found, model, {"x": filled((3,), np.float16)}, 1e-3)


@pytest.mark.parametrize("least", [5.96e-08, 1e-7])
@pytest.mark.parametrize("largest", [65504.0, 1e4])
def test_numbers_are_those_of_both_tools(least: float, largest: float) -> None:
    array = np.array([0.0, -0.0, 1e-9, -1e-9, 5e-8, 1.5, -2e4, 7e4, -1e30, np.inf, -np.inf, np.nan], np.float32)
    found = convert_np_to_float16(array, least, largest)
    for tool in (theirs, converter):
        with pytest.warns() if tool is converter else nullcontext():
            expected = tool.convert_np_to_float16(array, least, largest)
        np.testing.assert_array_equal(found, expected)
    assert np.signbit(found[1])
    finite = array[:6]
    assert float_to_float16_max_diff(finite) == float_to_float16_max_diff(numpy_helper.from_array(finite))
    assert float_to_float16_max_diff(finite) == theirs.float_to_float16_max_diff(numpy_helper.from_array(finite))


def test_large_numbers_are_told() -> None:
    nodes = [Node("Mul", ["x", "w"], ["y"])]
    model = model_of(nodes, {"x": (FLOAT, [2])}, {"w": np.array([1e6, 1], np.float32)}, {"y": (FLOAT, [2])})
    with pytest.warns(UserWarning, match=r"initializer 'w': 1 of 2 elements are beyond 65504"):
        convert_float_to_float16(model)
    with pytest.raises(InvalidArgument, match="float16 has"):
        convert_float_to_float16(model, max_finite_val=1e6)


def test_paths(tmp_path: Path) -> None:
    onnx.save(chain(), tmp_path / "model.onnx")
    expected = told(convert_float_to_float16(chain()))
    assert told(convert_float_to_float16(str(tmp_path / "model.onnx"))) == expected
    assert told(convert_float_to_float16_model_path(str(tmp_path / "model.onnx"))) == expected
    assert set(DEFAULT_OP_BLOCK_LIST) == set(theirs.DEFAULT_OP_BLOCK_LIST)


def test_onnxruntime_by_name() -> None:
    sardonyx.compat.install()
    try:
        from onnxruntime.transformers.float16 import convert_float_to_float16 as function
    finally:
        sardonyx.compat.uninstall()
    assert function is convert_float_to_float16


def sensitive() -> tuple[Any, dict[str, np.ndarray]]:
    """A model in which one product is beyond float16, between others that bear it."""
    nodes = [
        Node("MatMul", ["x", "w"], ["a"], name="a"),
        Node("Mul", ["a", "huge"], ["b"], name="b"),
        Node("Mul", ["b", "tiny"], ["c"], name="c"),
        Node("MatMul", ["c", "v"], ["d"], name="d"),
        Node("Relu", ["d"], ["y"]),
    ]
    weights = {
        "w": filled((8, 8)),
        "v": filled((8, 4)),
        "huge": np.array(60000, np.float32),
        "tiny": np.array(2e-5, np.float32),
    }
    model = model_of(nodes, {"x": (FLOAT, [3, 8])}, weights, {"y": (FLOAT, [3, 4])})
    return model, {"x": filled((3, 8), seed=5)}


@pytest.mark.filterwarnings("ignore:the float32 number:UserWarning")
@pytest.mark.parametrize("keep", [True, False])
def test_nodes_that_do_not_bear_it_are_found(keep: bool, capsys: pytest.CaptureFixture[str]) -> None:
    model, feeds = sensitive()
    options: dict[str, Any] = {"rtol": 1e-2, "atol": 1e-2, "keep_io_types": keep}
    found = mixed.auto_convert_mixed_precision(model, feeds, **options)
    assert not capsys.readouterr().out
    expected = their_mixed.auto_convert_mixed_precision(copied(model), feeds, **options)
    capsys.readouterr()
    assert _wide(found) == {"b", "c"}
    assert "b" in _wide(expected)  # onnxruntime drops the casts after it, and so does not notice that c is beyond
    given = feeds if keep else {"x": feeds["x"].astype(np.float16)}
    agree(found, given, 5e-3)
    np.testing.assert_allclose(by_onnxruntime(found, given)[0], by_onnxruntime(model, feeds)[0], rtol=1e-2, atol=1e-2)


def _wide(model: Any) -> set[str]:
    """The named nodes whose results are float32."""
    inferred = onnx.shape_inference.infer_shapes(model)
    kinds = {value.name: value.type.tensor_type.elem_type for value in inferred.graph.value_info}
    return {node.name for node in model.graph.node if node.op_type != "Cast" and kinds.get(node.output[0]) == FLOAT}


def test_what_is_good_enough_has_to_be_said() -> None:
    model, feeds = sensitive()
    with pytest.raises(ValueError, match="validate_fn, rtol or atol"):
        mixed.auto_convert_mixed_precision(model, feeds)
    never: Callable[[Any, Any], bool] = lambda one, other: False  # noqa: E731
    with pytest.raises(ValueError, match="look at what validates"):
        mixed.auto_convert_mixed_precision(model, feeds, never)
    seen = []

    def same(one: Any, other: Any) -> bool:
        seen.append(other[0].dtype)
        return bool((one[0] == other[0]).all())

    with pytest.raises(ValueError, match="no choice of nodes"):
        mixed.auto_convert_mixed_precision(model, feeds, same)
    assert seen[0] == np.float32
    assert seen[-1] == np.float16


def test_mixed_precision_from_file_to_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, feeds = sensitive()
    source, target = str(tmp_path / "model.onnx"), str(tmp_path / "out" / "half.onnx")
    onnx.save(model, source)
    mixed.auto_convert_mixed_precision_model_path(
        source, feeds, target, ["CPUExecutionProvider"], rtol=1e-2, atol=1e-2, verbose=True
    )
    assert "float32 in 2 of 5 nodes: good enough" in capsys.readouterr().out
    found = onnx.load(target)
    assert _wide(found) == {"b", "c"}
    agree(found, feeds, 5e-3)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        mixed.auto_convert_mixed_precision_model_path(source + "x", feeds, target)
