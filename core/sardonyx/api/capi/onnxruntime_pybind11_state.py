"""What onnxruntime's native module has: its exceptions, its own classes, and every public name of this package."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

from sardonyx.api import names
from sardonyx.api.capi.refused import REASONS, refused
from sardonyx.api.options import SessionOptions
from sardonyx.common.enums import Choice
from sardonyx.errors import (
    DeviceReset,
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoadCanceled,
    ModelLoaded,
    ModelRequiresCompilation,
    NoModel,
    NoSuchFile,
    NotFound,
    NotImplemented,
    RuntimeException,
)

__all__ = [
    "ArenaExtendStrategy",
    "DeviceReset",
    "EPFail",
    "EngineError",
    "Fail",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelLoadCanceled",
    "ModelLoaded",
    "ModelRequiresCompilation",
    "NoModel",
    "NoSuchFile",
    "NotFound",
    "NotImplemented",
    "RuntimeException",
    "SessionObjectInitializer",
    "get_default_session_options",
    "get_session_initializer",
    "kNextPowerOfTwo",
    "kSameAsRequested",
    "opkernel",
    "schemadef",
]

_HOMES = {
    "InferenceSession": "api.capi.native:NativeSession",
    "OrtCompiledModelCompatibility": "api.ep_context",
    "OrtDeviceEpIncompatibilityReason": "api.ep_context",
    "OrtValueVector": "api.ort_value_vector",
    "SparseBlockSparseView": "api.sparse",
    "SparseCooView": "api.sparse",
    "SparseCsrView": "api.sparse",
    "get_compatibility_info_from_model": "api.ep_context",
    "get_compatibility_info_from_model_bytes": "api.ep_context",
    "get_hardware_device_ep_incompatibility_details": "api.ep_context",
    "get_hardware_devices": "api.devices",
    "get_model_compatibility_for_ep_devices": "api.ep_context",
    "is_dlpack_uint8_tensor": "api.capi.dlpack",
}


class ArenaExtendStrategy(Choice):
    """How onnxruntime's arena would grow; without effect."""

    kNextPowerOfTwo = 0  # noqa: N815 - onnxruntime's name
    kSameAsRequested = 1  # noqa: N815


kNextPowerOfTwo, kSameAsRequested = ArenaExtendStrategy  # noqa: N816
opkernel, schemadef = SimpleNamespace(), SimpleNamespace()
"""Where onnxruntime's builds for documentation have the classes of kernels and schemas."""


class SessionObjectInitializer:
    """What onnxruntime's tests make native sessions with; without effect."""


def get_default_session_options() -> SessionOptions:
    """The options of sessions that are given none."""
    return SessionOptions()


def get_session_initializer() -> SessionObjectInitializer:
    return SessionObjectInitializer()


def __getattr__(name: str) -> Any:
    if name in REASONS:
        return refused(name)
    if name not in _HOMES:
        return names.find(name, __name__)
    module, _, attribute = _HOMES[name].partition(":")
    return getattr(importlib.import_module(f"sardonyx.{module}"), attribute or name)
