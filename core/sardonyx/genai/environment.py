"""The functions of onnxruntime-genai about the machine and its logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sardonyx.api.environment import (
    disable_telemetry_events,
    enable_telemetry_events,
    register_execution_provider_library,
    unregister_execution_provider_library,
)
from sardonyx.errors import InvalidValue
from sardonyx.providers import registry

__all__ = [
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_current_gpu_device_id",
    "is_cuda_available",
    "is_dml_available",
    "is_openvino_available",
    "is_qnn_available",
    "is_webgpu_available",
    "register_execution_provider_library",
    "set_current_gpu_device_id",
    "set_log_callback",
    "set_log_options",
    "unregister_execution_provider_library",
]


def is_cuda_available() -> bool:
    """False: GPUs are used by WebGPU here."""
    return False


def is_dml_available() -> bool:
    return False


def is_qnn_available() -> bool:
    return False


def is_openvino_available() -> bool:
    return False


def is_webgpu_available() -> bool:
    """Whether `append_provider("webgpu")` has an effect."""
    return registry.is_here(registry.WEBGPU)


def get_current_gpu_device_id() -> int:
    return 0


def set_current_gpu_device_id(device_id: int) -> None:
    """Raises InvalidValue for another device than the first."""
    if device_id:
        raise InvalidValue(f"GPU {device_id} cannot be chosen; the first one is used")


def set_log_options(**options: Any) -> None:
    """Accepted: SARDONYX_DEBUG has what happens printed."""


def set_log_callback(callback: Callable[[str], None] | None) -> None:
    """Accepted: nothing is logged."""
