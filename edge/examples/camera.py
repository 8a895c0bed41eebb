"""Say which digit is held before the camera: a Raspberry Pi's, one on USB, or the pictures that are named instead.

Without a camera and without pictures it takes one of the demo's.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

import sardonyx as ort
from sardonyx.demo import assets, digits, picture, pictures
from sardonyx.errors import SardonyxError

Frame = npt.NDArray[np.uint8]
SIZE = (640, 480)
PAUSE = 1.0
"""Seconds between two frames."""


def main() -> None:
    names = arguments(__doc__)
    session = ort.InferenceSession(str(assets() / "digits.onnx"))
    try:
        for frame in frames(names):
            digit, probability = recognise(session, frame)
            print(f"{digit} ({probability:.0%})", flush=True)
    except (OSError, SardonyxError) as error:  # systemd starts the program again
        sys.exit(str(error))


def arguments(about: str | None) -> list[str]:
    """The pictures that are named on the command line."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("pictures", metavar="PICTURE", nargs="*", help="a PNG, or with Pillow whatever that reads")
    names: list[str] = parser.parse_args().pictures
    return names


def recognise(session: ort.InferenceSession, frame: Frame) -> tuple[int, float]:
    """The most probable digit in a picture, uint8 [H, W, C], and its probability."""
    (probabilities,) = session.run(None, {"image": digits.digit(frame)})
    return int(probabilities.argmax()), float(probabilities.max())


def frames(names: list[str]) -> Iterator[Frame]:
    """The pictures of these names; without names what a camera sees, for ever, or the demo's picture of a 7."""
    if names:
        yield from map(pictures.read, names)
        return
    for camera in (picamera, usb):
        try:
            seen = camera()
            frame = next(seen)
        except (ImportError, LookupError, OSError, RuntimeError) as error:
            print(f"no camera of {camera.__name__}: {error}", file=sys.stderr)
            continue
        while True:
            yield frame
            time.sleep(PAUSE)
            frame = next(seen)
    yield pictures.read(picture("7_drawn.png"))


def picamera() -> Iterator[Frame]:
    """A Raspberry Pi's own camera."""
    from picamera2 import Picamera2

    with Picamera2() as camera:
        camera.configure(camera.create_preview_configuration({"size": SIZE, "format": "BGR888"}))  # RGB in memory
        camera.start()
        while True:
            yield camera.capture_array()


def usb() -> Iterator[Frame]:
    """The first camera of the system, by OpenCV."""
    import cv2

    camera = cv2.VideoCapture(0)
    camera.set(cv2.CAP_PROP_BUFFERSIZE, 1)  # else frames are as old as the buffer is long
    while True:
        good, frame = camera.read()
        if not good:
            raise OSError("the camera gives no picture")
        yield frame[..., ::-1]  # OpenCV has blue first


if __name__ == "__main__":
    main()
