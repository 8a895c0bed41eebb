"""Real models, quantized by both tools with the same ranges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import sardonyx
from sardonyx.errors import InvalidArgument
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import write
from sardonyx.quantization.newer import raise_operator_set
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
CHANNELS_SINCE = 13
"""The operator set from which on QuantizeLinear has an axis."""
THEIRS_FAILS = {("ppocr4-det", "qop"), ("ppocr4-det", "dynamic")}
"""Weights and biases that are Constant nodes: not found there; here the nodes stay in floats."""

THEIRS_IS_WRONG = {
    "basic-pitch": {"qop"},
    "eeg-spindle-unet": {"qdq", "qdq channels", "qop"},
    "slovorez-fp16": {"qdq", "qdq channels"},
}
"""A bias that convolutions share has one scale there; a tensor that was empty in all samples, whose range is infinite,
is rounded; scales of float16 stand in an operator set that has none. `test_right_models.py` has shared biases, infinite
ranges and float16 by themselves."""
OURS_REFUSES = {("slovorez-fp16", "qop"), ("slovorez-fp16", "dynamic")}
"""Quantized operators take float32; there they get float16."""


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
    if (name, options) in OURS_REFUSES:
        with pytest.raises(InvalidArgument, match=r"is float16, and quantized operators take float32: use"):
            _files(path, options, samples, tmp_path)
        return
    ours, theirs = _files(path, options, samples, tmp_path)
    if options not in THEIRS_IS_WRONG.get(name, ()):
        assert both.differences(ours, theirs) == []
        return
    floats = onnxruntime.InferenceSession(path).run(None, samples[0])
    found = sardonyx.InferenceSession(ours).run(None, samples[0])
    assert min(_cosine(a, b) for a, b in zip(floats, found, strict=True)) > 0.95


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    a, b = (each.astype(np.float64).ravel() for each in (a, b))
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def _files(path: Path, options: str, samples: list[dict[str, Any]], folder: Path) -> tuple[Path, Path]:
    if options == "qdq channels":
        path = _newer(path, folder)
    if options in STATIC:
        return both.static(path, folder, samples, STATIC[options])
    return both.dynamic(path, folder, {"per_channel": True, "weight_type": U8})


def _newer(path: Path, folder: Path) -> Path:
    """The model in an operator set whose QuantizeLinear has channels; what is older their tool leaves in its own."""
    model = read(path)
    if model.opset_imports[""] >= CHANNELS_SINCE:
        return path
    raise_operator_set(model, CHANNELS_SINCE)
    newer = folder / "newer.onnx"
    newer.write_bytes(write(model))
    return newer
