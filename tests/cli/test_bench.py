"""`sardonyx bench`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sardonyx.cli import bench, main
from sardonyx.cli.bench import Side
from sardonyx.demo import assets
from sardonyx.providers import registry

from .conftest import without

Save = Callable[..., Path]


def test_against_onnxruntime(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["bench", str(assets() / "digits.onnx"), "--provider", "numpy", "--against", "onnxruntime"]
    assert main([*arguments, "--runs", "3", "--shape", "N=2", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    ours, theirs = data["sides"]
    assert (ours["name"], theirs["name"]) == (registry.NUMPY, data["base"]) == (registry.NUMPY, "onnxruntime")
    assert data["assumed"] == []
    assert theirs["ratio"] == 1
    assert ours["ratio"] == ours["median"] / theirs["median"]
    assert 0 < ours["least"] <= ours["median"]
    assert ours["same"]
    assert ours["error"] < 1e-5


@pytest.mark.usefixtures("screen")
def test_for_a_person(capsys: pytest.CaptureFixture[str], relu: Path) -> None:
    assert main(["bench", str(relu), "--provider", "numpy", "--provider", "cpu", "--runs", "2"]) == 0
    captured = capsys.readouterr()
    assert max(map(len, captured.out.splitlines())) <= 80
    for part in ("2 runs, 1 thread", "NumPy", "First run", "Median", "1.00", "equal", "Taking N = 1"):
        assert part in captured.out
    assert captured.err == ""


def test_different_outputs_are_told(
    capsys: pytest.CaptureFixture[str], relu: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(model: str, values: dict[str, Any], threads: int) -> Side:
        return Side("onnxruntime", lambda: [np.maximum(values["x"], 0) + np.float32(0.5)], 0.0)

    monkeypatch.setattr(bench, "against", wrong)
    arguments = ["bench", str(relu), "--provider", "numpy", "--against", "onnxruntime", "--runs", "1"]
    assert main([*arguments, "--json"]) == 0
    side = json.loads(capsys.readouterr().out)["sides"][0]
    assert not side["same"]
    assert side["error"] > 0.1
    assert main(arguments) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "DIFFERENT" in text
    assert "The outputs of NumPy differ from those of onnxruntime" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--runs", "0"], "--runs 0: take at least 1"),
        (["--threads", "0"], "--threads 0: take at least 1"),
        (["--provider", "nobody"], "no execution provider is called 'nobody'"),
        (["--input", "z=a.npy"], "--input z=a.npy: there is no input 'z'; the model has x"),
        (["--shape", "x=2x4"], "--shape x=2x4: the model declares Nx3"),
    ],
)
def test_errors(arguments: list[str], message: str, relu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", str(relu), *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith(f"sardonyx: {message}")
    assert captured.out == ""


def test_onnxruntime_is_optional(
    relu: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "onnxruntime")
    assert main(["bench", str(relu), "--provider", "numpy", "--against", "onnxruntime"]) == 1
    expected = "sardonyx: --against onnxruntime: onnxruntime is not installed; pip install onnxruntime\n"
    assert capsys.readouterr().err == expected
