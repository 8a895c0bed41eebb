"""Boxes in a page: what Python makes of the same bundle, to the last bit."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from sardonyx import InferenceSession, vision
from sardonyx.cli import main
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import write
from sardonyx.passes.vision.detection import Detection, with_detection
from tests.support.browser import Chromium
from tests.support.wheel import ROOT
from tests.vision.families import convolutional
from tests.web.pages import FOLDERS, Case, bundled, run

SHOWN = """() => {
    const canvas = document.querySelector("#marks");
    return [...canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data];
}"""
TOLD = "/ in [0-9]+ ms/.test(document.querySelector('#answer').textContent)"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site_folders() -> Mapping[str, Path]:
    return FOLDERS


def test_the_same_bits_in_a_page(chromium: Chromium) -> None:
    model = write(with_detection(read(convolutional().SerializeToString()), Detection(threshold=0.6)))
    bundle = bundled(model, {}, ["wasm"])
    rng = np.random.default_rng(0)
    feeds = [{"images": rng.integers(0, 256, (*size, 4), np.uint8)} for size in ((120, 200), (300, 90), (64, 96))]
    feeds.append({"images": np.zeros((32, 48, 4), np.uint8)})
    session = InferenceSession(bundle)
    counts = []
    for given, answer in zip(feeds, run(chromium, [Case(bundle, each) for each in feeds], "wasm"), strict=True):
        assert not isinstance(answer, str), answer
        for found, wanted in zip(answer, session.run(None, given), strict=True):
            np.testing.assert_array_equal(found, wanted)
            assert found.dtype == wanted.dtype
        counts.append(len(answer[1]))
    assert counts[0] > 10
    assert counts[-1] == 0


def test_the_example(chromium: Chromium, tmp_path: Path) -> None:
    """A picture is chosen, and boxes are drawn: as many as Python finds, where it finds them."""
    assert main(["web", str(tmp_path), "--bundles-only"]) == 0
    onnx.save(convolutional(), tmp_path / "model.onnx")
    options = ["--detect", "threshold=0.995,overlap=0.1", "--output", str(tmp_path / "detector.sdx")]
    assert main(["compile", str(tmp_path / "model.onnx"), *options]) == 0
    shutil.copy(ROOT / "examples" / "page" / "detect.html", tmp_path)
    pixels = np.random.default_rng(0).integers(0, 256, (6, 9, 3), np.uint8)
    Image.fromarray(pixels).resize((540, 360)).save(tmp_path / "picture.png")
    wanted = vision.detect(tmp_path / "detector.sdx", tmp_path / "picture.png")
    assert len(wanted) > 3
    chromium.site.folders = {**chromium.site.folders, "page": tmp_path}
    with chromium.visitor() as visitor:
        opened = visitor.new_page()
        opened.goto(f"{chromium.site.address}/page/detect.html")
        opened.wait_for_function(TOLD)  # what the paper shows
        opened.locator("#file").set_input_files(tmp_path / "picture.png")
        opened.wait_for_function(f"{TOLD} && document.querySelector('#marks').width === 540")
        assert opened.locator("#answer").text_content().split()[0] == str(len(wanted))
        shown = opened.evaluate(SHOWN)
    drawn = np.array(shown, np.uint8).reshape(360, 540, 4)
    left, top, _, bottom = (round(side) for side in wanted[0].box)
    place = drawn[(top + bottom) // 2, left].astype(int)
    colors = np.array(
        [[0xE6, 0x39, 0x46, 255], [0x1D, 0x84, 0xB5, 255], [0x2A, 0x9D, 0x50, 255], [0xC2, 0x57, 0x0C, 255]]
    )
    assert (abs(place - colors[wanted[0].number]) < 8).all()
    assert 0 < (drawn[..., 3] > 0).mean() < 0.6
