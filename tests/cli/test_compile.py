"""`sardonyx compile`."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sardonyx import InferenceSession
from sardonyx.cli import main
from sardonyx.demo import assets
from sardonyx.plans.bundle import Bundle
from tests.engine.providers import require_provider

Save = Callable[..., Path]
DIGITS = str(assets() / "digits.onnx")


def test_the_bundle_runs_like_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    require_provider("WasmExecutionProvider")
    sizes, answers = {}, {}
    feeds = {"image": np.full((1, 1, 28, 28), 0.5, np.float32)}
    for name, more in {"compressed": [], "plain": ["--no-compress"]}.items():
        target = tmp_path / f"{name}.sdx"
        assert main(["compile", DIGITS, "--output", str(target), "--shape", "image=1x1x28x28", "--json", *more]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["targets"]["wasm"]["accepts"] == ["image float32[1, 1, 28, 28]"]
        sizes[name] = told["bytes"]["weights"]
        answers[name] = InferenceSession(target).run(None, feeds)[0]
        assert any(section.width for section in Bundle(target.read_bytes()).sections.values()) == (name != "plain")
    assert 0.6 * sizes["plain"] < sizes["compressed"] < 0.9 * sizes["plain"]
    np.testing.assert_array_equal(answers["compressed"], answers["plain"])


@pytest.mark.parametrize(
    ("kind", "share", "error"), [("float16", 0.62, 1e-3), ("int8", 0.42, 2e-2), ("int4", 0.4, 5e-2)]
)
def test_weights_in_fewer_bits(
    kind: str, share: float, error: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    require_provider("WasmExecutionProvider")
    target, feeds = tmp_path / "small.sdx", {"image": np.full((1, 1, 28, 28), 0.5, np.float32)}
    given = ["compile", DIGITS, "--output", str(target), "--no-compress"]
    assert main([*given, "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)["bytes"]["weights"]
    wanted = InferenceSession(target).run(None, feeds)[0]
    assert main([*given, "--json", "--weights", kind]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["stored"] == kind
    assert told["bytes"]["weights"] < share * whole
    found = InferenceSession(target).run(None, feeds)[0]
    assert 0 < np.abs(found - wanted).max() < error
    assert 0 < told["rounded"]["error"] < error
    assert main([*given, "--weights", kind]) == 0
    said = capsys.readouterr().out
    assert f"Weights, {kind}" in said
    assert "Outputs differ by up to 0." in said


def test_screen(screen: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "new" / "digits.sdx"
    assert (
        main(["compile", DIGITS, "--output", str(target), "--target", "wasm,webgpu", "--shape", "image=?1x1x28x28"])
        == 0
    )
    said = capsys.readouterr().out
    assert all(len(line) <= 80 for line in said.splitlines() if str(tmp_path) not in line)
    for words in ("Plans", "Code, wasm", "Code, wgsl", "Weights", "image float32[N, 1, 28, 28]", "digits.sdx"):
        assert words in said, words


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--target", "cuda"], "there is no 'cuda', only wasm and webgpu"),
        (["--shape", "picture=1x1x28x28"], "picture"),
        (["--shape", "image=1xAx28x28"], "write sizes with x between them"),
        (["--shape", "image=1x3x28x28"], "cannot be 1x3x28x28"),
        (["--shape", "batch=?16"], "there is no 'batch'; there are inputs image, and sizes N"),
        (["--size", "batch=?16"], "there is no open size 'batch'; the model has N"),
        (["--size", "N"], "write names and sizes, as in --size batch=1,sequence=?16"),
        (["--size", "N=M+1"], "there is no open size 'M'"),
        (["--value", "image=one"], "write a number, or a list of numbers in []"),
        (["--output", DIGITS], "is the model itself"),
        (["--output", "."], "--output . is a folder; name a file in it"),
        (["--output", "/proc/a.sdx"], "--output /proc/a.sdx cannot be written: "),
        (["--shape", "N=x"], "--shape N=x: write sizes with x between them"),
        (["--loss", "mse"], "--loss is for --train all, --train head or --train NAME: say which"),
        (
            ["--train", "all", "--weights", "int8"],
            "--train keeps parameters as they are, for open sizes: leave out --weights",
        ),
        (["--train", "conv"], "--train conv: say head, all, or names of parameters; there are conv_0.weight, "),
    ],
)
def test_what_makes_no_sense(more: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", DIGITS, "--output", str(tmp_path / "out.sdx"), *more]) != 0
    error = capsys.readouterr().err
    assert said in " ".join(error.split())
    assert "Traceback" not in error


def test_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    require_provider("WasmExecutionProvider")
    target = tmp_path / "new.sdx"
    given = ["compile", DIGITS, "--output", str(target), "--train", "head", "--classes", "3", "--optimizer", "sgd"]
    assert main([*given, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["training"]
    names = ["gemm_34.weight", "gemm_34.bias"]
    assert told == {
        "parameters": names,
        "elements": 387,
        "loss": "cross-entropy",
        "optimizer": "sgd",
        "feeds": ["image", "labels"],
    }
    (probabilities,) = InferenceSession(target).run(None, {"image": np.zeros((2, 1, 28, 28), np.float32)})
    assert probabilities.shape == (2, 3)
    assert main(given) == 0
    said = capsys.readouterr().out
    assert all(len(line) <= 80 for line in said.splitlines() if str(tmp_path) not in line)
    for words in (
        "Rest of the ONNX file",
        "387 numbers, by cross-entropy and sgd",
        "trainStep({ image, labels })",
    ):
        assert words in said, words


@pytest.mark.parametrize(
    ("shapes", "accepted"),
    [
        (["N=4"], ["a float32[4, 3], b float32[M, 3]; any M"]),
        (["N=4", "M=2"], ["a float32[4, 3], b float32[2, 3]"]),
        (["N=4", "N=8", "M=2"], ["a float32[4, 3], b float32[2, 3]", "a float32[8, 3], b float32[2, 3]"]),
        (["N=?4", "b=5x3"], ["a float32[N, 3], b float32[5, 3]; any N"]),
    ],
)
def test_sizes_by_the_names_of_dimensions(
    shapes: list[str], accepted: list[str], graph: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    require_provider("WasmExecutionProvider")
    model = graph("g (float[N,3] a, float[M,3] b) => (float[K,3] y) { y = Concat <axis = 0> (a, b) }")
    options = [part for text in shapes for part in ("--shape", text)]
    assert main(["compile", str(model), "--output", str(tmp_path / "a.sdx"), *options, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["targets"]["wasm"]["accepts"] == accepted


def test_sizes(graph: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    require_provider("WasmExecutionProvider")
    model = graph(
        """g (float[P, 2] past, float[S, 2] new, float[T, 2] mask) => (float[T, 2] y) {
            all = Concat <axis = 0> (past, new)
            y = Add (all, mask)
        }"""
    )
    target = tmp_path / "a.sdx"
    for sizes, said in {
        "P=?64,S=1": "past float32[P, 2], new float32[1, 2], mask float32[1 + P, 2]; any P; T = 1 + P",
        "T=P+S": "past float32[P, 2], new float32[S, 2], mask float32[P + S, 2]; any P; any S; T = P + S",
    }.items():
        assert main(["compile", str(model), "--output", str(target), "--size", sizes, "--weights", "float16"]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert said in shown
        assert "Plans, 1 for wasm" in shown
        assert "Does not take" not in shown
        assert "Outputs differ by up to 0 %" in shown
    assert main(["compile", str(model), "--output", str(target), "--size", "P=?4,S=?2", "--size", "T=9"]) == 1
    assert "Add 'y': shapes" in " ".join(capsys.readouterr().err.split())


def test_out_is_short_for_output(
    graph: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every command that writes; help does not speak of it."""
    monkeypatch.chdir(tmp_path)
    require_provider("WasmExecutionProvider")
    model = str(graph("g (float[3] x) => (float[3] y) { y = Neg (x) }"))
    for command, name in (("run", "y.npy"), ("optimize", "y.onnx"), ("compile", "y.sdx")):
        assert main([command, model, "--out", name]) == 0
        assert (tmp_path / name).is_file()
        capsys.readouterr()
        with pytest.raises(SystemExit):
            main([command, "--help"])
        words = capsys.readouterr().out.split()
        assert "--output" in words
        assert "--out" not in words


