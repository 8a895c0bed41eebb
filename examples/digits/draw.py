"""Draws digits as a hand would: smooth, thick, slightly shaky strokes, no font. `python draw.py` writes the pictures.

The digits are skeletons of a few points each; chance bends, slants, stretches and turns them. Besides the pictures
in this folder it gives `train.py` a test set of another origin than the training data.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Points = list[tuple[float, float]]
Color = tuple[int, int, int]

HOOK: Points = [(0.05, 0.25), (0.3, -0.04), (0.85, -0.02), (0.98, 0.35), (0.6, 0.65)]
LOOP: Points = [(0.92, 0.18), (0.6, -0.05), (0.15, 0.05), (0.08, 0.4), (0.45, 0.58), (0.85, 0.4), (0.92, 0.18)]
BELLY: Points = [(0.98, 0.5), (1.0, 0.9), (0.5, 1.06), (0.05, 0.86)]
CURL: Points = [(0.92, 0.7), (0.6, 0.45), (0.2, 0.6), (0.1, 0.8)]
RISE: Points = [(0.5, 1.1), (0.02, 0.88), (0.25, 0.55), (0.75, 0.4), (0.88, 0.1), (0.6, -0.02)]

# Skeletons by digit: one entry a way of writing it, each a list of strokes, whose points (x, y) guide a curve in a
# unit square, y down. A point given twice is a corner.
SKELETONS: dict[int, list[list[Points]]] = {
    0: [
        [[(0.6, 0.0), (0.2, 0.02), (0.0, 0.45), (0.15, 0.98), (0.6, 1.06), (0.97, 0.7), (0.9, 0.15), (0.5, -0.02)]],
    ],
    1: [
        [[(0.52, 0.0), (0.5, 0.5), (0.5, 1.0)]],
        [[(0.25, 0.25), (0.55, 0.0), (0.55, 0.0), (0.54, 0.5), (0.55, 1.0)]],
        [[(0.25, 0.22), (0.52, 0.0), (0.52, 0.0), (0.52, 0.5), (0.5, 1.0)], [(0.22, 1.0), (0.5, 1.0), (0.8, 0.99)]],
    ],
    2: [
        [[*HOOK, (0.05, 1.0), (0.05, 1.0), (0.5, 0.98), (0.97, 0.99)]],
        [[*HOOK, (0.2, 1.05), (-0.05, 0.95), (0.1, 0.75), (0.55, 0.95), (0.97, 0.97)]],
    ],
    3: [
        [[(0.1, 0.12), (0.4, -0.06), (0.95, 0.02), (0.85, 0.4), (0.35, 0.46), (0.35, 0.46), *BELLY]],
        [[(0.1, 0.0), (0.85, 0.0), (0.85, 0.0), (0.45, 0.4), (0.45, 0.4), *BELLY]],
    ],
    4: [
        [[(0.3, 0.0), (0.08, 0.6), (0.08, 0.6), (0.92, 0.58)], [(0.68, 0.25), (0.66, 0.65), (0.66, 1.0)]],
        [[(0.68, 1.0), (0.68, 0.5), (0.68, 0.0), (0.68, 0.0), (0.05, 0.66), (0.05, 0.66), (0.97, 0.65)]],
    ],
    5: [
        [[(0.22, 0.0), (0.17, 0.45), (0.17, 0.45), (0.5, 0.33), *BELLY], [(0.22, 0.0), (0.55, 0.01), (0.88, 0.0)]],
    ],
    6: [
        [[(0.72, 0.0), (0.3, 0.25), (0.05, 0.75), (0.3, 1.06), (0.8, 1.02), *CURL]],
    ],
    7: [
        [[(0.05, 0.03), (0.9, 0.0), (0.9, 0.0), (0.55, 0.5), (0.38, 1.0)]],
        [[(0.05, 0.03), (0.92, 0.0), (0.92, 0.0), (0.6, 0.5), (0.4, 1.0)], [(0.28, 0.52), (0.55, 0.51), (0.85, 0.5)]],
    ],
    8: [
        [[(0.8, 0.12), (0.5, -0.06), (0.1, 0.05), (0.2, 0.4), (0.7, 0.55), (0.98, 0.85), *RISE]],
    ],
    9: [
        [[*LOOP, (0.92, 0.18), (0.88, 0.6), (0.82, 1.0)]],
        [[*LOOP, (0.95, 0.6), (0.75, 1.05), (0.2, 0.93)]],
    ],
}
OVERSAMPLE = 4

# (digit, way of writing, size, pen, ink, paper)
PICTURES: list[tuple[int, int, tuple[int, int], float, Color, Color]] = [
    (0, 0, (280, 280), 0.10, (255, 255, 255), (0, 0, 0)),
    (1, 1, (320, 400), 0.07, (28, 30, 38), (250, 249, 244)),
    (2, 0, (400, 400), 0.06, (24, 44, 120), (248, 246, 238)),
    (3, 0, (280, 280), 0.12, (255, 255, 255), (0, 0, 0)),
    (4, 0, (480, 360), 0.07, (240, 240, 228), (30, 62, 50)),
    (5, 0, (640, 480), 0.06, (20, 20, 20), (255, 255, 255)),
    (6, 0, (300, 300), 0.09, (255, 214, 92), (36, 36, 44)),
    (7, 1, (640, 480), 0.05, (150, 28, 36), (252, 250, 246)),
    (8, 0, (280, 280), 0.08, (255, 255, 255), (0, 0, 0)),
    (9, 0, (360, 480), 0.07, (52, 52, 60), (236, 232, 220)),
]


def draw(
    digit: int,
    way: int,
    rng: np.random.Generator,
    *,
    size: tuple[int, int] = (280, 280),
    pen: float = 0.08,
    ink: Color = (255, 255, 255),
    paper: Color = (0, 0, 0),
) -> Image.Image:
    """A digit, written in way `way` of `SKELETONS`, as an RGB picture of `size` (width, height) pixels.

    The pen's width is `pen` times the shorter side; `rng` decides everything else.
    """
    pixels = np.array(size) * OVERSAMPLE
    extent = pixels.min() * rng.uniform(0.55, 0.68)
    angle, slant, narrow = rng.normal(0, 0.07), rng.normal(-0.12, 0.1), rng.uniform(0.6, 0.8)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    shape = np.array([[narrow, 0], [slant, 1]]) @ turn * extent
    middle = pixels / 2 + rng.normal(0, 0.03, 2) * pixels
    mask = Image.new("L", (int(pixels[0]), int(pixels[1])))
    canvas = ImageDraw.Draw(mask)
    for skeleton in SKELETONS[digit][way]:
        points = np.array(skeleton)
        moved = rng.normal(0, 0.022, points.shape)
        same = np.flatnonzero((points[1:] == points[:-1]).all(axis=1))
        moved[same + 1] = moved[same]
        path = _spline((points + moved - 0.5) @ shape + middle)
        path = path + _wander(len(path), rng) * 0.006 * extent
        radius = pixels.min() * pen / 2 * (1 + 0.1 * _wander(len(path), rng)[:, :1])
        for low, high in zip(path - radius, path + radius, strict=True):
            canvas.ellipse([*low.tolist(), *high.tolist()], fill=255)
    mask = mask.reduce(OVERSAMPLE)
    return Image.composite(Image.new("RGB", size, ink), Image.new("RGB", size, paper), mask)


def _spline(points: NDArray[np.float64], steps: int = 48) -> NDArray[np.float64]:
    """The uniform cubic B-spline of [n, 2] points, from the first to the last, as a dense polyline."""
    padded = np.vstack([2 * points[0] - points[1], points, 2 * points[-1] - points[-2]])
    t = np.linspace(0, 1, steps, endpoint=False)[:, None]
    pieces = [
        ((1 - t) ** 3 * a + (3 * t**3 - 6 * t**2 + 4) * b + (1 + 3 * t + 3 * t**2 - 3 * t**3) * c + t**3 * d) / 6
        for a, b, c, d in zip(padded, padded[1:], padded[2:], padded[3:])
    ]
    return np.vstack([*pieces, points[-1:]])


def _wander(length: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Smooth noise [length, 2] of unit scale: what a hand adds."""
    knots = rng.normal(0, 1, (max(length // 40, 2), 2))
    at, where = np.linspace(0, len(knots) - 1, length), np.arange(len(knots))
    return np.stack([np.interp(at, where, column) for column in knots.T], axis=1)


def main() -> None:
    """Writes `images/<digit>_drawn.png` beside this file, one picture for each entry of `PICTURES`."""
    for digit, way, size, pen, ink, paper in PICTURES:
        image = draw(digit, way, np.random.default_rng(10 + digit), size=size, pen=pen, ink=ink, paper=paper)
        path = Path(__file__).with_name("images") / f"{digit}_drawn.png"
        image.quantize(32, dither=Image.Dither.NONE).save(path, optimize=True)
        print(f"{path.name}: {size[0]}x{size[1]}, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
