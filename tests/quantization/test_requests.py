"""What is given and asked: files, folders, ModelProtos, operator sets, types, overrides, configurations."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime.quantization as theirs
import pytest
from onnx import numpy_helper

import sardonyx.quantization as ours
from sardonyx.errors import InvalidArgument, InvalidGraph, InvalidProtobuf, NoSuchFile
from sardonyx.quantization.onnx_quantizer import ONNXQuantizer
from sardonyx.quantization.tensors_data import load_tensors_data
from sardonyx.quantization.weight_only_config import DefaultWeightOnlyQuantConfig
from tests.quantization import both
from tests.quantization.models import MODELS, Builder, samples
from tests.quantization.test_files import outputs

TYPES = ours.QuantType


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(MODELS["convolutions"](), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def reader(path: Path) -> both.Reader:
    return both.Reader(samples(onnx.load(path)))


# ---- what is given


def test_models_come_as_paths_bytes_messages_and_graphs(model: Path, tmp_path: Path) -> None:
    from sardonyx.model.serde.reader import read

    given: list[Any] = [model, str(model), model.read_bytes(), onnx.load(model), read(model)]
    for k, each in enumerate(given):
        ours.quantize_dynamic(each, tmp_path / f"{k}.onnx")
        ours.quantize_static(each, tmp_path / f"static{k}.onnx", reader(model))
    for k in range(1, len(given)):
        assert both.differences(tmp_path / "0.onnx", tmp_path / f"{k}.onnx") == []
        assert both.differences(tmp_path / "static0.onnx", tmp_path / f"static{k}.onnx") == []
    assert onnx.load(model) == given[3]


def test_the_file_of_a_model_can_be_written_over(model: Path, tmp_path: Path) -> None:
    ours.quantize_dynamic(model, tmp_path / "other.onnx")
    ours.quantize_dynamic(model, model)
    assert model.read_bytes() == (tmp_path / "other.onnx").read_bytes()


@pytest.mark.parametrize("static", [False, True])
def test_tensors_beside_the_model(static: bool, tmp_path: Path) -> None:
    b = Builder(2, 64)
    b.node("MatMul", ["x", b.constant("w", 64, 64)], "y")
    path, mine = tmp_path / "model.onnx", tmp_path / "ours.onnx"
    onnx.save(b.model("y"), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    if static:
        config = ours.get_qdq_config(path, reader(path))
        assert config.use_external_data_format
        ours.quantize(path, mine, config)
    else:
        ours.quantize_dynamic(path, mine, use_external_data_format=True)
    assert (tmp_path / "ours.onnx.data").exists()
    held = {each.name: each for each in onnx.load(mine, load_external_data=False).graph.initializer}
    assert held["w_quantized"].data_location == onnx.TensorProto.EXTERNAL
    feeds = samples(onnx.load(path))[0]
    np.testing.assert_allclose(outputs(mine, feeds)[0], outputs(path, feeds)[0], atol=0.2)


def test_what_is_not_there(model: Path, tmp_path: Path) -> None:
    with pytest.raises(NoSuchFile, match=r"missing\.onnx"):
        ours.quantize_dynamic(tmp_path / "missing.onnx", tmp_path / "y.onnx")
    with pytest.raises(NoSuchFile, match="folder"):
        ours.quantize_dynamic(model, tmp_path / "missing" / "y.onnx")
    with pytest.raises(NoSuchFile, match="folder"):
        ours.quantize_static(model, tmp_path / "missing" / "y.onnx", reader(model))
    (tmp_path / "text.onnx").write_text("no model")
    with pytest.raises((InvalidProtobuf, InvalidGraph), match=r"text\.onnx"):
        ours.quantize_dynamic(tmp_path / "text.onnx", tmp_path / "y.onnx")
    with pytest.raises(TypeError, match="a model is a path, bytes or a ModelProto, not int"):
        ours.quantize_dynamic(3, tmp_path / "y.onnx")
    with pytest.raises(ValueError, match="calibration_data_reader"):
        ours.quantize_static(model, tmp_path / "y.onnx")
    with pytest.raises(ValueError, match="No data is collected"):
        ours.quantize_static(model, tmp_path / "y.onnx", both.Reader([]))
    with pytest.raises(ValueError, match="is not a file"):
        ours.quantize_static(model, tmp_path / "y.onnx", reader(model), calibration_cache_path=tmp_path)
    assert not (tmp_path / "y.onnx").exists()


def test_a_cache_takes_the_place_of_samples(model: Path, tmp_path: Path) -> None:
    cache = tmp_path / "ranges.json"
    ours.quantize_static(model, tmp_path / "a.onnx", reader(model), calibration_cache_path=cache)
    ours.quantize_static(model, tmp_path / "b.onnx", calibration_cache_path=cache)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    with pytest.raises(ValueError, match="pass a matching calibrate_method"):
        ours.quantize_static(
            model,
            tmp_path / "c.onnx",
            calibration_cache_path=cache,
            calibrate_method=ours.CalibrationMethod.Entropy,
        )


def test_strides_give_the_same_ranges(model: Path, tmp_path: Path) -> None:
    for name, options in (("a", {}), ("b", {"CalibStridedMinMax": 1})):
        ours.quantize_static(model, tmp_path / f"{name}.onnx", reader(model), extra_options=options)
    assert both.differences(tmp_path / "a.onnx", tmp_path / "b.onnx") == []
    with pytest.raises(ValueError, match="not divisible by stride size"):
        ours.quantize_static(model, tmp_path / "c.onnx", reader(model), extra_options={"CalibStridedMinMax": 2})


# ---- operator sets


def test_old_models_are_lifted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for opset, expected in ((9, 11), (10, 10), (11, 11), (20, 20)):
        b = Builder(2, 4, opset=opset)
        b.node("Relu", [b.node("MatMul", ["x", b.constant("w", 4, 4)])], "y")
        path = tmp_path / "model.onnx"
        onnx.save(b.model("y"), path)
        with caplog.at_level(logging.WARNING):
            caplog.clear()
            ours.quantize_dynamic(path, tmp_path / "y.onnx")
        assert onnx.load(tmp_path / "y.onnx").opset_import[0].version == expected
        assert ("opset version is" in caplog.text) == (opset < 11)
        feeds = samples(onnx.load(path))[0]
        np.testing.assert_allclose(outputs(tmp_path / "y.onnx", feeds)[0], outputs(path, feeds)[0], atol=0.1)


@pytest.mark.parametrize("options", [{"weight_type": TYPES.QInt16}, {"extra_options": {"BlockSize": 2}}])
def test_wide_types_and_blocks_need_operator_set_21(options: dict[str, Any], model: Path, tmp_path: Path) -> None:
    kinds = ["Gemm"]
    ours.quantize_static(model, tmp_path / "y.onnx", reader(model), op_types_to_quantize=kinds, **options)
    made = onnx.load(tmp_path / "y.onnx")
    assert made.opset_import[0].version == 21
    assert {each.domain for each in made.graph.node} == {""}
    feeds = samples(onnx.load(model))[0]
    np.testing.assert_allclose(outputs(tmp_path / "y.onnx", feeds)[0], outputs(model, feeds)[0], atol=0.05)


def test_a_model_that_is_quantized_already(model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ours.quantize_static(model, tmp_path / "once.onnx", reader(model), activation_type=TYPES.QUInt8)
    with caplog.at_level(logging.WARNING):
        ours.quantize_dynamic(tmp_path / "once.onnx", tmp_path / "twice.onnx")
    assert "already quantized" in caplog.text
    feeds = samples(onnx.load(model))[0]
    np.testing.assert_allclose(outputs(tmp_path / "twice.onnx", feeds)[0], outputs(model, feeds)[0], atol=0.1)
    with both.quiet():
        ranges = tmp_path / "ranges.json"
        more = {"activation_type": "QuantType.QUInt8", "calibration_cache_path": ranges}
        ours.quantize_static(tmp_path / "once.onnx", tmp_path / "a.onnx", reader(model), **both.named(more, ours))
        theirs.quantize_static(tmp_path / "once.onnx", tmp_path / "b.onnx", **both.named(more, theirs))
    found = both.differences(tmp_path / "a.onnx", tmp_path / "b.onnx")
    assert [each for each in found if ": raw " not in each] == []  # constants that were there are written as raw bytes


def test_a_model_without_operator_set(tmp_path: Path) -> None:
    made = MODELS["activations"]()
    del made.opset_import[:]
    made.opset_import.add().domain = "com.microsoft"
    onnx.save(made, tmp_path / "model.onnx")
    with pytest.raises(ValueError, match=r"imports no operator set of ai\.onnx"):
        ours.quantize_dynamic(tmp_path / "model.onnx", tmp_path / "y.onnx")


# ---- types that do not go together

WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"activation_type": TYPES.QInt8, "weight_type": TYPES.QUInt8}, ValueError, "use QUInt8 activations"),
    ({"weight_type": TYPES.QFLOAT8E4M3FN}, ValueError, "Only Distribution"),
    (
        {"weight_type": TYPES.QFLOAT8E4M3FN, "calibrate_method": ours.CalibrationMethod.Distribution},
        ValueError,
        "both are float8, or none",
    ),
    (
        {
            "weight_type": TYPES.QFLOAT8E4M3FN,
            "activation_type": TYPES.QFLOAT8E4M3FN,
            "calibrate_method": ours.CalibrationMethod.Distribution,
        },
        NotImplementedError,
        "kernels of CUDA",
    ),
    ({"weight_type": TYPES.QInt16, "quant_format": ours.QuantFormat.QOperator}, ValueError, "Only QuantFormat.QDQ"),
    (
        {"weight_type": TYPES.QInt4, "activation_type": TYPES.QUInt8, "quant_format": ours.QuantFormat.QOperator},
        ValueError,
        "use QuantFormat.QDQ",
    ),
    ({"extra_options": {"SmoothQuant": True}}, NotImplementedError, "SmoothQuant"),
    ({"weight_type": "QInt8"}, ValueError, "'QInt8' is a string, and no QuantType; QuantType.from_string makes one"),
    ({"quant_format": "QOperator"}, ValueError, "quant_format='QOperator': give QuantFormat.QDQ or QuantFormat.QO"),
    ({"calibrate_method": "MinMax"}, ValueError, "Unsupported calibration method 'MinMax'; there are "),
]


@pytest.mark.parametrize(("options", "kind", "message"), WRONG)
def test_types_that_do_not_go_together(
    options: dict[str, Any], kind: type[Exception], message: str, model: Path, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=message):
        ours.quantize_static(model, tmp_path / "y.onnx", reader(model), **options)
    assert not (tmp_path / "y.onnx").exists()


def test_what_there_is_none_of() -> None:
    with pytest.raises(NotImplementedError, match="kernels of CUDA"):
        ours.CudaQuantizer()
    with pytest.raises(ValueError, match="QuantType has no 'QInt3'; it has QInt8"):
        TYPES.from_string("QInt3")
    with pytest.raises(TypeError, match="or a WeightOnlyQuantConfig, not dict"):
        ours.quantize("x.onnx", "y.onnx", {})  # type: ignore[arg-type]
    assert [each.tensor_type for each in TYPES] == [each.tensor_type for each in theirs.QuantType]
    assert {each.name: each.value for each in TYPES} == {each.name: each.value for each in theirs.QuantType}


# ---- overrides

OVERRIDES: dict[str, dict[str, Any]] = {
    "a scale": {"t0": [{"scale": np.array(0.02, np.float32), "zero_point": np.array(7, np.uint8)}]},
    "a range": {"t1": [{"rmin": np.float32(-1), "rmax": np.float32(1)}], "x": [{"symmetric": True}]},
    "types of weights": {"w0": [{"quant_type": "QuantType.QInt8", "symmetric": True, "reduce_range": True}]},
    "channels of weights": {"w0": [{"axis": 0, "quant_type": "QuantType.QInt8"}]},
    "channels": {
        "g": [{"axis": 0, "scale": np.float32(0.1 * k + 0.1), "zero_point": np.uint8(k)} for k in range(5)],
        "gc": [{"quant_type": "QuantType.QUInt8"}],
    },
    "wide": {"t1": [{"quant_type": "QuantType.QUInt16"}]},
    "a converted tensor": {
        "t1": [
            {"quant_type": "QuantType.QUInt8", "convert": {"quant_type": "QuantType.QInt8", "recv_nodes": {"Conv_2"}}}
        ]
    },
    "a tensor converted for all": {"t4": [{"convert": {"quant_type": "QuantType.QInt8"}}]},
    "a converted output": {"y": [{"convert": {"quant_type": "QuantType.QInt8"}}]},
    "a converted output that is used": {
        "t6": [{"convert": {"quant_type": "QuantType.QInt8", "recv_nodes": {"GlobalAveragePool_7"}}}]
    },
}


@pytest.mark.parametrize("name", OVERRIDES)
def test_overrides_are_theirs(name: str, model: Path, tmp_path: Path) -> None:
    options = {
        "activation_type": "QuantType.QUInt8",
        "weight_type": "QuantType.QUInt8",
        "op_types_to_quantize": ["Conv", "Gemm", "MaxPool", "Add", "GlobalAveragePool", "Flatten"],
        "extra_options": {"TensorQuantOverrides": OVERRIDES[name], "ForceQuantizeNoInputCheck": True},
    }
    mine, its = both.static(model, tmp_path, reader(model).samples, options)
    assert both.differences(mine, its) == []


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"nowhere": [{"symmetric": True}]}, "is not present in the model"),
    ({"t0": {"symmetric": True}}, "they are a list of dictionaries"),
    ({"t0": ["symmetric"]}, "they are dictionaries"),
    ({"t0": [{"scale": np.float32(1)}]}, "Must provide both 'scale' and 'zero_point'"),
    ({"t0": [{"scale": np.float32(1), "zero_point": np.uint8(0), "rmax": np.float32(1)}]}, r"option\(s\) \[rmax\]"),
    ({"t0": [{"reduce_range": True}]}, "only supported for initializers"),
    ({"t0": [{"axis": 0}]}, "is not an initializer"),
    ({"w0": [{}, {"axis": 0}]}, None),
    ({"w0": [{"axis": 7}]}, "out-of-bounds"),
    ({"w0": [{"axis": 0}, {}, {}]}, "expected 4, but found 3"),
    ({"w0": [{"axis": 0, "rmin": np.float32(0)}]}, "both 'rmin' and 'rmax'"),
    ({"w0": [{"axis": 0}, {"symmetric": True}, {}, {}]}, "symmetric of channel 1"),
    ({"w0": [{"convert": {"quant_type": TYPES.QInt8}}]}, "Cannot use 'convert'"),
    ({"t0": [{"convert": {}}]}, "must specify a 'quant_type'"),
    ({"t0": [{"convert": {"quant_type": TYPES.QUInt8}}]}, "must differ from original"),
]  # type: ignore[assignment]


@pytest.mark.parametrize(("overrides", "message"), [each for each in REFUSED if each[1]])
def test_overrides_that_cannot_be(overrides: dict[str, Any], message: str, model: Path, tmp_path: Path) -> None:
    options = {"TensorQuantOverrides": overrides}
    with pytest.raises(ValueError, match=message):
        ours.quantize_static(
            model, tmp_path / "y.onnx", reader(model), activation_type=TYPES.QUInt8, extra_options=options
        )


# ---- configurations, quantizers


def test_configurations_are_theirs(model: Path) -> None:
    cases: list[dict[str, Any]] = [
        {},
        {"nodes_to_exclude": ["Conv_0"], "per_channel": True, "calibrate_args": {"percentile": 99.9}},
        {"nodes_to_exclude": lambda model, node: node.op_type == "Add", "op_types_to_quantize": ["Add", "Conv"]},
        {"activation_type": "QuantType.QUInt16"},
        {"weight_type": "QuantType.QInt4", "min_real_range": 0.1, "extra_options": {"QuantizeBias": False}},
    ]
    for case in cases:
        found, expected = (
            vars(tool.get_qdq_config(str(model), both.Reader([]), **both.named(case, tool))) for tool in (ours, theirs)
        )
        assert found.keys() == expected.keys()
        for key in found.keys() - {"calibration_data_reader"}:
            mine, its = found[key], expected[key]
            if isinstance(mine, list):
                mine, its = sorted(mine), sorted(its)
            assert str(mine) == str(its), (case, key)


def test_quantizers_take_and_give_messages(model: Path) -> None:
    data = {
        name: ours.TensorData(lowest=np.float32(-1), highest=np.float32(2))
        for name in ("x", "y", *(f"t{k}" for k in range(9)))
    }
    common = (TYPES.QInt8, TYPES.QUInt8, data, [], [], ["Conv"], {})
    proto = onnx.load(model)
    quantizer = ours.QDQQuantizer(proto, False, False, *common)
    common_of_theirs = (
        *common[:2],
        {name: theirs.TensorData(**vars(each)) for name, each in data.items()},
        *common[3:],
    )
    with both.quiet():
        expected = theirs.QDQQuantizer(onnx.load(model), False, False, *common_of_theirs)
        expected.quantize_model()
    made = quantizer.quantize_model()
    assert isinstance(made, onnx.ModelProto)
    assert proto == onnx.load(model)
    assert [each.name for each in made.graph.node] == [each.name for each in expected.model.model.graph.node]
    assert [each.op_type for each in quantizer.model.nodes()] == [each.op_type for each in made.graph.node]


def test_types_that_nobody_knows(tmp_path: Path) -> None:
    b = Builder(1, 4, opset=18)
    b.node("MatMul", ["x", b.constant("w1", 4, 4)], "t1")
    b.node("FusedMatMul", ["t1", b.constant("w2", 4, 4)], "t2", domain="com.microsoft")
    b.node("MatMul", ["t2", b.constant("w3", 4, 4)], "t3")
    b.node("MatMul", ["t3", b.constant("w4", 4, 4)], "y")
    arguments = (False, False, ours.QuantizationMode.IntegerOps, False, TYPES.QInt8, TYPES.QUInt8)
    rest = (None, [], [], ["MatMul"])
    options = {"MatMulConstBOnly": True}
    with pytest.raises(RuntimeError, match="Unable to find data type for weight_name='t3'"):
        ONNXQuantizer(b.model("y"), *arguments, *rest, options).quantize_model()
    made = ONNXQuantizer(b.model("y"), *arguments, *rest, options | {"DefaultTensorType": 1}).quantize_model()
    kinds = {each.op_type for each in made.graph.node}
    assert kinds == {"Cast", "FusedMatMul", "MatMulInteger", "DynamicQuantizeLinear", "Mul"}


def test_subgraphs_are_quantized_as_theirs(tmp_path: Path) -> None:
    """Inside an If stands a MatMul of a tensor around it, with a weight around it, and one of its own."""
    helper = onnx.helper
    weight = numpy_helper.from_array(np.random.default_rng(0).normal(0, 1, (4, 4)).astype(np.float32), "w")
    inner = numpy_helper.from_array(np.random.default_rng(1).normal(0, 1, (4, 4)).astype(np.float32), "v")
    branches = []
    for name in ("then", "else"):
        nodes = [
            helper.make_node("MatMul", ["t", "w"], [f"{name}_a"], f"{name}_outer"),
            helper.make_node("MatMul", [f"{name}_a", "v" if name == "then" else "w"], [f"{name}_y"], f"{name}_inner"),
        ]
        info = helper.make_tensor_value_info(f"{name}_y", 1, [2, 4])
        branches.append(helper.make_graph(nodes, name, [], [info], [inner] if name == "then" else []))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["t"], "first"),
        helper.make_node("If", ["c"], ["y"], "choice", then_branch=branches[0], else_branch=branches[1]),
    ]
    infos = [helper.make_tensor_value_info("x", 1, [2, 4]), helper.make_tensor_value_info("c", 9, [])]
    graph = helper.make_graph(nodes, "g", infos, [helper.make_tensor_value_info("y", 1, [2, 4])], [weight])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    for channels in (False, True):
        options = {
            "extra_options": {"EnableSubgraph": True},
            "per_channel": channels,
            "weight_type": "QuantType.QUInt8",
        }
        mine, its = both.dynamic(path, tmp_path, options)
        assert [each for each in both.differences(mine, its) if "initializers" in each] == []
        nodes = [
            sorted((each.name, each.op_type, *each.input, *each.output) for each in onnx.load(path).graph.node)
            for path in (mine, its)
        ]
        assert nodes[0] == nodes[1]  # in another order: theirs does not heed what a subgraph takes from around it
        feeds = {"x": samples(onnx.load(path))[0]["x"], "c": np.array(True)}
        np.testing.assert_allclose(outputs(mine, feeds)[0], outputs(its, feeds)[0], atol=1e-5)


def test_what_onnx_knows_no_type_of_stays_a_float(tmp_path: Path) -> None:
    """GroupNormalization is a function, of whose result ONNX's inference says nothing."""
    b = Builder(2, 4, 3, opset=21)
    t = b.node("GroupNormalization", ["x", b.constant("scale", 4), b.constant("bias", 4)], num_groups=2)
    b.node("Add", [t, b.constant("a", 3)], "y")
    model = b.model("y")
    onnx.save(model, tmp_path / "model.onnx")
    for types in (["GroupNormalization"], ["GroupNormalization", "Add"]):
        mine, its = both.static(
            tmp_path / "model.onnx",
            tmp_path,
            samples(model),
            {"op_types_to_quantize": types, "activation_type": "QuantType.QUInt8"},
        )
        assert both.differences(mine, its) == []
        (tmp_path / "ranges.json").unlink()


