"""Tensors before and after rounding: by both tools the same tensors, weights, and errors."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
from onnxruntime.quantization import qdq_loss_debug as theirs

from sardonyx.quantization import qdq_loss_debug as ours
from tests.quantization.weights import filled, model_of

SAMPLES = [{"x": np.random.default_rng(seed).standard_normal((4, 16)).astype(np.float32)} for seed in range(3)]


class Reader(CalibrationDataReader):  # type: ignore[misc]
    """The samples, once."""

    def __init__(self) -> None:
        self._samples = iter(SAMPLES)

    def get_next(self) -> Any:
        return next(self._samples, None)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A float model, and that which onnxruntime's tool makes of it in QDQ form, with scales for each channel."""
    folder = tmp_path_factory.mktemp("models")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="first"),
        helper.make_node("Relu", ["h"], ["r"], name="relu"),
        helper.make_node("MatMul", ["r", "v"], ["y"], name="second"),
    ]
    weights = {"w": filled((16, 12)) + 0.3, "v": filled((12, 5), seed=1)}
    model = model_of(nodes, {"x": (1, [4, 16])}, weights, {"y": (1, [4, 5])})
    onnx.save(model, folder / "float.onnx")
    quantize_static(
        str(folder / "float.onnx"), str(folder / "qdq.onnx"), Reader(), per_channel=True, weight_type=QuantType.QInt8
    )
    return str(folder / "float.onnx"), str(folder / "qdq.onnx")


def collected(tool: Any, path: str, folder: Path, operators: list[str] | None = None) -> dict[str, list[np.ndarray]]:
    watched = str(folder / f"{tool.__name__}.onnx")
    tool.modify_model_output_intermediate_tensors(path, watched, operators)
    found: dict[str, list[np.ndarray]] = tool.collect_activations(watched, Reader())
    return found


@pytest.mark.parametrize("operators", [None, ["MatMul"]])
def test_activations_are_the_same(files: tuple[str, str], tmp_path: Path, operators: list[str] | None) -> None:
    for path in files:
        found, expected = (collected(tool, path, tmp_path, operators) for tool in (ours, theirs))
        assert found.keys() == expected.keys()
        for name, arrays in expected.items():
            assert len(found[name]) == len(SAMPLES)
            for one, other in zip(found[name], arrays, strict=True):
                assert (one.dtype, one.shape) == (other.dtype, other.shape)
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-4)


def test_errors_are_the_same(files: tuple[str, str], tmp_path: Path) -> None:
    plain, rounded = (collected(theirs, path, tmp_path) for path in files)
    found, expected = (tool.create_activation_matching(rounded, plain) for tool in (ours, theirs))
    assert found.keys() == expected.keys() == {"x", "h", "r", "y"} & expected.keys()
    assert len(found) >= 3
    for name, arrays in expected.items():
        assert found[name].keys() == arrays.keys()
        assert all(one is other for one, other in zip(found[name].values(), arrays.values()))
    errors, their_errors = ours.compute_activation_error(found), theirs.compute_activation_error(expected)
    for name, pair in their_errors.items():
        assert errors[name] == pytest.approx(pair, abs=1e-3)
    alone = ours.compute_activation_error(ours.create_activation_matching(rounded))
    assert {name: {"qdq_err"} for name in errors} == {name: set(pair) for name, pair in alone.items()}


def test_weights_are_the_same(files: tuple[str, str]) -> None:
    found, expected = ours.create_weight_matching(*files), theirs.create_weight_matching(*files)
    assert found.keys() == expected.keys() == {"w", "v"}
    for name, arrays in expected.items():
        for kind in ("float", "dequantized"):
            np.testing.assert_allclose(found[name][kind], arrays[kind], rtol=1e-6)
    errors = ours.compute_weight_error(found)
    assert errors == pytest.approx(theirs.compute_weight_error(expected), abs=1e-4)
    assert min(errors.values()) > 30


