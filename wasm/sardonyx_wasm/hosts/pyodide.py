"""The host inside Pyodide: modules become side modules of the interpreter, on the interpreter's own memory.

A module is written to Pyodide's file system as a shared library and opened with `ctypes.CDLL`. Its memory is the heap
of CPython and NumPy: every array has an address in it, and a call is synchronous, in a page, a worker or Node.
"""

from __future__ import annotations

import ctypes
import math
import tempfile
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sardonyx.common import cache
from sardonyx.common.cached import cached_property
from sardonyx.common.fingerprint import fingerprint
from sardonyx.errors import EngineError

from .interface import Interface
from .support import PROBES, DType

if TYPE_CHECKING:
    from ..assembler import Module

_LARGEST_ARRAY = 2**31 - 1  # bytes: Py_ssize_t has 32 bits there
_PAGE = 1 << 16
_LIBRARY = b"pyodide "
_CTYPES: dict[str, Any] = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "f32": ctypes.c_float, "f64": ctypes.c_double}


def _accepts(data: bytes) -> bool:
    from js import WebAssembly
    from pyodide.ffi import to_js

    return bool(WebAssembly.validate(to_js(data)))


class PyodideHost:
    """The interpreter's memory and WebAssembly engine."""

    name = "pyodide"
    target = "v8"

    def __init__(self) -> None:
        self.features = frozenset(feature for feature, probe in PROBES.items() if _accepts(probe))
        self._owners: dict[int, np.ndarray] = {}
        self._loaded: dict[bytes, PyodideModule] = {}

    @cached_property
    def _page_count(self) -> Callable[[], int]:
        from ..assembler import Module, i32, op

        module = Module("memory")
        with module.function("page_count", {}, [i32], export=True) as f:
            f.return_(op("memory.size"))
        return self.load(module).function("page_count")

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

    def array(self, address: int, shape: Sequence[int], dtype: DType) -> np.ndarray:
        dtype = np.dtype(dtype)
        buffer = (ctypes.c_uint8 * (math.prod(shape) * dtype.itemsize)).from_address(address)
        return np.ndarray(shape, dtype, memoryview(buffer))

    def address_of(self, array: np.ndarray) -> int:
        address: int = array.__array_interface__["data"][0]
        return address

    def load(self, module: Module, key: bytes = b"") -> PyodideModule:
        from ..assembler.dylink import side_module

        data = side_module(module)
        key = key or fingerprint(data).digest()
        loaded = self._loaded.get(key)
        if loaded is None:  # a library stays in the process, so it is opened once
            interface = Interface.of(module)
            loaded = self._loaded[key] = PyodideModule(interface, data)
            cache.write(_LIBRARY + key, interface.to_bytes(), data)
        return loaded

    def recall(self, key: bytes) -> PyodideModule | None:
        loaded = self._loaded.get(key)
        if loaded is None and (artifact := cache.read(_LIBRARY + key)):
            loaded = self._loaded[key] = PyodideModule(*Interface.from_bytes(artifact))
        return loaded

    def synchronize(self) -> None:
        """Nothing to do: `load` compiles."""


class PyodideModule:
    """A side module that is linked into the interpreter."""

    def __init__(self, interface: Interface, data: bytes) -> None:
        self._interface = interface
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(data)
            file.flush()
            try:
                self._library = ctypes.CDLL(file.name)
            except OSError as error:
                raise EngineError(f"Pyodide cannot link module {interface.name!r}: {error}") from None

    def function(self, name: str) -> Callable[..., Any]:
        types = self._interface.callable(name)
        function = self._library[name]
        function.argtypes = [_CTYPES[kind] for kind in types.params]
        function.restype = _CTYPES[types.results[0]] if types.results else None
        return function