def test_integers_of_4_bits_have_no_operators(model: Path, tmp_path: Path) -> None:
    for tool, place in ((ours, "a.onnx"), (theirs, "b.onnx")):
        with both.quiet(), pytest.raises(RuntimeError):
            tool.quantize_dynamic(model, tmp_path / place, weight_type=tool.QuantType.QInt4)


def test_weights_alone(tmp_path: Path) -> None:
    from sardonyx.quantization.weight_only_config import DefaultWeightOnlyQuantConfig

    b = Builder(2, 32)
    b.node("MatMul", ["x", b.constant("w", 32, 16)], "y")
    path, mine = tmp_path / "model.onnx", tmp_path / "y.onnx"
    onnx.save(b.model("y"), path)
    ours.quantize(path, mine, DefaultWeightOnlyQuantConfig(block_size=16))
    assert [each.op_type for each in onnx.load(mine).graph.node] == ["MatMulNBits"]
    feeds = samples(onnx.load(path))[0]
    np.testing.assert_allclose(outputs(mine, feeds)[0], outputs(path, feeds)[0], atol=1.0)


@pytest.mark.parametrize("text", ["{", "[1]", '{"a": 1}', "[" * 100_000])
def test_what_is_no_calibration_cache(text: str, tmp_path: Path) -> None:
    (tmp_path / "cache.json").write_text(text)
    with pytest.raises(InvalidArgument, match=r"cache\.json is no calibration cache; delete it"):
        load_tensors_data(tmp_path / "cache.json")


@pytest.mark.parametrize("size", [0, -16, 7, 10**9, "x"])
def test_sizes_of_blocks(size: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"block_size=.*: take a power of 2 from 8 to 65,536"):
        DefaultWeightOnlyQuantConfig(block_size=size)
