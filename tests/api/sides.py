"""onnxruntime's inner modules, on both sides."""

from __future__ import annotations

import importlib
from types import ModuleType


def inner(side: ModuleType, path: str) -> ModuleType:
    """The module of this path inside onnxruntime, or what stands for it in `sardonyx.api`."""
    package = "sardonyx.api" if side.__name__ == "sardonyx" else side.__name__
    return importlib.import_module(f"{package}.{path}")
