"""Where frames come from: cameras, folders, videos; uint8 [height, width, 3], red first. Nothing looks at them here."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sardonyx.common import extras
from sardonyx.common.record import record
from sardonyx.errors import Fail, NoSuchFile
from sardonyx.host import pictures
from sardonyx.vision.pixels import pixels_of

Frame: TypeAlias = NDArray[np.uint8]

CAMERA = "camera"
OPENCV = "opencv-python-headless"
SIZE = (640, 480)
"""Width and height that a Raspberry Pi's camera is asked for."""
QUIET = {"OPENCV_LOG_LEVEL": "FATAL", "OPENCV_FFMPEG_LOGLEVEL": "-8"}
"""OpenCV reads them when it is imported."""
BEGINNING = 16
"""Bytes by which formats of pictures are told apart."""


@record(frozen=True)
class Frames:
    """Frames of a source by its `name`; those of a `live` one come whether somebody looks or not."""

    name: str
    each: Iterator[Frame]
    live: bool


def frames_of(source: str | int | os.PathLike[str], paced: bool = True) -> Frames:
    """The frames of a source, which is opened when the first is asked for.

    "camera" is the Raspberry Pi's own if picamera2 is there, else OpenCV's first; a number is one of OpenCV's; an
    address with :// is a stream. Else it is the path of a folder, whose pictures come in the order of their names, of
    a picture, or of a video; a video that is `paced` comes as fast as it was taken, and is live.

    Raises NoSuchFile where there is no such path, or the folder has no pictures.
    """
    text = os.fspath(source) if isinstance(source, os.PathLike) else str(source)
    if text == CAMERA:
        return Frames("the camera", _camera(), True)
    if text.isdecimal():
        return Frames(f"camera {text}", _opencv(int(text), f"camera {text}"), True)
    if "://" in text:
        return Frames(text, _opencv(text, text), True)
    path = Path(text)
    if path.is_dir():
        return Frames(text, map(_picture, _listed(path)), False)
    if not path.exists():
        raise NoSuchFile(f"{text}: there is no such folder, picture or video; a camera is {CAMERA!r} or a number")
    if pictures.format_of(_beginning(path)) is not None:
        return Frames(text, map(_picture, [path]), False)
    return Frames(text, _video(text, paced), paced)


def _picture(path: Path) -> Frame:
    return pixels_of(path)


def _listed(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.iterdir() if path.is_file())
    found = [path for path in files if pictures.format_of(_beginning(path)) is not None]
    if not found:
        raise NoSuchFile(f"{folder} has no pictures in it")
    return found


def _beginning(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(BEGINNING)
    except OSError as error:
        raise NoSuchFile(f"{path} cannot be read: {error.strerror}") from error


def _camera() -> Iterator[Frame]:
    """A Raspberry Pi's own camera, or the first of OpenCV."""
    try:
        from picamera2 import Picamera2
    except ImportError:
        yield from _opencv(0, "the camera")
        return
    try:
        camera = Picamera2()
    except (IndexError, RuntimeError) as error:  # none is connected, or another program has it
        raise Fail(f"picamera2 finds no camera ({error}); connect one, or name another source") from error
    with camera:
        camera.configure(camera.create_preview_configuration({"size": SIZE, "format": "BGR888"}))  # RGB in memory
        camera.start()
        while True:
            try:
                frame = camera.capture_array()
            except Exception as error:  # libcamera's errors have no base of their own
                raise Fail(f"the camera was lost ({error}); is its cable tight?") from error
            yield frame


def _opencv(number: int | str, name: str) -> Iterator[Frame]:
    """A camera or a stream of OpenCV, without end."""
    cv2 = _cv2(name)
    capture = cv2.VideoCapture(number)
    try:
        capture.set(cv2.CAP_PROP_BUFFERSIZE, 1)  # else frames are as old as the buffer is long
        good, frame = capture.read()
        if not good:
            raise Fail(f"{name} gives no picture; is it connected, and free, and may it be used?")
        while good:
            yield cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)
            good, frame = capture.read()
        raise Fail(f"{name} was lost: it gives no picture any more; is it still connected?")
    finally:
        capture.release()


def _video(path: str, paced: bool) -> Iterator[Frame]:
    cv2 = _cv2(path)
    capture = cv2.VideoCapture(path)
    try:
        good, frame = capture.read()
        if not good:
            raise Fail(f"{path} is no picture, and no video that OpenCV can read")
        seconds = 1 / rate if paced and (rate := capture.get(cv2.CAP_PROP_FPS)) > 0 else 0.0
        due = time.monotonic()
        while good:
            yield cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)
            due += seconds
            time.sleep(max(0.0, due - time.monotonic()))
            good, frame = capture.read()
    finally:
        capture.release()


def _cv2(name: str) -> Any:
    """OpenCV, which says nothing of its own on stderr; Fail where it is missing."""
    for variable, quiet in QUIET.items():
        os.environ.setdefault(variable, quiet)
    try:
        import cv2
    except ImportError:
        board = ", or on a Raspberry Pi sudo apt install python3-picamera2 python3-opencv"
        raise Fail(f"{name}: {extras.missing(OPENCV)}{board if name == 'the camera' else ''}") from None
    return cv2
