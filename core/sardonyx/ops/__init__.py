"""ONNX's operators, spelled in primitives; no operator knows of a provider.

A family is imported when one of its operators is first looked up.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
from functools import cache

from sardonyx.ops.operator import REGISTRY, Operator

PACKAGES = {
    "ai.onnx.ml": "ml",
    "com.microsoft": "microsoft",
    "ai.onnx.preview": "preview",
    "ai.onnx.preview.training": "preview",
}
"""The sub-package of each domain but ai.onnx, whose families are modules of this package."""

INDEX = "families.json"
"""A file beside this one that says what `families` does, where no sources are."""

_NAMES = (re.compile(r"\nclass (\w+)\("), re.compile(r'name="(\w+)"'))


def load() -> dict[tuple[str, str], type[Operator]]:
    """Every operator class by (domain, name)."""
    for package in ("", *PACKAGES.values()):
        _load(package)
    return REGISTRY


def find(domain: str, op_type: str) -> type[Operator] | None:
    """The class of an operator, or None; `ai.onnx` is the default domain's other name."""
    domain = "" if domain == "ai.onnx" else domain
    operator = REGISTRY.get((domain, op_type))
    if operator is not None or (domain and domain not in PACKAGES):
        return operator
    packages = [PACKAGES[domain], ""] if domain else [""]
    for package in packages:
        for module in _families(package).get(op_type, ()):
            importlib.import_module(module)
    if (domain, op_type) not in REGISTRY:
        for package in packages:
            _load(package)
    return REGISTRY.get((domain, op_type))


def foreign() -> bool:
    """Whether operators of other distributions are registered."""
    return any(map(is_foreign, REGISTRY.values()))


def is_foreign(operator: type[Operator]) -> bool:
    """Whether an operator is of another distribution."""
    module: str | None = operator.__module__  # None where the code that declares it was executed without a name
    return module is None or not module.startswith("sardonyx.")


def families() -> dict[str, dict[str, list[str]]]:
    """The modules that define an operator of each name, by sub-package.

    >>> families()["ml"]["Scaler"]
    ['sardonyx.ops.ml.preprocessing']
    """
    return {package: _families(package) for package in ("", *PACKAGES.values())}


@cache
def _index() -> dict[str, dict[str, list[str]]]:
    path = os.path.join(os.path.dirname(__file__), INDEX)
    if not os.path.isfile(path):
        return {}
    with open(path, encoding="utf-8") as file:
        index: dict[str, dict[str, list[str]]] = json.load(file)
    return index


@cache
def _families(package: str) -> dict[str, list[str]]:
    """The modules of a package that define an operator of each name, by their text: to import all takes far longer."""
    if _index():
        return _index()[package]
    modules: dict[str, list[str]] = {}
    for module, path in _modules(package):
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except OSError:  # installed without its sources
            continue
        for name in (name for pattern in _NAMES for name in pattern.findall(text)):
            modules.setdefault(name, []).append(module)
    return modules


@cache
def _load(package: str) -> None:
    for module, _ in _modules(package):
        importlib.import_module(module)


def _modules(package: str) -> list[tuple[str, str]]:
    """The modules of a package and their files."""
    parent = importlib.import_module(f"{__name__}.{package}" if package else __name__)
    return [
        (f"{parent.__name__}.{module.name}", os.path.join(folder, f"{module.name}.py"))
        for folder in parent.__path__
        for module in pkgutil.iter_modules([folder])
        if not module.ispkg
    ]
