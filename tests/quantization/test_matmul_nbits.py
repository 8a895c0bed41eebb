"""MatMulNBitsQuantizer: files node by node as onnxruntime's tool makes them, and what both runtimes make of them."""

import contextlib
import io
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from sardonyx.errors import InvalidArgument
from sardonyx.quantization import matmul_nbits_quantizer as ours
from sardonyx.quantization.enums import QuantFormat
from sardonyx.quantization.matmul_4bits_quantizer import MatMul4BitsQuantizer
from sardonyx.quantization.matmul_bnb4_quantizer import MatMulBnb4Quantizer
from sardonyx.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from tests.quantization.weights import agree, by_sardonyx, copied, filled, model_of, told

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from onnxruntime.quantization import QuantFormat as TheirFormat
    from onnxruntime.quantization import matmul_nbits_quantizer as theirs

TYPES = {"float32": (TensorProto.FLOAT, np.float32), "float16": (TensorProto.FLOAT16, np.float16)}
ROUNDED = 2e-2
"""How near results are where onnxruntime multiplies integers: for DequantizeLinear, and for accuracy level 4."""
FEEDS = {"i": np.array([1, 2, 49])}


def table_and_products(kind: str = "float32", rows: int = 80, opset: int = 21) -> Any:
    """A table, a product by a matrix, and one by a matrix with leading sizes of 1."""
    number, dtype = TYPES[kind]
    nodes = [
        helper.make_node("Gather", ["table", "i"], ["e"], name="lookup"),
        helper.make_node("MatMul", ["e", "w"], ["h"], name="first"),
        helper.make_node("MatMul", ["h", "v"], ["y"], name="second"),
    ]
    weights = {
        "w": filled((rows, 24), dtype, 1),
        "v": filled((24, 16), dtype, 2).reshape(1, 1, 24, 16),
        "table": filled((50, rows), dtype, 3),
        "unused": filled((3,), dtype),
    }
    return model_of(nodes, {"i": (TensorProto.INT64, ["n"])}, weights, {"y": (number, None)}, opset)


def by_both(model: Any, our_options: dict[str, Any], their_options: dict[str, Any]) -> tuple[Any, Any]:
    """The results of both tools, as ModelProtos."""
    reference = theirs.MatMulNBitsQuantizer(copied(model), **their_options)
    with np.errstate(all="ignore"), contextlib.redirect_stdout(io.StringIO()):
        reference.process()
    quantizer = MatMulNBitsQuantizer(copied(model), **our_options)
    quantizer.process()
    return quantizer.model.model, reference.model.model


CASES = [
    *product(TYPES, ["QOperator"], (2, 4, 8), (True, False), (16, 32), [("MatMul",), ("MatMul", "Gather")], [False]),
    *product(TYPES, ["QDQ"], [4], (True, False), (16, 32), [("MatMul",)], (False, True)),
]


@pytest.mark.parametrize(("kind", "form", "bits", "symmetric", "size", "operators", "channelwise"), CASES)
def test_files_are_the_same_node_by_node(
    kind: str, form: str, bits: int, symmetric: bool, size: int, operators: tuple[str, ...], channelwise: bool
) -> None:
    options = {"bits": bits, "block_size": size, "is_symmetric": symmetric, "op_types_to_quantize": operators}
    options |= {"accuracy_level": 4 if bits == 4 else None, "channel_wised_quantize": channelwise}
    found, expected = by_both(
        table_and_products(kind),
        options | {"quant_format": QuantFormat[form]},
        options | {"quant_format": TheirFormat[form]},
    )
    assert told(found) == told(expected)
    agree(found, FEEDS, ROUNDED if bits == 4 or kind == "float16" else 1e-5)


@pytest.mark.parametrize("size", [16, 40, -1])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("method", ["RTN", "KQuant"])
@pytest.mark.parametrize("kind", TYPES)
def test_other_methods_give_the_same_nodes(kind: str, method: str, symmetric: bool, size: int) -> None:
    custom = {"customized_weight_config": {"first": {"bits": 8}}} | ({"ratios": {"w": 0.9}} if method == "RTN" else {})
    options = {"block_size": size, "is_symmetric": symmetric}
    name = f"{method}WeightOnlyQuantConfig"
    found, expected = by_both(
        table_and_products(kind),
        options | {"algo_config": getattr(ours, name)(**custom)},
        options | {"algo_config": getattr(theirs, name)(**custom)},
    )
    one, other = told(found), told(expected)
    other["imports"]["com.microsoft"] = 1  # which onnxruntime's file lacks, and its runtime does without
    other["initializers"] = [item for item in other["initializers"] if item[0] != "unused"]
    assert one == other
    if size == 16:
        agree(found, FEEDS, 1e-2 if kind == "float16" else 1e-5)


