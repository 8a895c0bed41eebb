"""Every name of the installed onnxruntime can be imported, and does something or says why not."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
import warnings
from types import ModuleType
from typing import Any

import onnxruntime
import pytest

import sardonyx
from sardonyx.errors import NotImplemented

LATER = ("quantization", "tools", "training", "transformers")
"""Packages of later releases."""


def modules() -> list[ModuleType]:
    """onnxruntime's modules."""
    packages = [each.name for each in pkgutil.iter_modules(onnxruntime.__path__) if each.name not in LATER]
    found = ["onnxruntime", "onnxruntime.capi.onnxruntime_pybind11_state"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it imports what onnx has deprecated
        for package in packages:
            found.append(f"onnxruntime.{package}")
            inner = pkgutil.iter_modules(importlib.import_module(found[-1]).__path__)
            found += [f"onnxruntime.{package}.{each.name}" for each in inner if not each.name.startswith("lib")]
        return [importlib.import_module(name) for name in dict.fromkeys(found)]


OWN = {
    "GetInitializerLocationFunc",  # aliases of types
    "GetInitializerLocationWrapperFunc",
    "make_get_initializer_location_func_wrapper",  # takes onnxruntime's native objects apart
}
NO_OBJECTS = {"OrtEpContextData", "OrtEpContextDataBuffer", "OrtSyncStream", "SparseBlockSparseView"}
"""Classes of which there are no objects here, so that they need no methods."""


def names(module: ModuleType) -> list[str]:
    """What a module offers: what it imports for itself is left out."""
    found = []
    for name in dir(module):
        value = getattr(module, name)
        if name.startswith("_") or name in OWN or inspect.ismodule(value):
            continue
        if getattr(value, "__module__", "onnxruntime").split(".")[0] == "onnxruntime":
            found.append(name)
    return found


SCRIPT = """
import importlib, sys
import sardonyx.compat

sardonyx.compat.install()
for line in sys.stdin.read().split("\\n"):
    name, *attributes = line.split()
    module = importlib.import_module(name)
    for attribute in attributes:
        if not hasattr(module, attribute):
            print(name, attribute)
"""


def test_each_module_has_each_name() -> None:
    lines = [" ".join([module.__name__, *names(module)]) for module in modules()]
    assert len(lines) > 10
    assert sum(len(line.split()) for line in lines) > 200
    command = [sys.executable, "-W", "error", "-c", SCRIPT]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


native = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
ours = importlib.import_module("sardonyx.api.capi.onnxruntime_pybind11_state")
CLASSES = [name for name in dir(native) if inspect.isclass(getattr(native, name)) and name not in NO_OBJECTS]


@pytest.mark.parametrize("name", CLASSES)
def test_classes_have_each_member(name: str) -> None:
    kind: Any = getattr(ours, name)
    for member in dir(getattr(onnxruntime, name, getattr(native, name))):  # its Python class, if there is one
        if member.startswith("_") or (hasattr(kind, "__members__") and member in ("name", "value")):
            continue
        inherited = name == "InferenceSession" and hasattr(sardonyx.InferenceSession, member)
        assert inherited or hasattr(kind, member) or member in kind.__annotations__, member


@pytest.mark.parametrize("name", sorted(NO_OBJECTS))
def test_classes_without_objects(name: str) -> None:
    with pytest.raises(NotImplemented, match="here"):
        getattr(ours, name)()


REFUSED = [name for name in dir(native) if name.startswith(("get_all_op", "get_registered", "pack_", "quantize_"))]


@pytest.mark.parametrize("name", REFUSED)
def test_functions_that_have_no_meaning(name: str) -> None:
    with pytest.raises(NotImplemented, match=f"{name}: .*here"):
        getattr(ours, name)(1, 2)


def test_what_is_no_name() -> None:
    for module in (ours, sardonyx):
        with pytest.raises(AttributeError, match="no_such_name"):
            _ = module.no_such_name
