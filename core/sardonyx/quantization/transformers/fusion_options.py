"""onnxruntime.transformers.fusion_options, which can be imported."""

from __future__ import annotations

from sardonyx.quantization.transformers.refused import FusesBeforehand


class FusionOptions(FusesBeforehand):
    """onnxruntime's class of this name, which cannot be made."""
