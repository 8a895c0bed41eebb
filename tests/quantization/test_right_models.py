"""Models of which onnxruntime's tool makes wrong files, or none: ours are near the floats, in both runtimes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import sardonyx
import sardonyx.quantization as ours
from sardonyx.errors import InvalidArgument
from tests.quantization import both
from tests.quantization.models import Builder, samples
from tests.quantization.test_files import outputs

PAIRS: dict[str, Any] = {}
OPERATORS: dict[str, Any] = {"quant_format": "QuantFormat.QOperator", "activation_type": "QuantType.QUInt8"}
CHANNELS: dict[str, Any] = {"per_channel": True}
Options = dict[str, Any]


def gemm_with_factors(alpha: float, beta: float) -> onnx.ModelProto:
    """The second Gemm takes the same C with other factors, and an Add takes it as it is."""
    b = Builder(3, 4)
    c = b.constant("c", value=np.array([3, -2, 1, 4], np.float32))
    t = b.node("Gemm", ["x", b.constant("w", 4, 4), c], alpha=alpha, beta=beta)
    t = b.node("Gemm", [t, b.constant("v", 4, 4), c], beta=0.5 * beta)
    b.node("Add", [t, c], "y")
    return b.model("y")


def bias_of_two_scales() -> onnx.ModelProto:
    b = Builder(1, 2, 6, 6)
    shared = [b.constant("w", 2, 2, 1, 1), b.constant("b", value=np.array([5, -5], np.float32))]
    t = b.node("Mul", [b.node("Conv", ["x", *shared]), b.constant("m", value=np.float32(10))])
    b.node("Conv", [t, *shared], "y")
    return b.model("y")


def bias_that_is_added() -> onnx.ModelProto:
    b = Builder(4, 4)
    b.constant("w", 4, 4)
    t = b.node("Gemm", ["x", "w", b.constant("c", 4)], transB=1)
    t = b.node("MatMul", [b.node("Gemm", [t, "w", "c"]), "w"])
    b.node("Add", [t, "c"], "y")
    return b.model("y")


def bias_of_rows() -> onnx.ModelProto:
    b = Builder(5, 4)
    t = b.node("Gemm", ["x", b.constant("w", 3, 4), b.constant("c", 5, 3)], transB=1)
    t = b.node("Gemm", [t, b.constant("v", 3, 2), b.constant("one", 1)])
    b.node("Gemm", [t, b.constant("u", 2, 6), b.constant("column", 5, 1)], "y")
    return b.model("y")


def transposed_groups() -> onnx.ModelProto:
    b = Builder(1, 4, 5, 5)
    b.node("ConvTranspose", ["x", b.constant("w", 4, 2, 3, 3), b.constant("b", 4)], "y", group=2, strides=[2, 1])
    return b.model("y")


def input_that_is_an_output() -> onnx.ModelProto:
    b = Builder(1, 3, 4, 4)
    return b.model(b.conv("x", 2, 3), "x")


def weights_that_are_no_matrices() -> onnx.ModelProto:
    b = Builder(2, 3, 5, 4)
    t = b.node("MatMul", ["x", b.constant("w", 3, 4, 6)])
    b.node("MatMul", [t, b.constant("v", 6)], "y")
    return b.model("y")


def old_operator_set() -> onnx.ModelProto:
    b = Builder(1, 3, 6, 6, opset=11)
    b.node("Relu", [b.conv("x", 4, 3)], "y")
    return b.model("y")


def halves_of_17() -> onnx.ModelProto:
    b = Builder(1, 3, 6, 6, dtype=np.float16)
    t = b.node("Flatten", [b.node("Relu", [b.conv("x", 4, 3)])])
    b.node("Gemm", [t, b.constant("g", 144, 3), b.constant("gc", 3)], "y")
    return b.model("y")


def halves_with_softmax() -> onnx.ModelProto:
    b = Builder(2, 4, opset=21, dtype=np.float16)
    t = b.node("Softmax", [b.node("MatMul", ["x", b.constant("w", 4, 4)])])
    b.node("Mul", [t, b.constant("m", 4)], "y")
    return b.model("y")


def mask_of_infinity() -> onnx.ModelProto:
    b = Builder(2, 4)
    t = b.node("MatMul", ["x", b.constant("w", 4, 4)])
    t = b.node("Add", [t, b.constant("mask", value=np.array([0, 0, 0, -np.inf], np.float32))])
    t = b.node("Transpose", [t], perm=[1, 0])
    t = b.node("Softmax", [b.node("Transpose", [t], perm=[1, 0])])
    b.node("MatMul", [t, b.constant("v", 4, 4)], "y")
    return b.model("y")


def weight_of_infinity() -> onnx.ModelProto:
    b = Builder(2, 4)
    t = b.node("Relu", [b.node("MatMul", ["x", b.constant("w", 4, 4)])])
    lowest = np.full((4, 3), -np.inf, np.float32)
    t = b.node("Gemm", [t, b.constant("v", value=lowest), b.constant("c", 3)])
    b.node("Clip", [t, b.constant("low", value=np.float32(-3)), b.constant("high", value=np.float32(3))], "y")
    return b.model("y")


def activations_that_are_not_alone() -> onnx.ModelProto:
    """What Relu takes goes elsewhere, too; MaxPool comes before, and takes integers."""
    b = Builder(1, 4, 6, 6)
    t = b.conv("x", 4, 4)
    pooled = b.node("MaxPool", [t], kernel_shape=[1, 1])
    t = b.node("Concat", [t, b.node("Relu", [t]), pooled], axis=1)
    t = b.conv(t, 4, 12)
    u = b.node("Relu", [t])
    b.node("Add", [b.conv(u, 4, 4), u], "y")
    return b.model("y", t)


def bounds_without_zero() -> onnx.ModelProto:
    b = Builder(1, 4, 6, 6)
    t = b.conv("x", 4, 4)
    t = b.node("Clip", [t, b.constant("low", value=np.float32(0.5)), b.constant("high", value=np.float32(2))])
    t = b.node("Clip", [b.conv(t, 4, 4), "", b.constant("top", value=np.float32(-0.5))])
    b.node("Add", [b.conv(t, 4, 4), b.constant("a", 4, 1, 1)], "y")
    return b.model("y")


def pads_beyond_the_range() -> onnx.ModelProto:
    b = Builder(1, 2, 6, 6)
    pads = b.constant("pads", value=np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
    t = b.node("Pad", [b.conv("x", 2, 2), pads, b.constant("fill", value=np.float32(-15.5))])
    b.node("Add", [b.conv(t, 2, 2), b.constant("a", 2, 1, 1)], "y")
    return b.model("y")


CASES: list[tuple[Callable[[], onnx.ModelProto], Options]] = [
    *(
        (partial(gemm_with_factors, alpha, beta), options)
        for alpha, beta in ((1.0, 0.5), (2.0, 1.0), (2.0, 0.5), (-0.5, 3.0), (1.0, 0.0), (0.0, 1.0))
        for options in (PAIRS, OPERATORS, OPERATORS | CHANNELS, {"extra_options": {"QuantizeBias": False}})
    ),
    *(
        (make, options)
        for make in (activations_that_are_not_alone, bounds_without_zero, pads_beyond_the_range)
        for options in (PAIRS, OPERATORS, OPERATORS | CHANNELS)
    ),
    *((bias_of_two_scales, options) for options in (OPERATORS, OPERATORS | CHANNELS)),
    *((bias_that_is_added, options) for options in (OPERATORS, OPERATORS | CHANNELS)),
    *((bias_of_rows, options) for options in (CHANNELS, OPERATORS | CHANNELS)),
    (transposed_groups, CHANNELS),
    (input_that_is_an_output, PAIRS),
    (input_that_is_an_output, {"extra_options": {"DedicatedQDQPair": True}}),
    (weights_that_are_no_matrices, CHANNELS),
    (weights_that_are_no_matrices, OPERATORS | CHANNELS),
    (old_operator_set, CHANNELS),
    (old_operator_set, {"extra_options": {"TensorQuantOverrides": {"w0": [{"axis": 0}]}}}),
    (halves_of_17, PAIRS),
    (halves_with_softmax, PAIRS),
    *((mask_of_infinity, options) for options in (PAIRS, OPERATORS, CHANNELS, OPERATORS | CHANNELS)),
    *(
        (mask_of_infinity, {"calibrate_method": f"CalibrationMethod.{method}", **more})
        for method in ("Entropy", "Percentile", "Distribution")
        for more in ({}, {"extra_options": {"CalibTensorRangeSymmetric": True}})
    ),
    *((weight_of_infinity, options) for options in (PAIRS, OPERATORS, CHANNELS, OPERATORS | CHANNELS)),
]


@cache
def theirs_is_exact() -> bool:
    """Whether onnxruntime sums products of bytes as they are: without VNNI it cuts the sum of two to 16 bits."""
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (uint8[1, 64] x) => (int32[1, 64] y) { y = MatMulInteger (x, w) }"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.full((64, 64), 127, np.int8), "w"))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return bool((session.run(None, {"x": np.full((1, 64), 255, np.uint8)})[0] == 64 * 255 * 127).all())


def near(path: Path, mine: Path, feeds: dict[str, Any]) -> None:
    """A few steps of 8 bits: each result is near that of the floats."""
    with np.errstate(all="ignore"):
        wanted = outputs(path, feeds)
        for runtime in (None, sardonyx) if theirs_is_exact() else (sardonyx,):
            found = outputs(mine, feeds) if runtime is None else outputs(mine, feeds, runtime)
            for one, other in zip(found, wanted, strict=True):
                assert one.shape == other.shape
                size = float(np.abs(other).max())
                np.testing.assert_allclose(one, other, atol=0.03 * size, rtol=0)


@pytest.mark.parametrize(("make", "options"), CASES)
def test_static(make: Callable[[], onnx.ModelProto], options: Options, tmp_path: Path) -> None:
    model = make()
    path, mine = tmp_path / "model.onnx", tmp_path / "ours.onnx"
    onnx.save(model, path)
    with both.quiet():
        ours.quantize_static(path, mine, both.Reader(samples(model)), **both.named(options, ours))
    near(path, mine, samples(model)[0])


def weights_of_two_axes() -> onnx.ModelProto:
    """A weight that is transposed for one node, and an output of the model."""
    b = Builder(4, 4)
    t = b.node("Gemm", ["x", b.constant("w", 4, 4), b.constant("c", 4)], transB=1)
    b.node("Relu", [t], "y")
    return b.model("y", "w")


@pytest.mark.parametrize("make", [weights_that_are_no_matrices, weights_of_two_axes])
@pytest.mark.parametrize("options", [{}, {"per_channel": True, "weight_type": "QuantType.QUInt8"}])
def test_dynamic(make: Callable[[], onnx.ModelProto], options: Options, tmp_path: Path) -> None:
    model = make()
    path, mine = tmp_path / "model.onnx", tmp_path / "ours.onnx"
    onnx.save(model, path)
    with both.quiet():
        ours.quantize_dynamic(path, mine, **both.named(options, ours))
    near(path, mine, samples(model)[0])


@pytest.mark.parametrize("model", [halves_of_17(), halves_with_softmax()])
def test_operators_of_float16_are_refused(model: onnx.ModelProto, tmp_path: Path) -> None:
    told = r"'\w+' is float16, and quantized operators take float32: use QuantFormat.QDQ, or quantize the model in"
    with both.quiet(), pytest.raises(InvalidArgument, match=told):
        ours.quantize_dynamic(model, tmp_path / "y.onnx")
    options = both.named(OPERATORS, ours)
    with both.quiet(), pytest.raises(InvalidArgument, match=told):
        ours.quantize_static(model, tmp_path / "y.onnx", both.Reader(samples(model)), **options)
    assert not (tmp_path / "y.onnx").exists()


@pytest.mark.parametrize("method", ["MinMax", "Entropy", "Percentile", "Distribution"])
@pytest.mark.parametrize("more", [{}, {"CalibMovingAverage": True, "CalibMaxIntermediateOutputs": 2}])
def test_a_layer_that_gives_nan(method: str, more: Options, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Log takes negative numbers of some samples, and of one none."""
    b = Builder(2, 4)
    t = b.node("Log", [b.node("MatMul", ["x", b.constant("w", value=np.eye(4, dtype=np.float32))])])
    b.node("Clip", [t, b.constant("low", value=np.float32(-1)), b.constant("high", value=np.float32(1))], "y")
    model = b.model("y")
    onnx.save(model, tmp_path / "model.onnx")
    given = [{"x": np.full((2, 4), -1.0, np.float32)}] * 2
    options = {"calibrate_method": f"CalibrationMethod.{method}", "extra_options": more}
    with caplog.at_level(logging.WARNING), np.errstate(all="ignore"):
        ours.quantize_static(
            tmp_path / "model.onnx",
            tmp_path / "nothing.onnx",
            both.Reader(given),
            op_types_to_quantize=["MatMul", "Log"],
            **both.named(options, ours),
        )
        assert "Tensor 't1' stays in floats: no integers stand for infinity or NaN" in caplog.text
        some = [*given, {"x": np.array([[1, 0.5, 1, 2], [4, 5, 1, 3]], np.float32)}]
        ours.quantize_static(
            tmp_path / "model.onnx",
            tmp_path / "some.onnx",
            both.Reader(some),
            op_types_to_quantize=["MatMul", "Log"],
            **both.named(options, ours),
        )
    made = {each.name for each in onnx.load(tmp_path / "some.onnx").graph.node}
    assert "t1_QuantizeLinear" in made
    left = {each.name for each in onnx.load(tmp_path / "nothing.onnx").graph.node}
    assert "t1_QuantizeLinear" not in left
    assert "x_QuantizeLinear" in left


def test_no_samples(tmp_path: Path) -> None:
    with both.quiet(), pytest.raises(InvalidArgument, match="the reader gave no samples; one that was read to its end"):
        ours.quantize_static(old_operator_set(), tmp_path / "y.onnx", both.Reader([]))


def test_types_of_float16_need_no_newer_operator_set_of_microsoft(tmp_path: Path) -> None:
    model = halves_of_17()
    with both.quiet():
        options = {"UseQDQContribOps": True}
        ours.quantize_static(model, tmp_path / "y.onnx", both.Reader(samples(model)), extra_options=options)
    made = onnx.load(tmp_path / "y.onnx")
    assert {each.domain: each.version for each in made.opset_import} == {"": 17, "com.microsoft": 1}
