"""Quantization-aware training: gradients through roundings, and models that come nearer to what they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from sklearn.datasets import load_digits

from sardonyx.demo import assets
from sardonyx.demo.digits import digit_from_gray
from sardonyx.errors import InvalidArgument
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import save, write
from sardonyx.passes.copy import copy_model
from sardonyx.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from sardonyx.quantization.tuning.preparation import prepared
from sardonyx.training.api import CheckpointState, Module
from sardonyx.training.aware import Plan, train_quantized
from sardonyx.training.aware.rounded import SLOWER, rounded
from sardonyx.training.checkpoint import Checkpoint
from sardonyx.training.draft import Draft
from sardonyx.training.gradient_model import differentiate
from tests.engine.providers import NUMPY, PROVIDERS, WASM, require_provider


class Reader(CalibrationDataReader):
    """Samples, one after the other."""

    def __init__(self, samples: list[dict[str, np.ndarray]]) -> None:
        self._left = iter(samples)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._left, None)


def layers(softmax: bool = False) -> onnx.ModelProto:
    """A convolution and a product, [N, 2, 6, 6] to [N, 4]."""
    rng = np.random.default_rng(0)
    arrays = {
        "w": rng.normal(size=(3, 2, 3, 3)),
        "b": rng.normal(size=3),
        "m": rng.normal(size=(48, 4)) / 4,
        "shape": np.array([-1, 48]),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv"),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Reshape", ["r", "shape"], ["f"], name="flat"),
        helper.make_node("MatMul", ["f", "m"], ["y"], name="product"),
    ]
    if softmax:
        nodes[-1].output[0] = "scores"
        nodes.append(helper.make_node("Softmax", ["scores"], ["y"], name="shares"))
    tensors = [
        numpy_helper.from_array(each if name == "shape" else each.astype(np.float32), name)
        for name, each in arrays.items()
    ]
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", ["N", 2, 6, 6]), ("y", ["N", 4]))
    ]
    graph = helper.make_graph(nodes, "layers", infos[:1], infos[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def samples(count: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(1)
    return [{"x": rng.normal(size=(1, 2, 6, 6)).astype(np.float32)} for _ in range(count)]


def quantize(model: Path, target: Path, given: list[dict[str, np.ndarray]], **options: object) -> Path:
    told = {"weight_type": QuantType.QInt4, "activation_type": QuantType.QUInt8, "per_channel": True} | options
    quantize_static(model, target, Reader(given), quant_format=QuantFormat.QDQ, **told)  # type: ignore[arg-type]
    return target


def run(model: bytes, feeds: dict[str, np.ndarray]) -> np.ndarray:
    """What onnxruntime gives, with nothing rearranged."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    found: np.ndarray = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"]).run(None, feeds)[0]
    return found


