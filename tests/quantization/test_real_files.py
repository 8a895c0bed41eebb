"""Real models, quantized by both tools with the same ranges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.models import catalogue, feeds
from tests.quantization import both
from tests.quantization.options import OPERATORS, U8

MODELS = [
    "ppocr2-cls",
    "ppocr5-cls",
    "ppocr4-det",
    "basic-pitch",
    "magika",
    "silero-vad",
    "silero-vad-seq",
    "eeg-spindle-unet",
    "eeg-seizure-lstm",
    "romanizer-enc",
    "slovorez-fp16",
]
STATIC: dict[str, dict[str, Any]] = {
    "qdq": {},
    "qdq channels": {"per_channel": True, "activation_type": U8},
    "qop": OPERATORS | {"activation_type": U8},
}
THEIRS_FAILS = {("ppocr4-det", "qop"), ("ppocr4-det", "dynamic")}
"""Weights and biases that are Constant nodes: not found there; here the nodes stay in floats."""


@pytest.mark.nightly
@pytest.mark.parametrize("options", [*STATIC, "dynamic"])
@pytest.mark.parametrize("name", MODELS)
def test_files_are_the_same(name: str, options: str, tmp_path: Path) -> None:
    path = catalogue.path(name)
    samples = [feeds.inputs(name, seed) for seed in range(2)]
    if (name, options) in THEIRS_FAILS:
        with pytest.raises((ValueError, AttributeError), match=r"to be an initializer|'NoneType' object"):
            _files(path, options, samples, tmp_path)
        assert (tmp_path / "ours.onnx").exists()
        return
    assert both.differences(*_files(path, options, samples, tmp_path)) == []


def _files(path: Path, options: str, samples: list[dict[str, Any]], folder: Path) -> tuple[Path, Path]:
    if options in STATIC:
        return both.static(path, folder, samples, STATIC[options])
    return both.dynamic(path, folder, {"per_channel": True, "weight_type": U8})
