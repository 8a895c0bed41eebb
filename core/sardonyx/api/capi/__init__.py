"""onnxruntime's inner modules, by whose paths scripts reach exceptions and types."""

from __future__ import annotations

import importlib
from types import ModuleType

LOADED = (
    *("_ld_preload", "_pybind_state", "build_and_package_info", "onnxruntime_inference_collection"),
    *("onnxruntime_pybind11_state", "onnxruntime_validation"),
)
"""Those that `import onnxruntime` loads: `onnxruntime.capi` has them without an import of their own."""


def __getattr__(name: str) -> ModuleType:
    if name in LOADED:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
