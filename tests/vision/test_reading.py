"""Text in pictures: regions, rectangles and cuts against NumPy, Pillow and OpenCV; PP-OCR's models against RapidOCR."""

from __future__ import annotations

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
from PIL import Image, ImageDraw, ImageFont

from sardonyx import vision
from sardonyx.cli import main
from sardonyx.errors import InvalidArgument
from sardonyx.vision.regions import Rectangle, regions, smallest
from sardonyx.vision.scaling import cut, scaled
from tests.models import path
from tests.packages.installed import modules
from tests.support.wheel import ROOT

TEXTS = ["Hello World 2026", "left", "right of it", "downwards", "turned by twenty degrees"]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with two lines side by side, one that runs down, and one that is turned."""
    picture = Image.new("RGB", (1100, 700), "#f4ecd8")
    draw = ImageDraw.Draw(picture)
    for place, text, size in (((60, 60), TEXTS[0], 64), ((64, 200), TEXTS[1], 40), ((700, 204), TEXTS[2], 40)):
        draw.text(place, text, fill="#203050", font=ImageFont.load_default(size))
    for place, text, angle in (((950, 250), TEXTS[3], -90), ((100, 330), TEXTS[4], 20)):
        strip = Image.new("RGBA", (24 * len(text) + 40, 70))
        ImageDraw.Draw(strip).text((10, 10), text, fill="#203050", font=ImageFont.load_default(44))
        strip = strip.crop(strip.getbbox() or (0, 0, 1, 1))
        turned = strip.rotate(angle, expand=True, resample=Image.Resampling.BICUBIC)
        picture.paste(turned, place, turned)
    target = tmp_path_factory.mktemp("page") / "page.png"
    picture.save(target)
    return target


@pytest.fixture(scope="module")
def reader() -> vision.Reader:
    return vision.Reader(path("ppocr4-det"), path("ppocr4-rec"))


def flooded(mask: npt.NDArray[np.bool_]) -> list[set[tuple[int, int]]]:
    """The sets of pixels that touch, pixel by pixel."""
    left = {(int(x), int(y)) for y, x in zip(*np.nonzero(mask))}
    found = []
    while left:
        todo, group = [left.pop()], set()
        while todo:
            x, y = todo.pop()
            group.add((x, y))
            near = {(x + a, y + b) for a in (-1, 0, 1) for b in (-1, 0, 1)} & left
            left -= near
            todo += near
        found.append(group)
    return found


@pytest.mark.parametrize("density", [0.05, 0.3, 0.5, 0.8, 1.0, 0.0])
def test_regions_are_those_of_a_flood(density: float) -> None:
    for seed, size in enumerate([(1, 1), (1, 9), (9, 1), (13, 17), (40, 31)]):
        mask = np.random.default_rng(seed).random(size) < density
        wanted = sorted((min(group), max(group)) for group in flooded(mask))
        found = []
        for points in regions(mask):
            pixels = {
                (x, y) for (a, y), (b, _) in zip(points[::2].tolist(), points[1::2].tolist()) for x in range(a, b + 1)
            }
            found.append((min(pixels), max(pixels)))
            assert all(mask[y, x] for x, y in pixels)
        assert sorted(found) == wanted
        assert sum(int((p[1::2, 0] - p[::2, 0] + 1).sum()) for p in regions(mask)) == mask.sum()


def test_no_turned_rectangle_is_smaller() -> None:
    """Of all angles in steps of a tenth of a degree; and every point lies within."""
    angles = np.radians(np.arange(0, 90, 0.1))
    for seed in range(30):
        rng = np.random.default_rng(seed)
        count = int(rng.integers(3, 40))
        points = (rng.standard_normal((count, 2)) * (30, 5) @ [[0.8, 0.6], [-0.6, 0.8]]).round().astype(np.int64)
        found = smallest(points)
        assert found.holds(points.astype(float)).all()
        along = points @ np.stack([np.cos(angles), np.sin(angles)])
        across = points @ np.stack([-np.sin(angles), np.cos(angles)])
        least = (np.ptp(along, 0) * np.ptp(across, 0)).min()
        assert found.width * found.height <= least + 1e-6
        assert found.width * found.height >= least * 0.98 - 1


@pytest.mark.parametrize("points", [[[3, 4]], [[3, 4], [3, 4]], [[0, 0], [5, 0]], [[1, 1], [2, 2], [3, 3]]])
def test_rectangles_without_area(points: list[list[int]]) -> None:
    found = smallest(np.array(points))
    assert min(found.width, found.height) < 1e-9
    assert found.holds(np.array(points, float)).all()


def test_corners_are_clockwise_from_the_upper_left() -> None:
    for degrees in (-40, -20, 0, 20, 40):
        angle = np.radians(degrees)
        found = Rectangle(np.array([50.0, 40.0]), 30.0, 10.0, np.array([np.cos(angle), np.sin(angle)])).grown(2.0)
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        wanted = np.array([[-17, -7], [17, -7], [17, 7], [-17, 7]]) @ turn + [50, 40]
        np.testing.assert_allclose(found.corners(), wanted, atol=1e-9)


@pytest.mark.parametrize("size", [(20, 31), (48, 20), (7, 300), (64, 90), (1, 1)])
def test_scaling_is_pillows(size: tuple[int, int]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (64, 90, 3), np.uint8)
    for channel in range(3):
        image = Image.fromarray(pixels[:, :, channel].astype(np.float32))
        wanted = np.asarray(image.resize(size[::-1], Image.Resampling.BILINEAR))
        np.testing.assert_allclose(scaled(pixels, *size)[:, :, channel], wanted, atol=2e-3)


def test_cuts() -> None:
    """A ramp is a ramp in every direction; an upright cut at whole pixels is a copy; the edge goes on."""
    pixels = np.random.default_rng(0).integers(0, 256, (30, 40, 3), np.uint8)
    corners = np.array([[5, 3], [25, 3], [25, 13], [5, 13]], float)
    np.testing.assert_allclose(cut(pixels, corners, 10, 20), pixels[3:13, 5:25], atol=1e-3)
    ramp = np.arange(200, dtype=np.uint8)[None, :, None] + np.zeros((100, 1, 1), np.uint8)
    turned = np.array([[40, 20], [104, 68], [80, 100], [16, 52]], float)
    u, v = (np.arange(80) + 0.5) / 80, (np.arange(40) + 0.5) / 40
    wanted = 40 + 64 * u - 24 * v[:, None] - 0.5
    np.testing.assert_allclose(cut(ramp, turned, 40, 80)[:, :, 0], wanted, atol=1e-3)
    outside = cut(ramp, np.array([[-20, 0], [0, 0], [0, 10], [-20, 10]], float), 10, 20)
    assert (outside == 0).all()


def test_a_page(page: Path, reader: vision.Reader) -> None:
    lines = reader.read(page)
    assert [line.text for line in lines] == TEXTS
    assert min(line.score for line in lines) > 0.9
    for line in lines:
        left, top, right, bottom = line.box
        assert 0 <= left < right <= 1100
        assert 0 <= top < bottom <= 700
    (a, b, c, d) = np.array(lines[4].polygon)
    assert abs(np.degrees(np.arctan2(*(b - a)[::-1])) + 20) < 1.5
    assert abs((b - a) @ (d - a)) < 0.01 * np.hypot(*(b - a)) * np.hypot(*(d - a))
    np.testing.assert_allclose(a + c, b + d, atol=1e-6)
    assert reader.read(np.full((300, 400, 3), 255, np.uint8)) == []


THEIRS = """
import json, sys
import cv2
import numpy as np
import onnxruntime
import pyclipper
from rapidocr_onnxruntime import RapidOCR

