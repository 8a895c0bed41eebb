"""Sequences that become one operator, and models rewritten for QNN, against the models as they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import onnxruntime.quantization.execution_providers.qnn as their_qnn
import pytest
from onnx import helper, numpy_helper, parser

import sardonyx.quantization.execution_providers.qnn as qnn
from sardonyx.errors import InvalidArgument
from sardonyx.quantization.execution_providers.qnn.fusion_lpnorm import FusionLpNormalization
from sardonyx.quantization.fusions import Fusion, FusionGelu, FusionLayerNormalization
from sardonyx.quantization.onnx_model import ONNXModel
from tests.quantization import both

HEAD = '<ir_version: 8, opset_import: ["": 18]>'
GELUS = {
    "x * half": "h = Mul(x, half) d = Div(x, root) e = Erf(d) a = Add(e, one) y = Mul(a, h)",
    "half last": "d = Div(x, root) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)",
    "half of the sum": "d = Div(x, root) e = Erf(d) a = Add(one, e) m = Mul(a, half) y = Mul(x, m)",
    "a product": "d = Mul(x, reciprocal) e = Erf(d) a = Add(e, one) m = Mul(a, half) y = Mul(m, x)",
}
NORM = "r = ReduceL2(x, axes) {} y = Div(x, n)"
EXPANDED = {
    "by numbers": "c = Clip(r, epsilon) n = Expand(c, shape)",
    "by its own shape": "c = Clip(r, epsilon) s = Shape(x) n = Expand(c, s)",
    "not at all": "n = Clip(r, epsilon)",
}
LAYER_NORM = (
    "m = ReduceMean(x, axes) d = Sub(x, m) q = Pow(d, two) v = ReduceMean(q, axes) a = Add(v, epsilon) s = Sqrt(a) "
    "n = Div(d, s) g = Mul(n, scale) y = Add(g, bias)"
)
NUMBERS: dict[str, Any] = {
    "one": np.float32(1),
    "half": np.float32(0.5),
    "two": np.float32(2),
    "root": np.float32(2**0.5),
    "reciprocal": np.float32(0.5**0.5),
    "epsilon": np.float32(1e-12),
    "axes": np.array([-1]),
    "shape": np.array([2, 3, 4]),
    "scale": np.array([2, 3, 4, 5], np.float32),
    "bias": np.array([1, 0, -1, 2], np.float32),
}


def model(body: str, shape: str = "2,3,4", **numbers: Any) -> onnx.ModelProto:
    made = parser.parse_model(f"{HEAD} g (float[{shape}] x) => (float[{shape}] y) {{ {body} }}")
    used = {name for node in made.graph.node for name in node.input}
    held = {name: numbers.get(name, value) for name, value in NUMBERS.items() if name in used}
    made.graph.initializer.extend(numpy_helper.from_array(np.asarray(value), name) for name, value in held.items())
    return made


def run(given: onnx.ModelProto) -> np.ndarray:
    feeds = {"x": np.random.default_rng(0).normal(0, 2, (2, 3, 4)).astype(np.float32)}
    session = onnxruntime.InferenceSession(given.SerializeToString(), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, feeds)
    return np.asarray(result)


def fused(fusion: type[Fusion], given: onnx.ModelProto) -> onnx.ModelProto:
    changed = onnx.ModelProto()
    changed.CopyFrom(given)
    assert fusion(ONNXModel(changed)).apply()
    np.testing.assert_allclose(run(changed), run(given), rtol=1e-5, atol=1e-6)
    return changed


@pytest.mark.parametrize("form", GELUS)
def test_gelu(form: str) -> None:
    changed = fused(FusionGelu, model(GELUS[form]))
    (node,) = changed.graph.node
    assert (node.op_type, node.domain, list(node.input), list(node.output)) == ("Gelu", "com.microsoft", ["x"], ["y"])
    assert {each.domain: each.version for each in changed.opset_import} == {"": 18, "com.microsoft": 1}


def test_two_in_a_row_have_names_of_their_own() -> None:
    first = GELUS["x * half"].replace("y =", "z =")
    second = "i = Mul(z, half) k = Div(z, root) l = Erf(k) n = Add(l, one) y = Mul(n, i)"
    names = [node.name for node in fused(FusionGelu, model(f"{first} {second}")).graph.node]
    assert len({*names}) == 2
    assert all(names)


def test_layer_normalization() -> None:
    (node,) = fused(FusionLayerNormalization, model(LAYER_NORM, epsilon=np.float32(1e-5))).graph.node
    assert node.op_type == "LayerNormalization"
    assert {each.name: helper.get_attribute_value(each) for each in node.attribute}["epsilon"] == pytest.approx(1e-5)


@pytest.mark.parametrize("form", EXPANDED)
def test_norms(form: str) -> None:
    nodes = list(fused(FusionLpNormalization, model(NORM.format(EXPANDED[form]))).graph.node)
    assert [node.op_type for node in nodes] == ["LpNormalization"]
    told = {each.name: helper.get_attribute_value(each) for each in nodes[0].attribute}
    assert told.get("axis", -1) in (-1, 2)
    assert told.get("p", 2) == 2


@pytest.mark.parametrize(
    ("form", "numbers"),
    [("by numbers", {"epsilon": np.float32(1e-3)}), ("not at all", {"axes": np.array([1, 2])})],
)
def test_what_is_no_norm_stays(form: str, numbers: dict[str, Any]) -> None:
    given = model(NORM.format(EXPANDED[form]), **numbers)
    before = given.SerializeToString()
    assert not FusionLpNormalization(ONNXModel(given)).apply()
    assert given.SerializeToString() == before


def test_a_divisor_that_is_larger_stays() -> None:
    given = parser.parse_model(f"{HEAD} g (float[1,3] x) => (float[2,3] y) {{ {NORM.format(EXPANDED['by numbers'])} }}")
    numbers = NUMBERS | {"shape": np.array([2, 3])}
    given.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(numbers[name]), name) for name in ("axes", "epsilon", "shape")
    )
    assert not FusionLpNormalization(ONNXModel(given)).apply()


def everything() -> onnx.ModelProto:
    gelu = GELUS["x * half"].replace("y =", "z =")
    norm = "r = ReduceL2(z, axes) c = Clip(r, epsilon) f = Expand(c, shape) w = Div(z, f)"
    rest = "m = ReduceMean(w, axes) b = Sub(w, m) q = Pow(b, two) v = ReduceMean(q, axes) i = Add(v, epsilon) "
    return model(f"{gelu} {norm} {rest} s = Sqrt(i) n = Div(b, s) g = Mul(n, scale) y = Add(g, bias)")


def test_models_for_qnn_have_the_operators_that_theirs_have(tmp_path: Path) -> None:
    given = everything()
    with both.quiet():
        assert their_qnn.qnn_preprocess_model(given, tmp_path / "theirs.onnx", fuse_layernorm=True)
    assert qnn.qnn_preprocess_model(given, tmp_path / "ours.onnx", fuse_layernorm=True)
    ours, theirs = (onnx.load(tmp_path / name) for name in ("ours.onnx", "theirs.onnx"))
    assert [node.op_type for node in ours.graph.node] == [node.op_type for node in theirs.graph.node]
    assert all(node.name for node in ours.graph.node)
    np.testing.assert_allclose(run(ours), run(given), rtol=1e-4, atol=1e-5)
    assert qnn.qnn_preprocess_model(given, tmp_path / "plain.onnx")
    plain = [node.op_type for node in onnx.load(tmp_path / "plain.onnx").graph.node]
    assert plain[:2] == ["Gelu", "LpNormalization"]
    assert plain.count("ReduceMean") == 2


def test_channels_last(tmp_path: Path) -> None:
    given = parser.parse_model(
        f"{HEAD} g (float[1,2,3] a, float[1,2,3] b) => (float[1,2,3] x, float[1,2,3] y) "
        "{ [s] t = Add(a, b) [v] x = Abs(t) [p] y = Mul(x, b) }"
    )
    options: dict[str, Any] = {
        "inputs_to_make_channel_last": ["a", "b"],
        "outputs_to_make_channel_last": ["x", "y"],
    }
    assert qnn.qnn_preprocess_model(given, tmp_path / "last.onnx", **options)
    random = np.random.default_rng(0)
    feeds = {name: random.normal(size=(1, 2, 3)).astype(np.float32) for name in "ab"}
    before = onnxruntime.InferenceSession(given.SerializeToString(), providers=["CPUExecutionProvider"])
    after = onnxruntime.InferenceSession(tmp_path / "last.onnx", providers=["CPUExecutionProvider"])
    found = after.run(None, {name: array.transpose(0, 2, 1) for name, array in feeds.items()})
    for one, other in zip(before.run(None, feeds), found, strict=True):
        np.testing.assert_array_equal(np.asarray(one).transpose(0, 2, 1), other)


def test_sizes_are_closed_and_initializers_are_no_inputs(tmp_path: Path) -> None:
    given = parser.parse_model(f"{HEAD} g (float[n,4] x, float[4] w) => (float[n,4] y) {{ [m] y = Mul(x, w) }}")
    given.graph.initializer.append(numpy_helper.from_array(np.arange(4, dtype=np.float32), "w"))
    shapes = [("x", "3,4")]
    assert qnn.qnn_preprocess_model(given, tmp_path / "a.onnx", True, dynamic_input_shapes=shapes)
    (only,) = onnx.load(tmp_path / "a.onnx").graph.input
    assert [dim.dim_value for dim in only.type.tensor_type.shape.dim] == [3, 4]
    with pytest.raises(InvalidArgument, match="'z' is no input or output of the graph: x, w"):
        qnn.qnn_preprocess_model(given, tmp_path / "b.onnx", inputs_to_make_channel_last=["z"])
    with pytest.raises(InvalidArgument, match="'x' has no channels"):
        qnn.qnn_preprocess_model(given, tmp_path / "b.onnx", inputs_to_make_channel_last=["x"])


def test_nothing_to_change_writes_nothing(tmp_path: Path) -> None:
    given = parser.parse_model(f"{HEAD} g (float[2] x) => (float[2] y) {{ [r] y = Relu(x) }}")
    assert not qnn.qnn_preprocess_model(given, tmp_path / "same.onnx")
    assert not (tmp_path / "same.onnx").exists()