def test_unsigned_weights_do_not_wrap() -> None:
    """onnxruntime's tool subtracts in the integers' own type; the reference is float64."""
    integers = np.array([[0, 100], [128, 255]], np.uint8)
    for zero, scale in (
        (np.array(128, np.uint8), np.array(0.5, np.float32)),
        (np.array([128, 3], np.uint8), np.array([0.5, 2], np.float32)),
    ):
        weights = {"w_quantized": integers, "scale": scale, "zero": zero}
        nodes = [helper.make_node("DequantizeLinear", ["w_quantized", "scale", "zero"], ["y"], axis=1)]
        model = model_of(nodes, {}, weights, {"y": (1, [2, 2])})
        plain = model_of([helper.make_node("Identity", ["w"], ["y"])], {}, {"w": filled((2, 2))}, {"y": (1, [2, 2])})
        found = ours.create_weight_matching(plain, model)["w"]["dequantized"]
        np.testing.assert_array_equal(found, (integers.astype(float) - zero.astype(float)) * scale.astype(float))


def test_blocks_of_integers() -> None:
    weights = {"scale": np.array([[0.5, 1], [2, 4]], np.float32)}
    nodes = [helper.make_node("DequantizeLinear", ["w_quantized", "scale"], ["y"], axis=0, block_size=2)]
    model = model_of(nodes, {}, weights, {"y": (1, [3, 2])})
    model.graph.initializer.append(helper.make_tensor("w_quantized", TensorProto.INT4, [3, 2], [-8, 7, 1, 2, 3, -4]))
    plain = model_of([helper.make_node("Identity", ["w"], ["y"])], {}, {"w": filled((3, 2))}, {"y": (1, [3, 2])})
    found = ours.create_weight_matching(plain, model)["w"]["dequantized"]
    np.testing.assert_array_equal(found, [[-4, 7], [0.5, 2], [6, -16]])
    (expected,) = onnx.reference.ReferenceEvaluator(model).run(None, {})
    np.testing.assert_array_equal(found, expected)


def test_ratios() -> None:
    x = [filled((3, 4), seed=seed) for seed in range(3)]
    y = [array + np.float32(0.01) for array in x]
    ratio = ours.compute_signal_to_quantization_noice_ratio
    assert ratio(x, y) == pytest.approx(theirs.compute_signal_to_quantization_noice_ratio(x, y), abs=1e-4)
    assert ratio(x[0], y[0]) == pytest.approx(theirs.compute_signal_to_quantization_noice_ratio(x[0], y[0]), abs=1e-4)
    assert ratio(x, x) > 250
    with pytest.raises(RuntimeError, match="3 tensors cannot be compared with 2"):
        ratio(x, y[:2])


def test_samples_are_streamed(files: tuple[str, str], tmp_path: Path) -> None:
    watched = tmp_path / "watched.onnx"
    ours.modify_model_output_intermediate_tensors(files[0], watched, save_as_external_data=True)
    assert (tmp_path / "watched.onnx.data").exists()
    read = 0

    def samples() -> Iterator[dict[str, np.ndarray]]:
        nonlocal read
        for sample in SAMPLES:
            read += 1
            yield sample

    stream = ours.stream_activations(str(watched), samples())
    first = next(stream)
    assert read == 1
    np.testing.assert_array_equal(first["x"], SAMPLES[0]["x"].ravel())
    with pytest.raises(RuntimeError, match="no sample"):
        ours.collect_activations(str(watched), [])


def test_names_of_weights_alone_are_matched() -> None:
    nodes = [helper.make_node("DequantizeLinear", ["other", "scale"], ["y"])]
    weights = {"other": np.array([1, 2], np.int8), "scale": np.array(1, np.float32)}
    model = model_of(nodes, {}, weights, {"y": (1, [2])})
    assert ours.create_weight_matching(model, model) == {}
    assert numpy_helper.to_array(model.graph.initializer[0]).tolist() == [1, 2]
