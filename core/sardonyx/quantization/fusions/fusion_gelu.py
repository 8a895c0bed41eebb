"""Gelu where exporters spelled it out."""

from __future__ import annotations

from sardonyx.model.ir import Model
from sardonyx.passes.activation import gelu
from sardonyx.quantization.fusions.fusion import MICROSOFT, Fusion


class FusionGelu(Fusion):
    """x * (1 + Erf(x / sqrt(2))) / 2, in any order, becomes com.microsoft's Gelu, which all operator sets can have."""

    fused_op_type = "Gelu"
    rules = (gelu,)

    @classmethod
    def settle(cls, model: Model) -> None:
        """Let Gelu be that of com.microsoft."""
        for node in model.graph.all_nodes():
            if node.op_type == "Gelu" and not node.domain and node.attribute("approximate", "none") == "none":
                node.domain = MICROSOFT
                node.attributes.pop("approximate", None)
        model.opset_imports.setdefault(MICROSOFT, 1)
