"""`sardonyx compile --classify` and `--segment`: what their bundles give is what Python's objects do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from sardonyx import InferenceSession, vision
from sardonyx.cli import main
from sardonyx.demo import assets, picture
from tests.vision.families import softmax
from tests.vision.test_maps import network

DIGITS = assets() / "digits.onnx"


def compiled(
    capsys: pytest.CaptureFixture[str], model: Path, target: Path, *options: str
) -> tuple[dict[str, Any], InferenceSession]:
    """What the command tells, and the bundle that it made."""
    assert main(["compile", str(model), *options, "--output", str(target), "--json"]) == 0
    return json.loads(capsys.readouterr().out), InferenceSession(target)


def test_a_classifier(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a digit whose pixels become the input by no more than a division: onnxruntime judges."""
    import onnxruntime

    path = picture("4_heldout.png")
    grey = np.asarray(Image.open(path).convert("L"))
    words = "zero,one,two,three,four,five,six,seven,eight,nine"
    options = ["--classify", f"most=3,labels={words}", "--image", "image:resize=28"]
    told, session = compiled(capsys, DIGITS, tmp_path / "digits.sdx", *options)
    assert told["labels"] == words.split(",")
    assert [each.name for each in session.get_outputs()] == ["scores", "labels"]
    reference = onnxruntime.InferenceSession(DIGITS)
    (shares,) = reference.run(None, {"image": grey[None, None].astype(np.float32) / 255})
    order = np.argsort(-shares[0])[:3]
    scores, numbers = session.run(None, {"image": np.repeat(grey[..., None], 4, 2)})
    np.testing.assert_array_equal(numbers, order)
    np.testing.assert_allclose(scores, shares[0][order], atol=1e-5)
    found = vision.classify(tmp_path / "digits.sdx", path)
    assert [each.label for each in found] == [words.split(",")[number] for number in order]
    again, session = compiled(
        capsys, DIGITS, tmp_path / "soft.sdx", "--classify", "softmax=yes,most=10", "--image", "image:resize=28"
    )
    assert again["labels"] == [*"0123456789"]
    scores, _ = session.run(None, {"image": np.repeat(grey[..., None], 4, 2)})
    np.testing.assert_allclose(scores, np.sort(softmax(shares[0].astype(float)))[::-1], atol=1e-5)


def bright(levels: npt.NDArray[np.uint8], threshold: float) -> npt.NDArray[np.bool_]:
    return 1 / (1 + np.exp(-levels.mean(2) / 255)) > threshold


@pytest.mark.parametrize("threshold", [0.55, 0.65])
def test_a_segmenter(threshold: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A picture of the network's own size, so that each pixel has a place of its own."""
    (tmp_path / "bright.onnx").write_bytes(network(sigmoid=True))
    pixels = np.random.default_rng(0).integers(0, 256, (30, 40, 4), np.uint8)
    options = ["--segment", f"threshold={threshold},labels=dark,bright", "--image", "x:resize=30x40"]
    told, session = compiled(capsys, tmp_path / "bright.onnx", tmp_path / "bright.sdx", *options)
    assert told["labels"] == ["dark", "bright"]
    (mask,) = session.run(None, {"x": pixels})
    wanted = bright(pixels[..., :3], threshold)
    assert 0.02 < wanted.mean() < 0.98
    np.testing.assert_array_equal(mask, wanted)
    np.testing.assert_array_equal(vision.segment(tmp_path / "bright.sdx", pixels[..., :3]), wanted)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--classify", "most=few"], "--classify most=few: most=few: write a whole number"),
        (["--classify", "softmax=maybe"], "--classify softmax=maybe: softmax=maybe: write yes or no"),
        (["--classify", "threshold=1"], "there is no option 'threshold'; there are most, softmax, labels"),
        (["--classify"], "--classify: how pictures for 'image' are normalized is not known: say mean and std, as in"),
        (["--segment", "--image", "image:resize=28"], "--segment: the output probabilities float32["),
        (["--segment", "threshold=high"], "--segment threshold=high: threshold=high: write a number"),
        (["--segment", "output=z", "--image", "image:"], "--segment output=z: the model has no output 'z'; it has"),
        (["--classify", "--detect"], "--detect and --classify are for different models: leave out all but one"),
        (["--classify", "--image", "a:", "--image", "b:"], "--image b:: with --classify there is one picture"),
    ],
)
def test_what_does_not_fit_is_said(
    options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", str(DIGITS), "--output", str(tmp_path / "x.sdx"), *options]) != 0
    assert words in capsys.readouterr().err
