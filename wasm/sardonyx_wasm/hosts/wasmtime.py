"""Native host: wasmtime. One engine, one shared memory, and for each module a pool of instances.

A store of wasmtime serves one thread at a time, so every call takes an instance (in a store of its own) from the pool
and puts it back: as many calls run at once as there are threads, on one memory.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt
import wasmtime
from wasmtime import _ffi as ffi

from sardonyx import cache
from sardonyx.errors import EngineError
from sardonyx.fingerprint import fingerprint

from .allocator import Allocator
from .features import PROBES
from .interface import Interface, Signature

if TYPE_CHECKING:
    from ..assembler import Module

_PAGE = 1 << 16
_MAXIMUM = (1 << 16) - 1  # pages: without the last one, every end address fits 32 bits too
_GROWTH = 1 << 24  # pages that nobody touches cost nothing
_DISCARD = 1 << 20
_HUGE, _LARGE = 1 << 21, 1 << 22
_MADV_DONTNEED, _MADV_HUGEPAGE, _MADV_NOHUGEPAGE = 4, 14, 15

# Arguments and results share 16-byte slots, little-endian; of an i32 argument only the low half is read.
_ARGUMENT = {"i32": "q8x", "i64": "q8x", "f32": "f12x", "f64": "d8x"}
_RESULT = {"i32": "i12x", "i64": "q8x", "f32": "f12x", "f64": "d8x"}

_library = os.stat(ffi.dll._name)
_LIBRARY = f"wasmtime {_library.st_size} {_library.st_mtime_ns} ".encode()
"""What tells this release from others: to look up its version takes longer."""

# A function object of our own: without argument types it takes prepared pointers as they are, a third faster.
_call_unchecked = ffi.dll["wasmtime_func_call_unchecked"]
_call_unchecked.restype = ctypes.c_void_p


class _SharedMemory(wasmtime.SharedMemory):
    """A shared memory that can be imported: wasmtime-py 50 hands over the address of the pointer, and crashes."""

    def _as_extern(self) -> Any:
        union = ffi.wasmtime_extern_union(sharedmemory=self.ptr())
        return ffi.wasmtime_extern_t(ffi.WASMTIME_EXTERN_SHAREDMEMORY, union)


def _close_with(owner: object, *owned: Any) -> None:
    """Close what `owner` owns when it dies, or before the interpreter clears the modules that closing needs."""
    for item in owned:
        weakref.finalize(owner, item.close)


def _engine(parallel: bool = True) -> wasmtime.Engine:
    config = wasmtime.Config()
    config.shared_memory = True
    config.wasm_threads = True
    config.wasm_relaxed_simd = True
    config.memory_reservation = 1 << 32  # growing never moves the memory; page faults check the bounds
    config.memory_may_move = False
    config.parallel_compilation = parallel
    return wasmtime.Engine(config)


class WasmtimeHost:
    """The native host; `maximum` limits its memory, in pages of 64 KiB."""

    name = "wasmtime"

    def __init__(self, maximum: int = _MAXIMUM) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._loaded: weakref.WeakValueDictionary[bytes, WasmtimeModule] = weakref.WeakValueDictionary()
        self.engine = _engine()
        self._maximum = maximum
        memory_type = wasmtime.MemoryType(wasmtime.Limits(1, maximum), shared=True)
        self.memory = _SharedMemory(self.engine, memory_type)
        _close_with(self, self.memory, self.engine)
        self._base = ctypes.addressof(self.memory.data_ptr().contents)
        self._buffer = self._see()
        self._allocator = Allocator(_PAGE, maximum * _PAGE, self._grow, self._release)  # address 0 stays unused
        self.features = frozenset({"threads", *filter(self._accepts, PROBES)})

    def _accepts(self, feature: str) -> bool:
        try:
            wasmtime.Module.validate(self.engine, PROBES[feature])
        except wasmtime.WasmtimeError:
            return False
        return True

    def _see(self) -> ctypes.Array[ctypes.c_uint8]:
        buffer = (ctypes.c_uint8 * self.memory.data_len()).from_address(self._base)
        vars(buffer)["host"] = self  # arrays over the buffer keep the memory alive
        return buffer

    def _grow(self, end: int) -> int:
        if end > len(self._buffer):
            size = min(-(-end // _GROWTH) * _GROWTH, self._maximum * _PAGE)
            self.memory.grow((size - len(self._buffer)) // _PAGE)
            self._buffer = self._see()
        return len(self._buffer)

    def _release(self, start: int, end: int) -> None:
        """Give whole pages of a large range back to the operating system."""
        start, end = -(-start // _PAGE) * _PAGE, end // _PAGE * _PAGE
        if end - start >= _DISCARD:
            self._advise(start, end, _MADV_DONTNEED)
            self._advise(start, end, _MADV_NOHUGEPAGE)

    def _advise(self, start: int, end: int, advice: int) -> None:
        """Tell Linux about whole pages of the memory."""
        if sys.platform == "linux" and start < end:
            _advise(self._base + start, self._base + end, advice)

    def allocate(self, nbytes: int, align: int = 64) -> int:
        address = self._allocator.allocate(nbytes, align)
        if nbytes >= _LARGE:  # in smaller ones, huge pages would hold what nobody asked for
            start = -(-(self._base + address) // _HUGE) * _HUGE - self._base
            end = (self._base + address + nbytes) // _HUGE * _HUGE - self._base
            self._advise(start, end, _MADV_HUGEPAGE)
        return address

    def free(self, address: int) -> None:
        self._allocator.free(address)

    def memory_view(self) -> memoryview:
        return memoryview(self._buffer).cast("B")

    def array(self, address: int, shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        return np.ndarray(shape, dtype, self.memory_view(), address)

    def address_of(self, array: npt.NDArray[Any]) -> int | None:
        address: int = array.__array_interface__["data"][0] - self._base
        return address if 0 <= address < len(self._buffer) else None

    def load(self, module: Module, key: bytes = b"") -> WasmtimeModule:
        from ..assembler import Memory

        data = module.to_bytes(Memory(1, self._maximum, shared=True))
        key = key or fingerprint(data).digest()
        found = self.recall(key)
        with self._lock:
            found = found or self._loaded.get(key)
            if found is None:
                interface = Interface.of(module)
                compilation = Compilation(partial(self._compile, data, interface, key))
                found = self._loaded[key] = WasmtimeModule(self, interface, compilation.result)
            return found

    def recall(self, key: bytes) -> WasmtimeModule | None:
        with self._lock:
            found = self._loaded.get(key)
            artifact = None if found else cache.read(_LIBRARY + key)
            if artifact is not None:
                try:
                    interface, code = Interface.from_bytes(artifact)
                    compiled = wasmtime.Module.deserialize(self.engine, code)
                except (wasmtime.WasmtimeError, ValueError):
                    return None  # made for another processor
                found = self._loaded[key] = WasmtimeModule(self, interface, lambda: compiled)
                _close_with(found, compiled)
            return found

    def _compile(self, data: bytes, interface: Interface, key: bytes) -> wasmtime.Module:
        try:
            if os.getpid() == self._process:
                compiled = wasmtime.Module(self.engine, data)
            else:  # the compiler's threads did not survive the fork, and waiting for them would never end
                serial = wasmtime.Module(_engine(parallel=False), data)
                compiled = wasmtime.Module.deserialize(self.engine, serial.serialize())
        except wasmtime.WasmtimeError as error:
            raise EngineError(f"wasmtime cannot compile this module: {error}") from None
        if cache.directory():
            cache.write(_LIBRARY + key, interface.to_bytes(), bytes(compiled.serialize()))
        return compiled


class Compilation:
    """Work in a thread of its own: wasmtime compiles without Python's lock while a session goes on being made."""

    def __init__(self, work: Callable[[], wasmtime.Module]) -> None:
        self._work = work
        self._found: wasmtime.Module | None = None
        self._is_new = True
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._do, name="sardonyx compiles")
        self._thread.start()
        _compilations.add(self)

    def _do(self) -> None:
        with suppress(EngineError):  # `result` raises it
            self.finish()

    def finish(self) -> wasmtime.Module:
        """Do the work, unless it is done."""
        with self._lock:
            if self._found is None:
                self._found = self._work()
                _trim_heap()
                _close_with(self, self._found)
            return self._found

    def wait(self) -> None:
        """Return when the thread has ended."""
        self._thread.join()

    def result(self) -> wasmtime.Module:
        """What the work gave. When no other is at work, the compiler is not kept in memory."""
        self.wait()
        found = self._found or self.finish()
        if self._is_new and not any(other._thread.is_alive() for other in list(_compilations)):
            _drop_code()
        self._is_new = False
        return found


