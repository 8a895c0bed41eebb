"""What is told of a detector, and pictures in all forms, broken ones as well."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.helper as oh
import pytest
from PIL import Image, ImageDraw

from sardonyx import vision
from sardonyx.cli import main
from sardonyx.cli.detections import labels
from sardonyx.errors import InvalidArgument, NoSuchFile
from sardonyx.model.serde.reader import read
from sardonyx.passes.vision.detection import Detection, with_detection
from sardonyx.vision.pixels import pixels_of
from tests.vision.families import (
    FAMILIES,
    HEIGHT,
    LABELS,
    WIDTH,
    Raw,
    convolutional,
    kept,
    passing,
    placed,
    yolov8,
    yolov8_head,
)
from tests.vision.test_detection import NUMPY, answer, detector

YOLO = FAMILIES["yolov8"]
SIZE = (120, 200)


def raw(seed: int = 0) -> Raw:
    return yolov8_head(np.random.default_rng(seed))


def agrees(found: list[npt.NDArray[Any]], wanted: tuple[Any, ...], fit: str = "contain") -> None:
    assert len(wanted[1]) > 0
    np.testing.assert_array_equal(found[2], wanted[2])
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-6)
    np.testing.assert_allclose(found[0], placed(wanted[0], SIZE, fit), atol=1e-3)


@pytest.mark.parametrize("overlap", [0.0, 0.2, 0.7, 1.0])
def test_overlap(overlap: float) -> None:
    head = raw()
    agrees(answer(detector(YOLO, head, overlap=overlap), head, SIZE), kept(*yolov8(head), 0.25, overlap))


def test_across_classes() -> None:
    head = raw()
    wanted = kept(*yolov8(head), 0.25, 0.45, across=True)
    assert len(wanted[1]) < len(kept(*yolov8(head), 0.25, 0.45)[1])
    agrees(answer(detector(YOLO, head, across=True), head, SIZE), wanted)


def test_the_surest_only() -> None:
    head = raw()
    agrees(answer(detector(YOLO, head, most=7), head, SIZE), kept(*yolov8(head), 0.25, 0.45, most=7))


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("classes", [["eel", 1], [3]])
def test_classes(classes: list[int | str], across: bool) -> None:
    """A box whose surest class is another is not one of these."""
    head = raw()
    numbers = [LABELS.index(each) if isinstance(each, str) else each for each in classes]
    boxes, shares = yolov8(head)
    mine = np.isin(shares.argmax(1), numbers)
    wanted = kept(boxes[mine], shares[mine], 0.25, 0.45, across)
    agrees(answer(detector(YOLO, head, classes=classes, across=across), head, SIZE), wanted)


@pytest.mark.parametrize("fit", ["stretch", "cover", "contain", "corner"])
def test_every_fit(fit: str) -> None:
    head = raw()
    model = detector(YOLO, head, vision.Picture("", fit=fit))
    agrees(answer(model, head, SIZE), kept(*yolov8(head), 0.25, 0.45), fit)


def brightest() -> bytes:
    """A detector of one box: where the input is bright, to the pixel."""
    image = oh.make_tensor_value_info("images", onnx.TensorProto.FLOAT, [1, 3, HEIGHT, WIDTH])
    given = oh.make_tensor_value_info("box", onnx.TensorProto.FLOAT, [1, 1, 6])
    half = oh.make_tensor("half", onnx.TensorProto.FLOAT, [], [0.75])
    one = oh.make_tensor("one", onnx.TensorProto.INT64, [1], [1])
    sure = oh.make_tensor("sure", onnx.TensorProto.INT64, [2], [1, 0])
    shape = oh.make_tensor("shape", onnx.TensorProto.INT64, [3], [1, 1, 6])
    nodes = [
        oh.make_node("ReduceMin", ["images"], ["grey"], axes=[0, 1], keepdims=0),
        oh.make_node("Greater", ["grey", "half"], ["bright"]),
        oh.make_node("Cast", ["bright"], ["light"], to=onnx.TensorProto.FLOAT),
    ]
    for axis, name in ((0, "x"), (1, "y")):
        nodes += [
            oh.make_node("ReduceMax", ["light"], [f"{name}s"], axes=[axis], keepdims=0),
            oh.make_node("ArgMax", [f"{name}s"], [f"{name}0"], axis=0),
            oh.make_node("ArgMax", [f"{name}s"], [f"{name}9"], axis=0, select_last_index=1),
            oh.make_node("Add", [f"{name}9", "one"], [f"{name}1"]),
        ]
    nodes += [
        oh.make_node("Concat", ["x0", "y0", "x1", "y1", "sure"], ["row"], axis=0),
        oh.make_node("Reshape", ["row", "shape"], ["rows"]),
        oh.make_node("Cast", ["rows"], ["box"], to=onnx.TensorProto.FLOAT),
    ]
    graph = oh.make_graph(nodes, "brightest", [image], [given], [half, one, sure, shape])
    return bytes(oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=8).SerializeToString())


@pytest.mark.parametrize("fit", ["stretch", "contain", "corner"])
@pytest.mark.parametrize("size", [(240, 500), (600, 200), (64, 96), (30, 40)])
def test_the_way_there_and_back(size: tuple[int, int], fit: str) -> None:
    """What Pillow draws is found where it was drawn, to a pixel of the input."""
    height, width = size
    image = Image.new("RGB", (width, height))
    box = [round(width * 0.3), round(height * 0.55), round(width * 0.75), round(height * 0.9)]
    ImageDraw.Draw(image).rectangle([box[0], box[1], box[2] - 1, box[3] - 1], fill="white")
    options: dict[str, Any] = {"image": vision.Picture("", fit=fit), "providers": [NUMPY], "labels": ["light"]}
    (found,) = vision.detect(brightest(), image, **options)
    assert (found.label, found.number, found.score) == ("light", 0, 1.0)
    steps = np.array([width / WIDTH, height / HEIGHT])
    steps = steps if fit == "stretch" else np.full(2, steps.max())
    assert (abs(np.subtract(found.box, box)) <= np.tile(steps, 2) * 1.01).all()


def test_pictures_in_all_forms(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pixels = np.asarray(Image.fromarray(rng.integers(0, 256, (6, 9, 3), np.uint8)).resize((90, 60)))
    found = vision.Detector(convolutional().SerializeToString(), threshold=0.9, providers=[NUMPY])
    wanted = found.detect(pixels)
    assert len(wanted) > 3
    assert {each.label for each in wanted} <= {*LABELS}
    file, stream = tmp_path / "picture.png", io.BytesIO()
    Image.fromarray(pixels).save(file)
    Image.fromarray(pixels).save(stream, "PNG")
    rgba = np.dstack([pixels, rng.integers(0, 256, (60, 90), np.uint8)])
    for form in (file, str(file), stream.getvalue(), memoryview(stream.getvalue()), Image.fromarray(pixels), rgba):
        assert found.detect(form) == wanted
    assert found.detect(pixels[:, :, ::-1], order="bgr") == wanted
    assert found.detect(file, order="bgr") == wanted  # a file knows its order
    assert found.detect(np.asfortranarray(pixels)) == wanted
    grey = np.ascontiguousarray(pixels[:, :, 0])
    assert found.detect(grey) == found.detect(grey[:, :, None]) == found.detect(np.dstack([grey] * 3)) != wanted
    assert found.detect(np.dstack([grey, grey])) == found.detect(grey)
    assert found.session.compiled == 1


@pytest.mark.parametrize(
    ("picture", "words"),
    [
        (np.zeros((0, 5, 3), np.uint8), "the picture's array is [0, 5, 3], which has no pixels"),
        (np.zeros((4, 5, 7), np.uint8), "the picture's array is [4, 5, 7]: give [height, width, 1 to 4]"),
        (np.zeros((1, 3, 4, 5), np.uint8), "the picture's array is [1, 3, 4, 5]: give [height, width, 1 to 4]"),
        (np.zeros((4, 5, 3)), "is float64, and levels are uint8; multiply by 255 and cast what lies in 0..1"),
        (np.zeros((4, 5), np.int64), "the picture's array is int64, and levels are uint8"),
        (b"words", "the picture's 5 bytes: this is no picture"),
        (b"", "the picture's 0 bytes: the file is empty"),
        (3, "a int is no picture: give a path, bytes, an image of Pillow or an array"),
    ],
)
def test_what_is_no_picture(picture: Any, words: str) -> None:
    found = vision.Detector(convolutional().SerializeToString(), providers=[NUMPY])
    with pytest.raises(InvalidArgument) as raised:
        found.detect(picture)
    assert words in str(raised.value)
    with pytest.raises(NoSuchFile, match=r"nowhere\.png does not exist"):
        found.detect("nowhere.png")
    with pytest.raises(InvalidArgument, match="order='grb': write rgb or bgr"):
        found.detect(np.zeros((4, 5, 3), np.uint8), "grb")


@pytest.mark.parametrize("provider", ["NumpyExecutionProvider", "WasmExecutionProvider"])
def test_what_is_not_finite_is_left_out(provider: str) -> None:
    head = raw()
    x = head["output0"]
    x[0, 4:, :20] = np.nan
    x[0, 4, 20:30] = np.inf
    x[0, 0, 30:40] = np.nan
    x[0, 2, 40:50] = np.inf
    boxes, shares = yolov8(head)
    good = np.isfinite(boxes).all(1) & ~np.isnan(shares).any(1)
    assert good.sum() == x.shape[2] - 40
    wanted = kept(boxes[good], shares[good], 0.25, 0.45)
    found = answer(detector(YOLO, head), head, SIZE, provider)
    np.testing.assert_array_equal(found[2], wanted[2])
    np.testing.assert_allclose(found[0], placed(wanted[0], SIZE, "contain"), atol=1e-3)


@pytest.mark.parametrize("provider", ["NumpyExecutionProvider", "WasmExecutionProvider"])
@pytest.mark.parametrize("name", ["yolov8", "nanodet-plus", "ready"])
def test_nothing_is_there(name: str, provider: str) -> None:
    family = FAMILIES[name]
    head = family.make(np.random.default_rng(0))
    boxes, scores, labels = answer(detector(family, head, threshold=0.9999), head, SIZE, provider)
    assert (boxes.shape, scores.shape, labels.shape) == ((0, 4), (0,), (0,))
    assert (boxes.dtype, scores.dtype, labels.dtype) == (np.float32, np.float32, np.int64)


def refusal(fed: Raw, **options: Any) -> str:
    with pytest.raises(InvalidArgument) as raised:
        with_detection(read(passing(fed).SerializeToString()), Detection(**options))
    return str(raised.value)


def test_what_is_ambiguous_is_refused() -> None:
    head = FAMILIES["yolox"].make(np.random.default_rng(0))
    said = refusal(head, labels=LABELS)
    assert said.startswith("output float32[1,126,10] may be of several families: say head=yolox (")
    assert ", or head=yolov5 (" in said
    assert ", or head=nanodet (" in refusal(head)
    head = FAMILIES["detr"].make(np.random.default_rng(0))
    said = refusal(head)
    assert "say head=detr (logits [1, N, C + 1]" in said
    assert "or head=rtdetr (" in said
    head = FAMILIES["ssd-priors"].make(np.random.default_rng(0))
    assert "say head=ssd (" in refusal(head)
    head = FAMILIES["ssd"].make(np.random.default_rng(0))
    assert refusal(head, head="ssd") == (
        "head=ssd: how its pictures are normalized differs from model to model; say --image images:mean=..,std=.."
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"head": "yolo"}, "head=yolo: there are yolov5, yolov8, yolox"),
        ({"head": "detr"}, "head=detr decodes logits [1, N, C + 1] and pred_boxes [1, N, 4]"),
        ({"head": "yolox"}, "an input of 64x96 has no grids of 9 cells: say another head=, or resize="),
        ({"threshold": 1.0}, "threshold=1: write a number from 0 to below 1"),
        ({"overlap": -0.1}, "overlap=-0.1: write a number from 0 to 1"),
        ({"most": 0}, "most=0: write a number above 0"),
        ({"classes": ["fox"]}, "classes: there is no 'fox'; there are ant, bee, cat, dog, eel"),
        ({"classes": [5]}, "classes: there is no 5; there are 0 to 4"),
        ({"labels": LABELS * 2}, "output 'output0' is float32[1,9,126]: 5 classes, and 10 labels"),
        ({"threshold": 2.0, "option": "--detect x"}, "--detect x: threshold=2: write a number from 0 to below 1"),
    ],
)
def test_what_does_not_fit_is_said(options: dict[str, Any], words: str) -> None:
    assert refusal(raw(), **{"labels": LABELS, **options}).startswith(words)


def test_metadata() -> None:
    head = raw()
    names = {"names": str(dict(enumerate(LABELS))), "task": "detect"}
    model = read(detector(YOLO, head, metadata=names, labels=()))
    assert json.loads(model.metadata["sardonyx.labels"]) == [*LABELS]
    assert json.loads(model.metadata["sardonyx.size"]) == [HEIGHT, WIDTH, "contain"]
    with pytest.raises(InvalidArgument, match="metadata says task=obb; boxes come of detect, segment, pose"):
        detector(YOLO, head, metadata={"task": "obb"})


def test_open_sizes() -> None:
    """The size that is told decides how many cells there are; the outputs' shapes are inferred."""
    proto = convolutional()
    for axis, name in ((0, "batch"), (2, "height"), (3, "width")):
        proto.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    proto.graph.output[0].type.tensor_type.shape.dim[2].dim_param = "cells"
    data = proto.SerializeToString()
    with pytest.raises(InvalidArgument, match=r"input 'images' is .*: say its size, as in resize=640"):
        vision.Detector(data)
    pixels = np.random.default_rng(0).integers(0, 256, (30, 40, 3), np.uint8)
    image = vision.Picture("", size=(HEIGHT, WIDTH), fit="contain", pad=114.0)
    found = vision.detect(data, pixels, image=image, threshold=0.9, providers=[NUMPY])
    wanted = vision.detect(convolutional().SerializeToString(), pixels, threshold=0.9, providers=[NUMPY])
    assert found == wanted
    assert len(wanted) > 3
    proto.metadata_props.add(key="imgsz", value=f"[{HEIGHT}, {WIDTH}]")
    assert vision.detect(proto.SerializeToString(), pixels, threshold=0.9, providers=[NUMPY]) == wanted


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """A detector and a picture."""
    model, picture = tmp_path / "model.onnx", tmp_path / "picture.png"
    onnx.save(convolutional(), model)
    pixels = np.random.default_rng(0).integers(0, 256, (6, 9, 3), np.uint8)
    Image.fromarray(pixels).resize((90, 60)).save(picture)
    return str(model), str(picture)