page, det, longest, spread = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
pixels = cv2.imread(page)
lines, _ = RapidOCR()(pixels)
height, width = pixels.shape[:2]
scale = min(1, longest / max(height, width))
size = [max(32, round(side * scale / 32) * 32) for side in (width, height)]
x = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA).astype(np.float32) / 127.5 - 1
session = onnxruntime.InferenceSession(det, providers=["CPUExecutionProvider"])
shares = session.run(None, {"x": x.transpose(2, 0, 1)[None]})[0][0, 0].astype(np.float64)
contours, _ = cv2.findContours((shares > 0.3).astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
boxes = []
for contour in contours:
    middle, sides, angle = cv2.minAreaRect(contour)  # of the middles of pixels
    core = middle, [side + 1 for side in sides], angle
    if min(core[1]) < 3:
        continue
    corners = cv2.boxPoints(core)
    inside = np.zeros(shares.shape, np.uint8)
    cv2.fillPoly(inside, [np.round(corners).astype(np.int32)], 1)
    if shares[inside > 0].mean() < 0.5:
        continue
    area, length = cv2.contourArea(corners), cv2.arcLength(corners, True)
    offset = pyclipper.PyclipperOffset()
    offset.AddPath((corners * 1000).astype(np.int64).tolist(), pyclipper.JT_ROUND, pyclipper.ET_CLOSEDPOLYGON)
    (grown,) = offset.Execute(1000 * area * spread / length)
    corners = cv2.boxPoints(cv2.minAreaRect((np.array(grown) / 1000).astype(np.float32)))
    boxes.append(((corners.astype(float) + 0.5) * [width / size[0], height / size[1]]).tolist())
print(json.dumps({"lines": [[box, text] for box, text, _ in lines], "boxes": boxes}))
"""


def near(polygon: Any, others: list[Any]) -> float:
    """How far the corners of a polygon are from those of the nearest other one, in whichever order."""
    corners = np.array(polygon)
    apart = [np.hypot(*(corners[:, None] - np.array(other)).transpose(2, 0, 1)).min(1).max() for other in others]
    return float(min(apart))


@pytest.mark.slow
def test_opencv_and_rapidocr_find_the_same(page: Path, reader: vision.Reader) -> None:
    """DBNet's rectangles by OpenCV, pyclipper and onnxruntime; and what the package reads, spaces apart."""
    script = f"import sys; sys.path.append({str(modules('rapidocr'))!r}){THEIRS}"
    command = [sys.executable, "-c", script, str(page), str(path("ppocr4-det")), "960", "2.0"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=500)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    lines = reader.read(page)
    assert len(told["boxes"]) == len(told["lines"]) == len(lines)
    for line in lines:
        assert near(line.polygon, told["boxes"]) < 1.5, line
    texts = sorted(text.replace(" ", "") for _, text in told["lines"])
    assert texts == sorted(line.text.replace(" ", "") for line in lines)


def letters_model(steps: list[int], classes: int, metadata: bool = True) -> bytes:
    """Gives these classes, whatever it is shown."""
    shares = np.full((1, len(steps), classes), 0.01, np.float32)
    shares[0, np.arange(len(steps)), steps] = 0.9
    fed = oh.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 48, "w"])
    given = oh.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, len(steps), classes])
    nodes = [
        oh.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        oh.make_node("Mul", ["most", "zero"], ["nothing"]),
        oh.make_node("Add", ["shares", "nothing"], ["y"]),
    ]
    constants = [onnx.numpy_helper.from_array(shares, "shares"), oh.make_tensor("zero", 1, [], [0.0])]
    graph = oh.make_graph(nodes, "letters", [fed], [given], constants)
    proto = oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=8)
    if metadata:
        proto.metadata_props.add(key="character", value="a\nb")
    return bytes(proto.SerializeToString())


