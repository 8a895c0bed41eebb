"""`sardonyx watch`: lines, pictures of characters, a window, a page, and how each of them ends."""

from __future__ import annotations

import io
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image, ImageGrab

from sardonyx import vision
from sardonyx.cli import main
from sardonyx.cli.broadcast import HEADERS, VIEWERS, Broadcast
from sardonyx.cli.mosaic import HALF, cells, exact, indexed, printed
from sardonyx.cli.tally import Tally
from sardonyx.vision.watcher import viewer_of
from tests.support import require
from tests.support.display import open_display
from tests.vision.families import LABELS, convolutional
from tests.vision.test_maps import network

from .conftest import without

LIMIT = 120
"""Seconds that a command may take."""
OPTIONS = ["--detect", "threshold=0.995,overlap=0.1"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A detector of random weights, which finds a few boxes in noise."""
    onnx.save(convolutional(), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three pictures of noise, 96 x 64."""
    target = tmp_path / "pictures"
    target.mkdir()
    rng = np.random.default_rng(0)
    for k in range(3):
        Image.fromarray(rng.integers(0, 256, (64, 96, 3), np.uint8)).save(target / f"{k}.png")
    return target


def found(model: Path, folder: Path) -> list[list[vision.Found]]:
    return [vision.detect(model, path, threshold=0.995, overlap=0.1) for path in sorted(folder.iterdir())]


def test_lines(model: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(model), str(folder), *OPTIONS]) == 0
    *lines, summary = capsys.readouterr().out.splitlines()
    for number, (line, objects) in enumerate(zip(lines, found(model, folder), strict=True)):
        told = ", ".join(f"{each.label} {each.score:.0%}" for each in objects)
        assert re.fullmatch(rf"{number}: {re.escape(told)} \(\d+ ms\)", line)
    assert re.fullmatch(rf"{folder}: 3 frames in [\d.]+ s · [\d.]+ frames/s · \d+ ms each", summary)


def test_objects(model: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(model), str(folder), "--json", *OPTIONS]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for number, (told, objects) in enumerate(zip(lines, found(model, folder), strict=True)):
        assert (told["number"], told["size"], told["dropped"]) == (number, [96, 64], 0)
        assert [each["box"] for each in told["found"]] == [[*each.box] for each in objects]
        assert [each["label"] for each in told["found"]] == [each.label for each in objects]
        assert told["latency"] >= told["ms"] > 0
        assert {*told["found"][0]} == {"label", "number", "score", "box"}


def test_masks_and_classes(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.onnx").write_bytes(network(sigmoid=True))
    pixels = np.zeros((60, 80, 3), np.uint8)
    pixels[:15] = 255
    Image.fromarray(pixels).save(tmp_path / "bright.png")
    how = ["--image", "x:resize=60x80"]
    options = ["--segment", "threshold=0.6,labels=dark,bright", *how]
    assert main(["watch", str(tmp_path / "net.onnx"), str(tmp_path / "bright.png"), *options]) == 0
    assert "dark 75%, bright 25%" in capsys.readouterr().out
    assert main(["watch", str(tmp_path / "net.onnx"), str(tmp_path / "bright.png"), "--json", *options]) == 0
    told = json.loads(capsys.readouterr().out)["found"]
    assert told == [{"label": "dark", "share": 0.75}, {"label": "bright", "share": 0.25}]
    digits = ["watch", str(Path(vision.__file__).parents[1] / "demo" / "digits.onnx")]
    digits[1] = str(tmp_path / "digits.onnx")
    from sardonyx.demo import assets

    (tmp_path / "digits.onnx").write_bytes((assets() / "digits.onnx").read_bytes())
    assert main([*digits, str(tmp_path / "bright.png"), "--json", "--classify", "most=2", "--image", "image"]) == 0
    told = json.loads(capsys.readouterr().out)["found"]
    assert len(told) == 2
    assert {*told[0]} == {"label", "number", "score"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--serve", "8000", "--json"], "--serve shows frames in a page; leave out --show and --json"),
        (["--serve", "nowhere"], "--serve nowhere: write a port, or HOST:PORT, as in 8000 or 0.0.0.0:8000"),
        (["--rate", "0"], "--rate 0: write a number above 0"),
        (["--detect", "--segment"], "--detect and --segment: a model is one of them"),
        (["--classify", "most=x"], "--classify most=x: most=x: write a number of classes"),
        (["--segment", "sigmoid=x"], "--segment sigmoid=x: sigmoid=x: write yes or no"),
        (["--segment", "size=x"], "there is no option 'size'; there are threshold, sigmoid, output, labels"),
        (["nowhere"], "nowhere: there is no such folder, picture or video"),
    ],
)
def test_what_makes_no_sense(model: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(model), *options]) == 1
    assert message in capsys.readouterr().err


