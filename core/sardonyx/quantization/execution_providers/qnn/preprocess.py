"""Graphs rewritten for QNN before they are quantized; there is none of that here."""

from __future__ import annotations

from typing import Any, NoReturn


def qnn_preprocess_model(*arguments: Any, **options: Any) -> NoReturn:
    """Fuses operators for QNN, which Sardonyx does not: NotImplementedError says what to do instead."""
    raise NotImplementedError(
        "qnn_preprocess_model fuses operators for QNN alone; quantize the model without, or prepare it with onnxruntime"
    )
