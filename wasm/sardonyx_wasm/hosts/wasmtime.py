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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from sardonyx.common import cache, forks, threads
from sardonyx.common.fingerprint import fingerprint
from sardonyx.common.forks import Whole
from sardonyx.errors import EngineError

from .allocator import Allocator
from .capi import WasmtimeError, api, check
from .engine import Code, Engine, Instance, SharedMemory
from .interface import PACKAGES, Interface, Signature
from .support import PROBES, DType

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

_library = os.stat(api.path)
_LIBRARY = f"wasmtime {_library.st_size} {_library.st_mtime_ns} ".encode()
"""What tells this release from others: to look up its version takes longer."""

_COUNT = "RAYON_NUM_THREADS"
"""How many threads wasmtime compiles with, if not one for each core: it looks once in a process."""

_PROCESS = os.getpid()
"""The process that the compiler's threads belong to, whichever host they began with."""

_call_unchecked = api.prepared("wasmtime_func_call_unchecked")


class WasmtimeHost:
    """The native host; `maximum` limits its memory, in pages of 64 KiB."""

    name = "wasmtime"
    target = "wasmtime"

    def __init__(self, maximum: int = _MAXIMUM) -> None:
        self._lock = threading.Lock()
        self._loaded: weakref.WeakValueDictionary[bytes, WasmtimeModule] = weakref.WeakValueDictionary()
        self.engine = Engine()
        self._maximum = maximum
        self.memory = SharedMemory(self.engine, maximum)
        self._base = self.memory.base
        self._buffer, self._view = self._see()
        self._allocator = Allocator(_PAGE, maximum * _PAGE, self._grow, self._release)  # address 0 stays unused
        with _as_many_threads_as_there_may_be():
            self.features = frozenset({"threads", *filter(self._accepts, PROBES)})

    def _accepts(self, feature: str) -> bool:
        try:
            self.engine.validate(PROBES[feature])
        except WasmtimeError:
            return False
        return True

    def _see(self) -> tuple[ctypes.Array[ctypes.c_uint8], memoryview]:
        buffer = (ctypes.c_uint8 * len(self.memory)).from_address(self._base)
        vars(buffer)["host"] = self  # arrays over the buffer keep the memory alive
        return buffer, memoryview(buffer).cast("B")

    def _grow(self, end: int) -> int:
        if end > len(self._buffer):
            size = min(-(-end // _GROWTH) * _GROWTH, self._maximum * _PAGE)
            self.memory.grow((size - len(self._buffer)) // _PAGE)
            self._buffer, self._view = self._see()
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
        return self._view

    def array(self, address: int, shape: Sequence[int], dtype: DType) -> np.ndarray:
        return np.ndarray(shape, dtype, self._view, address)

    def address_of(self, array: np.ndarray) -> int | None:
        address: int = array.__array_interface__["data"][0] - self._base
        return address if 0 <= address < len(self._buffer) else None

    def load(self, module: Module, key: bytes = b"") -> WasmtimeModule:
        from ..assembler import Memory

        data = module.to_bytes(Memory(1, self._maximum, shared=True))
        key = key or fingerprint(data).digest()
        loaded = self.recall(key)
        with Whole(), self._lock:
            loaded = loaded or self._loaded.get(key)
            if loaded is None:
                interface = Interface.of(module)
                compilation = Compilation(partial(self._compile, data, interface, key))
                loaded = self._loaded[key] = WasmtimeModule(self, interface, compilation.result)
            return loaded

    def recall(self, key: bytes) -> WasmtimeModule | None:
        with Whole(), self._lock:
            loaded = self._loaded.get(key)
            artifact = None if loaded else cache.recall(_LIBRARY + key)
            if artifact is not None:
                try:
                    interface, code = Interface.from_bytes(artifact)
                    compiled = Code.deserialize(self.engine, code)
                except (WasmtimeError, EOFError, TypeError, ValueError):
                    return None  # made for another processor, or no module at all
                loaded = self._loaded[key] = WasmtimeModule(self, interface, lambda: compiled)
            return loaded

    def synchronize(self) -> None:
        _wait_for_all()

    def _compile(self, data: bytes, interface: Interface, key: bytes) -> Code:
        try:
            if os.getpid() == _PROCESS:
                compiled = Code.compile(self.engine, data)
            else:  # the compiler's threads did not survive the fork, and waiting for them would never end
                serial = Code.compile(Engine(parallel=False), data)
                compiled = Code.deserialize(self.engine, serial.serialize())
        except WasmtimeError as error:
            raise EngineError(f"wasmtime cannot compile this module: {error}") from None
        if cache.directory():
            cache.keep(_LIBRARY + key, PACKAGES, interface.to_bytes(), compiled.serialize())
        return compiled


@contextmanager
def _as_many_threads_as_there_may_be() -> Iterator[None]:
    """Within the block, which starts the compiler's threads, have one where the system refuses one for each core: the
    library ends the process otherwise. EngineError where there can be none."""
    if _COUNT in os.environ or threads.can_start(threads.cores()):
        yield
        return
    if not threads.can_start(1):
        raise EngineError(
            "WebAssembly's compiler needs a thread, and the system starts none: raise the limit (ulimit -u, or that of "
            "the container), or ask for NumpyExecutionProvider"
        )
    os.environ[_COUNT] = "1"
    try:
        yield
    finally:
        del os.environ[_COUNT]


class Compilation:
    """Work in a thread of its own: wasmtime compiles without Python's lock while a session goes on being made.

    Where the system refuses the thread, who asks for the result does the work.
    """

    def __init__(self, work: Callable[[], Code]) -> None:
        self._work = work
        self._code: Code | None = None
        self._is_new = True
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._do, name="sardonyx compiles")
        self._has_begun = True
        try:
            self._thread.start()
        except RuntimeError:
            self._has_begun = False
        _compilations.add(self)

    def _do(self) -> None:
        with suppress(EngineError):  # `result` raises it
            self.finish()

    def finish(self) -> Code:
        """Do the work, unless it is done."""
        with self._lock:
            if self._code is None:
                self._code = self._work()
                _trim_heap()
            return self._code

    def wait(self) -> None:
        """Return when the thread has ended."""
        if self._has_begun:
            self._thread.join()

    def result(self) -> Code:
        """What the work gave. When no other is at work, the compiler is not kept in memory."""
        self.wait()
        code = self._code or self.finish()
        if self._is_new and not any(other._thread.is_alive() for other in list(_compilations)):
            _drop_code()
        self._is_new = False
        return code


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
            if line.rstrip().endswith(api.path) and " r-x" in line:
                start, end = (int(place, 16) for place in line.split()[0].split("-"))
                _advise(start, end, _MADV_DONTNEED)


def _advise(start: int, end: int, advice: int) -> None:
    """Tell Linux about the pages between two addresses of this process."""
    ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), advice)


