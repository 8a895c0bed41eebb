"""Say which digit is held before the camera: a Raspberry Pi's, one on USB, or the pictures that are named instead.

Without a camera and without pictures it takes one of the demo's. `camera` in their place wants a camera to be there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

import sardonyx as ort
from sardonyx import vision
from sardonyx.demo import assets, digits, picture, pictures
from sardonyx.errors import SardonyxError

CAMERA = "camera"
RATE = 1.0
"""Frames of the camera in a second."""


def main() -> None:
    names = arguments(__doc__)
    try:
        for digit, probability in recognised(names):
            print(f"{digit} ({probability:.0%})", flush=True)
    except SardonyxError as error:  # systemd starts the program again
        sys.exit(str(error))


def arguments(about: str | None) -> list[str]:
    """The pictures that are named on the command line."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument(
        "pictures", metavar="PICTURE", nargs="*", help="a PNG, or with Pillow whatever that reads; or camera"
    )
    names: list[str] = parser.parse_args().pictures
    return names


def recognise(session: ort.InferenceSession, frame: npt.NDArray[np.uint8]) -> tuple[int, float]:
    """The most probable digit in a picture, uint8 [H, W, C], and its probability."""
    (probabilities,) = session.run(None, {"image": digits.digit(frame)})
    return int(probabilities.argmax()), float(probabilities.max())


def recognised(names: list[str]) -> Iterator[tuple[int, float]]:
    """Digits in the pictures of these names; without names what a camera sees, for ever, or the demo's 7.

    `camera` alone is no picture: SardonyxError where there is none.
    """
    look = partial(recognise, ort.InferenceSession(str(assets() / "digits.onnx")))
    if names and names != [CAMERA]:
        yield from map(look, map(pictures.read, names))
        return
    with vision.watch(look, rate=RATE) as watcher:
        try:
            yield next(watcher).found
        except SardonyxError as error:
            if names:
                raise
            print(error, file=sys.stderr)
            yield look(pictures.read(picture("7_drawn.png")))
            return
        for seen in watcher:
            yield seen.found


if __name__ == "__main__":
    main()
