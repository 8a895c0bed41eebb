"""Functions of onnxruntime's native module that can be imported, and raise NotImplemented when they are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from sardonyx.errors import NotImplemented

_KERNELS = "operators are not made of kernels here; `sardonyx inspect --operators` lists them, and where they run"
_BLOCKS = "weights are not quantized in blocks here; quantize the model with onnxruntime, and run it here"
REASONS = {
    "get_all_operator_schema": _KERNELS,
    "get_all_opkernel_def": _KERNELS,
    "get_registered_ep_kernel_defs": _KERNELS,
    "pack_fp4_weights_for_cuda_moe_gemm": "there is no CUDA here",
    "quantize_matmul_2bits": _BLOCKS,
    "quantize_matmul_4bits": _BLOCKS,
    "quantize_matmul_8bits": _BLOCKS,
    "quantize_matmul_bnb4": _BLOCKS,
    "quantize_qdq_matmul_2bits": _BLOCKS,
    "quantize_qdq_matmul_4bits": _BLOCKS,
}


def refused(name: str) -> Callable[..., NoReturn]:
    """The function of this name."""

    def refuse(*arguments: object, **options: object) -> NoReturn:
        raise NotImplemented(f"{name}: {REASONS[name]}")

    refuse.__name__ = name
    return refuse