def test_a_camera_that_is_missing(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without(monkeypatch, "cv2", "picamera2")
    assert main(["watch", str(model)]) == 1
    assert "opencv-python-headless is not installed; pip install" in capsys.readouterr().err


@pytest.mark.parametrize("package", ["waitress", "flask", "PIL"])
def test_packages_of_the_page(
    model: Path, package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without(monkeypatch, package)
    assert main(["watch", str(model), "--serve", "0"]) == 1
    name = {"PIL": "pillow"}.get(package, package)
    assert f"--serve 0: {name} is not installed; pip install {name}" in capsys.readouterr().err


def test_cells(model: Path) -> None:
    """Half a character is a pixel; labels stand where boxes begin, and within the picture."""
    pixels = np.zeros((64, 96, 3), np.uint8)
    pixels[:32] = 240
    objects = [vision.Found("left", 0, 0.9, (8.0, 40.0, 40.0, 60.0)), vision.Found("far", 1, 0.5, (80, 0, 96, 10))]
    seen = vision.Seen(pixels, objects, 0, 0.0, 0.0, 0.0, 0)
    lines = cells(seen, viewer_of(model), 16, 48)
    assert (len(lines), {*map(len, lines)}) == (16, {48})
    assert lines[5][2] == (HALF, (240, 240, 240), (240, 240, 240))
    assert lines[14][40] == (HALF, (0, 0, 0), (0, 0, 0))
    assert "".join(cell[0] for cell in lines[10]).startswith(HALF * 4 + " left 90% " + HALF)
    assert "".join(cell[0] for cell in lines[0]).endswith(" far 50% ")
    assert lines[10][5][2] == (230, 57, 70)
    for line in printed(lines, 50, exact):
        assert line.startswith(" \x1b[38;2;")
        assert line.endswith("\x1b[0m")
        assert len(re.sub(r"\x1b\[[\d;]*m", "", line)) == 49
    assert indexed(48, (95, 135, 255)) == f"48;5;{16 + 36 + 6 * 2 + 5}"


def in_a_terminal(arguments: list[str], until: bytes, **environment: str) -> tuple[str, int]:
    """What the command prints on a terminal of 80 columns, where Ctrl+C follows once `until` is there, and its code."""
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-m", "sardonyx", "watch", *arguments]
    everything = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", **environment}
    running = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=everything)
    os.close(theirs)
    seen, isasked, end = b"", False, time.monotonic() + LIMIT
    while True:
        if time.monotonic() > end or not select.select([ours], [], [], LIMIT)[0]:
            running.kill()
            pytest.fail(f"it does not end, Ctrl+C or not: {seen[-2000:]!r}")
        try:
            part = os.read(ours, 1 << 16)
        except OSError:
            break
        seen += part
        if until in seen and not isasked:
            running.send_signal(signal.SIGINT)
            isasked = True
        if not part:
            break
    os.close(ours)
    return seen.decode(errors="replace"), running.wait(60)  # Ctrl+C may cut a character


ENDLESS = """
import time
import numpy as np

CAP_PROP_BUFFERSIZE, COLOR_BGR2RGB = 38, 4

def cvtColor(frame, code):
    return frame

class VideoCapture:
    def __init__(self, number):
        self.rng = np.random.default_rng(0)

    def set(self, name, value):
        pass

    def read(self):
        time.sleep(0.01)
        return True, self.rng.integers(0, 256, (48, 72, 3), np.uint8)

    def release(self):
        print("released", flush=True)
"""


@pytest.fixture
def camera(tmp_path: Path) -> str:
    """The PYTHONPATH where a camera's frames have no end."""
    target = tmp_path / "site"
    target.mkdir()
    (target / "cv2.py").write_text(ENDLESS)
    (target / "picamera2.py").write_text("raise ImportError")
    return os.pathsep.join([str(target), *filter(None, sys.path)])


@pytest.mark.slow
def test_the_terminal_is_given_back(model: Path, camera: str) -> None:
    shown, code = in_a_terminal([str(model), *OPTIONS], b"Ctrl+C ends", PYTHONPATH=camera, COLORTERM="truecolor")
    assert code == 0
    assert shown.count("\x1b[?1049h") == shown.count("\x1b[?1049l") == shown.count("\x1b[?25h") == 1
    picture, _, after = shown.partition("\x1b[?1049l")
    assert "\x1b[38;2;" in picture
    assert HALF in picture
    assert re.search(r"[\d.]+ frames/s · \d+ ms · \d+ ms old", picture)
    assert any(f" {label} 100% " in picture for label in LABELS)
    assert "released" in shown
    assert re.search(r"the camera: \d+ frames? in [\d.]+ s", after)
    rows = re.split(r"\r+\n|\x1b\[H", re.sub(r"\x1b\[[\d;?]*[a-zA-GI-Z]|\^C", "", picture))
    assert max(map(len, rows)) <= 80


@pytest.mark.slow
def test_lines_fit_the_terminal(model: Path, camera: str) -> None:
    shown, code = in_a_terminal([str(model), "--show", "lines", *OPTIONS], b" ms", PYTHONPATH=camera)
    assert code == 0
    # the terminal writes ^C itself, and the camera's thread that it is released, wherever the line ends then
    plain = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]|\^C|released", "", shown)
    lines = [line for line in plain.splitlines() if line.endswith(" ms")]
    assert {*map(len, lines)} == {80}


