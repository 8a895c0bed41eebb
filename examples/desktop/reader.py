"""What finds text and objects in pictures: open models (PP-OCRv4), a detector, or the demonstration's of digits."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from sardonyx import InferenceSession, vision
from sardonyx.demo import assets, digits, pictures
from sardonyx.errors import EPFail
from sardonyx.providers import registry
from sardonyx.providers.registry import CPU, WEBGPU
from sardonyx.web.archive import downloaded, member

PACKAGE, VERSION = "rapidocr-onnxruntime", "1.4.4"
MODELS = {
    "ch_PP-OCRv4_det_infer.onnx": "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
    "ch_PP-OCRv4_rec_infer.onnx": "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
}
"""The files that find lines and read them, and their SHA-256. Apache-2.0, by PaddlePaddle."""
FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sardonyx-desktop"
"""Where models are kept, unless a folder is given."""


@dataclass(frozen=True)
class Found:
    """A text or an object, how sure of it the model is, 0..1, and the corners of its outline in pixels of the picture,
    the upper left first; `number` is the class of an object, None of a text."""

    text: str
    share: float
    polygon: Sequence[tuple[float, float]]
    number: int | None = None


@dataclass(frozen=True)
class Reading:
    """What is in a picture, how long finding it took, in seconds, and whether a model had to be compiled."""

    picture: Image.Image
    found: list[Found]
    seconds: float
    compiled: bool


def download() -> None:
    """Fetch the models with pip. Raises CalledProcessError or OSError where that fails."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with downloaded("pypi", PACKAGE, VERSION) as archive:
        for name, digest in MODELS.items():
            (FOLDER / name).write_bytes(member(archive, name, digest))


def gpu() -> str:
    """The name of the GPU, "" where there is none but the processor."""
    try:
        provider: Any = registry.load(WEBGPU)
        device = provider.device({})
        return "" if provider.is_software(device) else str(device.gpu.adapter.name)
    except EPFail:
        return ""


class Reader:
    """Says what is in pictures: their lines of text, where a folder is given or the models were fetched; objects, where
    a detector is given; one digit where there is neither."""

    def __init__(self, folder: Path | None, provider: str | None = None, detector: Path | None = None) -> None:
        folder = folder or (FOLDER if all((FOLDER / name).is_file() for name in MODELS) else None)
        name = gpu() if provider in (None, WEBGPU) else ""
        providers = [*([provider] if provider else [WEBGPU] * bool(name)), CPU]
        self._text = self._detector = self._digits = None
        self.sessions: list[InferenceSession] = []
        if folder:
            det, rec = (folder / name for name in MODELS)
            self._text = vision.Reader(det, rec, providers=providers)
            self.sessions += self._text.sessions
        if detector:
            self._detector = vision.Detector(detector, providers=providers)
            self.sessions.append(self._detector.session)
        if not self.sessions:
            self._digits = InferenceSession((assets() / "digits.onnx").read_bytes(), providers=providers)
            self.sessions.append(self._digits)
        self.device = " · ".join(filter(None, (self.sessions[0].get_providers()[0], name)))
        self.readstext = self._text is not None
        parts = ["text"] * self.readstext + ["objects"] * (self._detector is not None)
        self.finds = " and ".join(parts) or "a digit"

    def read(self, picture: Image.Image) -> Reading:
        """What is in a picture in RGB: objects, the surest first, then lines from top to bottom."""
        plans, start = self._plans, time.perf_counter()
        found = [*self._objects(picture), *self._lines(picture), *self._digit(picture)]
        return Reading(picture, found, time.perf_counter() - start, self._plans > plans)

    @property
    def _plans(self) -> int:
        return sum(session.compiled for session in self.sessions)

    def _objects(self, picture: Image.Image) -> Iterator[Found]:
        for each in self._detector.detect(picture) if self._detector else ():
            yield Found(each.label, each.score, corners(each.box), each.number)

    def _lines(self, picture: Image.Image) -> Iterator[Found]:
        for line in self._text.read(picture) if self._text else ():
            yield Found(line.text, line.score, line.polygon)

    def _digit(self, picture: Image.Image) -> Iterator[Found]:
        if self._digits is None:
            return
        pixels = pictures.of_image(picture)
        (shares,) = self._digits.run(None, {"image": digits.digit(pixels)})
        gray = pictures.gray(pixels).astype(int)
        ink = abs(gray - np.median(gray))
        down, across = (np.flatnonzero((ink > max(16, ink.max() / 2)).any(axis)) for axis in (1, 0))
        if len(down):
            box = float(across[0]), float(down[0]), float(across[-1] + 1), float(down[-1] + 1)
            yield Found(str(shares.argmax()), float(shares.max()), corners(box))


def corners(box: tuple[float, float, float, float]) -> list[tuple[float, float]]:
    """Those of a box (left, top, right, bottom), clockwise.

    >>> corners((0, 1, 2, 3))
    [(0, 1), (2, 1), (2, 3), (0, 3)]
    """
    left, top, right, bottom = box
    return [(left, top), (right, top), (right, bottom), (left, bottom)]
