"""Inputs for the listed models, the same for the same seed: each kind is one function of a generator and a shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from .catalogue import MODELS
from .chat import PROMPT, remembered

Array = npt.NDArray[Any]
Rng = np.random.Generator
Shape = tuple[int, ...]

PAGE = [
    "Sardonyx is a banded stone:",
    "layers of sard, red and brown,",
    "between layers of white onyx",
    "which the Romans carved as seals,",
    "since hot wax does not stick to it.",
    "Six lines make up this page.",
]
LINE = "Hello World 2026"


def inputs(id: str, seed: int = 0) -> dict[str, Array]:
    """Return the feeds of one run of the model `id`: contiguous arrays with its dtypes and shapes."""
    rng = np.random.default_rng(seed)
    return {name: _make(rng, name, *spec) for name, spec in MODELS[id].inputs.items()}


def _make(rng: Rng, name: str, dtype: str, shape: Sequence[int], kind: str, *arguments: Any) -> Array:
    value = remembered()[name] if kind == "past" else KINDS[kind](rng, tuple(shape), *arguments)
    return np.ascontiguousarray(value, dtype).reshape(shape)


def voice(rng: Rng, shape: Shape, rate: float) -> Array:
    """A hum like a voice's: seven harmonics over a wavering 120 Hz, swelling twice a second, with a little noise."""
    time = np.arange(shape[-1]) / rate
    phase = 2 * np.pi * np.cumsum(120 + 20 * np.sin(6 * np.pi * time)) / rate
    hum = sum(np.sin(k * phase) / k for k in range(1, 8)) * (0.12 + 0.08 * np.sin(4 * np.pi * time))
    return np.clip(hum + rng.normal(0, 0.01, shape), -0.6, 0.6)


def tones(rng: Rng, shape: Shape) -> Array:
    """An A4 of 440 Hz at 22,050 samples a second, joined after one second by the E5 of 660 Hz above it."""
    time = np.arange(np.prod(shape)) / 22050
    wave = 0.3 * np.sin(2 * np.pi * 440 * time) + 0.2 * np.sin(2 * np.pi * 660 * time) * (time > 1)
    return wave.reshape(shape)


def image(rng: Rng, shape: Shape, low: float, high: float) -> Array:
    """Smooth colour waves with grain from `low` to `high`, channels last if the last axis has size 3."""
    last = shape[-1] == 3
    height, width = shape[1:3] if last else shape[2:4]
    y, x = np.mgrid[:height, :width] / max(height, width)
    (a, b, c), (u, v, w) = rng.uniform(2, 14, (3, 3, 1, 1)), rng.uniform(0, 2 * np.pi, (3, 3, 1, 1))
    waves = 0.5 + 0.2 * np.sin(3 * a * x + u) + 0.2 * np.sin(3 * b * y + v) + 0.1 * np.sin(5 * c * (x + y) + w)
    pixels = low + (high - low) * np.clip(waves + rng.normal(0, 0.03, waves.shape), 0, 1)
    return np.broadcast_to(pixels.transpose(1, 2, 0) if last else pixels, shape)


def text(shape: Shape, lines: Sequence[str], size: int) -> Array:
    """`lines` in black on white, evenly spaced, as [1, 3, height, width] from -1 (black) to 1."""
    height, width = shape[2:]
    sheet = Image.new("L", (width, height), 255)
    font = ImageFont.load_default(size)
    for i, line in enumerate(lines):
        ImageDraw.Draw(sheet).text((size / 2, height * (i + 0.5) / len(lines)), line, fill=0, font=font, anchor="lm")
    return np.broadcast_to(np.asarray(sheet) / 127.5 - 1, shape)


def dataset(rng: Rng, shape: Shape, name: str) -> Array:
    """Rows of one of scikit-learn's data sets."""
    from sklearn import datasets

    rows: Array = rng.permutation(getattr(datasets, f"load_{name}")().data)
    return rows[: shape[0]]


KINDS: dict[str, Any] = {
    "normal": lambda rng, shape, mean, deviation: rng.normal(mean, deviation, shape),
    "uniform": lambda rng, shape, low, high: rng.uniform(low, high, shape),
    "integers": lambda rng, shape, low, high: rng.integers(low, high, shape),
    "bernoulli": lambda rng, shape, chance: rng.random(shape) < chance,
    "full": lambda rng, shape, value: np.full(shape, value),
    "values": lambda rng, shape, values: np.array(values),
    "range": lambda rng, shape: np.arange(np.prod(shape, dtype=int)),
    "voice": voice,
    "tones": tones,
    "image": image,
    "prompt": lambda rng, shape: np.array(PROMPT),
    "line": lambda rng, shape: text(shape, [LINE], 34),
    "dataset": dataset,
    "page": lambda rng, shape: text(shape, PAGE, 32),
}
