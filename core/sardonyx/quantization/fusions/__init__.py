"""Sequences of nodes put into one, in an ONNXModel, with onnxruntime's names; rules are those of `sardonyx.passes`."""

from __future__ import annotations

from sardonyx.quantization.fusions.fusion import Fusion
from sardonyx.quantization.fusions.fusion_gelu import FusionGelu
from sardonyx.quantization.fusions.fusion_layernorm import FusionLayerNormalization

__all__ = ["Fusion", "FusionGelu", "FusionLayerNormalization"]
