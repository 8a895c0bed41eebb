"""Sound in and out: `wave` writes what is read, and reads what is written."""

from __future__ import annotations

import json
import struct
import wave
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from sardonyx.cli import main, wav
from sardonyx.common import dtypes
from sardonyx.errors import InvalidArgument

Save = Callable[..., Path]
SAMPLES = np.array([[-1, 0.5], [0, -0.25], [0.75, 0.125]])


def pcm(bits: int, channels: int = 2, rate: int = 8000) -> bytes:
    """A file of `SAMPLES`, by the standard library."""
    scaled = np.rint(SAMPLES[:, :channels] * 2 ** (bits - 1)).astype(np.int64) + (128 if bits == 8 else 0)
    stream = BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(bits // 8)
        file.setframerate(rate)
        file.writeframes(b"".join(int(x).to_bytes(8, "little", signed=True)[: bits // 8] for x in scaled.reshape(-1)))
    return stream.getvalue()


def floats(bits: int, form: int = 3) -> bytes:
    """The same as floats, which the standard library does not write; extensible where the format is 0xFFFE."""
    data = SAMPLES.astype(f"<f{bits // 8}").tobytes()
    head = struct.pack("<HHIIHH", form, 2, 8000, 8000 * bits // 4, bits // 4, bits)
    if form != 3:
        head += struct.pack("<HHIH14x", 22, bits, 3, 3)
    body = b"LIST" + struct.pack("<I", 3) + b"abc\0" + b"data" + struct.pack("<I", len(data)) + data
    fmt = b"fmt " + struct.pack("<I", len(head)) + head
    return b"RIFF" + struct.pack("<I", 4 + len(fmt) + len(body)) + b"WAVE" + fmt + body


@pytest.mark.parametrize("data", [*map(pcm, (8, 16, 24, 32)), floats(32), floats(64), floats(32, 0xFFFE)])
def test_every_form(data: bytes) -> None:
    samples, rate = wav.decode(data)
    assert rate == 8000
    assert samples.dtype == np.float32
    np.testing.assert_array_equal(samples, SAMPLES)


@pytest.mark.parametrize("data", [b"", b"RIFF", pcm(16)[:30], b"text" * 20, floats(32, 7)])
def test_what_is_no_sound(data: bytes) -> None:
    with pytest.raises(ValueError, match="WAV"):
        wav.decode(data)


def test_written_sound(rng: np.random.Generator) -> None:
    x = rng.uniform(-1.2, 1.2, (50, 2))
    with wave.open(BytesIO(wav.encode(x, 22050))) as file:
        assert (file.getframerate(), file.getsampwidth(), file.getnchannels()) == (22050, 2, 2)
        found = np.frombuffer(file.readframes(50), "<i2").reshape(-1, 2)
    np.testing.assert_array_equal(found, np.rint(np.clip(x, -1, 1) * 32767))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (["N"], SAMPLES.mean(axis=1)),
        ([1, "N"], SAMPLES.mean(axis=1)[None]),
        (["B", 2, None], SAMPLES.T[None]),
        ([1, "N", 2], SAMPLES[None]),
        ([2], SAMPLES.mean(axis=1)[:2]),
        ([1, 100], np.pad(SAMPLES.mean(axis=1), (0, 97))[None]),
    ],
)
def test_layouts(shape: list[int | str | None], expected: np.ndarray) -> None:
    notes: list[str] = []
    found = wav.as_input(SAMPLES.astype(np.float32), "x", dtypes.float32, shape, notes)
    np.testing.assert_array_equal(found, expected)
    assert found.flags.c_contiguous
    assert len(notes) == (100 in shape or shape == [2])


def test_integers() -> None:
    found = wav.as_input(np.float32([[0.5], [-1], [1]]), "x", dtypes.int16, ["N"], [])
    assert found.tolist() == [16384, -32768, 32767]
    with pytest.raises(InvalidArgument, match="is not shaped like sound"):
        wav.as_input(np.float32([[0.5]]), "x", dtypes.uint8, ["N"], [])


def test_through_a_model(graph: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = graph("g (float[1,N] x) => (float[1,1,N] y) { a = Constant <value_ints = [0]> ()  y = Unsqueeze (x, a) }")
    (tmp_path / "in.wav").write_bytes(pcm(16, 1))
    out = tmp_path / "out.wav"
    arguments = ["run", str(model), "--input", str(tmp_path / "in.wav"), "--output", str(out), "--provider", "numpy"]
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == []
    samples, rate = wav.decode(out.read_bytes())
    assert rate == 8000
    np.testing.assert_allclose(samples, SAMPLES[:, :1], atol=1e-4)


def test_another_sample_rate_is_noted(graph: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = graph("g (float[N] x) => (float[N] y) { y = Neg (x) }", sample_rate="16000")
    (tmp_path / "in.wav").write_bytes(pcm(16, 1))
    assert main(["run", str(model), "--input", str(tmp_path / "in.wav"), "--provider", "numpy"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "has 8,000 samples a second, and the model wants 16,000" in text
