"""What each package is asked, as its README does: a function that prepares, and returns one that answers.

An answer is made of lists, words, numbers and whole numbers, which are pixels.
"""

from __future__ import annotations

import io
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.packages.installed import sample

Answer = Callable[[], Any]

LINES = ("Green Grocer", "Invoice 2024-117", "Apples 3 kg", "Total 48.50 EUR", "", "Thank you")
SENTENCES = ("ذهب الولد الى المدرسة في الصباح", "القمر جميل الليلة")
FILES = ("README.md", "Makefile", "pyproject.toml", "tests/packages/programs.py", "examples/digits/digits.onnx")


def ddddocr() -> Answer:
    """The letters of a captcha, and where there are letters in a picture."""
    from ddddocr import DdddOcr

    reader, detector = DdddOcr(show_ad=False), DdddOcr(det=True, show_ad=False)
    captcha = drawn(("x7Kp",), (130, 70), 48)
    page = drawn(("A", "   B", "      Z"), (320, 200), 48)
    return lambda: [reader.classification(captcha), sorted(detector.detection(page))]


def magika() -> Answer:
    """The kinds of some files."""
    from magika import Magika

    known = Magika()
    contents = [Path(name).read_bytes() for name in FILES] + [b'{"a": [1, 2, 3], "b": null}']

    def answer() -> Any:
        results = [known.identify_bytes(content) for content in contents]
        return [[str(result.output.label), float(result.score)] for result in results]

    return answer


def nudenet() -> Answer:
    """What there is in a portrait: a face."""
    from nudenet import NudeDetector

    detector = NudeDetector()
    portrait = str(sample("portrait.jpg"))
    return lambda: [[found["class"], found["score"], found["box"]] for found in detector.detect(portrait)]


def piper() -> Answer:
    """The vowels of Arabic sentences, which come before they are spoken; no voice is in the package."""
    from piper.tashkeel import TashkeelDiacritizer

    diacritizer = TashkeelDiacritizer()
    return lambda: [diacritizer(sentence) for sentence in SENTENCES]


def rapidocr() -> Answer:
    """The lines of a page, and their corners."""
    from rapidocr_onnxruntime import RapidOCR

    reader = RapidOCR()
    page = drawn(LINES, (640, 480), 40)

    def answer() -> Any:
        found, _ = reader(page)
        return [[words, float(score), [[round(v) for v in corner] for corner in box]] for box, words, score in found]

    return answer


def silero() -> Answer:
    """When there is speech, by the model that takes window by window and by the one that takes all, and how surely."""
    import torch
    from silero_vad import get_speech_timestamps, get_speech_timestamps_sequence, load_silero_vad

    with wave.open(str(sample("speech.wav"))) as file:
        sound = np.frombuffer(file.readframes(20 * file.getframerate()), np.int16).astype(np.float32) / 32768
    one, sequence = load_silero_vad(onnx=True), load_silero_vad(sequence=True)

    def answer() -> Any:
        heard = torch.from_numpy(sound)
        spans = [
            get_speech_timestamps(heard, one, return_seconds=True, time_resolution=3),
            get_speech_timestamps_sequence(sound, sequence, return_seconds=True, time_resolution=3),
        ]
        return [spans, sequence.audio_forward(sound).tolist()]

    return answer


PROGRAMS: dict[str, Callable[[], Answer]] = {
    program.__name__: program for program in (ddddocr, magika, nudenet, piper, rapidocr, silero)
}


def drawn(lines: tuple[str, ...], size: tuple[int, int], height: int) -> bytes:
    """A PNG of lines in black on white, in the font that Pillow brings."""
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("RGB", size, "white")
    for k, line in enumerate(lines):
        ImageDraw.Draw(picture).text((30, 20 + 60 * k), line, "black", ImageFont.load_default(height))
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()
