"""What onnxruntime's native module has: its exceptions, and every public name of this package."""

from __future__ import annotations

from typing import Any

import sardonyx
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
from sardonyx.options import SessionOptions

__all__ = [
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
    "get_default_session_options",
]


def get_default_session_options() -> SessionOptions:
    """The options of sessions that are given none."""
    return SessionOptions()


def __getattr__(name: str) -> Any:
    return getattr(sardonyx, name)
