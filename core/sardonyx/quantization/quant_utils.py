"""onnxruntime.quantization.quant_utils by its names."""

from __future__ import annotations

from sardonyx.quantization.enums import QuantFormat, QuantizationMode, QuantizedValueType, QuantType

__all__ = ["QuantFormat", "QuantType", "QuantizationMode", "QuantizedValueType"]
