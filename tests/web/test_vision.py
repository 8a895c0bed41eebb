"""Pages that see: vision.js against Python's objects on the same bundle, and how frames are left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from sardonyx import vision
from sardonyx.api.bundling import bundle_of
from sardonyx.demo import assets
from sardonyx.model.ir import Model
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import write
from sardonyx.passes.vision.classification import Classification, with_classification
from sardonyx.passes.vision.detection import Detection, with_detection
from sardonyx.passes.vision.segmentation import Segmentation, with_segmentation
from sardonyx.plans.plan_cache import Source
from tests.support.browser import Chromium
from tests.support.wheel import ROOT
from tests.vision.families import LABELS, convolutional
from tests.vision.test_maps import network

pytestmark = pytest.mark.slow
WIDTH, HEIGHT = 90, 60
TARGETS = ("wasm", "webgpu")
SHAPES, SIDE = ROOT / "examples" / "detector" / "shapes.onnx", 160
"""A detector of drawn shapes, and the side of its input."""


@pytest.fixture(scope="module")
def pixels() -> Any:
    """Blocks of colours, of which no pixel is clear: a canvas multiplies colours by opacity, and rounds."""
    found = np.random.default_rng(0).integers(0, 256, (HEIGHT // 6, WIDTH // 6, 4), np.uint8)
    found[..., 3] = 255
    return found.repeat(6, 0).repeat(6, 1)


def offer(chromium: Chromium, model: Model, pixels: Any) -> bytes:
    bundle = b"".join(bundle_of(Source(write(model)), TARGETS, compress=True))
    chromium.site.data.update({"model.sdx": bundle, "pixels": pixels.tobytes()})
    return bundle


def seen(chromium: Chromium, target: str) -> Any:
    told = chromium.call("/web/vision.mjs", {"task": "see", "target": target, "width": WIDTH, "height": HEIGHT}, 120)
    assert told["empty"] == "a picture of 0 x 0 has no pixels yet; wait until it is loaded"
    for each in told["told"]:
        assert (each["width"], each["height"], each["isTimed"]) == (WIDTH, HEIGHT, True)
    return told


@pytest.mark.parametrize("target", TARGETS)
def test_objects(chromium: Chromium, pixels: Any, target: str) -> None:
    """What Python finds: on WebAssembly to the last bit."""
    model = with_detection(read(convolutional().SerializeToString()), Detection(threshold=0.9, labels=LABELS))
    bundle = offer(chromium, model, pixels)
    wanted = vision.detect(bundle, pixels[..., :3], providers=["WasmExecutionProvider"])
    assert len(wanted) > 3
    told = seen(chromium, target)
    assert told["labels"] == [*LABELS]
    assert told["unnamed"] == [str(each.number) for each in wanted]
    blocks = pixels[::2, ::2] if target == "wasm" else pixels  # of 6 x 6, whose halves a canvas need not round
    halves = vision.detect(bundle, np.ascontiguousarray(blocks[..., :3]), providers=["WasmExecutionProvider"])
    assert [(each["label"]) for each in told["reduced"]["found"]] == [each.label for each in halves]
    assert (told["reduced"]["width"], told["reduced"]["height"]) == (WIDTH, HEIGHT)
    factor = 2 if target == "wasm" else 1
    boxes = [each["box"] for each in told["reduced"]["found"]]
    np.testing.assert_allclose(boxes, [np.multiply(each.box, factor) for each in halves], atol=1)
    tolerance = 0 if target == "wasm" else 1e-3
    for each in told["told"]:
        assert each["mask"] is None
        assert [(found["label"], found["number"]) for found in each["found"]] == [(w.label, w.number) for w in wanted]
        for found, want in zip(each["found"], wanted, strict=True):
            np.testing.assert_allclose(found["score"], want.score, rtol=0, atol=tolerance)
            np.testing.assert_allclose(found["box"], want.box, rtol=0, atol=100 * tolerance)


def shapes(width: int, height: int) -> Any:
    """RGBA: four drawn shapes on paper, with a camera's noise."""
    image = Image.new("RGB", (width, height), (238, 232, 220))
    brush = ImageDraw.Draw(image)
    unit = min(width / 16, height / 9)
    square, ring, block = [2, 5, 4.5, 7.5], [10, 0.5, 13.5, 4], [9, 5, 12, 8]
    brush.polygon([(unit * x, unit * y) for x, y in ((3, 0.7), (5, 4), (1, 4))], fill=(20, 60, 140))
    brush.ellipse([unit * side for side in ring], outline=(160, 30, 20), width=round(0.35 * unit))
    brush.rectangle([unit * side for side in square], fill=(30, 120, 60))
    brush.rectangle([unit * side for side in block], outline=(60, 30, 90), width=round(0.3 * unit))
    noise = np.random.default_rng(3).normal(0, 8, (height, width, 1))
    levels = np.clip(np.asarray(image) + noise, 0, 255).astype(np.uint8)
    return np.dstack([levels, np.full((height, width), 255, np.uint8)])


def shared(a: Any, b: Any) -> float:
    """The share of two boxes' union that both have."""
    inner = np.prod(np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0))
    return float(inner / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - inner))


