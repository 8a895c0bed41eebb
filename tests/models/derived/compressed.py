"""Downloaded models in 8-bit integers, in both notations, and in float16, made by onnxruntime's own tools."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from onnxruntime.transformers.float16 import convert_float_to_float16

from tests.models import inputs, path

SAMPLES = 8


def models() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Build all three."""
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        quant_pre_process(path("ppocr5-cls"), prepared, skip_symbolic_shape=True)
        for name, notation in {"qdq-int8": QuantFormat.QDQ, "qop-int8": QuantFormat.QOperator}.items():
            yield f"ppocr5-cls-{name}", _quantized(prepared, notation)
    yield "minilm-l3-fp16", convert_float_to_float16(onnx.load(path("minilm-l3")), keep_io_types=True)


def _quantized(model: Path, notation: QuantFormat) -> onnx.ModelProto:
    target = model.with_name("quantized.onnx")
    quantize_static(
        model,
        target,
        Samples("ppocr5-cls"),
        quant_format=notation,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    return onnx.load(target)


class Samples(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no types
    """Feeds from which the range of each tensor is learned."""

    def __init__(self, id: str) -> None:
        self.feeds = iter([inputs(id, seed) for seed in range(SAMPLES)])

    def get_next(self) -> dict[str, Any] | None:
        return next(self.feeds, None)
