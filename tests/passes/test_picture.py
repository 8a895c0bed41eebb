"""Pictures as inputs: the same from the same bytes on every provider, as Pillow resizes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from sardonyx import InferenceSession
from sardonyx.errors import InvalidArgument
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import write
from sardonyx.passes.picture import FITS, GREY, Picture, with_pictures
from tests.engine.providers import PROVIDERS, require_provider
from tests.web.pages import model_of

SIZES = [(50, 90), (90, 50), (24, 32), (7, 11), (9, 100), (1, 1), (233, 311)]
MEAN, STD = (123.7, 116.3, 103.5), (58.4, 57.1, 57.4)
Pixels = npt.NDArray[np.uint8]


def model(shape: str = "1,3,24,32", opset: int = 21) -> bytes:
    return model_of(f"g (float[{shape}] x) => (float[{shape}] y) {{ y = Identity (x) }}", opset)


def pixels(height: int, width: int, channels: int = 4) -> Pixels:
    rng = np.random.default_rng(height * width)
    return rng.integers(0, 256, (height, width, channels), np.uint8)


def session(picture: Picture, provider: str = "NumpyExecutionProvider", data: bytes | None = None) -> InferenceSession:
    require_provider(provider)
    return InferenceSession(write(with_pictures(read(data or model()), [picture])), providers=[provider])


def expected(picture: Picture, given: Pixels, height: int, width: int) -> npt.NDArray[np.float64]:
    """[height, width, 3] in float64: every result is a sum over all pixels of the picture."""
    steps = np.array(given.shape[:2]) / (height, width)
    if picture.fit != "stretch":
        steps[:] = steps.min() if picture.fit == "cover" else steps.max()
    found = given[..., :3].astype(np.float64)
    inside = np.ones((height, width), bool)
    for axis, (size, target, step) in enumerate(zip(given.shape, (height, width), steps)):
        margin = 0 if picture.fit == "corner" else (size - target * step) / 2
        centers = (np.arange(target) + 0.5) * step + margin
        distance = abs(np.arange(size) + 0.5 - centers[:, None]) / (max(step, 1) if picture.antialias else 1)
        weights = np.maximum(1 - distance, 0)
        weights /= np.maximum(weights.sum(1, keepdims=True), 1e-6)
        found = np.moveaxis(np.tensordot(weights, found, (1, axis)), 0, axis)
        inside &= np.expand_dims((centers >= 0) & (centers < size), 1 - axis)
    return np.where(inside[..., None], found, picture.pad)


@pytest.mark.parametrize(("fit", "antialias"), [*((fit, True) for fit in FITS), ("contain", False), ("stretch", False)])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_all_providers_agree(provider: str, fit: str, antialias: bool) -> None:
    picture = Picture("x", MEAN, STD, fit=fit, pad=114, antialias=antialias)
    running = session(picture, provider)
    for size in SIZES:
        given = pixels(*size)
        (found,) = running.run(None, {"x": given})
        wanted = (expected(picture, given, 24, 32) - MEAN) / STD
        # places are float32, and by how much a level changes from one pixel to the next is not averaged
        place = 0 if antialias else float(np.spacing(np.float32(max(size)))) * 255 / min(STD)
        np.testing.assert_allclose(found, wanted.transpose(2, 0, 1)[None], atol=2e-5 + place, err_msg=f"{size}")
    assert running.compiled == 1


@pytest.mark.parametrize("fit", ["stretch", "cover"])
def test_as_pillow_resizes(fit: str) -> None:
    """Which rounds twice, rows and columns."""
    running = session(Picture("x", std=(1.0,), fit=fit))
    for height, width in SIZES:
        given = pixels(height, width)
        step = min(height / 24, width / 32)
        across, down = ((width - 32 * step) / 2, (height - 24 * step) / 2) if fit == "cover" else (0, 0)
        box = (across, down, width - across, height - down)
        whole = Image.fromarray(given[..., :3]).resize((32, 24), Image.Resampling.BILINEAR, box)
        (found,) = running.run(None, {"x": given})
        np.testing.assert_allclose(found[0].transpose(1, 2, 0), np.asarray(whole, float), atol=1.01)


def test_what_fits_is_left_as_it_is() -> None:
    given = pixels(24, 32)
    for fit in FITS:
        (found,) = session(Picture("x", std=(1.0,), fit=fit)).run(None, {"x": given})
        np.testing.assert_array_equal(found[0].transpose(1, 2, 0), given[..., :3])


@pytest.mark.parametrize("shape", ["1,3,24,32", "N,3,24,32", "1,24,32,3", "3,24,32", "24,32,3", "1,3,H,W"])
@pytest.mark.parametrize("opset", [9, 21])
def test_layouts(shape: str, opset: int) -> None:
    running = session(Picture("x", order="bgr", channels=3, size=(24, 32)), data=model(shape, opset))
    given = pixels(24, 32, 3)
    assert running.get_inputs()[0].type == "tensor(uint8)"
    assert running.get_inputs()[0].shape == ["x.height", "x.width", 3]
    (found,) = running.run(None, {"x": given})
    wanted = given[..., ::-1] / 255.0
    axes = [axis for axis in shape.split(",") if axis not in ("1", "N")]
    wanted = wanted.transpose(2, 0, 1) if axes[0] == "3" else wanted
    np.testing.assert_allclose(found, wanted[None] if found.ndim == 4 else wanted, atol=1e-6)


def test_grey_and_open_sizes() -> None:
    running = session(Picture("x"), data=model("1,1,H,W"))
    for size in ((5, 7), (24, 32)):
        given = pixels(*size)
        (found,) = running.run(None, {"x": given})
        np.testing.assert_allclose(found[0, 0], (given[..., :3] @ np.array(GREY)) / 255, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "options", "words"),
    [
        ("1,3,24,32", {"name": "z"}, "--image: the model has no input 'z'; it has x"),
        ("1,3,24,32", {"mean": (1.0, 2.0)}, "--image: the mean has 2 values, and input 'x' 3 channels"),
        ("1,1,24,32", {"std": (1.0, 2.0, 3.0)}, "--image: the std has 3 values, and input 'x' 1 channel"),
        ("1,3,24,32", {"size": (24, 24)}, "--image: resize=24x24: input 'x' is 32 wide"),
        ("1,3,H,W", {"fit": "cover"}, "--image: fit=cover wants a size: input 'x' has none of its own; add resize="),
        ("1,3,H,32", {}, "--image: input 'x' has one size of its own, and one that is open; add resize="),
        ("2,3,24,32", {}, "--image: input 'x' takes 2 pictures at once; one can be made"),
        ("1,5,24,32", {}, "--image: input 'x', float32[1,5,24,32], is not shaped like a picture: NCHW, NHWC, CHW or"),
    ],
)
def test_what_does_not_fit_is_said(shape: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        with_pictures(read(model(shape)), [Picture(**{"name": "x", "option": "--image", **options})])
    assert words in str(raised.value)


def test_integers_are_no_pictures() -> None:
    data = model_of("g (int64[1,3,4,4] x) => (int64[1,3,4,4] y) { y = Identity (x) }")
    with pytest.raises(InvalidArgument, match=r"input 'x' is int64\[1,3,4,4\], and pictures become floats"):
        with_pictures(read(data), [Picture("x")])