def _trim_heap() -> None:
    """Give back the memory that compiling has freed, which glibc keeps for the thread."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(ctypes.c_size_t(0))


def _drop_code() -> None:
    """Give back the pages of the library's code, most of which only compiling needs; what is used again comes back."""
    if sys.platform != "linux":
        return
    with suppress(OSError), open("/proc/self/maps") as maps:
        for line in maps:
            if line.rstrip().endswith(ffi.dll._name) and " r-x" in line:
                start, end = (int(place, 16) for place in line.split()[0].split("-"))
                _advise(start, end, _MADV_DONTNEED)


def _advise(start: int, end: int, advice: int) -> None:
    """Tell Linux about the pages between two addresses of this process."""
    ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), advice)


_compilations: weakref.WeakSet[Compilation] = weakref.WeakSet()


def _wait_for_all() -> None:
    """Let no child process inherit the locks of a compiler at work."""
    for compilation in list(_compilations):
        compilation.wait()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait_for_all)


class WasmtimeModule:
    """A module, `compiled` when it is first called, and its pool of instances: as many as calls at the same time."""

    def __init__(self, host: WasmtimeHost, interface: Interface, compiled: Callable[[], wasmtime.Module]) -> None:
        self._host = host
        self._interface = interface
        self._compiled = compiled
        self._data = 0
        if interface.data_size:
            self._data = host.allocate(interface.data_size, interface.data_align)
            weakref.finalize(self, host.free, self._data)
        self._idle: deque[_Instance] = deque()

    def wait(self) -> None:
        """Return when the module is compiled, as a first call does; raises EngineError where it cannot be."""
        self._idle.append(self._instantiate())

    def _instantiate(self) -> _Instance:
        compiled = self._compiled()
        return _Instance(self._host.engine, self._host.memory, compiled, self._interface, self._data)

    def function(self, name: str) -> Callable[..., Any]:
        self._interface.callable(name)

        def call(*arguments: float) -> Any:
            try:
                instance = self._idle.pop()
            except IndexError:
                instance = self._instantiate()
            try:
                return instance.functions[name](*arguments)
            finally:
                self._idle.append(instance)

        return call


