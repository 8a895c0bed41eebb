"""Pictures that become tensors on the GPU, and tensors that are drawn there."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.browser import Chromium
from tests.web.ort_pages import ask, ort_site
from tests.web.pages import bundled, model_of

pytestmark = pytest.mark.slow

NEGATIVE = "g (float[A,B,C,D] x) => (float[A,B,C,D] y) { y = Neg (x) }"


site_folders = ort_site()


@pytest.fixture(scope="module", autouse=True)
def served(chromium: Chromium) -> None:
    chromium.site.data["negative.onnx"] = bundled(model_of(NEGATIVE), {}, ["webgpu"])


def triangles(size: int, target: int) -> npt.NDArray[np.float64]:
    """How much each of `size` pixels counts for each of `target`."""
    scale = size / target
    centres = (np.arange(target)[:, None] + 0.5) * scale
    weights = np.maximum(1 - abs(np.arange(size) + 0.5 - centres) / max(scale, 1), 0)
    return np.asarray(weights / weights.sum(1, keepdims=True))


def resized(image: npt.NDArray[Any], width: int, height: int) -> npt.NDArray[np.float64]:
    rows = np.einsum("ij,jkc->ikc", triangles(image.shape[0], height), image)
    return np.asarray(np.einsum("ij,kjc->kic", triangles(image.shape[1], width), rows))


def test_pictures_become_tensors_and_tensors_pictures(chromium: Chromium) -> None:
    rng = np.random.default_rng(0)
    width, height = 70, 9
    pixels = rng.integers(0, 256, (height, width, 4), np.uint8)
    pixels[..., 3] = 255
    image = pixels[..., :3] / 255
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    options = [
        {"width": 5, "height": 4},
        {"width": 12, "height": 20, "layout": "NHWC", "mean": mean, "std": std},
        {"height": 3, "mean": 0.5, "std": 1 / 255},
    ]
    told = ask(chromium, "pictures", pixels.ravel().tolist(), width, height, options)
    for dims, values in told["found"]:
        assert dims == [1, 3, height, width]
        np.testing.assert_allclose(-np.reshape(values, dims)[0], image.transpose(2, 0, 1), atol=0.02)
    wanted = [
        resized(image, 5, 4).transpose(2, 0, 1),
        (resized(image, 12, 20) - mean) / std,
        (resized(image, width, 3).transpose(2, 0, 1) - 0.5) * 255,
    ]
    for (dims, values), want in zip(told["made"], wanted, strict=True):
        assert dims == [1, *want.shape]
        np.testing.assert_allclose(-np.reshape(values, dims)[0], want, atol=1e-4 * abs(want).max())
    for wide, high, drawn in told["drawn"]:
        assert (wide, high) == (width, height)
        np.testing.assert_allclose(np.reshape(drawn, pixels.shape), pixels, atol=1)
    assert told["grey"] == [each for grey in (0, 255, 51, 153) for each in (grey, grey, grey, 255)]
    assert told["glass"] == [0, 153, 31, 153]  # colours times opacity
    assert told["refusals"] == [
        "a picture of 0 x 0 has no pixels yet; wait until it is loaded",
        "a picture has 1, 3 or 4 channels, not the 2 of [1,2,2,1] in NCHW",
        "WebGPU: ",
        "input 'x' lies in texture, which sessions do not take; feed what its getData() gives, or sardonyx/picture.js",
    ]
