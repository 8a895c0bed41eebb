"""`sardonyx quantize`: where samples come from, what is told, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from sardonyx.cli import main
from sardonyx.cli.calibration import samples_of
from sardonyx.cli.normalization import Normalization
from sardonyx.model.serde.reader import read
from sardonyx.quantization.tuning import measurement
from tests.quantization.tuning.networks import outlier
from tests.quantization.tuning.test_tune import SCHEMA

from .conftest import without

FLOAT = TensorProto.FLOAT
QUICK = ("--provider", "numpy")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither other processes nor the clock decide."""
    monkeypatch.setattr(measurement, "times", lambda *_: (0.002, 0.001))
    monkeypatch.setattr(measurement, "peak_memory", lambda *_: 1 << 20)


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    return outlier(tmp_path / "scores.onnx")


@pytest.fixture
def classifier(tmp_path: Path) -> Path:
    """Scores of four classes of pictures [N, 3, 6, 6]."""
    random = np.random.default_rng(1)
    weights = {
        "w": random.normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32),
        "b": random.normal(0, 0.3, 4).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["image", "w", "b"], ["c"], "conv"),
        helper.make_node("GlobalAveragePool", ["c"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["y"], "flat"),
    ]
    ports = [("image", ["N", 3, 6, 6]), ("y", ["N", 4])]
    ins, outs = ([helper.make_tensor_value_info(name, FLOAT, shape)] for name, shape in ports)
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", ins, outs, constants)
    path = tmp_path / "classifier.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture
