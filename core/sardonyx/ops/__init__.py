"""ONNX's operators, spelled in primitives. The families of a domain are imported when it is first looked up."""

from __future__ import annotations

import importlib
import pkgutil

from sardonyx.ops.operator import REGISTRY, Operator

PACKAGES = {
    "ai.onnx.ml": "ml",
    "com.microsoft": "microsoft",
    "ai.onnx.preview": "preview",
    "ai.onnx.preview.training": "preview",
}
"""The sub-package of each domain but ai.onnx, whose families are modules of this package."""

_loaded: set[str] = set()


def load() -> dict[tuple[str, str], type[Operator]]:
    """Every operator class by (domain, name)."""
    for package in ("", *PACKAGES.values()):
        _load(package)
    return REGISTRY


def find(domain: str, op_type: str) -> type[Operator] | None:
    """The class of an operator, or None; `ai.onnx` is the default domain's other name."""
    domain = "" if domain == "ai.onnx" else domain
    _load("")
    if domain in PACKAGES:
        _load(PACKAGES[domain])
    return REGISTRY.get((domain, op_type))


def _load(package: str) -> None:
    if package in _loaded:
        return
    parent = importlib.import_module(f"{__name__}.{package}" if package else __name__)
    for module in pkgutil.iter_modules(parent.__path__):
        if not module.ispkg:
            importlib.import_module(f"{parent.__name__}.{module.name}")
    _loaded.add(package)
