"""Makes pen strokes of 8x8 digits, and many handwritings of each: the training data of `train.py`."""

from __future__ import annotations

from collections.abc import Iterable

import draw
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from preprocess import digit_from_gray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

FINE = 96
"""Width and height of an upscaled original, of which the digit fills two thirds."""
MISSING_WAYS = [(1, 1), (1, 2), (7, 0)]
"""Ways of writing, digit and index in `draw.SKELETONS`, that the data set hardly has: a one with a sharp flag, the same
with a foot, a seven without a crossbar. Without them, a plain seven is taken for a one."""


def supplement(count: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """`count` images of each missing way and their labels: ink counted in blocks, as in the data set, but 16x16."""
    rng = np.random.default_rng(0)
    images = []
    for label, way in MISSING_WAYS * count:
        image = draw.draw(label, way, rng, size=(160, 160), pen=rng.uniform(0.05, 0.14)).convert("L")
        bitmap = ImageOps.pad(image.crop(image.getbbox()), (32, 32), Image.Resampling.BOX)
        images.append(np.asarray(bitmap.reduce(2)) / 255 * 16)
    return np.array(images), np.array([label for label, _ in MISSING_WAYS * count])


def upscale(images: NDArray[np.float64]) -> Tensor:
    """Square counts [N, S, S] of 0..16 as smooth fields [N, 1, 96, 96] in 0..1: how much ink lies at each point."""
    counts = torch.from_numpy(images).float()[:, None] / 16
    margin = [images.shape[1] // 4] * 4
    return F.interpolate(F.pad(counts, margin), size=(FINE, FINE), mode="bicubic").clamp(0, 1)


def strokes(fields: Tensor, threshold: float | Tensor = 0.45) -> NDArray[np.uint8]:
    """Pen strokes, white on black, [N, 96, 96]: steep contrast around a threshold; a low one makes a thick pen."""
    return ((6 * (fields - threshold) + 0.5).clamp(0, 1) * 255).round().to(torch.uint8)[:, 0].numpy()


def inputs(grays: Iterable[NDArray[np.uint8]]) -> Tensor:
    """The model's inputs [N, 1, 28, 28] from grey images of any size."""
    return torch.from_numpy(np.concatenate([digit_from_gray(gray) for gray in grays]))


def rewrite(fields: Tensor) -> Tensor:
    """What other hands and pens would make of the originals, as inputs [N, 1, 28, 28]."""
    bent = _warp(fields, turn=0.2, slant=0.3, scale=(0.8, 1.1), shift=0, bend=2.5)
    return inputs(strokes(bent, _uniform(len(bent), 0.25, 0.7)))


def disturb(images: Tensor) -> Tensor:
    """Inputs centred worse, sized otherwise, with thicker or thinner strokes, blurred, fainter, noisy."""
    count = len(images)
    moved = _warp(images, turn=0.1, slant=0.1, scale=(0.7, 1.2), shift=3, bend=0.4)
    thick, thin = F.max_pool2d(moved, 3, 1, 1), -F.max_pool2d(-moved, 3, 1, 1)
    pen = _uniform(count, -0.8, 1)
    image = moved + pen.relu() * (thick - moved) + (-pen).relu() * (thin - moved)
    blur = _uniform(count, -1, 0.7).relu()
    image = (image + blur * (F.avg_pool2d(image, 3, 1, 1) - image)) * _uniform(count, 0.6, 1.1)
    return (image + torch.randn_like(image) * _uniform(count, 0, 0.06)).clamp(0, 1)


def _uniform(count: int, low: float, high: float) -> Tensor:
    return torch.empty(count, 1, 1, 1).uniform_(low, high)


def _warp(
    images: Tensor, *, turn: float, slant: float, scale: tuple[float, float], shift: float, bend: float
) -> Tensor:
    """Each image turned (radians), slanted, scaled, shifted and bent (pixels) by chance, up to these bounds."""
    count, side = len(images), images.shape[-1]
    angle, shear = torch.empty(count).uniform_(-turn, turn), torch.empty(count).uniform_(-slant, slant)
    high = torch.empty(count).uniform_(*scale)
    wide = high * torch.empty(count).uniform_(0.8, 1.25)
    right, down = torch.empty(2, count).uniform_(-shift, shift) * 2 / side
    cos, sin = torch.cos(angle), torch.sin(angle)
    rows = [cos / wide, (shear * cos - sin) / wide, right, sin / high, (shear * sin + cos) / high, down]
    grid = F.affine_grid(torch.stack(rows, dim=1).view(count, 2, 3), [count, 1, side, side], align_corners=False)
    waves = F.interpolate(torch.randn(count, 2, 5, 5), size=(side, side), mode="bicubic") * bend * 2 / side
    return F.grid_sample(images, grid + waves.permute(0, 2, 3, 1), align_corners=False)
