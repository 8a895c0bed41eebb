"""Models for Qualcomm's QNN: types and scales that its kernels ask for, with onnxruntime's names."""

from __future__ import annotations

from sardonyx.quantization.execution_providers.qnn.preprocess import qnn_preprocess_model
from sardonyx.quantization.execution_providers.qnn.quant_config import get_qnn_qdq_config

__all__ = ["get_qnn_qdq_config", "qnn_preprocess_model"]
