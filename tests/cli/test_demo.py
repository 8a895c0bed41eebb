"""`sardonyx demo`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from sardonyx.cli import demo, main
from sardonyx.cli.devices import State
from sardonyx.cli.gallery import draw, gallery
from sardonyx.demo import assets, digits, picture, pictures, samples
from sardonyx.providers import registry

from .conftest import without


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["demo", *arguments, "--json"]) == 0
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    return data


def test_json_against_onnxruntime(capsys: pytest.CaptureFixture[str]) -> None:
    data = shown(capsys, "--provider", "numpy")
    session = onnxruntime.InferenceSession((assets() / "digits.onnx").read_bytes())
    assert len(data["images"]) == len(samples()) == 20
    for path, image in zip(samples(), data["images"], strict=True):
        (row,) = session.run(["probabilities"], {"image": digits.digit(pictures.read(path))})[0]
        second, first = np.argsort(row)[-2:]
        assert image["name"] == path.name
        assert image["label"] == image["digit"] == first == int(path.name[0])
        assert image["runner_up"]["digit"] == second
        np.testing.assert_allclose(
            [image["probability"], image["runner_up"]["probability"]], row[[first, second]], 1e-4
        )
        assert image["seconds"] > 0
    (device,) = data["devices"]
    assert device["providers"] == [registry.NUMPY]
    assert device["placement"][registry.NUMPY] + device["folded"] == data["model"]["nodes"] == 36
    assert float(data["model"]["accuracy"]) > 0.9


@pytest.mark.usefixtures("screen")
def test_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--provider", "numpy"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    for part in ("recognised by NumPy", "7_drawn.png", "20 of 20 right", "36 nodes", "Start-up", "Held out"):
        assert part in text


def test_without_optional_packages(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    without(monkeypatch, "PIL", "rich")
    assert main(["demo", "--provider", "numpy"]) == 0
    assert "20 of 20 right" in capsys.readouterr().out


def test_own_pictures(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "mine.png"
    path.write_bytes(picture("3_drawn.png").read_bytes())
    (image,) = shown(capsys, str(path), "--provider", "numpy")["images"]
    assert (image["name"], image["label"], image["digit"]) == (str(path), None, 3)


def test_devices_that_cannot_be_used(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    states = [
        State("SoftGpu", details={"adapter": "llvmpipe"}, software=True),
        State("Absent", "its package is missing"),
        State("Unheard", details={"adapter": "Ghost 9000"}),
        State(registry.NUMPY),
    ]
    monkeypatch.setattr(demo, "states", lambda: states)
    path = str(picture("5_heldout.png"))
    data = shown(capsys, path)
    assert data["best"] == 3
    assert [device["same"] for device in data["devices"]] == [None, None, None, True]
    problems = [device["problem"] for device in data["devices"]]
    assert problems[0] == "llvmpipe emulates a GPU on the CPU; --provider softgpu uses it"
    assert problems[1] == "its package is missing"
    assert "no execution provider is called 'Unheard'" in problems[2]
    assert main(["demo", path]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Absent is not used: its package is missing" in text


def test_the_fastest_device_answers(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "states", lambda: [State(registry.NUMPY), State(registry.CPU)])
    data = shown(capsys, str(picture("5_heldout.png")))
    first, second = data["devices"]
    assert data["best"] == (first["median"] > second["median"])
    assert first["same"]
    assert second["same"]
    assert data["images"][0]["seconds"] == data["devices"][data["best"]]["median"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.png"], "absent.png does not exist"),
        ([__file__], "this is no picture"),
        (["--provider", "nobody"], "no execution provider is called 'nobody'"),
    ],
)
def test_errors(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", *arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_pictures_in_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(demo, "draws", lambda: True)
    assert main(["demo", "--provider", "numpy"]) == 0
    lines = capsys.readouterr().out.splitlines()
    drawn = [line for line in lines if any("\u2800" < character <= "\u28ff" for character in line)]
    assert len(drawn) == 2 * 4
    assert max(map(len, lines)) <= 80


def test_drawing() -> None:
    full, empty = np.ones((28, 28), np.float32), np.zeros((28, 28), np.float32)
    assert draw(full) == ["\u28ff" * 8] * 4
    assert draw(empty) == ["\u2800" * 8] * 4
    half = empty.copy()
    half[:, 14:] = 1
    assert draw(half) == ["\u2800" * 4 + "\u28ff" * 4] * 4
    lines = gallery([full, empty, half], ["a", "b", "c"], 17)
    assert [len(line) for line in lines] == [16, 16, 16, 16, 16, 0, 8, 8, 8, 8, 8, 0]
