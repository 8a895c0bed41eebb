"""ONNX's operators, spelled in primitives. The families are imported at the first look-up."""

from __future__ import annotations

import importlib
import pkgutil

from sardonyx.ops.operator import REGISTRY, Operator

_loaded = False


def load() -> dict[tuple[str, str], type[Operator]]:
    """Every operator class by (domain, name)."""
    global _loaded
    if not _loaded:
        for module in pkgutil.iter_modules(__path__):
            importlib.import_module(f"{__name__}.{module.name}")
        _loaded = True
    return REGISTRY


def find(domain: str, op_type: str) -> type[Operator] | None:
    """The class of an operator, or None; `ai.onnx` is the default domain's other name."""
    return load().get(("" if domain == "ai.onnx" else domain, op_type))
