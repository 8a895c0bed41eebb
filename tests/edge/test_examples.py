"""The examples for boards, with pictures for a camera, pins that are none, and systemd's own opinion."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sardonyx.demo import picture, pictures
from tests.support import absent
from tests.support.wheel import ROOT

EXAMPLES = ROOT / "edge" / "examples"
GPIOZERO = """
import sys

class LED:
    def __init__(self, pin):
        self.pin = pin

    def blink(self, on_time, off_time, n, background):
        print(f"LED {self.pin}: {n}")
"""
PICAMERA2 = """
import time
import numpy as np

class Picamera2:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def create_preview_configuration(self, main):
        return main

    def configure(self, main):
        self.main = main

    def start(self):
        assert self.main == {"size": (640, 480), "format": "BGR888"}
        self.end = time.monotonic() + 1.5

    def capture_array(self):
        time.sleep(0.05)
        if time.monotonic() > self.end:
            raise RuntimeError("Camera frontend has timed out!")
        return np.load("frame.npy")
"""
CV2 = """
import time
import numpy as np

CAP_PROP_BUFFERSIZE, COLOR_BGR2RGB = 38, 4

def cvtColor(frame, code):
    assert code == COLOR_BGR2RGB
    return frame[..., ::-1].copy()

class VideoCapture:
    def __init__(self, number):
        assert number == 0
        self.end = time.monotonic() + 1.5

    def set(self, name, value):
        assert (name, value) == (CAP_PROP_BUFFERSIZE, 1)

    def read(self):
        time.sleep(0.05)
        there = time.monotonic() < self.end
        return there, np.load("frame.npy")[..., ::-1] if there else None

    def release(self):
        print("released")
"""
MISSING = "raise ImportError('not here')"


def run(folder: Path, example: str, *arguments: str, code: int = 0, **environment: str) -> tuple[str, str]:
    """What an example prints on stdout and stderr; modules in `folder` go before those that are installed."""
    everything = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]), **environment}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / example), *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=everything,
        cwd=folder,
        timeout=120,
    )
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with modules that make as if no camera and no pins were installed."""
    for name in ("picamera2", "cv2", "gpiozero"):
        (tmp_path / f"{name}.py").write_text(MISSING)
    return tmp_path


def test_still_pictures(folder: Path) -> None:
    out, err = run(folder, "camera.py", str(picture("7_drawn.png")), str(picture("3_drawn.png")))
    assert [line[0] for line in out.splitlines()] == ["7", "3"]
    assert err == ""


def test_no_camera(folder: Path) -> None:
    out, err = run(folder, "camera.py")
    assert out.startswith("7 (")
    assert err.startswith("the camera: opencv-python-headless is not installed; pip install")
    assert "apt install python3-picamera2" in err
    out, err = run(folder, "camera.py", "camera", code=1)  # so that systemd tries again
    assert (out, "apt install python3-picamera2" in err) == ("", True)


@pytest.mark.parametrize("example", ["camera.py", "lamp.py"])
def test_help(folder: Path, example: str) -> None:
    (folder / "PIL.py").write_text(MISSING)
    for option in ("-h", "--help"):
        out, err = run(folder, example, option)
        assert out.startswith(f"usage: {example} [-h] [PICTURE ...]")
        assert err == ""
    _, err = run(folder, example, "--bogus", code=2)
    assert "unrecognized arguments: --bogus" in err


@pytest.mark.parametrize("example", ["camera.py", "lamp.py"])
@pytest.mark.parametrize("pillow", [True, False])
def test_what_cannot_be_read_is_a_line(folder: Path, example: str, pillow: bool) -> None:
    (folder / "photo.jpg").write_bytes(b"\xff\xd8\xff\xe0 and no more")
    (folder / "text.txt").write_text("words")
    photo = "photo.jpg: "
    if not pillow:
        (folder / "PIL.py").write_text(MISSING)
        photo += "this is a picture in JPEG; without Pillow only PNG is read: pip install pillow\n"
    expected = {"photo.jpg": photo, "text.txt": "text.txt: this is no picture\n", "no.png": "no.png does not exist\n"}
    for name, message in expected.items():
        out, err = run(folder, example, str(picture("7_drawn.png")), name, code=1)
        assert out.startswith("7 (")
        assert err.startswith(message)
        assert len(err.splitlines()) == 1


@pytest.mark.parametrize(("name", "module"), [("picamera2", PICAMERA2), ("cv2", CV2)])
def test_cameras(folder: Path, name: str, module: str) -> None:
    """A second and a half of frames, then the camera fails, which ends the program with an error: systemd starts it
    again. One frame in a second is looked at."""
    (folder / f"{name}.py").write_text(module)
    np.save(folder / "frame.npy", np.repeat(pictures.read(picture("3_drawn.png"))[:, :, :1], 3, axis=2))
    out, err = run(folder, "camera.py", code=1)
    lines = out.splitlines()
    assert [line[0] for line in lines[:2]] == ["3", "3"]
    assert len(lines) <= 4
    assert "lost" in err
    assert "frontend has timed out" in err or "gives no picture any more" in err
    assert ("released" in lines) == (name == "cv2")


def test_lamp_without_pins(folder: Path) -> None:
    out, _ = run(folder, "lamp.py", str(picture("3_drawn.png")))
    assert out.splitlines()[1] == "pin 17: on, off on, off on, off"


def test_lamp_at_a_pin(folder: Path) -> None:
    (folder / "gpiozero.py").unlink()
    package = folder / "gpiozero"
    package.mkdir()
    (package / "__init__.py").write_text(GPIOZERO)
    (package / "exc.py").write_text("class GPIOZeroError(Exception):\n    pass\n")
    out, _ = run(folder, "lamp.py", str(picture("3_drawn.png")))
    assert out.splitlines()[1] == "LED 17: 3"


@pytest.mark.parametrize("factory", ["mock", "native"])
def test_lamp_of_gpiozero_itself(folder: Path, factory: str) -> None:
    """Its mock pins, and no pins at all."""
    (folder / "gpiozero.py").unlink()
    try:
        import gpiozero  # noqa: F401
    except ImportError:
        absent("the package gpiozero is not installed")
    out, _ = run(folder, "lamp.py", str(picture("3_drawn.png")), GPIOZERO_PIN_FACTORY=factory)
    assert out.startswith("3 (")
    assert ("pin 17" in out) == (factory == "native")


def test_unit(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        absent("systemd-analyze is not on the path")
    text = (EXAMPLES / "camera.service").read_text()
    program = "%h/env/bin/python %h/camera.py camera"
    assert f"\nExecStart={program}\n" in text
    unit = tmp_path / "camera.service"
    unit.write_text(text.replace(program, f"{sys.executable} {EXAMPLES / 'camera.py'} camera"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", str(unit)], capture_output=True, text=True, timeout=500
    )
    assert (done.returncode, done.stderr) == (0, "")
