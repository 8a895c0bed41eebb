"""`sardonyx teach`: folders are labels; what is told, written and refused."""

from __future__ import annotations

import json
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sardonyx import InferenceSession, vision
from sardonyx.cli import main

from .conftest import Save

COLORS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}
QUICK = ("--provider", "numpy", "--steps", "60")
POOLED = """g (float[N,3,8,8] x) => (float[N,3] features) {
    p = GlobalAveragePool (x)  features = Flatten (p)
}"""


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Pictures of one colour each, in three folders of eight."""
    folder = tmp_path / "photos"
    random = np.random.default_rng(0)
    for name, color in COLORS.items():
        (folder / name).mkdir(parents=True)
        for number in range(8):
            noise = random.integers(-40, 40, (9, 7, 3))
            Image.fromarray(np.clip(np.array(color) + noise, 0, 255).astype(np.uint8)).save(
                folder / name / f"{number}.png"
            )
    (folder / ".hidden").mkdir()
    (folder / "notes.txt").write_text("no example")
    return folder


def test_folders_are_labels(
    tmp_path: Path, graph: Save, photos: Path, screen: str, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = graph(POOLED)
    output, bundle = tmp_path / "mine.onnx", tmp_path / "mine.sdx"
    command = ["teach", str(encoder), str(photos), "--output", str(output), "--bundle", str(bundle), *QUICK]
    assert main([*command, "--image", "x:normalize=imagenet"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for line in (
        "graph.onnx, taught 3 classes",
        "Examples 18 to learn from, 6 held out",
        "Right 6 of 6, 100.0%",
        "What it took each class for",
        "blue green red",
        "blue 2 0 0",
        "green 0 2 0",
        "red 0 0 2",
    ):
        assert line in lines, text
    written = "".join(text.partition("Written")[2].split())  # a path may be longer than a line
    assert str(output) in written, text
    assert str(bundle) in written, text
    for path, labels in ((output, ()), (bundle, ("blue", "green", "red"))):
        classifier = vision.Classifier(path, **({"labels": labels} if labels else {}))
        assert [classifier.classify(photos / name / "0.png")[0].label for name in COLORS] == [*COLORS]


def test_json_has_all_of_it(graph: Save, photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    encoder = graph(POOLED)
    assert main(["teach", str(encoder), str(photos), "--json", "--held-out", "0.5", "--image", "x:std=1", *QUICK]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["labels"], told["learnt"], told["held_out"]) == (["blue", "green", "red"], 12, 12)
    assert np.sum(told["confusion"]) == 12
    assert told["accuracy"] == np.trace(told["confusion"]) / 12
    assert told["written"] == [str(encoder.with_suffix(".taught.onnx"))]
    assert InferenceSession(told["written"][0]).get_outputs()[0].name == "probabilities"


def test_many_classes_are_told_by_what_was_mistaken(
    tmp_path: Path, graph: Save, screen: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ten classes, two of which cannot be told apart."""
    for number in range(10):
        folder = tmp_path / "points" / f"class-{number}"
        folder.mkdir(parents=True)
        for each in range(4):
            angle = min(number, 8) / 9 * 2 * np.pi
            np.save(folder / f"{each}.npy", np.array([[np.cos(angle), np.sin(angle)]], np.float32))
    encoder = graph("g (float[N,2] x) => (float[N,2] features) { features = Identity (x) }")
    command = ["teach", str(encoder), str(tmp_path / "points"), "--provider", "numpy", "--steps", "300"]
    assert main(command) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "What it mistook" in lines
    assert {"class-8 class-9 1", "class-9 class-8 1"} & {*lines}
    assert "Right 9 of 10, 90.0%" in lines


def test_sounds_are_examples(tmp_path: Path, graph: Save, capsys: pytest.CaptureFixture[str]) -> None:
    sounds = tmp_path / "sounds"
    for name, hertz in (("low", 100), ("high", 3000)):
        (sounds / name).mkdir(parents=True)
        for number in range(4):
            with wave.open(str(sounds / name / f"{number}.wav"), "wb") as file:
                file.setparams((1, 2, 16000, 0, "NONE", ""))
                ramp = np.sin(2 * np.pi * (hertz + 5 * number) * np.arange(800) / 16000)
                file.writeframes((ramp * 20000).astype("<i2").tobytes())
    text = """g (float[N,800] x) => (float[N,1] features)
        <int64[1] zero = {0}, int64[1] last = {799}, int64[1] one = {1}, int64[1] whole = {800}> {
        a = Slice (x, zero, last, one)  b = Slice (x, one, whole, one)
        d = Sub (b, a)  s = Abs (d)  features = ReduceMean (s, one)
    }"""
    assert main(["teach", str(graph(text)), str(sounds), "--json", *QUICK]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["labels"], told["accuracy"]) == (["high", "low"], 1.0)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nowhere"], "nowhere is no folder; give one that has a folder for each class"),
        (["photos/red"], "photos/red has no folder with examples; give two at least"),
        (["photos", "--output", "graph.onnx"], "--output graph.onnx is the model itself; give another file"),
        (["photos"], "nothing says how photos/blue/0.png becomes the input: give --image x:normalize=imagenet"),
        (["photos", "--image", "y:std=1"], "the model has no input 'y' that is shaped like a picture"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    graph: Save,
    photos: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    text: str,
) -> None:
    graph(POOLED)
    monkeypatch.chdir(photos.parent)
    assert main(["teach", "graph.onnx", *arguments, *QUICK]) == 1
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1
