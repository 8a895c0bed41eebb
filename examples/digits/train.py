"""Trains `digits.onnx` on scikit-learn's 8x8 digits: `python train.py` (needs torch, scikit-learn, onnx, onnxruntime)."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from export import export
from numpy.typing import NDArray
from PIL import Image, ImageOps
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

import draw
from preprocess import SIDE, digit, digit_from_gray

FOLDER = Path(__file__).parent
FINE = 96
"""Width and height of an upscaled original, of which the digit fills two thirds."""
WHITE, BLACK = (255, 255, 255), (0, 0, 0)
UNWRITTEN = [(1, 1), (1, 2), (7, 0)]
"""Ways of writing, by digit and index in `draw.SKELETONS`: a one with a foot, a seven without a crossbar."""


def upscale(images: NDArray[np.float64]) -> Tensor:
    """How much ink lies at each point: 8x8 counts of 0..16 as smooth fields [N, 1, 96, 96] in 0..1, with a margin."""
    counts = torch.from_numpy(images).float()[:, None] / 16
    return F.interpolate(F.pad(counts, (2, 2, 2, 2)), size=(FINE, FINE), mode="bicubic").clamp(0, 1)


def ink(fields: Tensor, threshold: float | Tensor = 0.45) -> NDArray[np.uint8]:
    """Pen strokes, white on black, [N, 96, 96]: steep contrast around a threshold; a low one makes a thick pen."""
    return ((6 * (fields - threshold) + 0.5).clamp(0, 1) * 255).round().to(torch.uint8)[:, 0].numpy()


def inputs(grays: Iterable[NDArray[np.uint8]]) -> Tensor:
    """The preprocessed images as one batch [N, 1, 28, 28]."""
    return torch.from_numpy(np.concatenate([digit_from_gray(gray) for gray in grays]))


def uniform(count: int, low: float, high: float) -> Tensor:
    return torch.empty(count, 1, 1, 1).uniform_(low, high)


def warp(images: Tensor, *, turn: float, slant: float, scale: tuple[float, float], shift: float, bend: float) -> Tensor:
    """Each image turned (radians), slanted, scaled, shifted (pixels) and bent (pixels) by chance, up to these bounds."""
    count, side = len(images), images.shape[-1]
    angle, shear = uniform(count, -turn, turn).flatten(), uniform(count, -slant, slant).flatten()
    size = uniform(count, *scale).flatten()
    wide = size * uniform(count, 0.8, 1.25).flatten()
    move = torch.empty(2, count).uniform_(-shift, shift) * 2 / side
    cos, sin = torch.cos(angle), torch.sin(angle)
    theta = torch.stack(
        [cos / wide, (shear * cos - sin) / wide, move[0], sin / size, (shear * sin + cos) / size, move[1]], dim=1
    ).view(count, 2, 3)
    grid = F.affine_grid(theta, [count, 1, side, side], align_corners=False)
    waves = F.interpolate(torch.randn(count, 2, 5, 5), size=(side, side), mode="bicubic")
    return F.grid_sample(images, grid + (waves * bend * 2 / side).permute(0, 2, 3, 1), align_corners=False)


def unwritten(count: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """`count` originals of each way of writing that the data set lacks, made as it was: ink counted in 8x8 blocks."""
    rng = np.random.default_rng(0)
    counts, labels = [], []
    for label, way in UNWRITTEN * count:
        image = draw.draw(label, way, (160, 160), WHITE, BLACK, rng.uniform(0.07, 0.14), rng).convert("L")
        square = ImageOps.pad(image.crop(image.getbbox()), (32, 32), Image.Resampling.BOX)
        counts.append(np.asarray(square.reduce(4)) / 255 * 16)
        labels.append(label)
    return np.array(counts), np.array(labels)


def rewrite(fields: Tensor) -> Tensor:
    """What other hands and pens would make of the originals, preprocessed: [N, 1, 28, 28]."""
    bent = warp(fields, turn=0.2, slant=0.3, scale=(0.8, 1.1), shift=0, bend=2.5)
    return inputs(ink(bent, uniform(len(bent), 0.25, 0.7)))


def disturb(images: Tensor) -> Tensor:
    """Inputs that were centred worse, sized otherwise, drawn thicker or fainter, blurred, or are noisy."""
    count = len(images)
    moved = warp(images, turn=0.1, slant=0.1, scale=(0.7, 1.2), shift=3, bend=0.4)
    thick = F.max_pool2d(moved, 3, 1, 1)
    thin = -F.max_pool2d(-moved, 3, 1, 1)
    soft = F.avg_pool2d(moved, 3, 1, 1)
    pick = uniform(count, -0.8, 1)
    pen = torch.where(pick > 0, moved + pick * (thick - moved), moved - pick * (thin - moved))
    blur = uniform(count, 0, 0.7) * (uniform(count, 0, 1) < 0.4)
    image = (pen + blur * (soft - pen)) * uniform(count, 0.6, 1.1)
    return (image + torch.randn_like(image) * uniform(count, 0, 0.06)).clamp(0, 1)


def network() -> nn.Sequential:
    """A small MobileNet: two plain convolutions, two depthwise separable blocks, one layer of logits."""

    def convolve(inner: int, outer: int, kernel: int, groups: int = 1) -> list[nn.Module]:
        convolution = nn.Conv2d(inner, outer, kernel, padding=kernel // 2, groups=groups, bias=False)
        return [convolution, nn.BatchNorm2d(outer), nn.ReLU()]

    return nn.Sequential(
        *convolve(1, 16, 3),
        *convolve(16, 32, 3),
        nn.MaxPool2d(2),
        *convolve(32, 32, 3, groups=32),
        *convolve(32, 64, 1),
        *convolve(64, 64, 3, groups=64),
        *convolve(64, 64, 1),
        nn.MaxPool2d(2),
        *convolve(64, 64, 3, groups=64),
        *convolve(64, 128, 1),
        *convolve(128, 128, 3, groups=128),
        *convolve(128, 128, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


def train(fields: Tensor, labels: Tensor, *, variants: int, epochs: int, batch: int = 128) -> nn.Sequential:
    """The trained network; each epoch sees `variants` rewritten forms of every original, disturbed anew."""
    pool = torch.cat([rewrite(fields) for _ in range(variants)])
    targets = labels.repeat(variants)
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    steps = epochs * (len(pool) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.006, total_steps=steps)
    for epoch in range(epochs):
        total, start = 0.0, time.perf_counter()
        for rows in torch.randperm(len(pool))[: len(pool) // batch * batch].split(batch):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(disturb(pool[rows])), targets[rows], label_smoothing=0.05)
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * batch
        print(f"epoch {epoch + 1}/{epochs}: loss {total / len(pool):.4f}, {time.perf_counter() - start:.0f} s")
    return model.eval()


def drawn(count: int) -> tuple[Tensor, Tensor]:
    """`count` drawings of each way of writing each digit, preprocessed, and their labels."""
    rng = np.random.default_rng(1)
    ways = [(label, way) for label, ways in draw.SKELETONS.items() for way in range(len(ways)) for _ in range(count)]
    black, white, size = (0, 0, 0), (255, 255, 255), (140, 140)
    images = [draw.draw(label, way, size, white, black, rng.uniform(0.04, 0.12), rng) for label, way in ways]
    return torch.from_numpy(np.concatenate([digit(image) for image in images])), torch.tensor([w[0] for w in ways])


def main() -> None:
    """Trains, exports, and measures the exported file with onnxruntime."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--variants", type=int, default=24, help="rewritten forms of each original")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--output", type=Path, default=FOLDER / "digits.onnx")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.use_deterministic_algorithms(True)

    data = load_digits()
    training, testing = train_test_split(
        np.arange(len(data.target)), test_size=0.2, random_state=0, stratify=data.target
    )
    fields, labels = upscale(data.images), torch.from_numpy(data.target)
    extra, names = unwritten(60)
    begin = time.perf_counter()
    model = train(torch.cat([fields[training],upscale(extra)]), torch.cat([labels[training],torch.from_numpy(names)]), variants=options.variants, epochs=options.epochs)
    print(f"trained on {len(training)} originals in {time.perf_counter() - begin:.0f} s")

    clean, truth = inputs(ink(fields[testing])), labels[testing]
    tests = {
        "held out": (clean, truth),
        "held out, augmented": (disturb(torch.cat([rewrite(fields[testing]) for _ in range(10)])), truth.repeat(10)),
        "drawn": drawn(60),
    }

    def accuracy(name: str) -> float:
        images, expected = tests[name]
        (scores,) = session.run(None, {"image": images.numpy()})
        wrong = np.flatnonzero(scores.argmax(1) != expected.numpy())
        import collections
        print(f"{name}: {1 - len(wrong) / len(images):.2%} of {len(images)}", collections.Counter((int(expected[i]),int(scores[i].argmax())) for i in wrong).most_common(8))
        return 1 - len(wrong) / len(images)

    options.output.write_bytes(export(model, accuracy="?"))
    session = onnxruntime.InferenceSession(options.output.read_bytes())
    for name in tests: accuracy(name)
    print(options.output.stat().st_size)


if __name__ == "__main__":
    main()
