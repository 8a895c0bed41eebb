"""The window of examples/desktop: what it reads, shows and says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFont

from sardonyx.demo import assets
from tests.models import path
from tests.models.feeds import LINE
from tests.support import require
from tests.support.wheel import ROOT

EXAMPLE = ROOT / "examples" / "desktop"
SEVEN, FOUR = (str(assets() / "images" / name) for name in ("7_drawn.png", "4_heldout.png"))
ACCENT = [0xF0, 0x8A, 0x5D]
FILES = {"ppocr4-det": "ch_PP-OCRv4_det_infer.onnx", "ppocr4-rec": "ch_PP-OCRv4_rec_infer.onnx"}
SECOND = "read on a desktop"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the models of text."""
    folder = tmp_path_factory.mktemp("models")
    for id, name in FILES.items():
        (folder / name).symlink_to(path(id))
    return folder


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A picture of two lines."""
    picture = Image.new("RGB", (900, 420), "#f4ecd8")
    draw = ImageDraw.Draw(picture)
    draw.text((60, 60), LINE, fill="#203050", font=ImageFont.load_default(64))
    draw.text((64, 250), SECOND, fill="#7a2e1d", font=ImageFont.load_default(40))
    target = tmp_path_factory.mktemp("page") / "page.png"
    picture.save(target)
    return target


def drive(display: str, scene: str, *arguments: object, **environment: str) -> Any:
    """What the driver has seen."""
    places = os.pathsep.join(map(str, (EXAMPLE, *sys.path)))
    environment = {**os.environ, "DISPLAY": display, "PYTHONPATH": places, "SARDONYX_CACHE": "0", **environment}
    command = [sys.executable, str(Path(__file__).with_name("drive.py")), scene, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_text(display: str, models: Path, page: Path, tmp_path: Path) -> None:
    seen = drive(display, "text", models, page, tmp_path / "screen.png")
    assert seen["texts"] == seen["labels"] == [LINE, SECOND]
    assert seen["lines"] == [ACCENT, ACCENT]
    assert "2 texts found" in seen["words"]
    assert "WasmExecutionProvider" in seen["words"]
    assert any("ms in 3 runs" in word for word in seen["words"])
    assert [line.split("   ")[0] for line in seen["copied"].splitlines()] == [LINE, SECOND]


def test_digits_keys_and_errors(display: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gif"
    broken.write_text("no picture")
    seen = drive(display, "digit", SEVEN, FOUR, broken)
    assert [seen[name]["texts"] for name in ("first", "second", "after")] == [["7"], ["4"], ["7"]]
    assert any(word.startswith("Get text models") for word in seen["first"]["words"])
    assert seen["dark"] < 60
    assert seen["light"] > 200
    assert seen["bare"]["boxes"]
    assert not seen["bare"]["labels"]
    assert "broken.gif cannot be read as a picture: cannot identify" in seen[".gif"]
    assert "No such file" in seen[".png"]


def test_screen(display: str) -> None:
    assert drive(display, "screen", SEVEN)["texts"] == ["7"]


def test_camera(display: str) -> None:
    seen = drive(display, "camera", SEVEN)
    assert "OpenCV" in seen["missing"]
    assert "Camera 0 gives no picture" in seen["gone"]
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
