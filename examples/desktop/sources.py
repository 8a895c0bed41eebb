"""Where pictures come from, in RGB: a file, the screen, a camera. What goes wrong is said with a remedy."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from PIL import Image, ImageGrab, ImageOps

from sardonyx import vision

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


def camera() -> Iterator[Image.Image]:
    """A camera's newest picture, again and again; those that come while one is read are dropped."""
    with vision.watch(Image.fromarray) as watcher:
        for seen in watcher:
            yield seen.found