def test_a_bundle_is_a_detector(files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, picture = files
    target = tmp_path / "model.sdx"
    assert main(["compile", model, "--detect", "threshold=0.9", "--output", str(target), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["labels"] == [*LABELS]
    assert told["targets"]["wasm"]["accepts"] == [
        "images uint8[images.height, images.width, 4]; any images.height; any images.width"
    ]
    wanted = vision.detect(model, picture, threshold=0.9)
    found = vision.detect(target, picture)
    assert len(wanted) > 3
    assert [(each.label, each.number) for each in found] == [(each.label, each.number) for each in wanted]
    np.testing.assert_allclose([each.box for each in found], [each.box for each in wanted], atol=1e-3)
    with pytest.raises(InvalidArgument, match="a bundle has its options within it, and takes no threshold"):
        vision.Detector(target, threshold=0.3)
    with pytest.raises(InvalidArgument, match="the bundle gives boxes, scores, labels of images, and not mask of a"):
        vision.Segmenter(target)
    assert vision.detect(target, picture, labels=["a", "b", "c", "d", "e"])[0].label in "abcde"


def test_the_command(files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, picture = files
    options = ["--detect", "threshold=0.9,classes=cat,3", "--provider", "numpy"]
    assert main(["detect", model, picture, *options, "--json", "--draw", str(tmp_path / "drawn.png")]) == 0
    told = json.loads(capsys.readouterr().out)["pictures"][0]
    wanted = vision.detect(model, picture, threshold=0.9, classes=["cat", "dog"], providers=[NUMPY])
    assert [each["box"] for each in told["objects"]] == [[*each.box] for each in wanted]
    assert {each["label"] for each in told["objects"]} <= {"cat", "dog"}
    drawn = np.asarray(Image.open(tmp_path / "drawn.png"))
    assert drawn.shape == (60, 90, 3)
    left, top, right, _ = (round(side) for side in wanted[0].box)
    assert (drawn[top, left:right] == drawn[top, left]).all()
    assert main(["detect", model, picture, picture, *options]) == 0
    assert capsys.readouterr().out.count("picture.png, 90 x 60") == 2


def test_pictures_that_cannot_be_read_keep_nobody_from_the_others(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, picture = files
    text = tmp_path / "notes.txt"
    text.write_text("no picture")
    several = ["detect", model, str(text), picture, str(tmp_path / "none.png"), "--provider", "numpy"]
    assert main([*several, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [each["picture"] for each in told["pictures"]] == [picture]
    assert [each["picture"] for each in told["failed"]] == [str(text), str(tmp_path / "none.png")]
    assert main(several) == 1
    shown = "".join(capsys.readouterr().out.split())
    assert "2picturesnotread" in shown
    assert "notes.txt" in shown
    assert "none.png" in shown
    assert main(["detect", model, str(text)]) == 1
    assert "notes.txt" in "".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("threshold=a", "--detect threshold=a: threshold=a: write a number"),
        ("most=few", "--detect most=few: most=few: write a whole number"),
        ("across=1", "--detect across=1: across=1: write yes or no"),
        ("size=3", "--detect size=3: there is no option 'size'; there are head, threshold, overlap"),
        ("yolov8", "--detect yolov8: write options as in head=..; there are head, threshold"),
        ("head=yolo", "--detect head=yolo: head=yolo: there are yolov5"),
        ("labels=none.txt", "--detect labels=none.txt: labels=none.txt: the file cannot be read"),
        ("priors=none.npy", "--detect priors=none.npy: priors=none.npy: this is no .npy file"),
    ],
)
def test_wrong_options(
    option: str, words: str, files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", files[0], "--output", str(tmp_path / "x.sdx"), "--detect", option]) != 0
    assert words in capsys.readouterr().err


def test_importing_the_package_leaves_it_alone() -> None:
    code = "import sardonyx, sys; sardonyx.InferenceSession; print([m for m in sys.modules if 'vision' in m])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=500)
    assert done.stdout.strip() == "[]"


def test_labels_of_a_file(files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = tmp_path / "names.txt"
    names.write_text("\n".join("vwxyz"))
    assert main(["detect", *files, "--detect", f"labels={names},threshold=0.9", "--json"]) == 0
    objects = json.loads(capsys.readouterr().out)["pictures"][0]["objects"]
    assert {each["label"] for each in objects} <= {*"vwxyz"}
    assert len(objects) > 3


LISTED = {
    "names.txt": "ant\r\nbee\r\n\r\ncat\r\ndog\r\neel",
    "bom.txt": "\ufeffant\nbee\ncat\ndog\neel\n",
    "numbered.txt": "0  ant\n1  bee\n2  cat\n3  dog\n4  eel\n",
    "rows.csv": "0,ant\n1,bee\n2,cat\n3,dog\n4,eel\n",
    "one.txt": "ant,bee, cat,dog,eel",
    "list.json": '["ant", "bee", "cat", "dog", "eel"]',
    "numbers.json": '{"0": "ant", "1": "bee", "2": "cat", "3": "dog", "4": "eel"}',
    "data.yaml": "path: a  # b\nnames:\n  0: ant\n  1: 'bee'\n  2: cat # and more\n  3: dog\n  4: eel\nnc: 5\n",
    "items.yaml": 'nc: 5\nnames:\n- ant\n- bee\n- cat\n- dog\n- "eel"\n',
    "flow.yaml": "names: ['ant', bee, cat, dog, eel]\nnc: 5\n",
    "braces.yaml": "names: {0: ant, 1: bee, 2: cat, 3: dog, 4: eel}\n",
}


@pytest.mark.parametrize("name", LISTED)
def test_files_of_labels(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(LISTED[name].encode())
    assert labels(str(tmp_path / name), "labels") == LABELS


def test_names_with_commas_stand_in_lines(tmp_path: Path) -> None:
    """As those of ImageNet; names that begin with numbers keep them."""
    (tmp_path / "names.txt").write_text("tench, Tinca tinca\ngoldfish, Carassius auratus\n")
    assert labels(str(tmp_path / "names.txt"), "labels") == ("tench, Tinca tinca", "goldfish, Carassius auratus")
    (tmp_path / "coins.txt").write_text("1 euro\n2 euro\n50 cents\n")
    assert labels(str(tmp_path / "coins.txt"), "labels") == ("1 euro", "2 euro", "50 cents")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file has no names in it; write one in a line"),
        (b"names:\n", "the file has no names in it"),
        ("ant\nbee".encode("utf-16"), "the file is not text in UTF-8; save it as such"),
    ],
)
def test_files_without_labels(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_bytes(content)
    with pytest.raises(InvalidArgument, match=words):
        labels(str(tmp_path / "names.txt"), "labels")


def test_fewer_labels_than_classes() -> None:
    """What follows the classes is told by masks, or in the metadata by the shape of keypoints."""
    wanted = "output 'output0' is float32[1,9,126]: 5 classes, and 3 labels"
    assert refusal(raw(), labels=LABELS[:3]) == wanted
    detector(YOLO, raw(), metadata={"task": "pose", "kpt_shape": "[1, 2]"}, labels=LABELS[:3])
    segment = FAMILIES["yolov8-segment"]
    head = segment.make(np.random.default_rng(0))
    agrees(answer(detector(segment, head), head, SIZE), kept(*yolov8(head), 0.25, 0.45))


def test_a_size_that_is_not_the_models() -> None:
    """It is refused before anything is made for so many cells."""
    for size, words in (((99999, 99999), "resize=99999x99999: input 'images' is 64 high"), ((64, 32), "is 96 wide")):
        with pytest.raises(InvalidArgument, match=words):
            detector(YOLO, raw(), vision.Picture("", size=size))


def test_grey_of_16_bits(tmp_path: Path) -> None:
    """The upper 8 bits; levels of which nothing says what white is are refused."""
    grey = np.arange(0, 65536, 16, np.uint16).reshape(64, 64)
    for name in ("grey.png", "grey.tiff"):
        Image.fromarray(grey).save(tmp_path / name)
        np.testing.assert_array_equal(pixels_of(tmp_path / name)[..., 1], grey >> 8)
    np.testing.assert_array_equal(pixels_of(Image.fromarray(grey))[..., 1], grey >> 8)
    for kind in (np.int32, np.float32):
        image = Image.fromarray(grey.astype(kind))
        image.save(tmp_path / "wide.tiff")
        for given in (image, tmp_path / "wide.tiff", (tmp_path / "wide.tiff").read_bytes()):
            with pytest.raises(InvalidArgument, match=rf"levels are {kind.__name__}: scale them to 0\.\.255, and give"):
                pixels_of(given)