def dark_model() -> bytes:
    """Text is where the first channel is dark."""
    fed = oh.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, "h", "w"])
    given = oh.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 1, "h", "w"])
    nodes = [
        oh.make_node("Slice", ["x", "first", "second", "axis"], ["one"]),
        oh.make_node("Neg", ["one"], ["y"]),
    ]
    constants = [onnx.numpy_helper.from_array(np.array([k]), name) for k, name in enumerate(("first", "second"))]
    constants.append(onnx.numpy_helper.from_array(np.array([1]), "axis"))
    graph = oh.make_graph(nodes, "dark", [fed], [given], constants)
    return bytes(oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=8).SerializeToString())


def marked(*boxes: tuple[int, int, int, int]) -> npt.NDArray[np.uint8]:
    """A white picture 320 x 160 that is dark in these boxes (left, top, right, bottom)."""
    pixels = np.full((160, 320, 3), 255, np.uint8)
    for left, top, right, bottom in boxes:
        pixels[top:bottom, left:right] = 0
    return pixels


def test_letters_that_repeat_and_blanks() -> None:
    """CTC: a a - a b b is aab; a class more than letters is a space."""
    det, pixels = dark_model(), marked((40, 40, 140, 60))
    for steps, classes, text in (([1, 1, 0, 1, 2, 2], 3, "aab"), ([1, 3, 3, 2, 0], 4, "a b"), ([0, 0], 3, None)):
        lines = vision.read(det, letters_model(steps, classes), pixels)
        assert [line.text for line in lines] == ([text] if text else [])
        assert all(abs(line.score - 0.9) < 1e-6 for line in lines)
    assert vision.read(det, letters_model([1], 3), pixels, sure=0.95) == []
    assert vision.read(det, letters_model([1], 3, False), pixels, letters="xy")[0].text == "x"


