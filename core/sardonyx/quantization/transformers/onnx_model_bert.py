"""onnxruntime.transformers.onnx_model_bert, which can be imported."""

from __future__ import annotations

from sardonyx.quantization.transformers.refused import FusesBeforehand


class BertOnnxModel(FusesBeforehand):
    """onnxruntime's class of this name, which cannot be made."""
