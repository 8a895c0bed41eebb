"""onnxruntime's earlier name for `matmul_nbits_quantizer`."""

from __future__ import annotations

from sardonyx.quantization.matmul_nbits_quantizer import (
    DefaultWeightOnlyQuantConfig,
    GPTQWeightOnlyQuantConfig,
    HQQWeightOnlyQuantConfig,
    KQuantWeightOnlyQuantConfig,
    MatMulNBitsQuantizer,
    QuantFormat,
    RTNWeightOnlyQuantConfig,
    WeightOnlyQuantConfig,
)

MatMul4BitsQuantizer = MatMulNBitsQuantizer

__all__ = [
    "DefaultWeightOnlyQuantConfig",
    "GPTQWeightOnlyQuantConfig",
    "HQQWeightOnlyQuantConfig",
    "KQuantWeightOnlyQuantConfig",
    "MatMul4BitsQuantizer",
    "MatMulNBitsQuantizer",
    "QuantFormat",
    "RTNWeightOnlyQuantConfig",
    "WeightOnlyQuantConfig",
]
