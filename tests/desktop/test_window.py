"""The window of examples/desktop: what it reads, shows and says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image

from sardonyx import vision
from sardonyx.vision.drawing import COLORS
from tests.support import require
from tests.vision.families import convolutional

from .seen import ACCENT, EXAMPLE, FOUR, LINES, SEVEN

pytestmark = pytest.mark.slow


def drive(display: str, scene: str, *arguments: object, **environment: str) -> Any:
    """What the driver has seen."""
    places = os.pathsep.join(map(str, (EXAMPLE, *sys.path)))
    environment = {**os.environ, "DISPLAY": display, "PYTHONPATH": places, "SARDONYX_CACHE": "0", **environment}
    command = [sys.executable, str(Path(__file__).with_name("drive.py")), scene, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_text(display: str, models: Path, page: Path, tmp_path: Path) -> None:
    seen = drive(display, "text", models, page, tmp_path / "screen.png")
    assert seen["texts"] == seen["labels"] == LINES
    assert seen["lines"] == [ACCENT, ACCENT]
    assert "2 texts found" in seen["words"]
    assert "CPUExecutionProvider" in seen["words"]
    assert any(word.endswith("ms, with compiling") for word in seen["words"])
    assert seen["copied"].splitlines() == LINES


def test_objects_beside_text(display: str, models: Path, page: Path, tmp_path: Path) -> None:
    """What the detector finds, in the colours of classes, and the text; dark, light and narrow."""
    onnx.save(convolutional(), tmp_path / "detector.onnx")
    shots = [tmp_path / f"{name}.png" for name in ("dark", "light", "narrow")]
    seen = drive(display, "objects", models, tmp_path / "detector.onnx", page, *shots)
    wanted = vision.detect(tmp_path / "detector.onnx", page)
    assert seen["before"]["texts"] == LINES
    assert len(wanted) > 1
    for name in ("after", "narrow"):
        assert seen[name]["texts"] == seen[name]["labels"] == [each.label for each in wanted] + LINES
        assert f"{len(wanted)} objects, 2 texts" in seen[name]["words"]
    assert seen["lines"][-2:] == [ACCENT, ACCENT]
    assert seen["lines"][0] in [list(color) for color in COLORS]
    scale = min((side - 28) / size for side, size in zip(seen["canvas"], seen["size"]))
    margin = [(side - scale * size) / 2 for side, size in zip(seen["canvas"], seen["size"])]
    for found, drawn in zip(wanted, seen["narrow"]["boxes"]):
        np.testing.assert_allclose(drawn, np.array(found.box) * scale + margin * 2, atol=1.5)
    grounds = [int(np.median(np.asarray(Image.open(shot).convert("L")))) for shot in shots[:2]]
    assert grounds[0] < 60 < 200 < grounds[1]


def test_digits_keys_and_errors(display: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gif"
    broken.write_text("no picture")
    seen = drive(display, "digit", SEVEN, FOUR, broken)
    assert [seen[name]["texts"] for name in ("first", "second", "after")] == [["7"], ["4"], ["7"]]
    assert any(re.fullmatch(r"\d+ ms", word) for word in seen["after"]["words"])
    assert any(word.startswith("Get text models") for word in seen["first"]["words"])
    assert seen["dark"] < 60
    assert seen["light"] > 200
    assert seen["bare"]["boxes"]
    assert not seen["bare"]["labels"]
    assert "broken.gif cannot be read as a picture: cannot identify" in seen[".gif"]
    assert "No such file" in seen[".png"]


def test_everything_lies_within_the_window(display: str) -> None:
    """From its smallest size on, in both colours; the keys stand on the buttons where there is room for them."""
    sizes = ["480x400", "480x700", "560x500", "640x480", "1100x720", "1150x740"]
    told = drive(display, "layout", SEVEN, *sizes)
    seen = told["places"]
    assert [*seen] == [f"{size} {color}" for color in ("dark", "light") for size in sizes]
    names = ["Open", "Screen", "Camera", "Detector", "Get text models", "Labels", "Light or dark", "Copy text"]
    for name, parts in seen.items():
        width, height = map(int, name.split()[0].split("x"))
        buttons = parts["buttons"]
        assert sorted(re.sub(r"   \S+", "", text) for text in buttons) == sorted(names), name
        boxes = [*buttons.values(), *parts["labels"], parts["canvas"], parts["list"]]
        for left, top, right, bottom in boxes:
            assert 0 <= left < right <= width, name
            assert 0 <= top < bottom <= height, name
        for number, a in enumerate(boxes):
            for b in boxes[:number]:
                assert min(a[2], b[2]) <= max(a[0], b[0]) or min(a[3], b[3]) <= max(a[1], b[1]), name
        for (left, _, right, _), need in zip(parts["labels"], parts["needs"]):
            assert right - left >= need, name
        assert parts["canvas"][2] - parts["canvas"][0] >= 240
        assert parts["canvas"][3] - parts["canvas"][1] >= 140
    assert len({top for _, top, _, _ in seen["480x400 dark"]["buttons"].values()}) == 3  # two rows, and the list's
    assert "Open" in seen["480x400 dark"]["buttons"]
    assert told["texts"][0].startswith("Open   ")


def test_copying_looks_as_it_is(display: str, tmp_path: Path) -> None:
    """Where there is nothing to copy the button is faint, and the clipboard keeps what it has."""
    Image.new("RGB", (64, 64), "white").save(tmp_path / "blank.png")
    seen = drive(display, "copying", SEVEN, tmp_path / "blank.png")
    assert [seen[name]["copied"] for name in seen] == ["kept", "7", "7"]
    assert [seen[name]["status"] for name in seen] == [
        "There is no text to copy.",
        "Copied.",
        "There is no text to copy.",
    ]
    for faint, clear, again in zip(*(seen[name]["contrast"] for name in seen)):
        assert faint == again
        assert 0 < 2 * faint < clear


def test_fetches_models(display: str, page: Path, tmp_path: Path) -> None:
    seen = drive(display, "fetch", page, XDG_CACHE_HOME=str(tmp_path))
    assert len(seen["digit"]["texts"]) == 1
    assert "README.md" in seen["failed"]
    assert seen["text"]["texts"] == LINES


def test_screen(display: str) -> None:
    assert drive(display, "screen", SEVEN)["texts"] == ["7"]


def test_camera(display: str) -> None:
    seen = drive(display, "camera", SEVEN)
    assert "opencv-python-headless is not installed" in seen["missing"]
    assert "the camera was lost: it gives no picture any more" in seen["gone"]
    assert seen["status"] == ""
    assert seen["texts"] == ["7"]


def test_stays_responsive(display: str) -> None:
    seen = drive(display, "slow", SEVEN)
    assert seen["texts"] == ["7"]
    assert seen["ticks"] >= 5


def test_survives_a_lost_gpu(display: str) -> None:
    require("webgpu")
    seen = drive(display, "lost", SEVEN)
    for name in ("before", "first", "second", "after"):
        assert seen[name]["texts"] == ["7"]
        assert any(word.startswith("WebGpuExecutionProvider") for word in seen[name]["words"])
    assert all("lost" in seen[name]["status"] for name in ("first", "second"))


def test_docstrings() -> None:
    places = os.pathsep.join(map(str, (EXAMPLE, *sys.path)))
    command = [sys.executable, "-m", "doctest", str(EXAMPLE / "reader.py")]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": places}, capture_output=True, text=True, timeout=500
    )
    assert not done.returncode, done.stdout + done.stderr
