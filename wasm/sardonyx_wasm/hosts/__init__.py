"""Hosts run WebAssembly modules on one linear memory that NumPy sees without a copy.

`host()` is the one of this platform: wasmtime natively, the interpreter's own WebAssembly engine in Pyodide. Weights
and arenas are allocated in its memory once, as addresses that fit an i32; compiled functions get addresses and write
there. A host knows nothing of plans and launches: `device` does.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sardonyx.common import extras
from sardonyx.common.forks import Whole
from sardonyx.common.units import nbytes
from sardonyx.errors import EngineError

from .support import ADDRESSES, DType, has_addresses, has_code_generator, library

if TYPE_CHECKING:  # asking `available` must not cost the import of the assembler
    from ..assembler import Module

_IN_PYODIDE = sys.platform == "emscripten"
_lock = threading.Lock()
_host: Host | None = None
_TIGHT = (
    f"WebAssembly needs {nbytes(ADDRESSES)} of addresses, which this process may not have: raise its limit "
    "(ulimit -v), or ask for NumpyExecutionProvider"
)


class LoadedModule(Protocol):
    """A compiled module on a host's memory."""

    def function(self, name: str) -> Callable[..., Any]:
        """An exported function of numbers, for any thread: takes Python's and returns one, or None.

        An i32 may be given signed or unsigned; results are signed. Raises `EngineError` if there is no such function
        and, natively, where it traps; in Pyodide a trap ends the interpreter.
        """
        ...


class Host(Protocol):
    """One linear memory and a compiler for modules that use it; every method may be called by any thread."""

    name: str
    features: frozenset[str]
    """Of "simd", "relaxed-simd", and "threads": functions of one module may run at the same time."""
    target: str
    """Whose compiler it has, "wasmtime" or "v8", which decides on the shape of register tiles."""

    def allocate(self, nbytes: int, align: int = 64) -> int:
        """The address of `nbytes` of uninitialised memory; `align` is a power of two. Raises MemoryError."""
        ...

    def free(self, address: int) -> None:
        """Give back what `allocate` returned. Arrays over it must not be used any more."""
        ...

    def memory_view(self) -> memoryview:
        """The bytes of the memory as it is now, indexed by address; in Pyodide the first 2 GiB at most.

        Growing does not invalidate older views. It is no array, since NumPy has none at address 0.
        """
        ...

    def array(self, address: int, shape: Sequence[int], dtype: DType) -> np.ndarray:
        """A C-contiguous array over memory at `address`, without a copy."""
        ...

    def address_of(self, array: np.ndarray) -> int | None:
        """Where the array's first element lies in this memory, None if it lies elsewhere."""
        ...

    def load(self, module: Module, key: bytes = b"") -> LoadedModule:
        """Compile a module; it imports nothing but the memory and what `Module.data` and `Module.pointer` need.

        By its key `recall` finds it.
        """
        ...

    def recall(self, key: bytes) -> LoadedModule | None:
        """The module that was loaded with this key, in this process or an earlier one, if it is still there."""
        ...

    def synchronize(self) -> None:
        """Wait until nothing is being compiled."""
        ...


def available() -> bool:
    """Whether this platform has a host; imports nothing."""
    if _IN_PYODIDE:
        return find_spec("js") is not None
    return _host is not None or (has_code_generator() and has_addresses() and library() is not None)


def host() -> Host:
    """The host of this process.

    Raises RuntimeError where none exists, with the remedy.
    """
    global _host
    with Whole(), _lock:
        if _host is None:
            _host = _make_host()
        return _host


def _make_host() -> Host:
    if _IN_PYODIDE:
        from .pyodide import PyodideHost

        return PyodideHost()
    if not available():
        if not has_code_generator():
            raise RuntimeError("WebAssembly needs a 64-bit x86 or Arm processor, for which wasmtime writes code")
        if not has_addresses():
            raise EngineError(_TIGHT)
        raise RuntimeError(f"WebAssembly needs wasmtime: {extras.missing('wasmtime')}")
    from .capi import WasmtimeError
    from .wasmtime import WasmtimeHost

    try:
        return WasmtimeHost()
    except WasmtimeError as error:
        raise EngineError(f"{_TIGHT} ({' '.join(str(error).split())})") from None