@pytest.mark.parametrize(
    ("bits", "size", "symmetric", "most"),
    [(4, 32, True, 0.16), (4, 128, False, 0.14), (8, 128, False, 0.27), (8, 128, True, 0.26), (2, 32, True, 0.1)],
)
def test_weights_of_few_bits_are_small(bits: int, size: int, symmetric: bool, most: float) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    model = model_of(nodes, {"x": (1, ["n", 512])}, {"w": filled((512, 512))}, {"y": (1, None)})
    quantizer = MatMulNBitsQuantizer(model, bits=bits, block_size=size, is_symmetric=symmetric)
    quantizer.process()
    held = sum(len(tensor.raw_data) for tensor in quantizer.model.model.graph.initializer)
    assert held <= most * 512 * 512 * 4


def branches() -> Any:
    """An If whose branches multiply by a weight of their own, by one of the graph around, and by one of both."""

    def branch(name: str, own: bool) -> Any:
        nodes = [helper.make_node("MatMul", ["x", "inner" if own else "outer"], [f"{name}_h"], name=f"{name}_product")]
        nodes.append(helper.make_node("MatMul", [f"{name}_h", "shared"], [f"{name}_y"], name=f"{name}_last"))
        held = [numpy_helper.from_array(filled((32, 32), seed=4), "inner")] if own else []
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(f"{name}_y", 1, None)], held)

    choice = helper.make_node(
        "If", ["c"], ["y"], "choice", then_branch=branch("a", True), else_branch=branch("b", False)
    )
    weights = {"outer": filled((32, 32), seed=5), "shared": filled((32, 16), seed=6)}
    inputs = {"x": (1, ["n", 32]), "c": (TensorProto.BOOL, [])}
    return model_of([choice], inputs, weights, {"y": (1, None)})


@pytest.mark.parametrize("form", ["QOperator", "QDQ"])
def test_subgraphs_are_quantized_too(form: str) -> None:
    options: dict[str, Any] = {"block_size": 16, "is_symmetric": False}
    found, expected = by_both(
        branches(), options | {"quant_format": QuantFormat[form]}, options | {"quant_format": TheirFormat[form]}
    )
    assert told(found) == told(expected)
    for condition in (True, False):
        feeds = {"x": filled((3, 32), seed=7), "c": np.array(condition)}
        if form == "QOperator":
            agree(found, feeds, 1e-5)
        else:  # onnxruntime 1.31.1 does not find weights of the graph around when it fuses
            (wanted,) = ReferenceEvaluator(found).run(None, feeds)
            np.testing.assert_allclose(by_sardonyx(found, feeds)[0], wanted, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("form", QuantFormat)
def test_a_shared_weight_is_stored_once(form: QuantFormat) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="one"),
        helper.make_node("MatMul", ["h", "w"], ["y"], name="two"),
    ]
    model = model_of(nodes, {"x": (1, ["n", 32])}, {"w": filled((32, 32))}, {"y": (1, None)})
    quantizer = MatMulNBitsQuantizer(model, block_size=16, quant_format=form)
    quantizer.process()
    names = [tensor.name for tensor in quantizer.model.model.graph.initializer]
    assert len(names) == len(set(names)) == 3
    agree(quantizer.model.model, {"x": filled((2, 32), seed=1)}, 1e-5 if form == QuantFormat.QOperator else ROUNDED)


def test_nodes_are_chosen_by_name() -> None:
    model = table_and_products()
    quantizer = MatMulNBitsQuantizer(
        model, block_size=16, nodes_to_exclude=["second"], nodes_to_include=["lookup"], op_types_to_quantize=("MatMul",)
    )
    quantizer.process()
    kinds = [node.op_type for node in quantizer.model.model.graph.node]
    assert kinds == ["GatherBlockQuantized", "MatMulNBits", "MatMul"]


def test_what_cannot_be_quantized_stays() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "batched"], ["h"], name="batched"),
        helper.make_node("MatMul", ["h", "h"], ["g"], name="computed"),
        helper.make_node("MatMul", ["g", "vector"], ["y"], name="vector"),
    ]
    weights = {"batched": filled((2, 8, 8)), "vector": filled((8,))}
    model = model_of(nodes, {"x": (1, [2, 8, 8])}, weights, {"y": (1, None)})
    found, expected = by_both(model, {"block_size": 16}, {"block_size": 16})
    assert told(found) == told(expected)
    assert [node.op_type for node in found.graph.node] == ["MatMul"] * 3


def test_a_vector_times_a_matrix_with_leading_ones_keeps_its_shape() -> None:
    model = model_of(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="m")],
        {"x": (1, None)},
        {"w": filled((32, 8)).reshape(1, 1, 32, 8)},
        {"y": (1, None)},
    )
    quantizer = MatMulNBitsQuantizer(model, bits=8, block_size=16)
    quantizer.process()
    for shape in ((3, 32), (2, 3, 32), (2, 1, 3, 32), (5, 2, 1, 3, 32)):
        feeds = {"x": filled(shape, seed=8)}
        (wanted,) = by_sardonyx(model, feeds)
        (result,) = agree(quantizer.model.model, feeds, 1e-4)
        assert result.shape == wanted.shape
        assert np.abs(result - wanted).max() < 0.03 * np.abs(wanted).max()


