"""The detector in examples/detector: it is what its README says, and finds what `draw.py` draws."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import numpy as np
import onnx
import onnxruntime
import pytest

from sardonyx import vision
from tests.support.wheel import ROOT

FOLDER = ROOT / "examples" / "detector"
MODEL = FOLDER / "shapes.onnx"
SCENES, SEED = 40, 2


@pytest.fixture(scope="module")
def draw() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw_shapes", FOLDER / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_file(draw: ModuleType) -> None:
    """The README tells its size, and how good it is; the family and the names of classes come of the file."""
    text = (FOLDER / "README.md").read_text("utf-8")
    size = MODEL.stat().st_size
    assert size < 300_000
    assert f"{size:,} bytes" in text
    metadata = {each.key: each.value for each in onnx.load(MODEL).metadata_props}
    assert f"{100 * float(metadata['map50']):.1f} %" in text
    assert vision.Detector(MODEL, providers=["NumpyExecutionProvider"]).labels == [*draw.SHAPES]


def test_what_is_drawn_is_found(draw: ModuleType) -> None:
    """On scenes that it was not taught, of its own size: the surest box is onnxruntime's, and most shapes are found."""
    rng = np.random.default_rng(SEED)
    detector = vision.Detector(MODEL, threshold=0.45, across=True, providers=["WasmExecutionProvider"])
    reference = onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    there, right, listed = 0, 0, 0
    for _ in range(SCENES):
        pixels, boxes, numbers = draw.scene(rng)
        found = detector.detect(pixels)
        (rows,) = reference.run(None, {"images": pixels.transpose(2, 0, 1)[None].astype(np.float32) / 255})
        scores = rows[0, 4:].max(0)
        if (scores > 0.45).any():
            cell = scores.argmax()
            x, y, w, h = rows[0, :4, cell]
            assert found[0].number == rows[0, 4:, cell].argmax()
            np.testing.assert_allclose(found[0].score, scores[cell], atol=1e-4)
            sides = np.clip([x - w / 2, y - h / 2, x + w / 2, y + h / 2], 0, draw.SIDE)
            np.testing.assert_allclose(found[0].box, sides, atol=0.01)
        else:
            assert found == []
        there += len(numbers)
        listed += len(found)
        right += sum(
            any(each.number == number and shared(np.array(each.box), box) > 0.5 for each in found)
            for number, box in zip(numbers.tolist(), boxes.astype(float), strict=True)
        )
    assert there > 80
    assert right / there > 0.8
    assert right / listed > 0.8


def shared(a: np.ndarray, b: np.ndarray) -> float:
    """The share of two boxes' union that both have."""
    inner = np.prod(np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0))
    return float(inner / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - inner))
