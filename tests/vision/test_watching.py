"""Frames of cameras, videos and folders: which of them are looked at, and how a source ends."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.helper as oh
import pytest
from PIL import Image

from sardonyx import vision
from sardonyx.demo import assets
from sardonyx.errors import Fail, InvalidArgument, NoSuchFile
from sardonyx.model.serde.reader import read
from sardonyx.passes.vision.task import task_of
from sardonyx.vision import watcher as watching
from sardonyx.vision.drawing import boxed, placed, resized, veiled
from sardonyx.vision.newest import Newest
from tests.packages.installed import modules
from tests.support.wheel import ROOT
from tests.vision.families import convolutional
from tests.vision.test_maps import network

FLAT = 2 << 20
"""Bytes that a process may grow by over thousands of frames."""
GROWTH = """
import itertools, sys
import numpy as np
from pathlib import Path
from sardonyx import vision

def held():
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])

rng = np.random.default_rng(0)
frames = (rng.integers(0, 256, (120, 160, 3), np.uint8) for _ in range(10_000))
for seen in vision.watch(sys.argv[1], frames, threshold=0.9):
    if seen.number == 1000:
        begun = held()
print(seen.number, held() - begun)
"""
CAMERA = 4
"""COLOR_BGR2RGB."""


def frame(level: int) -> npt.NDArray[np.uint8]:
    return np.full((4, 6, 3), level, np.uint8)


def opencv(monkeypatch: pytest.MonkeyPatch, frames: list[npt.NDArray[np.uint8]]) -> dict[str, Any]:
    """Stands in for OpenCV: a camera that gives these, blue first, and then none."""
    told: dict[str, Any] = {"released": 0}

    class Capture:
        def __init__(self, number: object) -> None:
            told["number"] = number
            self.left = list(frames)

        def read(self) -> tuple[bool, Any]:
            return (True, self.left.pop(0)[..., ::-1]) if self.left else (False, None)

        def set(self, name: int, value: int) -> None:
            told["buffer"] = name, value

        def get(self, name: int) -> float:
            return 1000.0

        def release(self) -> None:
            told["released"] += 1

    def turned(picture: Any, code: int) -> Any:
        assert code == CAMERA
        return picture[..., ::-1].copy()

    names = {"CAP_PROP_BUFFERSIZE": 38, "CAP_PROP_FPS": 5, "COLOR_BGR2RGB": CAMERA}
    monkeypatch.setitem(sys.modules, "cv2", SimpleNamespace(VideoCapture=Capture, cvtColor=turned, **names))
    monkeypatch.setitem(sys.modules, "picamera2", None)
    return told


def test_what_is_seen_is_what_a_detector_finds(tmp_path: Path) -> None:
    model = convolutional().SerializeToString()
    rng = np.random.default_rng(0)
    for name in ("b", "a", "c"):
        Image.fromarray(rng.integers(0, 256, (40, 60, 3), np.uint8)).save(tmp_path / f"{name}.png")
    (tmp_path / "notes.txt").write_text("no picture")
    seen = [*vision.watch(model, tmp_path, threshold=0.99)]
    assert [each.number for each in seen] == [0, 1, 2]
    for each, name in zip(seen, "abc", strict=True):
        assert each.found == vision.detect(model, tmp_path / f"{name}.png", threshold=0.99)
        assert each.found
        np.testing.assert_array_equal(each.frame, np.asarray(Image.open(tmp_path / f"{name}.png")))
        assert each.dropped == 0
        assert each.latency >= each.seconds > 0


def test_the_task_is_that_of_the_model() -> None:
    picture = vision.Picture("", size=(30, 40))
    assert task_of(read(convolutional().SerializeToString())) == "detect"
    assert task_of(read((assets() / "digits.onnx").read_bytes())) == "classify"
    assert task_of(read(network(sigmoid=True)), picture) == "segment"
    (seen,) = vision.watch(network(sigmoid=True), [frame(255)], image=picture, threshold=0.6)
    assert seen.found.tolist() == [[1] * 6] * 4
    (seen,) = vision.watch(assets() / "digits.onnx", [frame(0)], image=vision.Picture(""), most=2)
    assert [type(each) for each in seen.found] == [vision.Class, vision.Class]


@pytest.mark.parametrize(
    ("outputs", "task"),
    [
        ({"a": [1, 5]}, "classify"),
        ({"a": [1, 7]}, "classify"),
        ({"a": ["N", 5]}, "classify"),
        ({"a": ["N", 7]}, "detect"),
        ({"a": ["N", 5, 1, 1]}, "classify"),
        ({"a": [1, 5, 16, 24]}, "segment"),
        ({"a": [1, 5, 16, 24], "b": [1, 5, 16, 24]}, "segment"),
        ({"a": [1, 12, 16, 24], "b": [1, 10, 126]}, "detect"),
        ({"a": [1, 10, 126], "b": [1, 32, 16, 24]}, "detect"),
        ({"boxes": [1, 100, 4], "scores": [1, 100]}, "detect"),
    ],
)
def test_the_task_by_shapes(outputs: dict[str, list[int | str]], task: str) -> None:
    image = oh.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 32, 48])
    given = [oh.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in outputs.items()]
    sizes = [oh.make_tensor(f"s{name}", 7, [len(s)], [k if k != "N" else 1 for k in s]) for name, s in outputs.items()]
    nodes = [oh.make_node("ConstantOfShape", [f"s{name}"], [name]) for name in outputs]
    proto = oh.make_model(oh.make_graph(nodes, "g", [image], given, sizes), opset_imports=[oh.make_opsetid("", 17)])
    assert task_of(read(proto.SerializeToString())) == task
    for told, wanted in (("segment", "detect"), ("pose", "detect"), ("classify", "classify")):
        del proto.metadata_props[:]
        proto.metadata_props.add(key="task", value=told)
        assert task_of(read(proto.SerializeToString())) == wanted
    proto.metadata_props[0].value = "obb"
    with pytest.raises(InvalidArgument, match="task=obb, which is none of detect, classify and segment"):
        task_of(read(proto.SerializeToString()))


def test_the_task_of_a_bundle(tmp_path: Path) -> None:
    from sardonyx.cli import main

    onnx.save(convolutional(), tmp_path / "model.onnx")
    options = ["--detect", "threshold=0.99", "--output", str(tmp_path / "model.sdx")]
    assert main(["compile", str(tmp_path / "model.onnx"), *options]) == 0
    pixels = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)
    (seen,) = vision.watch(tmp_path / "model.sdx", [pixels])
    assert seen.found == vision.detect(tmp_path / "model.sdx", pixels)
    assert main(["compile", str(assets() / "digits.onnx"), "--output", str(tmp_path / "digits.sdx")]) == 0
    with pytest.raises(InvalidArgument, match=r"the bundle gives .*, and not boxes, scores, labels of a picture"):
        vision.watch(tmp_path / "digits.sdx", [pixels])


def test_the_newest_wins() -> None:
    """Frames that come while one is looked at are dropped, and counted; the one that came last is next."""
    looking, go_on = threading.Event(), threading.Event()

    def source() -> Iterator[npt.NDArray[np.uint8]]:
        yield frame(0)
        assert looking.wait(10)
        yield from map(frame, (1, 2, 3))
        go_on.set()

    def look(given: npt.NDArray[np.uint8]) -> int:
        looking.set()
        assert go_on.wait(10)
        return int(given[0, 0, 0])

    with vision.watch(look, source(), newest=True) as watcher:
        seen = [*watcher]
    assert [(each.number, each.found, each.dropped) for each in seen] == [(0, 0, 0), (1, 3, 2)]
    assert seen[0].latency >= seen[0].seconds


def test_nothing_is_dropped_where_it_is_not_live() -> None:
    seen = [*vision.watch(lambda given: time.sleep(0.005), map(frame, range(20)))]
    assert [int(each.frame[0, 0, 0]) for each in seen] == [*range(20)]


def test_rate() -> None:
    begun = time.monotonic()
    seen = [*vision.watch(lambda given: None, map(frame, range(4)), rate=20)]
    assert time.monotonic() - begun >= 3 / 20
    assert seen[-1].rate <= 20.5
    with pytest.raises(InvalidArgument, match="rate=-1"):
        vision.watch(np.mean, [], rate=-1)


def test_a_camera_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    told = opencv(monkeypatch, [frame(5)])
    found: list[int] = []
    watcher = vision.watch(lambda given: found.append(int(given.mean())))
    with pytest.raises(Fail, match="the camera was lost: it gives no picture any more; is it still connected"):
        list(watcher)
    assert found == [5]
    watcher.close()
    assert told == {"number": 0, "buffer": (38, 1), "released": 1}


def test_red_is_first(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = frame(0)
    picture[..., 0] = 200
    told = opencv(monkeypatch, [picture] * 3)
    with vision.watch(lambda given: given[0, 0].tolist(), 2, newest=False) as watcher:
        assert next(watcher).found == [200, 0, 0]
    assert told["number"] == 2
    assert told["released"] == 1


def test_a_camera_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    opencv(monkeypatch, [])
    with pytest.raises(Fail, match="camera 3 gives no picture; is it connected, and free"):
        next(vision.watch(np.mean, 3))
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(Fail, match="camera 3: opencv-python-headless is not installed; pip install opencv-python"):
        next(vision.watch(np.mean, 3))
    with pytest.raises(Fail, match=r"the camera: .* or on a Raspberry Pi sudo apt install python3-picamera2"):
        next(vision.watch(np.mean))

    def none() -> None:
        raise IndexError("list index out of range")

    monkeypatch.setitem(sys.modules, "picamera2", SimpleNamespace(Picamera2=none))
    with pytest.raises(Fail, match=r"picamera2 finds no camera \(list index out of range\); connect one"):
        next(vision.watch(np.mean))


def test_a_camera_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "PATIENCE", 0.3)
    end = threading.Event()

    def hanging() -> Iterator[npt.NDArray[np.uint8]]:
        yield frame(0)
        end.wait(20)

    watcher = vision.watch(np.mean, hanging(), newest=True)
    assert next(watcher).found == 0
    with pytest.raises(Fail, match=r"the source gave no picture for 0\.3 s; is it still connected\?"):
        next(watcher)
    end.set()
    watcher.close()


def test_a_thread_ends_with_its_watcher() -> None:
    closed = threading.Event()

    def endless() -> Iterator[npt.NDArray[np.uint8]]:
        try:
            while True:
                yield frame(0)
        finally:
            closed.set()

    with vision.watch(np.mean, endless(), newest=True) as watcher:
        next(watcher)
    assert closed.is_set()
    assert next(watcher, None) is None
    assert not [each for each in threading.enumerate() if each.name.startswith("sardonyx the source")]


def test_an_error_of_the_source_is_the_callers() -> None:
    def broken() -> Iterator[npt.NDArray[np.uint8]]:
        yield frame(0)
        raise ZeroDivisionError("of the source")

    newest = Newest(broken(), "it", 5.0)
    while not newest.is_ready():
        time.sleep(0.01)
    assert newest.take() is not None
    with pytest.raises(ZeroDivisionError, match="of the source"):
        newest.take()


def test_a_video_as_it_was_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opencv(monkeypatch, [frame(level) for level in range(5)])
    path = tmp_path / "video.mp4"
    path.write_bytes(b"\0\0\0\x18ftypmp42")
    seen = [*vision.watch(lambda given: int(given.mean()), path, newest=False)]
    assert [each.found for each in seen] == [0, 1, 2, 3, 4]
    live = [*vision.watch(lambda given: int(given.mean()), path)]
    assert live[-1].found == 4
    assert len(live) + sum(each.dropped for each in live) == 5
    opencv(monkeypatch, [])
    with pytest.raises(Fail, match="is no picture, and no video that OpenCV can read"):
        next(vision.watch(np.mean, path))


def test_sources_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(NoSuchFile, match="nowhere: there is no such folder, picture or video; a camera is 'camera'"):
        vision.watch(np.mean, "nowhere")
    with pytest.raises(NoSuchFile, match="has no pictures in it"):
        vision.watch(np.mean, tmp_path)
    with pytest.raises(InvalidArgument, match="task='look': write detect, classify, segment"):
        vision.watch(convolutional().SerializeToString(), [], task="look")


VIDEO = """
import sys
import cv2
import numpy as np
from sardonyx import vision
writer = cv2.VideoWriter(sys.argv[1], cv2.VideoWriter_fourcc(*"MJPG"), 50, (64, 48))
for level in range(0, 200, 40):
    writer.write(np.full((48, 64, 3), (0, 0, level), np.uint8))  # blue first
