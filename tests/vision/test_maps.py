"""Classes of pictures, and masks of them: against NumPy in float64, and Pillow."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.helper as oh
import pytest
from PIL import Image

from sardonyx import InferenceSession, vision
from sardonyx.demo import assets
from sardonyx.errors import InvalidArgument
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import write
from sardonyx.passes.picture import FITS
from sardonyx.passes.vision.classification import Classification, with_classification
from sardonyx.passes.vision.segmentation import Segmentation, with_segmentation
from tests.engine.providers import PROVIDERS, require_provider
from tests.vision.families import HEIGHT, WIDTH, passing, softmax

NUMPY = "NumpyExecutionProvider"
SIZES = [(120, 200), (200, 90), (64, 96), (7, 9)]
DIGITS = assets() / "digits.onnx"


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("softmaxed", [True, False])
def test_the_surest_classes(softmaxed: bool, provider: str) -> None:
    require_provider(provider)
    rng = np.random.default_rng(0)
    raw = {"logits": rng.standard_normal((1, 20)).astype(np.float32) * 3}
    told = Classification(most=4, softmax=softmaxed, labels=[str(k) for k in range(20)])
    model = write(with_classification(read(passing(raw).SerializeToString()), told, vision.Picture("images")))
    session = InferenceSession(model, providers=[provider])
    feeds = {"images": np.zeros((30, 40, 4), np.uint8), "fed/logits": raw["logits"]}
    scores, labels = session.run(None, feeds)
    wanted = raw["logits"][0].astype(float)
    wanted = softmax(wanted) if softmaxed else wanted
    order = np.argsort(-wanted)[:4]
    np.testing.assert_array_equal(labels, order)
    np.testing.assert_allclose(scores, wanted[order], rtol=1e-5)


def test_shares_are_seen() -> None:
    """The digits model has a softmax of its own."""
    image = vision.Picture("image", fit="contain")
    pixels = np.zeros((56, 84, 3), np.uint8)
    pixels[8:48, 40:44] = 255
    found = vision.classify(DIGITS, pixels, image=image, most=10, providers=[NUMPY])
    assert (found[0].label, found[0].number) == ("1", 1)
    assert abs(sum(each.score for each in found) - 1) < 1e-5
    again = vision.classify(DIGITS, pixels, image=image, softmax=True, providers=[NUMPY])
    assert again[0].score < 0.3


def test_how_pictures_are_normalized_has_to_be_known() -> None:
    with pytest.raises(InvalidArgument, match="how pictures for 'image' are normalized is not known: say mean and std"):
        vision.Classifier(DIGITS)
    with pytest.raises(InvalidArgument, match="how pictures for 'x' are normalized is not known: say mean and std"):
        vision.Segmenter(network(sigmoid=True, sides=(30, 40)))
    with pytest.raises(InvalidArgument, match=r"has 10 classes, not 2"):
        vision.Classifier(DIGITS, image=vision.Picture(""), labels=["a", "b"])
    with pytest.raises(InvalidArgument, match=r"is not shaped like maps, \[1, 1 to 256, h, w\]"):
        vision.Segmenter(DIGITS, image=vision.Picture(""))


def places(size: tuple[int, int], fit: str, maps: tuple[int, int]) -> list[npt.NDArray[np.float64]]:
    """Where rows and columns of a picture lie on a map."""
    steps = np.array(size) / (HEIGHT, WIDTH)
    if fit != "stretch":
        steps[:] = steps.min() if fit == "cover" else steps.max()
    found = []
    for length, step, target, count in zip(size, steps, (HEIGHT, WIDTH), maps):
        bar = (length - target * step) / 2 if fit in ("cover", "contain") else 0.0
        found.append((np.arange(length) + 0.5 - bar) / step * count / target)
    return found


@pytest.mark.parametrize(
    ("fit", "provider"),
    [
        *((fit, name) for fit in FITS for name in (NUMPY, "WasmExecutionProvider")),
        ("contain", "WebGpuExecutionProvider"),
    ],
)
def test_the_class_of_each_pixel(fit: str, provider: str) -> None:
    require_provider(provider)
    raw = {"maps": np.random.default_rng(0).standard_normal((1, 6, 16, 24)).astype(np.float32)}
    image = vision.Picture("images", fit=fit)
    model = write(with_segmentation(read(passing(raw).SerializeToString()), Segmentation(), image))
    session = InferenceSession(model, providers=[provider])
    for size in SIZES:
        (mask,) = session.run(None, {"images": np.zeros((*size, 4), np.uint8), "fed/maps": raw["maps"]})
        rows, columns = places(size, fit, (16, 24))
        near = [np.floor(each + 1e-9).clip(0, count - 1).astype(int) for each, count in ((rows, 16), (columns, 24))]
        wanted = raw["maps"][0].argmax(0)[np.ix_(*near)]
        assert mask.dtype == np.uint8
        edges = [abs(each - np.round(each)) < 1e-4 for each in (rows, columns)]  # where float32 may go either way
        inside = ~(edges[0][:, None] | edges[1][None])
        assert inside.mean() > 0.3
        np.testing.assert_array_equal(mask[inside], wanted[inside])
    assert session.compiled == 1


@pytest.mark.parametrize("provider", PROVIDERS)
def test_one_map_is_interpolated(provider: str) -> None:
    """As Pillow enlarges it."""
    require_provider(provider)
    raw = {"maps": np.random.default_rng(0).standard_normal((1, 1, 16, 24)).astype(np.float32) * 3}
    model = with_segmentation(
        read(passing(raw).SerializeToString()), Segmentation(threshold=0.6), vision.Picture("images")
    )
    session = InferenceSession(write(model), providers=[provider])
    (mask,) = session.run(None, {"images": np.zeros((128, 240, 4), np.uint8), "fed/maps": raw["maps"]})
    shares = 1 / (1 + np.exp(-raw["maps"][0, 0]))
    wanted = np.asarray(Image.fromarray(shares).resize((240, 128), Image.Resampling.BILINEAR))
    sure = abs(wanted - 0.6) > 1e-4
    assert sure.mean() > 0.99
    np.testing.assert_array_equal(mask[sure], (wanted > 0.6)[sure])


def network(*, sigmoid: bool, sides: tuple[int | str, int | str] = ("h", "w")) -> bytes:
    """How bright a picture is, map and all."""
    image = oh.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, *sides])
    given = oh.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 1, *sides])
    nodes = [oh.make_node("ReduceMean", ["x"], ["m"], axes=[1])]
    nodes.append(oh.make_node("Sigmoid" if sigmoid else "Identity", ["m"], ["y"]))
    graph = oh.make_graph(nodes, "bright", [image], [given])
    return bytes(oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=8).SerializeToString())


@pytest.mark.parametrize("sigmoid", [True, False])
def test_what_is_bright(sigmoid: bool) -> None:
    pixels = np.zeros((60, 80, 3), np.uint8)
    pixels[20:40, 40:70] = 255
    options: dict[str, Any] = {"sigmoid": not sigmoid, "threshold": 0.5} if not sigmoid else {"threshold": 0.6}
    options["sigmoid"] = None if sigmoid else False
    image = vision.Picture("", size=(30, 40))
    mask = vision.segment(network(sigmoid=sigmoid), pixels, image=image, providers=[NUMPY], **options)
    assert mask.shape == (60, 80)
    inside = np.zeros((60, 80), bool)
    inside[20:40, 40:70] = True
    assert (mask.astype(bool) ^ inside).mean() < 0.03