def answer(url: str, **headers: str) -> tuple[int, Any, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


@pytest.fixture
def page(model: Path) -> Iterator[tuple[str, threading.Event]]:
    """The address of a page whose frames come without end once the event is set: noise, numbered in a corner."""
    begin, end = threading.Event(), threading.Event()

    def frames() -> Iterator[Any]:
        begin.wait(30)
        noise = np.random.default_rng(0).integers(0, 256, (288, 288, 3), np.uint8)
        number = 0
        while not end.is_set():
            time.sleep(0.02)
            noise[:32, :32] = 2 * (number % 128)
            number += 1
            yield noise.copy()

    broadcast = Broadcast("0")
    viewer = viewer_of(model, threshold=0.995, overlap=0.1)
    thread = threading.Thread(target=broadcast.show, args=[vision.watch(viewer, frames()), Tally()], daemon=True)
    thread.start()
    yield broadcast.address, begin
    begin.set()
    end.set()


def part(stream: Any) -> bytes:
    """The next picture of a stream."""
    length = None
    while (line := stream.readline()) != b"\r\n" or length is None:
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    data: bytes = stream.read(length)
    return data


def test_the_page(page: tuple[str, threading.Event]) -> None:
    address, begin = page
    assert address.startswith("http://127.0.0.1:")
    assert json.loads(answer(f"{address}state")[2])["number"] == -1
    begin.set()
    code, headers, body = answer(address)
    assert code == 200
    assert b'src="frames"' in body
    for name, value in HEADERS.items():
        assert headers[name] == value
    with urllib.request.urlopen(f"{address}frames", timeout=30) as stream:
        assert stream.headers["Content-Type"] == "multipart/x-mixed-replace; boundary=frame"
        assert stream.readline() == b"--frame\r\n"
        pictures = [np.asarray(Image.open(io.BytesIO(part(stream)))) for _ in range(3)]
    assert {picture.shape for picture in pictures} == {(288, 288, 3)}
    assert (pictures[0] != pictures[1]).any()
    told = json.loads(answer(f"{address}state")[2])
    assert told["number"] >= 2
    assert told["words"]
    assert re.match(r"[\d.]+ frames/s", told["status"])


def test_who_may_look(page: tuple[str, threading.Event]) -> None:
    """Pages whose name leads to this machine may not, nor more than there are threads for; who leaves makes room."""
    address, begin = page
    begin.set()
    for host, wanted in (("evil.example", 403), ("evil.example:80", 403), ("localhost", 200), ("127.0.0.1:80", 200)):
        assert answer(f"{address}state", Host=host)[0] == wanted, host
    streams = [urllib.request.urlopen(f"{address}frames", timeout=30) for _ in range(VIEWERS)]
    for stream in streams:
        part(stream)
    assert answer(f"{address}frames")[0] == 503
    assert answer(f"{address}state")[0] == 200
    for stream in streams:
        stream.close()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{address}frames", timeout=30) as stream:
                part(stream)
            return
        except urllib.error.HTTPError:
            time.sleep(0.1)
    raise AssertionError("nobody made room")


def test_a_slow_viewer_gets_the_newest(page: tuple[str, threading.Event]) -> None:
    """What a viewer has not fetched is not kept for it: after a pause there is a leap to what is new."""
    address, begin = page
    begin.set()
    with urllib.request.urlopen(f"{address}frames", timeout=30) as stream:
        part(stream)
        begun = json.loads(answer(f"{address}state")[2])["number"]
        while json.loads(answer(f"{address}state")[2])["number"] < begun + 60:
            time.sleep(0.1)
        pictures = [np.asarray(Image.open(io.BytesIO(part(stream)))) for _ in range(40)]
    numbers = [round(picture[4:28, 4:28].mean() / 2) for picture in pictures]
    assert max((after - before) % 128 for before, after in pairwise(numbers)) > 20


def test_a_port_that_is_taken(model: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["watch", str(model), str(folder), "--serve", str(port)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"sardonyx: --serve {port}: ")
    assert "take another host or port" in error


@pytest.mark.slow
def test_ctrl_c_ends_the_page(model: Path, camera: str) -> None:
    shown, code = in_a_terminal([str(model), "--serve", "0"], b"Ctrl+C ends it", PYTHONPATH=camera)
    assert code == 0
    assert re.search(r"Frames of the camera at http://127\.0\.0\.1:\d+/ ", shown)
    assert "Traceback" not in shown


@pytest.mark.slow
def test_a_window(model: Path, camera: str) -> None:
    require("desktop")
    with open_display() as display:
        command = [sys.executable, "-m", "sardonyx", "watch", str(model), "--show", "window", *OPTIONS]
        environment = {**os.environ, "DISPLAY": display, "PYTHONPATH": camera}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as running:
            end = time.monotonic() + 120
            while time.monotonic() < end and running.poll() is None:
                time.sleep(0.3)
                screen = np.asarray(ImageGrab.grab(xdisplay=display))
                if any((screen == color).all(2).sum() > 300 for color in ((230, 57, 70), (29, 132, 181))):
                    break
            running.send_signal(signal.SIGINT)
            try:
                out = running.communicate(timeout=60)[0].decode()
            finally:
                running.kill()
            assert running.returncode == 0, out
    assert re.search(r"the camera: \d+ frames? in", out)
    assert "Traceback" not in out


def test_no_screen(model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    require("desktop")
    monkeypatch.delenv("DISPLAY", raising=False)
    assert main(["watch", str(model), str(folder), "--show", "window"]) == 1
    assert "--show window: there is no screen" in capsys.readouterr().err
