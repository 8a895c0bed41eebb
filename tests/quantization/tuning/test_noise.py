"""Where noise comes from, beside onnxruntime's intermediate results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from sardonyx.model.serde.reader import read
from sardonyx.quantization.tuning import layers, switches
from sardonyx.quantization.tuning.preparation import prepared
from sardonyx.quantization.tuning.samples import Listed
from sardonyx.quantization.tuning.scheme import Scheme
from sardonyx.quantization.tuning.workshop import Workshop

from .networks import CPU, Array, convolutions, normalized, outlier, samples


def workshop(path: Path, scheme: Scheme, feeds: list[dict[str, Array]], tmp_path: Path) -> Workshop:
    folder = tmp_path / "work"
    folder.mkdir()
    return Workshop(prepared(read(path)), scheme, Listed(feeds), folder)


def theirs(path: Path, names: list[str], feeds: list[dict[str, Array]]) -> list[list[Array]]:
    """What onnxruntime gives for tensors inside of a model, nothing optimized."""
    proto = onnx.load(path)
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    return [session.run(names, each) for each in feeds]


def decibels(pairs: list[tuple[Array, Array]]) -> float:
    signal = sum(np.square(one, dtype=np.float64).sum() for one, _ in pairs)
    noise = sum(np.square(other.astype(np.float64) - one).sum() for one, other in pairs)
    return float(10 * np.log10(signal / noise))


def test_layers_of_pairs(tmp_path: Path) -> None:
    path, feeds = convolutions(tmp_path / "m.onnx"), samples(2, 3, 8, 8, count=4)
    shop = workshop(path, Scheme(), feeds, tmp_path)
    built = shop.build()
    found = layers.ratios(shop.model, built, ["first", "relu", "second"], Listed(feeds), CPU)
    floats, integers = theirs(path, ["r"], feeds), theirs(built, ["r"], feeds)
    pairs = [(one[0], np.maximum(other[0], 0)) for one, other in zip(floats, integers, strict=True)]
    assert found["relu"] == pytest.approx(decibels(pairs), abs=0.5)
    outputs = [[one[0] for one in theirs(each, ["y"], feeds)] for each in (path, built)]
    assert found["second"] == pytest.approx(decibels(list(zip(*outputs, strict=True))), abs=0.5)


def test_layers_of_operators_on_integers(tmp_path: Path) -> None:
    """Beside NumPy: onnxruntime's products of uint8 and int8 saturate on some processors."""
    path, feeds = convolutions(tmp_path / "m.onnx"), samples(2, 3, 8, 8, count=4)
    shop = workshop(path, Scheme(format="qoperator"), feeds, tmp_path)
    built = shop.build()
    found = layers.ratios(shop.model, built, ["first", "relu", "second"], Listed(feeds), CPU)
    assert set(found) == {"relu", "second"}  # the first convolution gives what the Relu gave
    held = {
        each.name: onnx.numpy_helper.to_array(each).astype(np.float64) for each in onnx.load(built).graph.initializer
    }
    scale, zero = held["h_scale"], held["h_zero_point"]
    assert zero == 0
    weights = held["w1_quantized"] * held["w1_scale"].reshape(-1, 1, 1, 1)
    bias = held["b1_quantized"] * held["w1_scale"] * held["x_scale"]
    pairs = []
    for each, (expected,) in zip(feeds, theirs(path, ["r"], feeds), strict=True):
        integers = np.clip(np.rint(each["x"] / held["x_scale"]) + held["x_zero_point"], 0, 255)
        x = np.pad((integers - held["x_zero_point"]) * held["x_scale"], ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
        product = np.einsum("nchwij,ocij->nohw", windows, weights) + bias.reshape(-1, 1, 1)
        pairs.append((expected, np.clip(np.rint(product / scale), 0, 255) * scale))
    assert found["relu"] == pytest.approx(decibels(pairs), abs=0.1)


def test_noise_of_a_node_alone_is_that_of_a_file(tmp_path: Path) -> None:
    """A switch does what a file does in which nothing but that node is quantized."""
    path, feeds = outlier(tmp_path / "m.onnx"), samples(4, 16, count=4)
    shop = workshop(path, Scheme(), feeds, tmp_path)
    candidates = shop.changed(shop.build())
    assert candidates == ["first", "bias", "relu", "scale", "second"]
    simulated = shop.build(only=candidates, simulated=True)
    switched = switches.of_pairs(shop.model, simulated, candidates, CPU)
    found = switches.alone(switched, candidates, feeds, lambda: None)
    expected = [session_of(path).run(None, each) for each in feeds]
    for name in ("first", "scale", "second"):
        session = session_of(shop.build(only=[name]))
        noise = switches.share(expected, [session.run(None, each) for each in feeds])
        assert found[name] == pytest.approx(noise, rel=0.05)
    assert min(found["scale"], found["second"]) > 100 * max(found["first"], found["bias"])


def session_of(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options)


@pytest.mark.parametrize("kind", ["int8", "int4", "fp16"])
def test_without_a_switch_it_is_the_model(kind: str, tmp_path: Path) -> None:
    path, feeds = normalized(tmp_path / "m.onnx"), samples(2, 4, 16, count=3)
    shop = workshop(path, Scheme(kind, block_size=16), feeds, tmp_path)
    candidates = shop.changed(shop.build())
    if kind == "fp16":
        switched = switches.of_halves(shop.model, candidates, CPU)
    else:
        simulated = shop.build(only=candidates, simulated=True)
        switched = switches.of_pairs(shop.model, simulated, candidates, CPU)
    (expected,) = session_of(path).run(None, feeds[0])
    np.testing.assert_allclose(switched.run(feeds[0], ())[0], expected, rtol=1e-5, atol=1e-4)
    (found,) = switched.run(feeds[0], candidates)
    assert 5 < decibels([(expected, found)]) < 75
    (built,) = session_of(shop.build()).run(None, feeds[0])
    assert decibels([(expected, found)]) == pytest.approx(decibels([(expected, built)]), abs=1.5)
