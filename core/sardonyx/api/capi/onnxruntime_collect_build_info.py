"""What onnxruntime asks of the libraries of CUDA."""

from __future__ import annotations


def find_cudart_versions(build_env: bool = False, build_cuda_version: str | None = None) -> list[int]:
    """None: CUDA is not looked for."""
    return []
