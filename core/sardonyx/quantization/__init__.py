"""Models made smaller, with onnxruntime.quantization's names: ranges, scales, integers; not how such models are run.

    from sardonyx.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static

    quantize_dynamic("model.onnx", "smaller.onnx")
    quantize_static("model.onnx", "smaller.onnx", reader)  # a CalibrationDataReader: samples of what comes in

`calibrate.py` learns the ranges of tensors, run by run. `onnx_quantizer.py` writes quantized operators and
`qdq_quantizer.py` pairs of QuantizeLinear and DequantizeLinear; `registry.py` and `operators/` say what becomes of each
operator. All of them change `sardonyx.model.ir`, and need NumPy alone.
"""

from __future__ import annotations

from sardonyx.quantization.calibrate import (
    CalibraterBase,
    CalibrationDataReader,
    MinMaxCalibrater,
    create_calibrator,
)
from sardonyx.quantization.cuda_quantizer import CudaQuantizer
from sardonyx.quantization.enums import CalibrationMethod, QuantFormat, QuantizationMode, QuantType
from sardonyx.quantization.qdq_quantizer import QDQQuantizer
from sardonyx.quantization.quant_utils import write_calibration_table
from sardonyx.quantization.quantize import (
    DynamicQuantConfig,
    StaticQuantConfig,
    get_qdq_config,
    quantize,
    quantize_dynamic,
    quantize_static,
)
from sardonyx.quantization.shape_inference import quant_pre_process
from sardonyx.quantization.tensors_data import TensorData, TensorsData, load_tensors_data, save_tensors_data

__all__ = [
    "CalibraterBase",
    "CalibrationDataReader",
    "CalibrationMethod",
    "CudaQuantizer",
    "DynamicQuantConfig",
    "MinMaxCalibrater",
    "QDQQuantizer",
    "QuantFormat",
    "QuantType",
    "QuantizationMode",
    "StaticQuantConfig",
    "TensorData",
    "TensorsData",
    "create_calibrator",
    "get_qdq_config",
    "load_tensors_data",
    "quant_pre_process",
    "quantize",
    "quantize_dynamic",
    "quantize_static",
    "save_tensors_data",
    "write_calibration_table",
]
