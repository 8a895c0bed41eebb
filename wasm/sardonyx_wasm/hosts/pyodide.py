"""The host inside Pyodide: modules become side modules of the interpreter, on the interpreter's own memory.

A module is written to Pyodide's file system as a shared library and opened with `ctypes.CDLL`. Its memory is the heap
of CPython and NumPy: every array has an address in it, and a call is synchronous, in a page, a worker or Node.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sardonyx.errors import EngineError

from ..assembler import Module, i32, op
from ..dylink import side_module
from . import exported
from .features import PROBES

_LARGEST_ARRAY = 2**31 - 1  # bytes: Py_ssize_t has 32 bits there
_PAGE = 1 << 16
_CTYPES: dict[str, Any] = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "f32": ctypes.c_float, "f64": ctypes.c_double}


def _page_count() -> Callable[[], int]:
    module = Module("memory")
    with module.function("page_count", {}, [i32], export=True) as f:
        f.return_(op("memory.size"))
    return PyodideModule(module).function("page_count")


def _accepts(data: bytes) -> bool:
    from js import WebAssembly
    from pyodide.ffi import to_js

    return bool(WebAssembly.validate(to_js(data)))


class PyodideHost:
    """The interpreter's memory and WebAssembly engine."""

    name = "pyodide"

    def __init__(self) -> None:
        self.features = frozenset(feature for feature, probe in PROBES.items() if _accepts(probe))
        self._owners: dict[int, npt.NDArray[np.uint8]] = {}
        self._loaded: dict[bytes, PyodideModule] = {}
        self._page_count = _page_count()

    def allocate(self, nbytes: int, align: int = 64) -> int:
        if align.bit_count() != 1:
            raise ValueError(f"align={align} is not a power of two")
        owner = np.empty(max(nbytes, 1) + align - 1, np.uint8)
        address = -(-self.address_of(owner) // align) * align
        self._owners[address] = owner
        return address

    def free(self, address: int) -> None:
        if self._owners.pop(address, None) is None:
            raise ValueError(f"address {address} is not allocated, or was freed before")

    def memory_view(self) -> memoryview:
        size = min(self._page_count() * _PAGE, _LARGEST_ARRAY)
        return memoryview((ctypes.c_uint8 * size).from_address(0)).cast("B")

    def array(self, address: int, shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        dtype = np.dtype(dtype)
        buffer = (ctypes.c_uint8 * (math.prod(shape) * dtype.itemsize)).from_address(address)
        return np.ndarray(shape, dtype, memoryview(buffer))

    def address_of(self, array: npt.NDArray[Any]) -> int:
        address: int = array.__array_interface__["data"][0]
        return address

    def load(self, module: Module) -> PyodideModule:
        key = hashlib.sha256(side_module(module)).digest()
        if key not in self._loaded:  # a library stays in the process, so it is opened once
            self._loaded[key] = PyodideModule(module)
        return self._loaded[key]


class PyodideModule:
    """A side module that is linked into the interpreter."""

    def __init__(self, module: Module) -> None:
        self._module = module
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(side_module(module))
            file.flush()
            try:
                self._library = ctypes.CDLL(file.name)
            except OSError as error:
                raise EngineError(f"Pyodide cannot link module {module.name!r}: {error}") from None

    def function(self, name: str) -> Callable[..., Any]:
        callee = exported(self._module, name)
        function = self._library[name]
        function.argtypes = [_CTYPES[t.name] for t in callee.signature.values()]
        function.restype = _CTYPES[callee.results[0].name] if callee.results else None
        return function