def album(tmp_path: Path) -> Path:
    """Ten pictures, one of them in a folder inside, beside a text and a hidden file."""
    folder = tmp_path / "album"
    (folder / "inside").mkdir(parents=True)
    random = np.random.default_rng(2)
    for number in range(10):
        pixels = random.integers(0, 256, (12, 18, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / ("inside/9.png" if number == 9 else f"{number}.png"))
    (folder / "notes.txt").write_text("no picture")
    (folder / ".hidden.png").write_text("no picture either")
    return folder


def quantized(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> dict[str, Any]:
    assert main(["quantize", *map(str, arguments), *QUICK, "--json"]) == code
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    jsonschema.validate(data, SCHEMA)
    return data


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["quantize", *map(str, arguments), *QUICK]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("sardonyx: ") == 1
    return captured.err


def test_a_folder_of_pictures(classifier: Path, album: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = quantized(capsys, classifier, "--calibrate", album, "--samples", 8)
    assert data["samples"] == {
        "source": str(album),
        "synthetic": False,
        "calibration": 6,
        "held_out": 2,
        "shared": False,
    }
    written = Path(data["result"]["path"])
    assert written == classifier.with_name("classifier.int8.onnx")
    assert "QuantizeLinear" in {node.op_type for node in onnx.load(written).graph.node}


def test_pictures_are_what_run_makes_of_them(classifier: Path, album: Path) -> None:
    """Resized and normalized as Pillow and NumPy do it; in the order of their names, hidden files left out."""
    normalization = Normalization((0.5, 0.4, 0.3), (0.2, 0.3, 0.4), "--mean")
    found = samples_of(read(classifier), str(album), most=20, normalization=normalization)
    assert len(found) == 10
    assert [Path(found.label(k)).name for k in (0, 9)] == ["0.png", "9.png"]
    with Image.open(album / "3.png") as image:
        pixels = np.asarray(image.resize((6, 6), Image.Resampling.BOX), np.float64) / 255
    expected = ((pixels - [0.5, 0.4, 0.3]) / [0.2, 0.3, 0.4]).transpose(2, 0, 1)[None]
    np.testing.assert_allclose(found[3]["image"], expected, atol=0.03)


def test_pictures_are_what_compile_makes_of_them(classifier: Path, album: Path) -> None:
    images = ["image:normalize=imagenet,resize=6,order=bgr"]
    found = samples_of(read(classifier), str(album), most=20, images=images)[3]["image"]
    with Image.open(album / "3.png") as image:
        pixels = np.asarray(image.resize((6, 6), Image.Resampling.BILINEAR), np.float64) / 255
    expected = ((pixels[:, :, ::-1] - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]).transpose(2, 0, 1)[None]
    np.testing.assert_allclose(found, expected, atol=0.02)


@pytest.mark.parametrize("own_axis", [True, False])
def test_stacked_arrays(own_axis: bool, scores: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    x = random.normal(size=(5, 1, 16) if own_axis else (5, 16)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    np.save(tmp_path / "x.npy", x)
    for name in ("x.npz", "x.npy"):
        found = samples_of(read(scores), str(tmp_path / name), most=20)
        assert len(found) == 5
        np.testing.assert_array_equal(found[3]["x"], x.reshape(5, 1, 16)[3])


READER = """
import numpy as np

class Reader:
    def __init__(self):
        self.left = 6
    def get_next(self):
        self.left -= 1
        return {"x": np.full((1, 16), self.left, np.float32)} if self.left >= 0 else None

def endless():
    while True:
        yield {"x": np.ones((1, 16), np.float32)}

listed = [{"x": np.zeros((2, 16), np.float32)}]
wrong = [np.zeros((1, 16))]
"""


@pytest.mark.parametrize(("name", "count"), [("Reader", 6), ("endless", 7), ("listed", 1)])
def test_a_reader_in_python(
    name: str, count: int, scores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "calibration_reader.py").write_text(READER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = samples_of(read(scores), f"calibration_reader:{name}", most=7)
    assert len(found) == count
    assert found[0]["x"].shape[1] == 16
    if name == "Reader":
        assert [feeds["x"][0, 0] for feeds in found] == [5, 4, 3, 2, 1, 0]


def test_no_data_is_told(scores: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report = tmp_path / "r.html"
    assert main(["quantize", str(scores), *QUICK, "--report", str(report)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Warning: No data was given: the samples are made up" in text
    assert "16, made up; 4 held out" in text
    assert "No data was given: the samples are made up" in report.read_text()


@pytest.mark.usefixtures("screen")
def test_for_a_person(scores: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    arguments = ["--budget", "snr>=20", "--report", str(report), "-o", str(tmp_path / "new" / "small.onnx")]
    assert main(["quantize", str(scores), *QUICK, *arguments]) == 0
    captured = capsys.readouterr()
    assert max(map(len, captured.out.splitlines())) <= 80 or str(tmp_path) in captured.out
    for part in ("scores.onnx, quantized: int8", "3 of 5 that can be", "In float: 2 nodes", "second", "alone"):
        assert part in captured.out
    for part in ("A run on NumPy", "2.00 ms", "1.00 ms", "0.50", "Memory on NumPy", "1.0 MiB", "Signal-to-noise"):
        assert part in captured.out
    assert captured.err.splitlines()[0] == "Running the model ..."
    assert "Searching for what stays in float ..." in captured.err
    assert json.loads(report.read_text())["status"] == "ok"
    assert (tmp_path / "new" / "small.onnx").exists()


def test_a_missed_budget(scores: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["quantize", str(scores), *QUICK, "--budget", "snr>=150"]) == 1
    captured = capsys.readouterr()
    assert "sardonyx: the budget snr>=150 is not met: snr is " in captured.err
    assert "scores.int8.missed.onnx" in "".join(captured.out.split())  # lines may break within a path
    assert sorted(path.name for path in tmp_path.glob("*.onnx")) == ["scores.int8.missed.onnx", "scores.onnx"]


def test_training_what_is_rounded(scores: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = quantized(capsys, scores, "--qat", "--qat-steps", "30")
    (correction,) = data["corrections"]
    assert correction["what"] == "qat"
    labels = [each["label"] for each in data["variants"]]
    assert labels == ["all quantized", *["trained"] * bool(correction["nodes"])]
    assert ("Training made it no better" in data["warnings"]) == (not correction["nodes"])


def test_a_slower_result(scores: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "times", lambda *_: (0.001, 0.002))
    assert quantized(capsys, scores)["status"] == "ok"
    data = quantized(capsys, scores, "--budget", "cosine>=0.1", code=1)
    assert data["status"] == "slower"
    assert data["result"]["path"].endswith("scores.int8.slower.onnx")


def test_ctrl_c(scores: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sardonyx.quantization.tuning.tuner.kept_nodes", stop)
    assert main(["quantize", str(scores), *QUICK, "--budget", "snr>=20"]) == 130
    missed = scores.with_name("scores.int8.missed.onnx")
    assert capsys.readouterr().err.endswith(f"sardonyx: interrupted: {missed} is the best so far\n")
    onnx.checker.check_model(onnx.load(missed))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--budget", "accuracy>=1"], "budget 'accuracy>=1': there is no metric 'accuracy'"),
        (["--fp16", "--dynamic"], "--dynamic is for --int8, not for --fp16"),
        (["--int4", "--bias-correction"], "bias_correction is for int8"),
        (["--smooth", "2"], "smooth 2: alpha is 0 to 1"),
        (["--int4", "--qat"], "--qat trains what --int8 gives, in the format qdq"),
        (["--qat", "--format", "qoperator"], "--qat trains what --int8 gives, in the format qdq"),
        (["--qat", "--qat-steps", "0"], "--qat-steps 0: take at least 1"),
        (["--exclude", "secnd"], "has no node 'secnd', but 'second'"),
        (["--operators", "Conv"], "has nothing that int8 can quantize (Add, MatMul, Mul, Relu)"),
        (["--report", "r.pdf"], "--report r.pdf: name a file that ends in .html or .json"),
        (["--samples", "0"], "--samples 0: take at least 1"),
        (["--calibrate", "nowhere"], "--calibrate nowhere does not exist"),
        (["--calibrate", "nowhere.npz"], "--calibrate nowhere.npz does not exist"),
        (["--calibrate", "no_module_here:x"], "--calibrate no_module_here:x: No module named 'no_module_here'"),
        (["--calibrate", "os:path"], "--calibrate os:path: a module gives no samples: give it get_next, or have it"),
        (["--calibrate", __file__], "give a folder, a .npz or .npy file, or MODULE:NAME of a reader"),
    ],
)
def test_errors(arguments: list[str], message: str, scores: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in refused(capsys, scores, *arguments)
    assert not list(scores.parent.glob("*.int8*"))


def test_the_model_is_not_overwritten(scores: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is the model itself; give another file" in refused(capsys, scores, "-o", scores)


def test_bad_data(classifier: Path, scores: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "notes.txt").write_text("nothing")
    assert f"--calibrate {empty} has no pictures, .npy, .npz, .json or .wav files" in refused(
        capsys, classifier, "--calibrate", empty
    )
    broken = tmp_path / "broken"
    broken.mkdir()
    Image.new("RGB", (6, 6)).save(broken / "a.png")
    (broken / "b.png").write_bytes((broken / "a.png").read_bytes()[:40])
    for options in ((), ("--image", "image:resize=6")):
        assert f"{broken / 'b.png'}: " in refused(capsys, classifier, "--calibrate", broken, *options)
    np.savez(tmp_path / "z.npz", z=np.zeros((3, 16), np.float32))
    assert "has no 'x', only z; the model takes x" in refused(capsys, scores, "--calibrate", tmp_path / "z.npz")
    np.savez(tmp_path / "x.npz", x=np.zeros((3, 8), np.float32))
    told = refused(capsys, scores, "--calibrate", tmp_path / "x.npz")
    assert "sample 1 of" in told
    assert "'x' is 1x8, and the model declares Nx16" in told
    (tmp_path / "bad.npz").write_text("no archive")
    assert "bad.npz holds no arrays" in refused(capsys, scores, "--calibrate", tmp_path / "bad.npz")
    assert "there is no input 'z'; the model has image" in refused(
        capsys, classifier, "--calibrate", broken, "--image", "z:resize=6"
    )


@pytest.mark.parametrize("kind", ["--int8", "--int4", "--fp16", "--dynamic"])
def test_numpy_is_enough(
    kind: str, scores: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without(monkeypatch, "rich", "jinja2", "onnx", "ml_dtypes", "onnxruntime")
    assert main(["quantize", str(scores), *QUICK, kind, "--report", str(tmp_path / "r.json")]) == 0
    capsys.readouterr()
    told = refused(capsys, scores, kind, "--report", tmp_path / "r.html")
    assert told == "sardonyx: a report as HTML: jinja2 is not installed; pip install jinja2 llguidance\n"
