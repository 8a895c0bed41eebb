"""Programs that import onnxruntime.quantization, in a process where it is stood in for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import onnxruntime.quantization as theirs

import sardonyx.quantization as ours
from tests.quantization.models import MODELS

PROGRAM = """
import sys
import numpy as np
import sardonyx.compat

sardonyx.compat.install()
import onnxruntime
import onnxruntime.quantization as quantization
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.calibrate import CalibrationMethod, create_calibrator
from onnxruntime.quantization.execution_providers.qnn import get_qnn_qdq_config
from onnxruntime.quantization.onnx_model import ONNXModel
from onnxruntime.quantization.onnx_quantizer import ONNXQuantizer
from onnxruntime.quantization.quant_utils import load_model_with_shape_infer, ms_domain
from onnxruntime.quantization.quantize import quantize_dynamic
from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

assert quantization.__name__ == "sardonyx.quantization"
assert onnxruntime.quantization is quantization

class Reader(CalibrationDataReader):
    def __init__(self):
        self.samples = iter([{"x": np.ones((2, 6), np.float32) * k} for k in range(3)])

    def get_next(self):
        return next(self.samples, None)

quantize_static(sys.argv[1], sys.argv[2], Reader(), QuantFormat.QOperator, activation_type=QuantType.QUInt8)
quantize_dynamic(sys.argv[1], sys.argv[2] + ".dynamic")
session = onnxruntime.InferenceSession(sys.argv[2])
print(session.run(None, {"x": np.ones((2, 6), np.float32)})[0].shape, "onnx" in sys.modules)
"""


def test_programs_find_it_and_need_no_onnx(tmp_path: Path) -> None:
    onnx.save(MODELS["activations"](), tmp_path / "model.onnx")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "model.onnx"), str(tmp_path / "y.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.stdout == "(2, 6) False\n", done.stderr
    kinds = [each.op_type for each in onnx.load(tmp_path / "y.onnx").graph.node]
    assert "QLinearMatMul" in kinds


def test_all_public_names_are_there() -> None:
    names = {each for each in vars(theirs) if each[0].isupper() or each.startswith(("quant", "load", "save", "get"))}
    assert {each for each in names if not hasattr(ours, each)} <= {"quant_utils"}
