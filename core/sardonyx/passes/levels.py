"""How much a model is rewritten: onnxruntime's levels."""

from __future__ import annotations

from sardonyx.common.enums import Choice


class GraphOptimizationLevel(Choice):
    """How much a session rewrites its model."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99
