"""ONNX's operators, spelled in primitives; no operator knows of a provider.

A family is imported when one of its operators is first looked up.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator
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

FIRST = (
    "arithmetic", "movement", "activation", "matmul", "convolution", "shape", "indexing", "reduction", "normalization",
    "pooling", "conversion", "comparison", "generation",
)  # fmt: skip
"""The families of ai.onnx that most models need, which are looked at before others."""


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
        for module in _defining(package, op_type):
            importlib.import_module(module)
            if (domain, op_type) in REGISTRY:
                return REGISTRY[domain, op_type]
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
    if _index():
        return _index()
    found: dict[str, dict[str, list[str]]] = {}
    for package in ("", *PACKAGES.values()):
        found[package] = {}
        for module, path in _modules(package):
            for name in _defined(path):
                found[package].setdefault(name, []).append(module)
    return found


@cache
def _index() -> dict[str, dict[str, list[str]]]:
    path = os.path.join(os.path.dirname(__file__), INDEX)
    if not os.path.isfile(path):
        return {}
    with open(path, encoding="utf-8") as file:
        index: dict[str, dict[str, list[str]]] = json.load(file)
    return index


def _defining(package: str, op_type: str) -> Iterator[str]:
    """The modules of a package that define an operator of a name: their texts are read one by one."""
    if _index():
        yield from _index()[package].get(op_type, ())
        return
    yield from (module for module, path in _modules(package) if op_type in _defined(path))


@cache
def _defined(path: str) -> frozenset[str]:
    """The operators that a module defines, by its text: to import all takes far longer."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError:  # installed without its sources
        return frozenset()
    classes, told = text.split("\nclass ")[1:], text.split('name="')[1:]  # in a tenth of an expression's time
    names = [*(part[: part.find("(")] for part in classes), *(part[: part.find('"')] for part in told)]
    return frozenset(filter(str.isidentifier, names))


@cache
def _load(package: str) -> None:
    for module, _ in _modules(package):
        importlib.import_module(module)


@cache
def _modules(package: str) -> list[tuple[str, str]]:
    """The modules of a package and their files, those first that most models need."""
    parent = importlib.import_module(f"{__name__}.{package}" if package else __name__)
    names = [(folder, name) for folder in parent.__path__ for name in _modules_in(folder)]
    if not package:
        names.sort(key=lambda each: FIRST.index(each[1]) if each[1] in FIRST else len(FIRST))
    return [(f"{parent.__name__}.{name}", os.path.join(folder, f"{name}.py")) for folder, name in names]


def _modules_in(folder: str) -> list[str]:
    """The modules in a folder."""
    if os.path.isdir(folder):
        files = [name for name in os.listdir(folder) if name.endswith((".py", ".pyc"))]
        return sorted({name.partition(".")[0] for name in files if not name.startswith("__")})
    import pkgutil  # which looks into archives

    return [module.name for module in pkgutil.iter_modules([folder]) if not module.ispkg]
