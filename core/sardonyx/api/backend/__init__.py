"""ONNX's backend interface (`onnx.backend.base`), as onnxruntime has it; it needs the package onnx."""

from sardonyx.api.backend.backend import is_compatible, prepare, run, supports_device

__all__ = ["is_compatible", "prepare", "run", "supports_device"]
