"""Layouts of weights that kernels of CUDA read; there are none here."""

from __future__ import annotations

from typing import Any, NoReturn


class CudaQuantizer:
    """onnxruntime's class of this name, which cannot be made: NotImplementedError says why."""

    def __init__(self, *arguments: Any, **options: Any) -> NoReturn:
        raise NotImplementedError(
            "CudaQuantizer packs weights for kernels of CUDA, which Sardonyx has not; use quantize_static"
        )
