"""onnxruntime.transformers.optimizer, which can be imported."""

from __future__ import annotations

from typing import Any, NoReturn

from sardonyx.quantization.transformers.refused import refuse


def optimize_model(*arguments: Any, **options: Any) -> NoReturn:
    """Raises NotImplementedError, which says what to do."""
    refuse("optimize_model")