writer.release()
means = vision.watch(lambda frame: frame.mean((0, 1)), sys.argv[1], newest=False)
print([[round(float(level) / 40) for level in seen.found] for seen in means])
for source in (7, sys.argv[2]):
    try:
        next(vision.watch(np.mean, source))
    except Exception as error:
        print(error)
"""


@pytest.mark.slow
def test_opencv_itself(tmp_path: Path) -> None:
    """A video, a camera that is not there, and a file that is no video, without a word of OpenCV's own."""
    (tmp_path / "text.mp4").write_text("words")
    script = f"import sys; sys.path.append({str(modules('nudenet'))!r}){VIDEO}"
    command = [sys.executable, "-c", script, str(tmp_path / "video.avi"), str(tmp_path / "text.mp4")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=500)
    assert (done.returncode, done.stderr) == (0, "")
    frames, camera, video = done.stdout.splitlines()
    assert frames == str([[k, 0, 0] for k in range(5)])
    assert camera.startswith("camera 7 gives no picture; is it connected")
    assert video.endswith("text.mp4 is no picture, and no video that OpenCV can read")


@pytest.mark.nightly
def test_memory_stays(tmp_path: Path) -> None:
    """Nine thousand frames hold nothing back."""
    onnx.save(convolutional(), tmp_path / "model.onnx")
    done = subprocess.run(
        [sys.executable, "-c", GROWTH, str(tmp_path / "model.onnx")], capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    number, grown = map(int, done.stdout.split())
    assert number == 9999
    assert grown < FLAT


def test_drawing() -> None:
    pixels = np.arange(8 * 12 * 3, dtype=np.uint8).reshape(8, 12, 3)
    box = vision.Found("a", 0, 0.9, (2.0, 4.0, 18.0, 14.0))
    drawn = boxed(pixels, [box], 0.5)
    edge = np.zeros((8, 12), bool)
    edge[2:7, 1:9] = True
    edge[3:6, 2:8] = False
    assert (drawn[edge] == (230, 57, 70)).all()
    np.testing.assert_array_equal(drawn[~edge], pixels[~edge])
    mask = np.zeros((8, 12), np.uint8)
    mask[0] = 1
    np.testing.assert_array_equal(veiled(pixels, mask)[1:], pixels[1:])
    np.testing.assert_array_equal(veiled(pixels, mask)[0], (pixels[0] + np.array([29, 132, 181])) // 2)
    np.testing.assert_array_equal(placed(pixels, 4, 6), pixels[1::2, 1::2])
    wanted = pixels.reshape(4, 2, 6, 2, 3).astype(float).mean((1, 3))
    assert abs(resized(pixels, 4, 6) - wanted).max() <= 1
    assert resized(pixels, 8, 12) is pixels
