"""LayerNormalization where exporters spelled it out."""

from __future__ import annotations

from sardonyx.passes.names import LAYER_NORM
from sardonyx.passes.normalization import RULES
from sardonyx.quantization.fusions.fusion import Fusion


class FusionLayerNormalization(Fusion):
    """(x - mean) / Sqrt(variance + epsilon) * scale + bias becomes LayerNormalization, since operator set 17."""

    fused_op_type = "LayerNormalization"
    rules = tuple(rule for rule in RULES if rule.name in LAYER_NORM)
