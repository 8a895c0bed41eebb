"""What finds text in pictures: two open models (PP-OCRv4), or without them the demonstration's of digits."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sardonyx import InferenceSession
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
LONGEST = 960
"""To how many pixels the longer side of a picture is shrunk before text is looked for."""
INK, SURE = 0.3, 0.5
"""The least share of text of a pixel, and on average of a line."""
SPREAD = 2.0
"""How far lines are grown: the model marks their core, area / perimeter smaller than they are (Liao et al., 2020)."""
HEIGHT, STEP = 48, 160
"""A line's height when it is read, and what its width is a multiple of, so that few plans serve all."""


@dataclass(frozen=True)
class Found:
    """A text, how sure of it the model is, 0..1, and its box (left, top, right, bottom) in pixels of the picture."""

    text: str
    share: float
    box: tuple[float, float, float, float]


@dataclass(frozen=True)
class Reading:
    """What a picture says, how long each of the models' runs took, in seconds, and whether one had to be compiled."""

    picture: Image.Image
    found: list[Found]
    seconds: list[float]
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
    """Reads pictures: their lines of text, or one digit where no folder is given and the models were never fetched."""

    def __init__(self, folder: Path | None, provider: str | None = None) -> None:
        folder = folder or (FOLDER if all((FOLDER / name).is_file() for name in MODELS) else None)
        name = gpu() if provider in (None, WEBGPU) else ""
        wanted = [provider] if provider else [WEBGPU] * bool(name)
        files = [folder / name for name in MODELS] if folder else [assets() / "digits.onnx"]
        self.sessions = [InferenceSession(file.read_bytes(), providers=[*wanted, CPU]) for file in files]
        self.device = " · ".join(filter(None, (self.sessions[0].get_providers()[0], name)))
        self.finds = "text" if folder else "a digit"
        if folder:
            letters = self.sessions[1].get_modelmeta().custom_metadata_map["character"].splitlines()
            self._letters = ["", *letters, " "]
        self._seconds: list[float] = []

    @property
    def _plans(self) -> int:
        return sum(session.compiled for session in self.sessions)

    def read(self, picture: Image.Image) -> Reading:
        """What a picture in RGB says, from top to bottom."""
        self._seconds = []
        plans = self._plans
        found = self._text(picture) if len(self.sessions) == 2 else self._digit(picture)
        return Reading(picture, found, self._seconds, self._plans > plans)

    def _run(self, number: int, x: NDArray[np.float32]) -> NDArray[np.float32]:
        session, start = self.sessions[number], time.perf_counter()
        (result,) = session.run(None, {session.get_inputs()[0].name: x})
        self._seconds.append(time.perf_counter() - start)
        return result

    def _digit(self, picture: Image.Image) -> list[Found]:
        shares = self._run(0, digits.digit(pictures.of_image(picture)))[0]
        gray = pictures.gray(pictures.of_image(picture)).astype(int)
        ink = abs(gray - np.median(gray))
        down, across = (np.flatnonzero((ink > max(16, ink.max() / 2)).any(axis)) for axis in (1, 0))
        if not len(down):
            return []
        box = float(across[0]), float(down[0]), float(across[-1] + 1), float(down[-1] + 1)
        return [Found(str(shares.argmax()), float(shares.max()), box)]

    def _text(self, picture: Image.Image) -> list[Found]:
        scale = min(1.0, LONGEST / max(picture.size))
        width, height = (max(32, round(side * scale / 32) * 32) for side in picture.size)
        across, down = picture.width / width, picture.height / height
        shares = self._run(0, signal(picture.resize((width, height), Image.Resampling.BILINEAR)))[0, 0]
        found = []
        for left, top, right, bottom in regions(shares > INK):
            if min(right - left, bottom - top) < 3 or shares[top:bottom, left:right].mean() < SURE:
                continue
            grow = SPREAD * (right - left) * (bottom - top) / (2 * (right - left + bottom - top))
            box = (left - grow) * across, (top - grow) * down, (right + grow) * across, (bottom + grow) * down
            text, share = self._line(picture.crop(tuple(map(round, box))))
            if text and share >= SURE:
                found.append(Found(text, share, box))
        tall = np.median([each.box[3] - each.box[1] for each in found]) if found else 1
        return sorted(found, key=lambda each: (round((each.box[1] + each.box[3]) / tall), each.box[0]))

    def _line(self, line: Image.Image) -> tuple[str, float]:
        """The letters of a line, and how sure the model is; of letters that repeat one is left, and no blanks (CTC)."""
        width = max(1, round(HEIGHT * line.width / line.height))
        x = np.zeros((1, 3, HEIGHT, max(2 * STEP, -(-width // STEP) * STEP)), np.float32)
        x[..., :width] = signal(line.resize((width, HEIGHT), Image.Resampling.BILINEAR))
        shares = self._run(1, x)[0]
        best, sure = shares.argmax(-1), shares.max(-1)
        text = "".join(self._letters[index] for index, _ in groupby(best)).strip()
        return text, float(sure[best > 0].mean()) if text else 0.0


def signal(picture: Image.Image) -> NDArray[np.float32]:
    """A picture as the models take it: [1, 3, height, width] in blue, green and red, -1 to 1."""
    return np.asarray(picture, np.float32)[:, :, ::-1].transpose(2, 0, 1)[None] / 127.5 - 1


def regions(mask: NDArray[np.bool_]) -> Iterator[tuple[int, int, int, int]]:
    """The boxes (left, top, right, bottom) of connected pixels, by where they end.

    >>> mask = np.array([[1, 0, 1, 0], [1, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]], bool)
    >>> list(regions(mask))
    [(0, 0, 3, 2), (3, 3, 4, 4)]
    """
    open_: list[tuple[list[int], list[list[int]]]] = []  # boxes, and their runs in the row above
    for y, row in enumerate([*mask, np.zeros(mask.shape[1], bool)]):
        edges = np.flatnonzero(np.diff(row, prepend=False, append=False)).reshape(-1, 2).tolist()
        going = [([start, y, stop, y + 1], [[start, stop]]) for start, stop in edges]
        for box, above in open_:
            touched = [each for each in going if any(a < d and c < b for a, b in above for c, d in each[1])]
            if not touched:
                yield box[0], box[1], box[2], box[3]
                continue
            (whole, runs), *others = touched
            boxes = [box, whole, *(other for other, _ in others)]
            starts, ends = ([edge(box[k] for box in boxes) for k in at] for edge, at in ((min, (0, 1)), (max, (2, 3))))
            whole[:] = [*starts, *ends]
            runs += [run for _, more in others for run in more]
            going = [each for each in going if each not in others]
        open_ = going