class _Instance:
    """A module in a store of its own, which only one thread may use at a time."""

    def __init__(
        self, engine: wasmtime.Engine, memory: _SharedMemory, compiled: wasmtime.Module, interface: Interface, data: int
    ) -> None:
        store = wasmtime.Store(engine)
        _close_with(self, store)
        i32 = wasmtime.GlobalType(wasmtime.ValType.i32(), False)
        functions = wasmtime.TableType(wasmtime.ValType.funcref(), wasmtime.Limits(interface.pointers, None))
        given: dict[tuple[str, str | None], Any] = {
            ("env", "memory"): memory,
            ("env", "__memory_base"): wasmtime.Global(store, i32, wasmtime.Val.i32(ctypes.c_int32(data).value)),
            ("env", "__table_base"): wasmtime.Global(store, i32, wasmtime.Val.i32(0)),
            ("env", "__indirect_function_table"): wasmtime.Table(store, functions, None),
        }
        wanted = [(item.module, item.name) for item in compiled.imports]
        if missing := [name for name in wanted if name not in given]:
            raise EngineError(f"module {interface.name!r} imports {missing[0]}, which this host does not provide")
        exports = wasmtime.Instance(store, compiled, [given[name] for name in wanted]).exports(store)
        self.functions = {
            name: _Entry(store, name, exports[name], types)
            for name, types in interface.exports.items()
            if types.is_callable
        }


class _Entry:
    """An exported function of one instance, called in about 1 us; wasmtime-py's own call needs 15 us and more.

    `wasmtime_func_call_unchecked` trusts that the slots hold what the function takes: they are packed by the
    signature from which the function was built.
    """

    def __init__(self, store: wasmtime.Store, name: str, function: Any, types: Signature) -> None:
        self._name = name
        self._pack = struct.Struct("<" + "".join([_ARGUMENT[kind] for kind in types.params])).pack_into
        self._unpack = struct.Struct("<" + "".join([_RESULT[kind] for kind in types.results])).unpack_from
        self._has_result = bool(types.results)
        self._function = function._func
        self._slots = (ffi.wasmtime_val_raw_t * max(len(types.params), 1))()
        self._trap = ctypes.POINTER(ffi.wasm_trap_t)()
        self._call = partial(
            _call_unchecked,
            store._context(),
            ctypes.byref(self._function),
            self._slots,
            ctypes.c_size_t(len(self._slots)),
            ctypes.byref(self._trap),
        )

    def __call__(self, *arguments: float) -> Any:
        try:
            self._pack(self._slots, 0, *arguments)
        except struct.error as error:
            raise TypeError(f"function {self._name!r} called with {arguments}: {error}") from None
        failure = self._call()
        if failure or self._trap:
            self._fail(failure)
        return self._unpack(self._slots)[0] if self._has_result else None

    def _fail(self, error: int | None) -> NoReturn:
        if error:
            reason = str(wasmtime.WasmtimeError._from_ptr(ctypes.cast(error, ctypes.POINTER(ffi.wasmtime_error_t))))
        else:
            reason = wasmtime.Trap._from_ptr(ctypes.cast(self._trap, ctypes.POINTER(ffi.wasm_trap_t))).message
            ctypes.memset(ctypes.byref(self._trap), 0, ctypes.sizeof(self._trap))
        raise EngineError(f"function {self._name!r} failed: {reason}")
