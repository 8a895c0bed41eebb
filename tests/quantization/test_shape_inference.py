"""quant_pre_process: the operators that onnxruntime's tool gives, the same results, and shapes."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnxruntime.quantization.shape_inference import quant_pre_process as theirs

from sardonyx.errors import InvalidArgument
from sardonyx.quantization import preprocess
from sardonyx.quantization.shape_inference import MARK, quant_pre_process
from tests.quantization.weights import by_onnxruntime, by_sardonyx, filled, model_of

Node = helper.make_node


def network(opset: int = 13) -> Any:
    """Convolutions with normalizations after them, a Dropout, and a Reshape to a computed shape before a product."""
    nodes = [
        Node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        Node("BatchNormalization", ["c", "g", "b", "m", "v"], ["n"], name="norm"),
        Node("Relu", ["n"], ["r"], name="relu"),
        Node("Dropout", ["r"], ["d"], name="dropout"),
        Node("Shape", ["d"], ["s"], name="shape"),
        Node("Gather", ["s", "zero"], ["batch"], name="batch"),
        Node("Unsqueeze", ["batch", "axes"], ["u"], name="row")
        if opset >= 13
        else Node("Unsqueeze", ["batch"], ["u"], axes=[0]),
        Node("Concat", ["u", "rest"], ["to"], name="to", axis=0),
        Node("Reshape", ["d", "to"], ["flat"], name="flat"),
        Node("MatMul", ["flat", "p"], ["h"], name="product"),
        Node("Add", ["h", "bias"], ["a"], name="add"),
        Node("Mul", ["one", "two"], ["three"], name="constants"),
        Node("Add", ["a", "three"], ["y"], name="last"),
    ]
    weights = {
        "w": filled((4, 3, 3, 3)),
        "g": filled((4,)) + 2,
        "b": filled((4,)),
        "m": filled((4,), seed=1),
        "v": np.abs(filled((4,), seed=2)) + 1,
        "zero": np.array(0),
        "axes": np.array([0]),
        "rest": np.array([-1]),
        "p": filled((144, 5)),
        "bias": filled((5,)),
        "one": filled((5,), seed=3),
        "two": filled((5,), seed=4),
    }
    if opset < 13:
        del weights["axes"]
    return model_of(nodes, {"x": (1, ["N", 3, 6, 6])}, weights, {"y": (1, ["N", 5])}, opset)


def layer_norm(opset: int) -> Any:
    """A LayerNormalization and a Gelu in primitive operators."""
    nodes = [
        Node("ReduceMean", ["x"], ["mean"], axes=[-1]),
        Node("Sub", ["x", "mean"], ["d"]),
        Node("Pow", ["d", "two"], ["sq"]),
        Node("ReduceMean", ["sq"], ["var"], axes=[-1]),
        Node("Add", ["var", "eps"], ["ve"]),
        Node("Sqrt", ["ve"], ["sd"]),
        Node("Div", ["d", "sd"], ["n"]),
        Node("Mul", ["n", "g"], ["ng"]),
        Node("Add", ["ng", "b"], ["y"]),
    ]
    weights = {"two": np.array(2, np.float32), "eps": np.array(1e-5, np.float32), "g": filled((8,)), "b": filled((8,))}
    return model_of(nodes, {"x": (1, ["N", 4, 8])}, weights, {"y": (1, ["N", 4, 8])}, opset)


def upsampled() -> Any:
    nodes = [Node("Upsample", ["x", "scales"], ["u"], name="up"), Node("Relu", ["u"], ["y"], name="relu")]
    weights = {"scales": np.array([1, 1, 2, 2], np.float32)}
    return model_of(nodes, {"x": (1, [1, 2, 3, 3])}, weights, {"y": (1, None)}, opset=9)


MODELS = {
    "network": (network(), {"x": filled((2, 3, 6, 6), seed=5)}),
    "layer-norm-13": (layer_norm(13), {"x": filled((2, 4, 8), seed=5)}),
    "layer-norm-17": (layer_norm(17), {"x": filled((2, 4, 8), seed=5)}),
    "upsampled": (upsampled(), {"x": filled((1, 2, 3, 3))}),
}


def made(tool: Any, model: Any, folder: Path, **options: Any) -> Any:
    onnx.save(model, folder / "model.onnx")
    tool(str(folder / "model.onnx"), str(folder / "ready.onnx"), **options)
    return onnx.load(folder / "ready.onnx")


def operators(model: Any) -> Counter[tuple[str, str]]:
    return Counter((node.domain, node.op_type) for node in model.graph.node)


@pytest.mark.parametrize("name", MODELS)
def test_operators_are_those_of_onnxruntimes_tool(name: str, tmp_path: Path) -> None:
    model, feeds = MODELS[name]
    found = made(quant_pre_process, model, tmp_path)
    if name == "upsampled":  # with onnx 1.23.2 onnxruntime's tool raises: onnx cannot take Resize beyond operator set 9
        assert operators(found) == {("", "Resize"): 1, ("", "Relu"): 1}
    else:
        assert operators(found) == operators(made(theirs, model, tmp_path, skip_symbolic_shape=True))
    version = 13 if name == "upsampled" else model.opset_import[0].version  # before 13 Resize takes regions as well
    assert {item.domain: item.version for item in found.opset_import if not item.domain} == {"": version}
    assert {entry.key: entry.value for entry in found.metadata_props}[MARK[0]] == MARK[1]
    onnx.checker.check_model(found, full_check=True)
    for one, other in zip(by_onnxruntime(found, feeds), by_onnxruntime(model, feeds), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4 * np.abs(other).max())
        np.testing.assert_allclose(by_sardonyx(found, feeds)[0], other, rtol=1e-4, atol=1e-4 * np.abs(other).max())


def test_shapes_are_known_with_names(tmp_path: Path) -> None:
    found = made(quant_pre_process, network(), tmp_path)
    shapes = {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in found.graph.value_info
    }
    outputs = {name for node in found.graph.node for name in node.output} - {"y"}
    assert outputs <= shapes.keys()
    assert shapes["flat"] == ["N", 144]
    bare = made(
        quant_pre_process, network(), tmp_path, skip_optimization=True, skip_onnx_shape=True, skip_symbolic_shape=True
    )
    assert not bare.graph.value_info
    assert operators(bare) == operators(network())
    typed = made(quant_pre_process, network(), tmp_path, skip_optimization=True)
    assert operators(typed) == operators(network())
    assert {value.name for value in typed.graph.value_info} >= {"c", "n", "r", "d"}


def test_tensors_in_a_file_beside(tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "model.onnx")
    quant_pre_process(
        input_model_path=tmp_path / "model.onnx",
        output_model_path=tmp_path / "ready.onnx",
        save_as_external_data=True,
        external_data_location="weights.bin",
        external_data_size_threshold=100,
    )
    assert (tmp_path / "weights.bin").stat().st_size > 144 * 5 * 4
    feeds = {"x": filled((2, 3, 6, 6), seed=5)}
    np.testing.assert_allclose(
        by_sardonyx(onnx.load(tmp_path / "ready.onnx"), feeds)[0],
        by_onnxruntime(network(), feeds)[0],
        rtol=1e-4,
        atol=1e-4,
    )


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="input_model is missing"):
        quant_pre_process(None, tmp_path / "ready.onnx")
    with pytest.raises(InvalidArgument, match="output_model_path is missing"):
        quant_pre_process(network())
    with pytest.raises(InvalidArgument, match="no 'colour'"):
        quant_pre_process(network(), tmp_path / "ready.onnx", colour=1)


def test_the_terminal(tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "model.onnx")
    arguments = ["--input", str(tmp_path / "model.onnx"), "--output", str(tmp_path / "ready.onnx")]
    command = [sys.executable, "-W", "error", "-m", "sardonyx.quantization.preprocess", *arguments, "--verbose", "1"]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=500).stdout
    assert told.startswith("13 nodes became 5; shapes of 5 of 5 tensors; ready.onnx written"), told
    everything = [*arguments, "--skip_optimization", "1", "--skip_onnx_shape", "1", "--skip_symbolic_shape", "1"]
    with pytest.raises(SystemExit, match="nothing to do"):
        preprocess.main(everything)
    assert onnx.load(tmp_path / "ready.onnx").graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT


def test_upsample_of_operator_set_10_becomes_resize(tmp_path: Path) -> None:
    """ONNX had Resize by then, and exporters wrote Upsample on."""
    text = '<ir_version: 7, opset_import: ["": {}]> g (float[1,1,2,2] x) => (float[1,1,4,6] y) '
    body = '<float[4] scales = {1, 1, 2, 3}> { y = Upsample<mode = "nearest">(x, scales) }'
    feeds = {"x": np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)}
    valid = onnx.parser.parse_model(text.format(9) + body)
    for version in (9, 10):
        quant_pre_process(onnx.parser.parse_model(text.format(version) + body), tmp_path / "ready.onnx")
        assert "Resize" in [node.op_type for node in onnx.load(tmp_path / "ready.onnx").graph.node]
        (expected,) = onnxruntime.InferenceSession(valid.SerializeToString()).run(None, feeds)
        (found,) = onnxruntime.InferenceSession(tmp_path / "ready.onnx").run(None, feeds)
        np.testing.assert_array_equal(found, expected)


def test_the_command_line_takes_truths_alone() -> None:
    given = ["--input", "a.onnx", "--output", "b.onnx", "--skip_optimization"]
    truths = {"True": True, "tRuE": True, "1": True, "False": False, "0": False}
    for text, expected in truths.items():
        assert preprocess.parse_arguments([*given, text]).skip_optimization is expected
    with pytest.raises(SystemExit):
        preprocess.parse_arguments([*given, "maybe"])