def looked_at(chromium: Chromium, width: int, height: int, fit: str) -> Any:
    """What a page tells of a frame of this size, looked at by `see`, by `watch`, and by that with all pixels."""
    image = vision.Picture("images", size=(SIDE, SIDE), fit=fit, pad=114)
    model = with_detection(Source(SHAPES).read(), Detection(threshold=0.5, across=True), image)
    offer(chromium, model, shapes(width, height))
    return chromium.call("/web/vision.mjs", {"task": "enough", "width": width, "height": height}, 120)


@pytest.mark.parametrize(
    ("width", "height", "fit", "reduced"),
    [
        (1280, 720, "contain", (90, 160)),
        (1920, 1080, "contain", (90, 160)),
        (640, 480, "contain", (120, 160)),
        (300, 200, "corner", (107, 160)),
        (320, 180, "contain", (90, 160)),
        (200, 150, "contain", (150, 200)),
        (640, 480, "cover", (160, 213)),
        (640, 480, "stretch", (160, 160)),
    ],
)
def test_large_frames_are_reduced(
    chromium: Chromium, width: int, height: int, fit: str, reduced: tuple[int, int]
) -> None:
    """The canvas rounds levels, and has a filter of its own: sides move by half a pixel of the network's at most, which
    leaves of boxes 20 such pixels wide and high (19.5 / 20.5)**2 of their union, and of the larger ones here more."""
    told = looked_at(chromium, width, height, fit)
    whole = [height, width, 4]
    assert told["sizes"] == [whole, [*reduced, 4], whole]
    assert told["framed"] == [[width, height]] * 3
    exact, found, again = told["found"]
    assert again == exact
    assert sorted(each["label"] for each in exact) == ["circle", "square", "square", "triangle"]
    assert len(found) == len(exact)
    for each in exact:
        others = [other for other in found if other["label"] == each["label"]]
        nearest = max(others, key=lambda other: shared(np.array(each["box"]), np.array(other["box"])))
        assert shared(np.array(each["box"]), np.array(nearest["box"])) > (19.5 / 20.5) ** 2
        assert abs(nearest["score"] - each["score"]) < 0.1


def test_no_side_of_a_frame_is_enlarged(chromium: Chromium) -> None:
    told = looked_at(chromium, 400, 100, "stretch")
    assert told["sizes"][1] == [100, SIDE, 4]


@pytest.mark.parametrize("target", TARGETS)
def test_classes(chromium: Chromium, pixels: Any, target: str) -> None:
    image = vision.Picture("image", fit="contain")
    bundle = offer(
        chromium,
        with_classification(read((assets() / "digits.onnx").read_bytes()), Classification(most=3), image),
        pixels,
    )
    wanted = vision.classify(bundle, pixels[..., :3], providers=["WasmExecutionProvider"])
    told = seen(chromium, target)
    assert told["labels"] == [*"0123456789"]
    for each in told["told"]:
        assert [found["label"] for found in each["found"]] == [want.label for want in wanted]
        assert not any("box" in found for found in each["found"])
        scores = [found["score"] for found in each["found"]]
        np.testing.assert_allclose(
            scores, [want.score for want in wanted], rtol=0, atol=0 if target == "wasm" else 1e-4
        )


def test_masks(chromium: Chromium, pixels: Any) -> None:
    image = vision.Picture("x", size=(HEIGHT, WIDTH))
    model = with_segmentation(
        read(network(sigmoid=True)), Segmentation(threshold=0.6, labels=["dark", "bright"]), image
    )
    bundle = offer(chromium, model, pixels)
    wanted = vision.segment(bundle, pixels[..., :3], providers=["WasmExecutionProvider"])
    assert 0.1 < wanted.mean() < 0.9
    told = seen(chromium, "wasm")
    assert told["labels"] == ["dark", "bright"]
    for each in told["told"]:
        assert each["found"] == []
        np.testing.assert_array_equal(np.reshape(each["mask"], (HEIGHT, WIDTH)), wanted)
    assert told["reduced"]["mask"] == WIDTH * HEIGHT


def test_bytes_on_the_gpu(chromium: Chromium, pixels: Any) -> None:
    chromium.site.data["pixels"] = pixels[:7, :33].tobytes()
    told = chromium.call("/web/vision.mjs", {"task": "bytes", "width": 33, "height": 7}, 120)
    assert (told["type"], told["dims"]) == ("uint8", [7, 33, 4])
    np.testing.assert_array_equal(np.reshape(told["bytes"], (7, 33, 4)), pixels[:7, :33])


def test_frames_are_left_out_and_none_waits(chromium: Chromium, pixels: Any) -> None:
    """Who takes longer than a frame sees the newest one each time; the others are counted."""
    offer(chromium, with_detection(read(convolutional().SerializeToString()), Detection(threshold=0.9)), pixels)
    told = chromium.call("/web/vision.mjs", {"task": "watch", "frames": 60, "pause": 100}, 120)
    assert told["most"] == 1
    assert 2 <= told["seen"] < told["shown"] / 2
    assert told["dropped"] >= told["seen"] - 1
    assert told["seen"] + told["dropped"] <= told["shown"] + 1
    assert (told["over"], told["first"]) == (0, 2)
