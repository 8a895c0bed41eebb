"""Models made smaller, with onnxruntime.quantization's names: ranges, scales, integers; not how such models are run.

    from sardonyx.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static

    quantize_dynamic("model.onnx", "smaller.onnx")
    quantize_static("model.onnx", "smaller.onnx", reader)  # a CalibrationDataReader: samples of what comes in

`calibrate.py` learns the ranges of tensors, run by run. `onnx_quantizer.py` writes quantized operators and
`qdq_quantizer.py` pairs of QuantizeLinear and DequantizeLinear; `registry.py` and `operators/` say what becomes of each
operator. All of them change `sardonyx.model.ir`, and need NumPy alone.
"""

from __future__ import annotations

from sardonyx.quantization.enums import CalibrationMethod, QuantFormat, QuantizationMode, QuantType

__all__ = ["CalibrationMethod", "QuantFormat", "QuantType", "QuantizationMode"]