def test_a_line_is_grown_by_its_area_over_its_perimeter() -> None:
    (line,) = vision.read(dark_model(), letters_model([1], 3), marked((40, 40, 140, 60)), spread=1.5)
    grow = 1.5 * 100 * 20 / (2 * 120)
    wanted = (40 - grow, 40 - grow, 140 + grow, 60 + grow)
    np.testing.assert_allclose(line.box, wanted, atol=1e-6)
    (cornered,) = vision.read(dark_model(), letters_model([1], 3), marked((0, 0, 100, 20)), spread=1.5)
    np.testing.assert_allclose(cornered.box, (0, 0, 100 + grow, 20 + grow), atol=1e-6)


def test_lines_in_the_order_of_reading() -> None:
    boxes = [(200, 12, 260, 32), (10, 15, 70, 35), (12, 100, 80, 120), (150, 60, 210, 80)]
    lines = vision.read(dark_model(), letters_model([1], 3), marked(*boxes), spread=0.0)
    assert [round(line.box[0]) for line in lines] == [10, 200, 150, 12]
    noise = vision.read(dark_model(), letters_model([1], 3), marked((10, 10, 60, 12), *boxes[2:]), spread=0.0)
    assert len(noise) == 2


def test_what_models_are_not() -> None:
    det, rec = dark_model(), letters_model([1], 3)
    with pytest.raises(InvalidArgument, match="the model that reads lines does not tell its letters: say letters="):
        vision.Reader(det, letters_model([1], 3, False))
    with pytest.raises(InvalidArgument, match=r"the model that finds lines takes .* and not \[1, 3, h, w\] and \[1, 1"):
        vision.Reader(rec, rec)
    with pytest.raises(InvalidArgument, match=r"gives \[1, 3\], and there are 5 letters: say letters="):
        vision.read(det, rec, marked((40, 40, 140, 60)), letters="abcde")
    with pytest.raises(InvalidArgument, match="longest=8: write at least 32 pixels"):
        vision.Reader(det, rec, longest=8)


def test_the_command(page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = [str(path("ppocr4-det")), str(path("ppocr4-rec"))]
    drawn = tmp_path / "drawn.png"
    assert main(["read", *models, str(page), "--draw", str(drawn)]) == 0
    assert capsys.readouterr().out.splitlines()[: len(TEXTS)] == TEXTS
    before, after = (np.asarray(Image.open(each)).astype(int) for each in (page, drawn))
    changed = (before != after).any(2)
    assert (after[changed] == (230, 57, 70)).all()
    assert 0.005 < changed.mean() < 0.05
    assert main(["read", *models, str(page), "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["pictures"]
    assert [line["text"] for line in told["lines"]] == TEXTS
    assert told["size"] == [1100, 700]
    assert np.array(told["lines"][0]["polygon"]).shape == (4, 2)
    (tmp_path / "det.onnx").write_bytes(dark_model())
    (tmp_path / "rec.onnx").write_bytes(letters_model([2, 1], 3, False))
    (tmp_path / "letters.txt").write_text("x\ny\n")
    Image.fromarray(marked((40, 40, 140, 60))).save(tmp_path / "marked.png")
    own = [str(tmp_path / name) for name in ("det.onnx", "rec.onnx", "marked.png")]
    assert main(["read", *own, "--letters", str(tmp_path / "letters.txt")]) == 0
    assert capsys.readouterr().out.startswith("yx\n")
    assert main(["read", *own, "--letters", str(tmp_path / "nowhere.txt")]) == 1
    assert "nowhere.txt: the file cannot be read" in capsys.readouterr().err
