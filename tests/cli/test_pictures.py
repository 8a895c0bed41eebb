"""Pictures: PNG without Pillow against Pillow, and the digits' preprocessing."""

from __future__ import annotations

import importlib.util
import struct
import zlib
from io import BytesIO
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

from sardonyx.demo import assets, digits, pictures, samples
from sardonyx.errors import InvalidArgument, NoSuchFile
from sardonyx.host import png

from .conftest import without

FORMS = [(0, 1), (0, 2), (0, 4), (0, 8), (2, 8), (3, 1), (3, 2), (3, 4), (3, 8), (4, 8), (6, 8)]


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def filtered(rows: np.ndarray, step: int, kinds: list[int]) -> bytes:
    """Rows of bytes, each filtered as its kind says: section 9.2 of the standard, byte by byte."""
    result = bytearray()
    above = [0] * rows.shape[1]
    for kind, line in zip(kinds, rows.tolist(), strict=True):
        result.append(kind)
        for k, x in enumerate(line):
            a, b, c = (line[k - step], above[k], above[k - step]) if k >= step else (0, above[k], 0)
            p = a + b - c
            paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            result.append((x - [0, a, b, (a + b) // 2, paeth][kind]) % 256)
        above = line
    return bytes(result)


def encoded(rng: np.random.Generator, color: int, depth: int, width: int = 13, height: int = 10) -> bytes:
    """A PNG of noise in which every filter occurs; palettes have transparency."""
    bits = depth * png.CHANNELS[color]
    rows = rng.integers(0, 256, (height, -(-width * bits // 8)), dtype=np.uint8)
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    data = zlib.compress(filtered(rows, max(bits // 8, 1), [k % 5 for k in range(height)]))
    palette = rng.integers(0, 256, 3 * 2**depth, dtype=np.uint8).tobytes()
    extra = chunk(b"PLTE", palette) + chunk(b"tRNS", palette[: 2 ** (depth - 1)]) if color == 3 else b""
    ends = chunk(b"IDAT", data[:20]) + chunk(b"IDAT", data[20:]) + chunk(b"IEND", b"")
    return png.SIGNATURE + chunk(b"IHDR", header) + extra + ends


@pytest.mark.parametrize(("color", "depth"), FORMS)
def test_every_form_as_pillow_reads_it(rng: np.random.Generator, color: int, depth: int) -> None:
    data = encoded(rng, color, depth)
    found = png.decode(data)
    mode = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[found.shape[2]]
    expected = np.asarray(Image.open(BytesIO(data)).convert(mode))
    np.testing.assert_array_equal(found, np.atleast_3d(expected))
    np.testing.assert_array_equal(found, pictures.decode(data))


def test_sixteen_bits_keep_the_upper_eight(rng: np.random.Generator) -> None:
    x = rng.integers(0, 65536, (5, 7), dtype=np.uint16)
    stream = BytesIO()
    Image.fromarray(x).save(stream, "png")
    np.testing.assert_array_equal(png.decode(stream.getvalue())[:, :, 0], x >> 8)


def test_damaged_files(rng: np.random.Generator) -> None:
    data = encoded(rng, 2, 8)
    for end in range(0, len(data) - 24, 7):
        with pytest.raises(ValueError, match="PNG"):
            png.decode(data[:end])
    for k in range(8, len(data), 3):
        broken = data[:k] + bytes([data[k] ^ 0x55]) + data[k + 1 :]
        try:
            png.decode(broken)
        except ValueError:
            continue


def test_interlaced_files_need_pillow(rng: np.random.Generator) -> None:
    data = encoded(rng, 2, 8)
    with pytest.raises(ValueError, match="need Pillow"):
        png.decode(data[:28] + b"\1" + data[29:])


def test_without_pillow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Image.new("L", (4, 4)).save(tmp_path / "a.jpg")
    expected = {path.name: pictures.read(path) for path in samples()}
    without(monkeypatch, "PIL")
    for path in samples():
        np.testing.assert_array_equal(pictures.read(path), expected[path.name])
    with pytest.raises(InvalidArgument, match="a picture in JPEG; without Pillow only PNG is read: pip install pillow"):
        pictures.read(tmp_path / "a.jpg")


FILES = {b"": "the file is empty", b"words": "this is no picture", b"\x08\x07onnx": "this is no picture"}


@pytest.mark.parametrize("data", FILES)
@pytest.mark.parametrize("pillow", [True, False])
def test_what_is_no_picture_is_not_blamed_on_pillow(
    data: bytes, pillow: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a.jpg").write_bytes(data)
    if not pillow:
        without(monkeypatch, "PIL")
    with pytest.raises(InvalidArgument) as caught:
        pictures.read(tmp_path / "a.jpg")
    assert str(caught.value) == f"{tmp_path / 'a.jpg'}: {FILES[data]}"


@pytest.mark.parametrize("kind", ["JPEG", "GIF", "BMP", "TIFF", "WebP", "AVIF", "PNG"])
def test_formats_by_their_first_bytes(kind: str) -> None:
    stream = BytesIO()
    Image.new("RGB", (8, 8)).save(stream, kind)
    assert pictures.format_of(stream.getvalue()) == kind


def test_damaged_files_with_pillow(tmp_path: Path) -> None:
    """Cut off, or with bytes changed: Pillow raises several kinds of exceptions."""
    stream = BytesIO()
    Image.effect_noise((32, 32), 9).save(stream, "PNG")
    data = stream.getvalue()
    for number, damaged in enumerate((data[:60], data[:200], data[:33] + b"\0" * 20 + data[53:])):
        (tmp_path / f"{number}.png").write_bytes(damaged)
        with pytest.raises(InvalidArgument, match=rf"{number}\.png: "):
            pictures.read(tmp_path / f"{number}.png")


def test_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(NoSuchFile, match="absent"):
        pictures.read(tmp_path / "absent.png")
    with pytest.raises(NoSuchFile, match="is a folder; name a picture in it"):
        pictures.read(tmp_path)
    (tmp_path / "text.png").write_text("text")
    with pytest.raises(InvalidArgument, match=r"text\.png: this is no picture"):
        pictures.read(tmp_path / "text.png")


def test_photos_are_turned_upright(tmp_path: Path) -> None:
    image = Image.fromarray(np.array([[0, 255]], np.uint8).repeat(8, 0).repeat(16, 1))
    exif = image.getexif()
    exif[0x0112] = 6  # turn clockwise to see it
    image.save(tmp_path / "turned.png", exif=exif)
    assert pictures.read(tmp_path / "turned.png").shape == (32, 8, 1)


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA", "P", "1", "CMYK"])
def test_grey_as_pillow_makes_it(mode: str, rng: np.random.Generator) -> None:
    image = Image.fromarray(rng.integers(0, 256, (9, 11, 3), dtype=np.uint8)).convert(mode)
    np.testing.assert_array_equal(pictures.gray(pictures.of_image(image)), np.asarray(image.convert("L")))


def test_growing_is_linear() -> None:
    found = pictures.resize(np.array([[[0], [100]]], np.uint8), 1, 4)[0, :, 0]
    np.testing.assert_allclose(found, [0, 25, 75, 100])


def test_transparent_paper_contrasts() -> None:
    clear = np.zeros((40, 40, 4), np.uint8)
    clear[10:30, 18:22] = [255, 255, 255, 255]
    dark = clear.copy()
    dark[..., :3] = 0
    opaque = np.zeros((40, 40, 1), np.uint8)
    opaque[10:30, 18:22] = 255
    for pixels in (clear, dark):
        np.testing.assert_array_equal(digits.digit(pixels), digits.digit(opaque))


@pytest.fixture(scope="module")
def preprocess() -> ModuleType:
    """The example's own module."""
    path = Path(str(assets())) / "preprocess.py"
    spec = importlib.util.spec_from_file_location("preprocess", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_does_the_same(preprocess: ModuleType) -> None:
    for path in samples():
        x = digits.digit(pictures.read(path))
        assert x.shape == (1, 1, 28, 28)
        assert x.dtype == np.float32
        np.testing.assert_array_equal(preprocess.digit(str(path)), x)
        np.testing.assert_array_equal(preprocess.digit(Image.open(str(path))), x)
