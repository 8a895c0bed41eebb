"""Ranges by running models, against onnxruntime's calibrators; caches, strides, and what cannot be calibrated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime.quantization.calibrate as theirs
import pytest

import sardonyx.quantization.calibrate as ours
from sardonyx import ops
from sardonyx.quantization import watch
from sardonyx.quantization.registry import QDQRegistry, QLinearOpsRegistry
from tests.quantization.both import Reader, quiet
from tests.quantization.models import MODELS, Builder, samples

KINDS = list({**QDQRegistry, **QLinearOpsRegistry})
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "least and greatest": ("MinMax", {}),
    "symmetric": ("MinMax", {"symmetric": True}),
    "moving": ("MinMax", {"moving_average": True, "averaging_constant": 0.2}),
    "channels": ("MinMax", {"per_channel": True}),
    "entropy": ("Entropy", {}),
    "percentile": ("Percentile", {"percentile": 99.0, "symmetric": False}),
    "symmetric percentile": ("Percentile", {"percentile": 99.0}),
    "distribution": ("Distribution", {}),
}


@pytest.fixture(params=["convolutions", "embeddings", pytest.param("choices", marks=pytest.mark.nightly)])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    onnx.save(MODELS[request.param](), path)
    return path


def ranges(tool: Any, path: Path, method: str, options: dict[str, Any], times: int = 1) -> Any:
    """What a tool finds; it collects the same samples so many times."""
    with quiet():
        calibrator = tool.create_calibrator(
            path,
            KINDS,
            str(path.parent / f"{tool.__name__}.onnx"),
            tool.CalibrationMethod[method],
            extra_options=options,
        )
        given = samples(onnx.load(path), 4)
        for k in range(times):
            calibrator.collect_data(Reader(given[k:]))
        return calibrator.compute_data()


@pytest.mark.parametrize("name", METHODS)
def test_ranges_are_theirs(name: str, model: Path) -> None:
    """Both run the model by themselves, in float32. An edge of a histogram may be the next one."""
    method, options = METHODS[name]
    found, expected = ranges(ours, model, method, options), ranges(theirs, model, method, options)
    assert found.keys() == expected.keys()
    for tensor in found:
        mine, its = found[tensor].range_value, expected[tensor].range_value
        width = float(np.max(np.asarray(its[1]) - np.asarray(its[0]))) or 1.0
        bins = {"MinMax": 1e6, "Entropy": 128, "Percentile": 2048, "Distribution": 1e6}[method]
        assert [np.asarray(each).shape for each in mine] == [np.asarray(each).shape for each in its]
        assert [np.asarray(each).dtype for each in mine] == [np.asarray(each).dtype for each in its]
        for one, other in zip(mine, its, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1.01 * width / bins, err_msg=tensor)


@pytest.mark.parametrize("name", ["least and greatest", "moving", "symmetric percentile", "entropy"])
def test_several_collections_are_merged_as_theirs(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(MODELS["activations"](), path)
    method, options = METHODS[name]
    found, expected = (ranges(tool, path, method, options, 3) for tool in (ours, theirs))
    for tensor in expected:
        np.testing.assert_allclose(found[tensor].range_value, expected[tensor].range_value, rtol=1e-4, atol=1e-6)


def identity(folder: Path, opset: int = 13) -> Path:
    b = Builder(1, 2, opset=opset)
    b.node("Identity", ["x"], "y")
    onnx.save(b.model("y"), folder / "identity.onnx")
    return folder / "identity.onnx"


@pytest.mark.parametrize("limit", [None, 1, 2, 10])
@pytest.mark.parametrize("channels", [False, True])
def test_samples_may_be_taken_in_portions(limit: int | None, channels: bool, tmp_path: Path) -> None:
    values = np.array([[[-9, 1]], [[2, 12]], [[-4, 7]], [[6, -3]], [[np.nan, 3]]], np.float32)
    options = {"max_intermediate_outputs": limit, "per_channel": channels}
    calibrator = ours.create_calibrator(
        identity(tmp_path), augmented_model_path=tmp_path / "augmented.onnx", extra_options=options
    )
    calibrator.collect_data(Reader([{"x": each} for each in values]))
    axes = (0, 1) if channels else (0, 1, 2)
    for name in ("x", "y"):
        low, high = calibrator.compute_data()[name].range_value
        np.testing.assert_array_equal(low, np.atleast_1d(np.nanmin(values, axes)))
        np.testing.assert_array_equal(high, np.atleast_1d(np.nanmax(values, axes)))


def test_a_moving_average_moves_by_portions(tmp_path: Path) -> None:
    values = np.array([[[0, 0]], [[4, 8]], [[8, 12]], [[12, 16]]], np.float32)
    options = {"max_intermediate_outputs": 2, "moving_average": True, "averaging_constant": 0.25}
    calibrator = ours.create_calibrator(
        identity(tmp_path), augmented_model_path=tmp_path / "augmented.onnx", extra_options=options
    )
    calibrator.collect_data(Reader([{"x": each} for each in values]))
    low, high = calibrator.compute_data()["x"].range_value
    assert low.item() == 2 + 0.25 * (10 - 2)  # the means of least values are 2 and 10
    assert high.item() == 4 + 0.25 * (14 - 4)


def test_the_model_that_runs_has_their_nodes(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(MODELS["convolutions"](), path)
    models = []
    for tool in (ours, theirs):
        with quiet():
            calibrator = tool.create_calibrator(path, ["Conv", "Gemm"], str(tmp_path / f"{tool.__name__}.onnx"))
        models.append(calibrator.get_augment_model())
    mine, its = [{(each.op_type, each.name) for each in model.graph.node} for model in models]
    assert mine == its
    mine, its = [{each.name for each in model.graph.output} for model in models]
    assert mine == its


def test_caches_are_read_by_both(tmp_path: Path) -> None:
    array = np.array([1.0, 2.5], np.float32)
    data = {
        "MinMax": {"x": (np.array([-1.0], np.float32), np.array([2.0], np.float32))},
        "Entropy": {"x": (np.float32(-0.1), np.float32(0.3), np.array([1, 2]), array)},
        "Distribution": {"x": None},
    }
    for method, held in data.items():
        if held["x"] is None:
            held = {
                "x": {"avg": array[0], "std": array[1], "hist_edges": array, "lowest": array[0], "highest": array[1]}
            }
        for writer, reader in ((ours, theirs), (theirs, ours), (ours, ours)):
            given = {name: writer.TensorData(**each) if isinstance(each, dict) else each for name, each in held.items()}
            path = tmp_path / "deep" / f"{writer.__name__}.json"
            writer.save_tensors_data(writer.TensorsData(writer.CalibrationMethod[method], given), path)
            found = reader.load_tensors_data(path)
            assert found.calibration_method is reader.CalibrationMethod[method]
            for one, other in zip(found["x"].range_value, writer.load_tensors_data(path)["x"].range_value):
                np.testing.assert_array_equal(one, other)
    assert json.loads(path.read_text())["smooth_quant"] is False
    assert [each.name for each in path.parent.iterdir() if each.suffix != ".json"] == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"lowest": 1.0}, "is a NumPy array or number, not float"),
        ({"lowest": np.float64(1)}, "float32 or float16, not float64"),
        ({"least": np.float32(1)}, "has no 'least'"),
    ],
)
def test_what_is_no_tensor_data(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ours.TensorData(**values)


def test_what_cannot_be_calibrated(tmp_path: Path) -> None:
    path = identity(tmp_path)
    augmented = tmp_path / "augmented.onnx"
    with pytest.raises(ValueError, match="model path"):
        ours.MinMaxCalibrater(b"model")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="averaging constant"):
        ours.MinMaxCalibrater(path, moving_average=True, averaging_constant=2.0)
    with pytest.raises(ValueError, match="Unsupported calibration method"):
        ours.create_calibrator(path, calibrate_method="all")  # type: ignore[arg-type]
    for method in ours.CalibrationMethod:
        calibrator = ours.create_calibrator(path, augmented_model_path=augmented, calibrate_method=method)
        with pytest.raises(ValueError, match=r"No data is collected."):
            calibrator.collect_data(Reader([]))
        with pytest.raises(Exception, match="x"):
            calibrator.collect_data(Reader([{"z": np.zeros((1, 2), np.float32)}]))
    unready = ours.MinMaxCalibrater(path, augmented_model_path=augmented)
    with pytest.raises(ValueError, match="augment_graph"):
        unready.collect_data(Reader([]))
    with pytest.raises(FileNotFoundError, match="no calibration cache is at"):
        ours.load_tensors_data(tmp_path / "missing.json")
    with pytest.raises(ValueError, match="is not a file"):
        ours.load_tensors_data(tmp_path)


def test_readers() -> None:
    assert isinstance(Reader([]), ours.CalibrationDataReader)
    assert issubclass(Reader, theirs.CalibrationDataReader)
    assert len(list(Reader([{}, {}]))) == 2

    class Bare(ours.CalibrationDataReader):
        def get_next(self) -> None:
            return None

    with pytest.raises(NotImplementedError, match="CalibStridedMinMax"):
        len(Bare())
    with pytest.raises(NotImplementedError, match="CalibStridedMinMax"):
        Bare().set_range(0, 1)


def test_other_sessions_still_keep_their_plans() -> None:
    """Operators of other distributions forbid it; the one that watches is of this one."""
    watching = ops.find(watch.DOMAIN, "Watch")
    assert watching is not None
    assert not ops.is_foreign(watching)
