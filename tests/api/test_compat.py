"""Packages that import onnxruntime run on this one, whether onnxruntime is installed or not."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.cache import CACHE, cached, downloaded

SCRIPT = """
import importlib.metadata, importlib.util, sys
import numpy as np
import sardonyx
import sardonyx.compat

sardonyx.compat.install()
import onnxruntime as ort
import onnxruntime.capi._pybind_state
import onnxruntime.capi.onnxruntime_pybind11_state as state
from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions, get_available_providers, get_device
from onnxruntime.capi import _pybind_state as C
from onnxruntime.capi.onnxruntime_inference_collection import OrtDevice
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

assert ort.InferenceSession is InferenceSession is sardonyx.InferenceSession
assert ort.__version__ == ort.get_version_string() == importlib.metadata.version("onnxruntime") == "1.31.1"
assert importlib.util.find_spec("onnxruntime") is not None
assert importlib.util.find_spec("onnxruntime.no_such_module") is None
assert C.InvalidArgument is state.InvalidArgument is InvalidArgument is ort.capi._pybind_state.InvalidArgument
assert C.get_available_providers() == get_available_providers()
try:
    ort.no_such_name
except AttributeError as error:
    assert "for which Sardonyx stands in" in str(error)
else:
    raise AssertionError
session = ort.InferenceSession("examples/digits/digits.onnx", providers=["CPUExecutionProvider"])
(y,) = session.run(None, {"image": np.zeros((1, 1, 28, 28), np.float32)})
assert y.shape == (1, 10)
try:
    session.run(None, {"image": np.zeros((1, 1, 28, 28), np.float64)})
except InvalidArgument:
    pass
else:
    raise AssertionError
assert sardonyx.api.capi.__spec__.name == "sardonyx.api.capi"

sardonyx.compat.install("1.20.0")
import onnxruntime as again
assert again is not ort
assert again.__version__ == importlib.metadata.version("onnxruntime") == "1.20.0"

sardonyx.compat.uninstall()
sardonyx.compat.uninstall()
import onnxruntime as theirs
assert theirs.__file__ and theirs.InferenceSession is not InferenceSession
sardonyx.compat.install()
import onnxruntime as ort
assert ort.InferenceSession is InferenceSession
sardonyx.compat.uninstall()
import onnxruntime as ort
assert ort is theirs
print("done")
"""


def run(script: str, *arguments: object) -> str:
    command = [sys.executable, "-W", "error", "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_module_tree() -> None:
    assert run(SCRIPT).split() == ["done"]


LOADED = """
import types
import onnxruntime
print(*(name for name in dir(onnxruntime.capi) if isinstance(getattr(onnxruntime.capi, name), types.ModuleType)))
"""
REACHED = """
import importlib, sys
import sardonyx.compat
sardonyx.compat.install()
import onnxruntime
for name in sys.argv[1:]:
    found = getattr(onnxruntime.capi, name)
    assert found is importlib.import_module(f"onnxruntime.capi.{name}")
try:
    onnxruntime.InferenceSession("no-such-file.onnx")
except onnxruntime.capi.onnxruntime_pybind11_state.NoSuchFile:
    print("done")
"""


def test_inner_modules_are_attributes() -> None:
    """What `import onnxruntime` loads of onnxruntime.capi needs no import of its own."""
    names = run(LOADED).split()
    assert "onnxruntime_pybind11_state" in names
    assert run(REACHED, *names).split() == ["done"]


PYODIDE = """
import sys, types
calls = []
micropip = types.ModuleType("micropip")
micropip.__spec__ = types.SimpleNamespace()
micropip.list_mock_packages = lambda: ["onnxruntime", "onnxruntime-genai"] if calls else []
micropip.add_mock_package = lambda *given, modules: calls.append(("add", *given, modules))
micropip.remove_mock_package = lambda *given: calls.append(("remove", *given))
sys.modules["micropip"] = micropip
import sardonyx.compat
sys.platform = "emscripten"
sardonyx.compat.install()
sardonyx.compat.uninstall()
print(calls)
"""


GENAI = """
import importlib.metadata, importlib.util, sys
import sardonyx.compat

sardonyx.compat.install()
assert "sardonyx.genai" not in sys.modules
import onnxruntime_genai as og
from onnxruntime_genai import *
from onnxruntime_genai.onnxruntime_genai import Generator as inner
import sardonyx.genai

assert Model is og.Model is sardonyx.genai.Model and inner is Generator
assert og.__version__ == importlib.metadata.version("onnxruntime-genai") == "0.18.0"
assert og.__version__ == importlib.metadata.version("onnxruntime_genai") and og.__id__ == "onnxruntime-genai"
assert importlib.util.find_spec("onnxruntime_genai.models") is None
assert "Tokenizer" in dir(og) and not hasattr(og, "InferenceSession")
assert importlib.metadata.version("onnxruntime") == "1.31.1"
sardonyx.compat.install(genai="0.5.0")
import onnxruntime_genai as again
assert again is not og and again.__version__ == "0.5.0"
sardonyx.compat.uninstall()
import onnxruntime_genai as theirs
assert theirs.Model is not Model
print("done")
"""


def test_the_module_tree_of_genai() -> None:
    assert run(GENAI).split() == ["done"]


def test_micropip_is_told() -> None:
    told = [("add", "onnxruntime", "1.31.1", {}), ("add", "onnxruntime-genai", "0.18.0", {})]
    assert run(PYODIDE).strip() == str([*told, ("remove", "onnxruntime"), ("remove", "onnxruntime-genai")])


MAGIKA = """
import sys
import sardonyx.compat

sardonyx.compat.install()
sys.path[:0] = sys.argv[1:]
from magika import Magika
import onnxruntime

assert onnxruntime.InferenceSession is sardonyx.InferenceSession
magika = Magika()
for text in (b"import os\\n\\ndef f(x):\\n    return os.path.join(x, 'a')\\n", b'{"a": [1, 2, 3], "b": null}'):
    print(magika.identify_bytes(text).output.label)
"""


def unpacked(package: str, version: str) -> Path:
    """The folder of a package's wheel."""

    def make(scratch: Path) -> None:
        with downloaded("pypi", package, version) as archive, zipfile.ZipFile(archive) as wheel:
            wheel.extractall(scratch / f"{package}-{version}")

    return cached(CACHE / "packages" / f"{package}-{version}", make)


@pytest.mark.slow
def test_a_package_that_imports_onnxruntime() -> None:
    folders = [unpacked("magika", "1.0.3"), unpacked("python-dotenv", "1.2.4")]
    assert run(MAGIKA, *folders).split() == ["python", "json"]
