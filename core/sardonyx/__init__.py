"""Sardonyx runs ONNX models in browsers, on boards and on desktops, with onnxruntime's API.

    import sardonyx as ort

    session = ort.InferenceSession("model.onnx")
    outputs = session.run(None, {"input": array})

Importing it costs little more than importing NumPy: what a name needs is imported when the name is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sardonyx.version import __version__

if TYPE_CHECKING:
    from sardonyx import errors as errors
    from sardonyx.host.random import set_seed
    from sardonyx.io_binding import IOBinding
    from sardonyx.options import (
        ExecutionMode,
        ExecutionOrder,
        GraphOptimizationLevel,
        ModelMetadata,
        NodeArg,
        RunOptions,
        SessionOptions,
    )
    from sardonyx.ort_value import OrtValue
    from sardonyx.providers import available as get_available_providers
    from sardonyx.session import InferenceSession

_HOMES = {
    "ExecutionMode": "options",
    "ExecutionOrder": "options",
    "GraphOptimizationLevel": "options",
    "IOBinding": "io_binding",
    "InferenceSession": "session",
    "ModelMetadata": "options",
    "NodeArg": "options",
    "OrtValue": "ort_value",
    "RunOptions": "options",
    "SessionOptions": "options",
    "get_available_providers": "providers:available",
    "set_seed": "host.random",
}

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
    "__version__",
    "get_available_providers",
    "set_seed",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'sardonyx' has no attribute {name!r}")
    module, _, attribute = home.partition(":")
    value = getattr(importlib.import_module(f"sardonyx.{module}"), attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
