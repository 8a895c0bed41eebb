"""A trained YOLOv8 from a package, on a photograph: against onnxruntime, with NumPy before and behind it."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest

from sardonyx import vision
from sardonyx.host import pictures
from tests.packages.installed import modules, sample
from tests.passes.test_picture import expected
from tests.support import absent
from tests.vision.families import corners, kept, placed

pytestmark = pytest.mark.nightly

SIDE = 320


@cache
def model() -> tuple[str, npt.NDArray[np.uint8]]:
    """The file of the model, and a portrait."""
    try:
        return str(Path(modules("nudenet")) / "nudenet" / "320n.onnx"), pictures.read(sample("portrait.jpg"))
    except subprocess.CalledProcessError as error:
        absent(f"nudenet cannot be installed: {error.stderr}")


@pytest.mark.parametrize("provider", ["NumpyExecutionProvider", "WasmExecutionProvider"])
@pytest.mark.parametrize("fit", ["contain", "corner", "stretch"])
def test_a_portrait(fit: str, provider: str) -> None:
    path, portrait = model()
    image = vision.Picture("images", size=(SIDE, SIDE), fit=fit, pad=114.0)
    detector = vision.Detector(path, image=image, threshold=0.02, overlap=0.45, providers=[provider])
    reference = onnxruntime.InferenceSession(path)
    height = len(portrait)
    for picture in (portrait, portrait[: height // 2, 60:480], portrait[::3, ::2]):
        feed = expected(image, picture, SIDE, SIDE).transpose(2, 0, 1)[None] / 255
        (rows,) = reference.run(None, {"images": feed.astype(np.float32)})
        raw = rows[0].astype(np.float64)
        boxes, scores, labels = kept(corners(*raw[:4]), raw[4:].T, 0.02, 0.45)
        found = detector.detect(picture)
        assert len(found) == len(scores) > 0
        assert [each.number for each in found] == labels.tolist()
        np.testing.assert_allclose([each.score for each in found], scores, atol=2e-3)
        wanted = placed(boxes, picture.shape[:2], fit, (SIDE, SIDE))
        np.testing.assert_allclose([each.box for each in found], wanted, atol=0.02 * max(picture.shape) / SIDE)
        assert found[0].label in ("FACE_FEMALE", "FACE_MALE")


def test_what_the_package_recognizes_is_ours_by_default() -> None:
    """Nothing is told: family, size and labels come of the file."""
    path, portrait = model()
    (found,) = vision.detect(path, portrait)
    assert found.label == "FACE_FEMALE"
    assert found.score > 0.7
    left, top, right, bottom = found.box
    assert (100 < left < 220, 90 < top < 200, 300 < right < 420, 290 < bottom < 400) == (True,) * 4
