"""Draws scenes with shapes, as a pen, a brush or scissors would make them: the data of `train.py`.

A scene has up to six shapes of `SHAPES` on paper, on a table or before a wall, among lines, words and blots that are
none. Light falls on it from a side, and a camera adds blur and noise. `python draw.py` shows some, in `scenes.png`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageFont

Points = NDArray[np.float64]
Color = tuple[int, int, int]

SHAPES = ("circle", "square", "triangle", "star", "heart", "cross")
SIDE = 160
"""Height and width of a scene in pixels."""
OVERSAMPLE = 2
MOST = 6
"""Shapes in a scene."""
FREE = 1.15
"""How far boxes are grown before they may touch each other."""
WORDS = ("menu", "2026", "A4", "Q", "sale", "x = y", "Mo Tu We", "www", "&", "7", "No.")


def outline(name: str, rng: np.random.Generator) -> Points:
    """The corners of a shape, or points along it, [n, 2] around 0 in a circle of radius 1, y down."""
    if name == "circle":
        angles = np.linspace(0, 2 * np.pi, 48, endpoint=False)
        return np.stack([np.cos(angles), np.sin(angles)], 1)
    if name == "square":
        return np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * 0.85
    if name == "triangle":
        tip = rng.uniform(-0.35, 0.35)
        return np.array([[tip, -1], [0.95, 0.75], [-0.95, 0.75]])
    if name == "star":
        angles = np.linspace(0, 2 * np.pi, 10, endpoint=False) - np.pi / 2
        radii = np.where(np.arange(10) % 2, rng.uniform(0.35, 0.52), 1)
        return np.stack([np.cos(angles), np.sin(angles)], 1) * radii[:, None]
    if name == "heart":
        t = np.linspace(0, 2 * np.pi, 48, endpoint=False)
        y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
        return np.stack([16 * np.sin(t) ** 3, -y - 2.5], 1) / 16
    arm = rng.uniform(0.25, 0.38)
    corner = np.array([[-arm, -1], [arm, -1], [arm, -arm]])
    turns = [np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]]) for a in np.arange(4) * np.pi / 2]
    return np.concatenate([corner @ turn for turn in turns])


def scene(
    rng: np.random.Generator, most: int = MOST
) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.int64]]:
    """A picture [SIDE, SIDE, 3], boxes [n, 4] of its shapes (left, top, right, bottom in pixels), and their numbers.

    `rng` decides everything.
    """
    whole = SIDE * OVERSAMPLE
    image, ground = _ground(rng, whole)
    brush = ImageDraw.Draw(image)
    for _ in range(rng.integers(0, 7)):
        _clutter(brush, rng, whole)
    boxes: list[NDArray[np.float64]] = []
    numbers = []
    for _ in range(rng.integers(0, most + 1)):
        for _ in range(12):  # where there is no room, there is one shape less
            number = int(rng.integers(len(SHAPES)))
            points = _placed(SHAPES[number], rng, whole)
            ink, filled, width = _ink(rng, ground), rng.random() < 0.5, rng.uniform(0.07, 0.24)
            pen = max(3.0, width * np.ptp(points, axis=0).min() / 2)
            margin = 0 if filled else pen / 2
            box = np.concatenate([points.min(0) - margin, points.max(0) + margin])
            if box.min() > -0.02 * whole and box.max() < 1.02 * whole and not any(_touch(box, each) for each in boxes):
                _draw(brush, points, ink, filled, pen)
                boxes.append(box)
                numbers.append(number)
                break
    pixels = _seen(image, rng)
    found = np.clip(np.reshape(boxes, (-1, 4)) / OVERSAMPLE, 0, SIDE)
    return pixels, found.astype(np.float32), np.array(numbers, np.int64)


def _placed(name: str, rng: np.random.Generator, whole: int) -> Points:
    """A shape somewhere in the scene: turned, stretched, slanted, with a hand's tremble."""
    points = outline(name, rng)
    points = np.concatenate([np.linspace(a, b, 6, endpoint=False) for a, b in zip(points, np.roll(points, -1, 0))])
    shaky = rng.normal(0, 1, (7, 2))
    at = np.linspace(0, 7, len(points), endpoint=False)
    tremble = np.stack([np.interp(at, range(8), [*column, column[0]]) for column in shaky.T], 1)
    points = points + tremble * rng.uniform(0, 0.05)
    angle = rng.normal(0, 0.3) if name == "heart" or rng.random() < 0.5 else rng.uniform(0, 2 * np.pi)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    slant = np.array([[rng.uniform(0.82, 1.2), rng.normal(0, 0.08)], [rng.normal(0, 0.08), 1]])
    radius = whole * np.exp(rng.uniform(np.log(0.06), np.log(0.36)))
    return points @ turn @ slant * radius + rng.uniform(0.04, 0.96, 2) * whole