@pytest.mark.parametrize("provider", PROVIDERS)
def test_gradients_pass_through_roundings(provider: str) -> None:
    """Against the formulas of the two papers, in float64."""
    require_provider(provider)
    x = np.array([[-9.0, -0.3, 0.74, 3.2], [0.1, 1.6, -2.2, 40.0]], np.float32)
    scale, weight, columns = np.float32(0.5), np.array([[-8], [7], [3], [-2]], np.int8), np.array([0.25], np.float32)
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[2, 4] x) => (float[2, 1] y)
    <float s = {0.5}, uint8 z = {3}, int8[4, 1] q = {-8, 7, 3, -2}, float[1] t = {0.25}> {
        a = QuantizeLinear(x, s, z)
        b = DequantizeLinear(a, s, z)
        w = DequantizeLinear<axis = 1>(q, t)
        y = MatMul(b, w)
    }"""
    draft = Draft(copy_model(read(onnx.parser.parse_model(text).SerializeToString())))
    found = rounded(draft)
    total = draft.add("ReduceSum", [draft.graph.outputs[0].name], "loss", {"keepdims": 0})
    learnt = [found.weights[0].parameter, *(each.parameter for each in found.scales.values())]
    models = differentiate(draft, [total], learnt, [], found.errors)
    module = Module(
        write(models.training), CheckpointState(Checkpoint(models.trainable, models.frozen)), providers=[provider]
    )
    module(x)
    gradients = {name: module.state.parameters[name].grad for name in learnt}

    steps = x.astype(np.float64) / scale
    inside = (steps >= -3) & (steps <= 252)
    clipped = np.clip(steps, -3, 252)
    image = np.round(clipped) * scale
    matrix = weight * columns.astype(np.float64)
    np.testing.assert_allclose(gradients[learnt[0]], (image.sum(0) * columns)[:, None], rtol=1e-5)
    by_scale = np.where(inside, np.round(clipped) - steps, clipped) * matrix.T
    np.testing.assert_allclose(gradients[found.scales["s"].parameter], by_scale.sum() * scale / SLOWER, rtol=1e-5)
    assert abs(gradients[found.scales["t"].parameter]).max() == pytest.approx(0, abs=1e-6)  # round(w / t) is exact here


def distance(found: np.ndarray, wanted: np.ndarray, shares: bool) -> float:
    """The mean of squares, or of shares the divergence of Kullback and Leibler."""
    one, other = found.astype(np.float64), wanted.astype(np.float64)
    if not shares:
        return float(np.square(one - other).mean())
    one, other = np.maximum(one, 1e-6), np.maximum(other, 1e-6)
    return float((other * np.log(other / one)).sum(-1).mean())


@pytest.mark.parametrize("softmax", [False, True])
def test_what_was_lost_is_learnt(softmax: bool, tmp_path: Path) -> None:
    """Integers of four bits come nearer on what was trained with, as onnxruntime runs them: the graph is the same."""
    model = tmp_path / "model.onnx"
    onnx.save(layers(softmax), model)
    given = samples(500)
    path = quantize(model, tmp_path / "quantized.onnx", given[:16], activation_type=QuantType.QUInt4)
    before = read(path)
    after = train_quantized(before, read(model), given, Plan(steps=250, batch=64), providers=[NUMPY])
    assert after is not None
    feeds = {"x": np.concatenate([each["x"] for each in given[:500]])}
    wanted = run(model.read_bytes(), feeds)
    errors = [distance(run(data, feeds), wanted, softmax) for data in (path.read_bytes(), write(after))]
    assert errors[1] < 0.98 * errors[0]
    assert [node.op_type for node in after.graph.nodes] == [node.op_type for node in before.graph.nodes]
    for one, other in zip(before.graph.initializers, after.graph.initializers, strict=True):
        assert one.constant is not None
        assert other.constant is not None
        assert (one.name, one.constant.dtype, one.constant.shape) == (
            other.name,
            other.constant.dtype,
            other.constant.shape,
        )


def test_scales_of_biases_follow(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    onnx.save(layers(), model)
    given = samples(32)
    quantized = read(quantize(model, tmp_path / "quantized.onnx", given[:8], weight_type=QuantType.QInt8))
    after = train_quantized(quantized, read(model), given, Plan(steps=20, learning_rate=0.1))
    constants = {each.name: each.constant.array() for each in (after or quantized).graph.initializers if each.constant}
    np.testing.assert_allclose(constants["b_quantized_scale"], constants["x_scale"] * constants["w_scale"], rtol=1e-6)


def test_what_cannot_be_trained(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    onnx.save(layers(), model)
    given = samples(4)
    target = tmp_path / "integers.onnx"
    quantize_static(model, target, Reader(given), quant_format=QuantFormat.QOperator)
    with pytest.raises(InvalidArgument, match=r"QLinearConv 'conv_quant' computes on integers.*format qdq"):
        train_quantized(read(target), read(model), given)
    with pytest.raises(InvalidArgument, match="no weights behind a DequantizeLinear"):
        train_quantized(read(model), read(model), given)
    with pytest.raises(InvalidArgument, match="there are no samples"):
        train_quantized(read(model), read(model), [])


@pytest.mark.parametrize(
    ("steps", "missing"), [pytest.param(600, 0.003, marks=pytest.mark.nightly), pytest.param(80, 0.06, id="short")]
)
def test_digits_of_four_bits(steps: int, missing: float, tmp_path: Path) -> None:
    """Weights and activations of four bits: 64 % are right before, and behind it nearly as many as in float32."""
    data = load_digits()
    images, labels = np.concatenate([_drawn(each) for each in data.images]), data.target
    order = np.random.default_rng(0).permutation(len(images))
    base = prepared(read(assets() / "digits.onnx"))
    save(base, tmp_path / "digits.onnx")
    given = [{"image": images[k : k + 1]} for k in order[360 : 660 if steps < 100 else None]]
    options = {"activation_type": QuantType.QUInt4, "op_types_to_quantize": ["Conv", "Gemm", "Relu", "MatMul"]}
    path = quantize(tmp_path / "digits.onnx", tmp_path / "four.onnx", given[:100], **options)
    trained = train_quantized(read(path), base, given, Plan(steps=steps, batch=32), providers=[WASM])
    assert trained is not None

    def right(model: bytes) -> float:
        return float((run(model, {"image": images[order[:360]]}).argmax(1) == labels[order[:360]]).mean())

    exact, before, after = (right(each) for each in (write(base), path.read_bytes(), write(trained)))
    assert before < 0.8
    assert after >= exact - missing


def _drawn(counts: np.ndarray) -> np.ndarray:
    """An image of the data set, 8 x 8 counts of ink, as the model's input."""
    ink = Image.fromarray((np.pad(counts, 2) * 255 / 16).astype(np.uint8)).resize((96, 96), Image.Resampling.BICUBIC)
    stroke = np.clip(6 * (np.asarray(ink) / 255 - 0.45) + 0.5, 0, 1)
    return digit_from_gray((stroke * 255).round().astype(np.uint8))
