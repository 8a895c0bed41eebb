"""Where pictures come from, in RGB: a file, the screen, a camera. What goes wrong is an OSError with a remedy."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from PIL import Image, ImageGrab, ImageOps

REMEDIES = {
    "linux": "under Wayland, install gnome-screenshot, spectacle or grim",
    "darwin": "allow it under System Settings, Privacy and Security, Screen Recording",
}


def file(path: Path) -> Iterator[Image.Image]:
    """The picture of a file, upright."""
    try:
        with Image.open(path) as picture:
            yield ImageOps.exif_transpose(picture).convert("RGB")
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise OSError(f"{path.name} cannot be read as a picture: {error}") from error


def screen() -> Iterator[Image.Image]:
    """All that the screen shows, once."""
    try:
        yield ImageGrab.grab().convert("RGB")
    except Exception as error:  # each system has its own
        remedy = REMEDIES.get(sys.platform, "try again with the screen unlocked")
        raise OSError(f"The screen cannot be read ({error}); {remedy}") from error


def camera(number: int = 0) -> Iterator[Image.Image]:
    """A camera's pictures, without end."""
    try:
        import cv2
    except ImportError:
        raise OSError("The camera needs OpenCV: pip install opencv-python-headless") from None
    capture = cv2.VideoCapture(number)
    try:
        while True:
            there, pixels = capture.read()
            if not there:
                raise OSError(f"Camera {number} gives no picture; is it connected, and free, and may it be used?")
            yield Image.fromarray(pixels[:, :, ::-1])
    finally:
        capture.release()