_compilations: weakref.WeakSet[Compilation] = weakref.WeakSet()


def _nothing() -> None:
    """Compilers go on by themselves, in either process."""


def _wait_for_all() -> None:
    """Return when no compiler is at work; a child process would inherit its locks."""
    for compilation in list(_compilations):
        compilation.wait()


forks.register(_wait_for_all, _nothing, _nothing)


class WasmtimeModule:
    """A module, `compiled` when it is first called, and its pool of instances: as many as calls at the same time."""

    def __init__(self, host: WasmtimeHost, interface: Interface, compiled: Callable[[], Code]) -> None:
        self._host = host
        self._interface = interface
        self._compiled = compiled
        self._data = 0
        if interface.data_size:
            self._data = host.allocate(interface.data_size, interface.data_align)
            weakref.finalize(self, host.free, self._data).atexit = False
        self._idle: deque[dict[str, _Entry]] = deque()

    def wait(self) -> None:
        """Return when the module is compiled, as a first call does; raises EngineError where it cannot be."""
        self._idle.append(self._instantiate())

    def _instantiate(self) -> dict[str, _Entry]:
        host, wanted = self._host, self._interface
        compiled = self._compiled()
        try:
            instance = Instance(host.engine, compiled, host.memory, self._data, wanted.pointers)
        except WasmtimeError as error:
            raise EngineError(f"module {wanted.name!r} cannot start here: {error}") from None
        return {name: _Entry(instance, name, types) for name, types in wanted.exports.items() if types.is_callable}

    def function(self, name: str) -> Callable[..., Any]:
        self._interface.callable(name)

        def call(*arguments: float) -> Any:
            try:
                entries = self._idle.pop()
            except IndexError:
                entries = self._instantiate()
            try:
                return entries[name](*arguments)
            finally:
                self._idle.append(entries)

        return call


def _cause(trace: str) -> str:
    """Why a call came to no end, from the engine's backtrace: its last line."""
    return trace.strip().rpartition("\n")[2].strip()


class _Entry:
    """An exported function of one instance, called in about 1 us.

    `wasmtime_func_call_unchecked` trusts that the slots hold what the function takes: they are packed by the
    signature from which the function was built.
    """

    def __init__(self, instance: Instance, name: str, types: Signature) -> None:
        self._instance = instance
        self._name = name
        self._pack = struct.Struct("<" + "".join([_ARGUMENT[kind] for kind in types.params])).pack_into
        self._unpack = struct.Struct("<" + "".join([_RESULT[kind] for kind in types.results])).unpack_from
        self._has_result = bool(types.results)
        self._slots = (ctypes.c_uint64 * (2 * max(len(types.params), 1)))()
        self._trap = ctypes.c_void_p()
        self._call = partial(
            _call_unchecked,
            ctypes.c_void_p(instance.context),
            instance.function(name),
            self._slots,
            ctypes.c_size_t(len(self._slots) // 2),
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
        trap, self._trap.value = self._trap.value, None
        try:
            check(error, trap)
        except WasmtimeError as reason:
            raise EngineError(f"function {self._name!r} failed: {_cause(str(reason))}") from None
        raise AssertionError("there was no failure")
