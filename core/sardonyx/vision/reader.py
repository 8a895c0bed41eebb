"""Text in pictures: one model finds lines, and another reads each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sardonyx.api.options import SessionOptions
from sardonyx.api.session import InferenceSession
from sardonyx.common.record import record
from sardonyx.errors import InvalidArgument
from sardonyx.passes.picture import ORDERS, Picture
from sardonyx.vision.pixels import PictureLike, pixels_of
from sardonyx.vision.regions import Rectangle, regions, smallest
from sardonyx.vision.runner import ModelLike
from sardonyx.vision.scaling import cut, scaled

Point: TypeAlias = tuple[float, float]

IMAGE = Picture("", mean=(127.5,), std=(127.5,), order="bgr")
"""How PP-OCR's models take pictures: -1 to 1, blue first."""
GRID = 32
"""What the sides of a picture are multiples of, where lines are looked for."""
LEAST = 3
"""Pixels below which a side of a region is noise, as DBNet's authors have it."""
TALL = 1.5
"""So many times as high as wide is a line that runs down."""
HEIGHT, STEP = 48, 160
"""A line's height where the model leaves it open, and what its width is a multiple of, so that few plans serve all."""
BLANK = 0
"""The class of no letter."""


@record(frozen=True)
class Line:
    """A line of text, how sure the model is of its letters, 0..1, and the corners of a rectangle around it in pixels of
    the picture: upper left, upper right, lower right, lower left, as the line is seen."""

    text: str
    score: float
    polygon: tuple[Point, Point, Point, Point]

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of the polygon."""
        across, down = zip(*self.polygon)
        return min(across), min(down), max(across), max(down)


class Reader:
    """Reads text: lines by a DBNet (Liao et al., 2020), letters by a model whose classes are letters (CTC; Graves et
    al., 2006), as PP-OCR's are.

    `det` takes [1, 3, h, w] and gives the share of text of each pixel, [1, 1, h, w]; `rec` takes [1, 3, h, w] and gives
    shares of letters, [1, steps, 1 + letters]. The longer side of a picture is shrunk to `longest` pixels before lines
    are looked for. A pixel has text from `ink` on, a line is one from a mean of `threshold` on, and is grown by
    `spread` times its area over its perimeter, since the model marks cores. `letters` are those of the classes from 1
    on, where `rec` does not tell them in its metadata as `character`. Texts of a mean score below `sure` are left out.
    `det_image` and `rec_image` say how pixels are normalized. Raises InvalidArgument where the models are of another
    kind.
    """

    def __init__(
        self,
        det: ModelLike,
        rec: ModelLike,
        *,
        longest: int = 960,
        ink: float = 0.3,
        threshold: float = 0.5,
        spread: float = 2.0,
        sure: float = 0.5,
        letters: Sequence[str] | None = None,
        det_image: Picture = IMAGE,
        rec_image: Picture = IMAGE,
        providers: Sequence[Any] | None = None,
        session: SessionOptions | None = None,
    ) -> None:
        if longest < GRID:
            raise InvalidArgument(f"longest={longest}: write at least {GRID} pixels")
        self._longest, self._ink, self._threshold, self._spread, self._sure = longest, ink, threshold, spread, sure
        self._images = det_image, rec_image
        self.sessions = [InferenceSession(model, session, providers=providers) for model in (det, rec)]
        for what, axes, each in zip(("finds lines", "reads them"), (4, 3), self.sessions):
            (fed, *_), (given, *_) = each.get_inputs(), each.get_outputs()
            if len(fed.shape or ()) != 4 or len(given.shape or ()) != axes:
                raise InvalidArgument(
                    f"the model that {what} takes {fed.shape} and gives {given.shape}, and not [1, 3, h, w] and "
                    f"{'[1, 1, h, w]' if axes == 4 else '[1, steps, classes]'}"
                )
        shape = self.sessions[1].get_inputs()[0].shape
        self._height, self._width = (size if isinstance(size, int) else 0 for size in shape[2:])
        self._letters = self._alphabet(letters)

    def read(self, picture: PictureLike, order: str = "rgb") -> list[Line]:
        """The lines of a picture (a path, a file's bytes, Pillow's image, an array), as they are read: from top to
        bottom, and in a row from left to right.

        `order` is that of an array's channels, "rgb" or "bgr". Raises InvalidArgument for what is no picture.
        """
        pixels = pixels_of(picture, order)
        height, width = pixels.shape[:2]
        lines = []
        for corners in self.find(pixels):
            text, score = self._text(pixels, corners)
            if text and score >= self._sure:
                first, second, third, fourth = map(tuple, corners.clip(0, (width, height)).tolist())
                lines.append(Line(text, score, (first, second, third, fourth)))
        return _as_read(lines)

    def find(self, pixels: NDArray[np.uint8]) -> Iterator[NDArray[np.float64]]:
        """The corners [4, 2] of lines in pixels [height, width, 3]; they may lie outside."""
        sides = np.array(pixels.shape[:2])
        scale = min(1.0, self._longest / sides.max())
        height, width = (max(GRID, round(side * scale / GRID) * GRID) for side in sides.tolist())
        shares = self._run(0, scaled(pixels, height, width))
        if shares.ndim != 4 or shares.shape[1] != 1:
            raise InvalidArgument(f"the model that finds lines gives {list(shares.shape)}, and not [1, 1, h, w]")
        found = shares[0, 0]
        factors = sides[::-1] / np.array(found.shape[::-1])
        for points in regions(found > self._ink):
            core = smallest(points).grown(0.5)  # from the middles of pixels to their edges
            if min(core.width, core.height) < LEAST or _mean(found, core) < self._threshold:
                continue
            distance = core.width * core.height * self._spread / (2 * (core.width + core.height))
            yield (core.grown(distance).corners() + 0.5) * factors

    def _text(self, pixels: NDArray[np.uint8], corners: NDArray[np.float64]) -> tuple[str, float]:
        """The letters within corners, and how sure the model is; of letters that repeat one is left, and no blanks."""
        across, down = (float(np.hypot(*(corners[k] - corners[0]))) for k in (1, 3))
        if down >= TALL * across:  # letters' heads are on the right: what is there becomes the first row
            corners, across, down = np.roll(corners, -1, axis=0), down, across
        line = cut(pixels, corners, max(1, round(down)), max(1, round(across)))
        height = self._height or HEIGHT
        width = max(1, round(height * across / down))
        whole = self._width or max(2 * STEP, -(-width // STEP) * STEP)
        width = min(width, whole)
        shares = self._run(1, scaled(line, height, width), whole)[0]
        if shares.ndim != 2 or shares.shape[1] != len(self._letters):
            raise InvalidArgument(
                f"the model that reads lines gives {list(shares.shape)}, and there are {len(self._letters) - 1} "
                "letters: say letters="
            )
        best, sure = shares.argmax(-1), shares.max(-1)
        text = "".join(self._letters[index] for index, _ in groupby(best.tolist()) if index != BLANK).strip()
        return text, float(sure[best != BLANK].mean()) if text else 0.0

    def _run(self, number: int, pixels: NDArray[np.float32], width: int = 0) -> NDArray[np.float32]:
        """The output for pixels [h, w, 3], with columns of zeros up to a width."""
        image, session = self._images[number], self.sessions[number]
        mean, std = np.array(image.mean, np.float32), np.array(image.std, np.float32)
        normal = (pixels[:, :, ORDERS[image.order]] - mean) / std
        x = np.zeros((1, 3, pixels.shape[0], max(width, pixels.shape[1])), np.float32)
        x[0, :, :, : pixels.shape[1]] = normal.transpose(2, 0, 1)
        result: NDArray[np.float32] = session.run(None, {session.get_inputs()[0].name: x})[0]
        return result

    def _alphabet(self, letters: Sequence[str] | None) -> list[str]:
        """The letters of all classes; a space is the last one where the model has one class more."""
        told = letters
        if told is None:
            text = self.sessions[1].get_modelmeta().custom_metadata_map.get("character", "")
            if not text:
                raise InvalidArgument("the model that reads lines does not tell its letters: say letters=")
            told = text.splitlines()
        count = self.sessions[1].get_outputs()[0].shape[-1]
        return ["", *told, *([" "] if count == len(told) + 2 else [])]


def _mean(shares: NDArray[np.float32], core: Rectangle) -> float:
    """The mean share of the pixels whose middles lie in a rectangle."""
    corners = core.corners()
    low = np.floor(corners.min(0)).astype(int).clip(0)
    high = np.ceil(corners.max(0)).astype(int) + 1
    part = shares[low[1] : high[1], low[0] : high[0]]
    rows, columns = np.indices(part.shape)
    inside = core.holds(np.stack([columns + low[0], rows + low[1]], -1).astype(np.float64))
    return float(part[inside].mean()) if inside.any() else 0.0


def _as_read(lines: list[Line]) -> list[Line]:
    """Rows from top to bottom: lines are of one whose middles are less than half a line's height apart."""
    tops = sorted(lines, key=lambda line: line.box[1] + line.box[3])
    if not tops:
        return []
    height = float(np.median([np.hypot(*np.subtract(line.polygon[3], line.polygon[0])) for line in tops]))
    rows: list[list[Line]] = [[tops[0]]]
    for line in tops[1:]:
        before = rows[-1][-1]
        apart = (line.box[1] + line.box[3] - before.box[1] - before.box[3]) / 2
        if apart < height / 2:
            rows[-1].append(line)
        else:
            rows.append([line])
    return [line for row in rows for line in sorted(row, key=lambda line: line.box[0])]


def read(det: ModelLike, rec: ModelLike, picture: PictureLike, order: str = "rgb", **options: Any) -> list[Line]:
    """The lines of one picture; for more of them keep a `Reader`, whose options these are."""
    return Reader(det, rec, **options).read(picture, order)