def test_integers_of_4_bits_raise_the_operator_set() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="m"),
        helper.make_node("ReduceSum", ["h"], ["y"], name="sum", axes=[1], keepdims=0),
    ]
    model = model_of(nodes, {"x": (1, ["n", 32])}, {"w": filled((32, 8))}, {"y": (1, None)}, opset=11)
    model.ir_version = 6
    quantizer = MatMulNBitsQuantizer(model, block_size=16, quant_format=QuantFormat.QDQ)
    quantizer.process()
    made = quantizer.model.model
    assert (made.opset_import[0].version, made.ir_version) == (21, 10)
    feeds = {"x": filled((2, 32), seed=1)}
    (wanted,) = by_sardonyx(model, feeds)
    (found,) = agree(made, feeds, ROUNDED)
    assert np.abs(found - wanted).max() < 0.2 * np.abs(wanted).max()


def test_bfloat16_keeps_its_scales() -> None:
    weight = helper.make_tensor("w", TensorProto.BFLOAT16, [32, 8], filled((32, 8)).ravel().tolist())
    model = model_of(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="m")],
        {"x": (TensorProto.BFLOAT16, ["n", 32])},
        {},
        {"y": (TensorProto.BFLOAT16, None)},
    )
    model.graph.initializer.append(weight)
    found, expected = by_both(model, {"block_size": 16}, {"block_size": 16})
    assert told(found) == told(expected)
    assert found.graph.initializer[1].data_type == TensorProto.BFLOAT16


def test_paths_and_files_beside(tmp_path: Path) -> None:
    model, source = table_and_products(), tmp_path / "model.onnx"
    onnx.save(model, source)
    for given in (source, str(source), source.read_bytes(), model):
        quantizer = MatMul4BitsQuantizer(given, block_size=16)
        quantizer.process()
        quantizer.model.save_model_to_file(str(tmp_path / "small.onnx"), True)
        assert (tmp_path / "small.onnx.data").exists()
        assert told(onnx.load(tmp_path / "small.onnx")) == told(quantizer.model.model)
    with pytest.raises(TypeError, match="not list"):
        MatMulNBitsQuantizer([])


def test_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(table_and_products(), tmp_path / "model.onnx")
    arguments = ["--input_model", str(tmp_path / "model.onnx"), "--output_model", str(tmp_path / "small.onnx")]
    ours.main(
        [*arguments, "--block_size", "16", "--symmetric", "false", "--op_types_to_quantize", "MatMul", "Gather", "-v"]
    )
    assert capsys.readouterr().out.startswith("3 weights quantized; ")
    quantizer = MatMulNBitsQuantizer(table_and_products(), block_size=16, op_types_to_quantize=("MatMul", "Gather"))
    quantizer.process()
    quantizer.model.topological_sort()
    assert told(onnx.load(tmp_path / "small.onnx")) == told(quantizer.model.model)
    with pytest.raises(SystemExit, match="exists already"):
        ours.main(arguments)


def test_what_is_not_here_says_so() -> None:
    for make in (
        ours.GPTQWeightOnlyQuantConfig,
        ours.HQQWeightOnlyQuantConfig,
        lambda: ours.NVAWQWeightOnlyQuantConfig(tokenizer_dir="x"),
        lambda: MatMulBnb4Quantizer(b"", MatMulBnb4Quantizer.NF4, 64),
    ):
        with pytest.raises(NotImplementedError, match="use "):
            make()
    with pytest.raises(NotImplementedError, match="QDQ"):
        ours.DefaultWeightOnlyQuantConfig(channel_wised_quantize=True)
    with pytest.raises(InvalidArgument, match="bits=3"):
        MatMulNBitsQuantizer(table_and_products(), bits=3)
    with pytest.raises(InvalidArgument, match="QOperator alone"):
        ours.RTNWeightOnlyQuantConfig(quant_format=QuantFormat.QDQ)
    for options, text in (
        ({"block_size": 8}, "block_size=8"),
        ({"quant_axes": (("Gather", 2),)}, "2 dimensions"),
        ({"quant_format": QuantFormat.QDQ}, "QOperator alone"),
    ):
        quantizer = MatMulNBitsQuantizer(table_and_products(), op_types_to_quantize=("Gather",), **options)
        with pytest.raises(InvalidArgument, match=text):
            quantizer.process()
    quantizer = MatMulNBitsQuantizer(table_and_products(), bits=2, algo_config=ours.RTNWeightOnlyQuantConfig())
    with pytest.raises(InvalidArgument, match="RTN has 4 and 8"):
        quantizer.process()