def test_a_site(graph: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    require_provider("WasmExecutionProvider")
    site = tmp_path / "site"
    (site / "models").mkdir(parents=True)
    digits = site / "models" / "digits.onnx"
    digits.write_bytes(Path(DIGITS).read_bytes())
    given = ["compile", "--site", str(site), "--size", "N=1,other=2", "--json"]
    assert main(given) == 0
    first = json.loads(capsys.readouterr().out)
    assert [each["model"] for each in first["made"]] == ["models/digits.onnx"]
    bundle = site / "models" / "digits.onnx.sdx"
    index = json.loads((site / "sardonyx.json").read_text())["bundles"]
    assert index == {hashlib.sha256(digits.read_bytes()).hexdigest(): "models/digits.onnx.sdx"}
    (told,) = InferenceSession(bundle).get_inputs()
    assert told.shape == [1, 1, 28, 28]

    text = graph("g (string[1] x) => (string[M] y, int32[N] n) { y, n = StringSplit (x) }")
    (site / "text.onnx").write_bytes(text.read_bytes())
    (site / "broken.onnx").write_bytes(b"no model")
    assert main(given) == 1
    second = json.loads(capsys.readouterr().out)
    assert second["kept"] == ["models/digits.onnx"]
    assert [each["model"] for each in second["failed"]] == ["broken.onnx", "text.onnx"]
    assert not (site / "broken.onnx.sdx").exists()
    assert main([*given, "--no-compress"]) == 1
    assert json.loads(capsys.readouterr().out)["kept"] == []


def test_a_bundle_lies_beside_its_model_unless_told(tmp_path: Path) -> None:
    shutil.copy(DIGITS, tmp_path / "net.onnx")
    assert main(["compile", str(tmp_path / "net.onnx")]) == 0
    assert (tmp_path / "net.sdx").read_bytes()[:4] == b"\x89SDX"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--site", "nowhere"], "--site nowhere: there is no .onnx file in it"),
        (["--site", ".", DIGITS], "--site compiles all models in a folder: leave out MODEL"),
        ([], "name a model, or a folder of models, --site DIR"),
        (["--site", ".", "--target", "webgl"], "--target webgl: there is no 'webgl'"),
    ],
)
def test_a_site_that_makes_no_sense(more: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", *more]) == 1
    assert said in capsys.readouterr().err


def test_pictures_as_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The digits model reads a picture that is larger, and not square."""
    require_provider("WasmExecutionProvider")
    from PIL import Image

    from sardonyx.demo import picture

    target = tmp_path / "digits.sdx"
    option = "image:mean=0,std=1,fit=contain,pad=0,pixels=rgb"
    assert main(["compile", DIGITS, "--output", str(target), "--image", option, "--json"]) == 0
    (line,) = json.loads(capsys.readouterr().out)["targets"]["wasm"]["accepts"]
    assert line == "image uint8[image.height, image.width, 3]; any image.height; any image.width"
    with Image.open(str(picture("4_heldout.png"))) as small:  # light on dark
        pixels = np.asarray(small.convert("RGB").resize((112, 84)))
    (shares,) = InferenceSession(target).run(None, {"image": pixels})
    assert shares[0].argmax() == 4
    assert shares[0, 4] > 0.9


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("image:size=3", "--image image:size=3: there is no option 'size'; there are mean, std, normalize, resize"),
        ("image:fit=fill", "--image image:fit=fill: fit=fill: write stretch, cover, contain"),
        ("image:resize=2x", "--image image:resize=2x: resize=2x: write one size, or height x width, as in 224"),
        ("image:mean=a", "--image image:mean=a: mean=a: write numbers with commas between them"),
        ("image:std=0", "--image image:std=0: std=0: standard deviations are above 0"),
        ("image:pad=300", "--image image:pad=300: pad=300: write one number from 0 to 255"),
        (
            "image:normalize=clip,mean=1",
            "--image image:normalize=clip,mean=1: normalize is imagenet or clip, and leaves",
        ),
        ("image:fit=cover,fit=cover", "--image image:fit=cover,fit=cover: fit is given twice"),
        ("picture", "--image picture: the model has no input 'picture'; it has image"),
        ("image:resize=32", "--image image:resize=32: resize=32x32: input 'image' is 28 high"),
    ],
)
def test_wrong_pictures(option: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", DIGITS, "--output", str(tmp_path / "x.sdx"), "--image", option]) != 0
    assert words in capsys.readouterr().err
