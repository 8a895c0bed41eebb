"""Bias correction and SmoothQuant beside their formulas in NumPy, and onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import write
from sardonyx.quantization.tuning import bias_correction, smooth
from sardonyx.quantization.tuning.preparation import prepared
from sardonyx.quantization.tuning.samples import Listed
from sardonyx.quantization.tuning.scheme import Scheme

from .networks import CPU, convolutions, normalized, outlier, samples
from .test_noise import decibels, theirs, workshop


def error_of(path: Path, weight: str, axis: int, rank: int) -> np.ndarray:
    """The rounded weights of a file minus those they stand for."""
    held = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}
    shape = [1] * rank
    shape[axis] = -1
    scale, zero = (held[f"{weight}_{part}"].astype(np.float64).reshape(shape) for part in ("scale", "zero_point"))
    return np.asarray((held[f"{weight}_quantized"] - zero) * scale)


def test_shifts_of_a_product(tmp_path: Path) -> None:
    path, feeds = outlier(tmp_path / "m.onnx"), samples(4, 16, count=5)
    shop = workshop(path, Scheme(), feeds, tmp_path)
    built = shop.build()
    found = bias_correction.shifts(shop.model, built, Listed(feeds), CPU)
    assert set(found) == {"first"}  # nothing is added to what `second` gives
    weights = onnx.numpy_helper.to_array(onnx.load(path).graph.initializer[0]).astype(np.float64)
    error = error_of(built, "w1", 1, 2) - weights
    mean = np.mean([each["x"].astype(np.float64) @ error for each in feeds], axis=(0, 1))
    np.testing.assert_allclose(found["first"], mean, rtol=1e-3, atol=1e-6)


def test_shifts_of_convolutions_and_their_borders(tmp_path: Path) -> None:
    path, feeds = convolutions(tmp_path / "m.onnx"), samples(2, 3, 8, 8, count=3)
    shop = workshop(path, Scheme(), feeds, tmp_path)
    built = shop.build()
    found = bias_correction.shifts(shop.model, built, Listed(feeds), CPU)
    proto = onnx.load(path)
    for tensor in proto.graph.initializer:
        if tensor.name in ("w1", "w2"):
            error = error_of(built, tensor.name, 0, 4) - onnx.numpy_helper.to_array(tensor)
            tensor.CopyFrom(onnx.numpy_helper.from_array(error.astype(np.float32), tensor.name))
    del proto.graph.node[0].input[2]
    for name, taken, output in (("first", "x", "h"), ("second", "r", "y")):
        values = theirs(path, ["r"], feeds) if taken == "r" else [[each["x"]] for each in feeds]
        node = next(node for node in proto.graph.node if node.name == name)
        alone = onnx.helper.make_graph(
            [node],
            "g",
            [onnx.helper.make_tensor_value_info(taken, 1, None)],
            [onnx.helper.make_tensor_value_info(output, 1, None)],
            [tensor for tensor in proto.graph.initializer if tensor.name in node.input],
        )
        model = onnx.helper.make_model(alone, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
        session = onnxruntime.InferenceSession(model.SerializeToString())
        mean = np.mean([session.run(None, {taken: value})[0].mean(axis=(0, 2, 3)) for (value,) in values], axis=0)
        np.testing.assert_allclose(found[name], mean, rtol=1e-3, atol=1e-6)


def test_a_correction_takes_the_mean_error_away(tmp_path: Path) -> None:
    """Of rounded weights alone: activations are not rounded here."""
    path, feeds = convolutions(tmp_path / "m.onnx"), samples(8, 3, 8, 8, count=4)
    shop = workshop(path, Scheme(per_channel=False), feeds, tmp_path)
    built = shop.build()
    shifts = bias_correction.shifts(shop.model, built, Listed(feeds), CPU)
    fixed = bias_correction.corrected(shop.model, shifts)
    before, after = (next(n for n in model.graph.nodes if n.name == "first") for model in (shop.model, fixed))
    biases = [node.inputs[2].constant.array() for node in (before, after)]
    np.testing.assert_allclose(biases[1], biases[0] - shifts["first"], rtol=1e-5)
    second = next(node for node in fixed.graph.nodes if node.name == "second")
    np.testing.assert_allclose(second.inputs[2].constant.array(), -shifts["second"], rtol=1e-5)
    assert len(next(n for n in shop.model.graph.nodes if n.name == "second").inputs) == 2  # the model is as it was


@pytest.mark.parametrize("shared", [False, True], ids=["folded", "multiplied"])
@pytest.mark.parametrize("alpha", [0.5, 0.8])
def test_smoothing_computes_the_same(shared: bool, alpha: float, tmp_path: Path) -> None:
    path, feeds = normalized(tmp_path / "m.onnx", shared=shared), samples(2, 4, 16, count=4)
    model = prepared(read(path))
    smoothed, changed, added = smooth.smoothed(model, Listed(feeds), alpha, CPU)
    assert changed == ["one", "other"]
    assert len(added) == int(shared)
    before, after = (onnxruntime.InferenceSession(data) for data in (path.read_bytes(), write(smoothed)))
    for each in feeds:
        expected, found = (session.run(None, each)[0] for session in (before, after))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)
    largest = np.max([np.abs(values[0]).max(axis=(0, 1)) for values in theirs(path, ["n"], feeds)], axis=0)
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}
    rows = np.maximum(*(np.abs(weights[name]).max(axis=1) for name in ("w1", "w2")))
    factors = largest**alpha / rows ** (1 - alpha)
    product = next(node for node in smoothed.graph.nodes if node.name == "one")
    np.testing.assert_allclose(product.inputs[1].constant.array(), weights["w1"] * factors[:, None], rtol=1e-4)


def test_smoothing_helps_where_a_channel_is_large(tmp_path: Path) -> None:
    path, feeds = normalized(tmp_path / "m.onnx"), samples(2, 4, 16, count=8)
    operators = ("MatMul",)
    shop = workshop(path, Scheme(operators=operators), feeds, tmp_path)
    session = onnxruntime.InferenceSession(path)
    expected = [session.run(None, each)[0] for each in feeds]

    def ratio() -> float:
        built = onnxruntime.InferenceSession(shop.build())
        return decibels([(one, built.run(None, each)[0]) for one, each in zip(expected, feeds, strict=True)])

    before = ratio()
    shop.set_model(smooth.smoothed(shop.model, Listed(feeds), 0.5, CPU)[0])
    assert ratio() > before + 3


def test_nothing_to_smooth(tmp_path: Path) -> None:
    model = prepared(read(convolutions(tmp_path / "m.onnx")))
    assert smooth.smoothed(model, Listed(samples(1, 3, 8, 8)), 0.5, CPU) == (model, [], [])
