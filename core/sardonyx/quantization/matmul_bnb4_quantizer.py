"""onnxruntime's name for weights of 4-bit floats, which are not here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sardonyx.errors import NotImplemented as NotHere


class MatMulBnb4Quantizer:
    """Not here: NotImplemented."""

    FP4 = 0
    NF4 = 1

    def __init__(
        self, model: Any, quant_type: int, block_size: int, nodes_to_exclude: Iterable[str] | None = None
    ) -> None:
        raise NotHere(
            "MatMulBnb4Quantizer: FP4 and NF4 are for bitsandbytes' kernels on CUDA; use MatMulNBitsQuantizer(bits=4)"
        )