def _touch(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    centre, half = (a[:2] + a[2:]) / 2, (a[2:] - a[:2]) / 2 * FREE
    return bool((np.minimum(centre + half, b[2:]) > np.maximum(centre - half, b[:2])).all())


def _draw(brush: ImageDraw.ImageDraw, points: Points, ink: Color, filled: bool, pen: float) -> None:
    listed = [tuple(point) for point in points.tolist()]
    if filled:
        brush.polygon(listed, fill=ink)
        return
    brush.line([*listed, listed[0], listed[1]], fill=ink, width=round(pen), joint="curve")


def _ground(rng: np.random.Generator, whole: int) -> tuple[Image.Image, float]:
    """What shapes are drawn on, and how light that is, 0 to 255."""
    kind = rng.random()
    base = rng.uniform(170, 255, 3) if kind < 0.5 else rng.uniform(0, 255, 3)
    base = base if rng.random() < 0.4 else np.full(3, base.mean()) + rng.normal(0, 12, 3)
    coarse = rng.normal(0, rng.choice([2, 8, 25]), (int(rng.integers(2, 9)), int(rng.integers(2, 9)), 1))
    field = np.asarray(
        Image.fromarray(coarse[..., 0].astype(np.float32)).resize((whole, whole), Image.Resampling.BICUBIC)
    )
    pixels = np.clip(base + field[..., None], 0, 255).astype(np.uint8)
    image = Image.fromarray(pixels)
    if rng.random() < 0.35:  # the edge of a table, a wall, a sleeve
        brush = ImageDraw.Draw(image)
        for _ in range(rng.integers(1, 4)):
            corner, angle = rng.uniform(0, whole, 2), rng.uniform(0, 2 * np.pi)
            along, across = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
            far = 3 * whole
            band = far if rng.random() < 0.5 else rng.uniform(0.03, 0.4) * whole
            ends = [corner - far * along, corner + far * along, corner + far * along + band * across]
            brush.polygon([tuple(p) for p in [*ends, corner - far * along + band * across]], fill=_any(rng))
    return image, float(base.mean())


def _any(rng: np.random.Generator) -> Color:
    red, green, blue = rng.integers(0, 256, 3).tolist()
    return red, green, blue


def _ink(rng: np.random.Generator, ground: float) -> Color:
    """A colour that can be told from the ground."""
    for _ in range(20):
        color = _any(rng) if rng.random() < 0.6 else (int(rng.integers(0, 60)),) * 3
        if abs(np.mean(color) - ground) > 50:
            return color
    return (0, 0, 0) if ground > 127 else (255, 255, 255)


def _clutter(brush: ImageDraw.ImageDraw, rng: np.random.Generator, whole: int) -> None:
    """Something that is no shape: a scribble, lines, a word, a blot, a bar."""
    kind, color, place = rng.integers(6), _any(rng), rng.uniform(0, whole, 2)
    pen = int(rng.integers(2, 14))
    if kind == 0:  # a scribble: no closed line
        steps = np.cumsum(rng.normal(0, 0.06 * whole, (int(rng.integers(4, 12)), 2)), 0) + place
        brush.line([tuple(point) for point in steps.tolist()], fill=color, width=pen, joint="curve")
    elif kind == 1:
        ends = rng.uniform(0, whole, (2, 2))
        brush.line([tuple(point) for point in ends.tolist()], fill=color, width=pen)
    elif kind == 2:
        font = ImageFont.load_default(size=int(rng.integers(16, 70)))
        brush.text(tuple(place), str(rng.choice(WORDS)), fill=color, font=font)
    elif kind == 3:  # a blot, longer than wide, with dents
        angles = np.linspace(0, 2 * np.pi, 40, endpoint=False)
        radii = 1 + sum(rng.normal(0, 0.2) * np.cos(k * angles + rng.uniform(0, 7)) for k in range(2, 6))
        ring = np.stack([np.cos(angles) * rng.uniform(1.7, 3.5), np.sin(angles)], 1) * radii[:, None]
        angle = rng.uniform(0, 2 * np.pi)
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        brush.polygon([tuple(p) for p in (ring @ turn * rng.uniform(0.02, 0.11) * whole + place).tolist()], fill=color)
    elif kind == 4:  # a bar
        long, angle = rng.uniform(0.15, 0.6) * whole, rng.uniform(0, 2 * np.pi)
        along = np.array([np.cos(angle), np.sin(angle)]) * long
        across = np.array([-np.sin(angle), np.cos(angle)]) * long * rng.uniform(0.04, 0.3)
        ends = [place, place + along, place + along + across, place + across]
        brush.polygon([tuple(p) for p in ends], fill=color)
    else:  # part of a ring
        start, sweep, radius = rng.uniform(0, 360), rng.uniform(40, 200), rng.uniform(0.04, 0.3) * whole
        box = [*(place - radius).tolist(), *(place + radius).tolist()]
        brush.arc(box, start, start + sweep, fill=color, width=pen)


def _seen(image: Image.Image, rng: np.random.Generator) -> NDArray[np.uint8]:
    """What a camera makes of it: light from a side, blur, noise."""
    image = image.reduce(OVERSAMPLE)
    if rng.random() < 0.5:
        image = image.filter(ImageFilter.GaussianBlur(rng.uniform(0.2, 1.4)))
    pixels = np.asarray(image, np.float32)
    y, x = np.mgrid[:SIDE, :SIDE] / SIDE - 0.5
    angle = rng.uniform(0, 2 * np.pi)
    light = 1 + rng.uniform(0, 0.5) * (x * np.cos(angle) + y * np.sin(angle))
    pixels = pixels * (light * rng.uniform(0.6, 1.1))[..., None]
    pixels = pixels + rng.normal(0, rng.choice([0, 3, 9]), pixels.shape)
    return np.clip(pixels, 0, 255).astype(np.uint8)


def main() -> None:
    """Writes `scenes.png`: 24 scenes with their boxes."""
    rng = np.random.default_rng(0)
    sheet = Image.new("RGB", (6 * SIDE, 4 * SIDE))
    for k in range(24):
        pixels, boxes, numbers = scene(rng)
        image = Image.fromarray(pixels)
        brush = ImageDraw.Draw(image)
        for box, number in zip(boxes.tolist(), numbers.tolist()):
            brush.rectangle(box, outline=(255, 0, 90))
            brush.text((box[0] + 2, box[1]), SHAPES[number], fill=(255, 0, 90))
        sheet.paste(image, (k % 6 * SIDE, k // 6 * SIDE))
    sheet.save(Path(__file__).with_name("scenes.png"))


if __name__ == "__main__":
    main()
