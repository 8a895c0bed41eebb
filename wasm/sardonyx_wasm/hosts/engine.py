"""What the native host has of wasmtime: an engine, a memory, compiled code and its instances."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from ctypes import byref
from typing import Any

from . import capi
from .capi import Tagged, api, check

_PAGE_SIZE_LOG2 = 16
_UNLIMITED = 0xFFFF_FFFF


class Owned:
    """Something of the library's, deleted when nobody refers to it.

    What is there when the interpreter ends is left to the system: daemon threads still run code in it.
    """

    def __init__(self, pointer: int | None, delete: Callable[[int], None]) -> None:
        assert pointer, "out of memory"
        self.pointer = pointer
        weakref.finalize(self, delete, pointer).atexit = False


class Engine(Owned):
    """A compiler, which works on several threads where `parallel`."""

    def __init__(self, parallel: bool = True) -> None:
        config = api.wasm_config_new()
        api.wasmtime_config_shared_memory_set(config, True)
        api.wasmtime_config_wasm_threads_set(config, True)
        api.wasmtime_config_wasm_relaxed_simd_set(config, True)
        # Growing never moves the memory, and page faults check its bounds.
        api.wasmtime_config_memory_reservation_set(config, 1 << 32)
        api.wasmtime_config_memory_may_move_set(config, False)
        api.wasmtime_config_parallel_compilation_set(config, parallel)
        super().__init__(api.wasm_engine_new_with_config(config), api.wasm_engine_delete)

    def validate(self, module: bytes) -> None:
        """Raise WasmtimeError where it could not compile this module."""
        check(api.wasmtime_module_validate(self.pointer, module, len(module)))


class SharedMemory(Owned):
    """A memory of one page that can grow to `maximum` of them, at `base`."""

    def __init__(self, engine: Engine, maximum: int) -> None:
        kind, pointer = ctypes.c_void_p(), ctypes.c_void_p()
        check(api.wasmtime_memorytype_new(1, True, maximum, False, True, _PAGE_SIZE_LOG2, byref(kind)))
        try:
            check(api.wasmtime_sharedmemory_new(engine.pointer, kind, byref(pointer)))
        finally:
            api.wasm_memorytype_delete(kind)
        super().__init__(pointer.value, api.wasmtime_sharedmemory_delete)
        self.base: int = api.wasmtime_sharedmemory_data(pointer)

    def __len__(self) -> int:
        """Its bytes."""
        size: int = api.wasmtime_sharedmemory_data_size(self.pointer)
        return size

    def grow(self, pages: int) -> None:
        """Add pages; raises WasmtimeError where there is no room."""
        check(api.wasmtime_sharedmemory_grow(self.pointer, pages, byref(ctypes.c_uint64())))


class Code(Owned):
    """A module compiled for this processor."""

    @classmethod
    def compile(cls, engine: Engine, module: bytes) -> Code:
        """Compile the bytes of a module; raises WasmtimeError."""
        return cls._made(api.wasmtime_module_new, engine, module)

    @classmethod
    def deserialize(cls, engine: Engine, code: bytes) -> Code:
        """What `serialize` gave; raises WasmtimeError where another release or processor made it."""
        return cls._made(api.wasmtime_module_deserialize, engine, code)

    @classmethod
    def _made(cls, make: Callable[..., int | None], engine: Engine, data: bytes) -> Code:
        pointer = ctypes.c_void_p()
        check(make(engine.pointer, data, len(data), byref(pointer)))
        return cls(pointer.value, api.wasmtime_module_delete)

    def serialize(self) -> bytes:
        """What `deserialize` reads."""
        data = capi.Bytes()
        check(api.wasmtime_module_serialize(self.pointer, byref(data)))
        return data.take()


class Instance(Owned):
    """Compiled code in a store of its own, which only one thread may use at a time.

    Of its imports, `env` has the memory, and what a side module of Emscripten's needs: `__memory_base` is the address
    of its data, and the table `__indirect_function_table` has `pointers` places from `__table_base`, 0.
    Raises WasmtimeError where it wants another.
    """

    def __init__(self, engine: Engine, code: Code, memory: SharedMemory, data: int, pointers: int) -> None:
        super().__init__(api.wasmtime_store_new(engine.pointer, None, None), api.wasmtime_store_delete)
        self.context: int = api.wasmtime_store_context(self.pointer)
        self._instance, trap = Tagged(), ctypes.c_void_p()
        shared = Tagged(capi.EXTERN_SHAREDMEMORY)
        shared.of[0] = memory.pointer
        linker = api.wasmtime_linker_new(engine.pointer)
        try:
            for name, item in (
                (b"memory", shared),
                (b"__memory_base", self._i32(data)),
                (b"__table_base", self._i32(0)),
                (b"__indirect_function_table", self._table(pointers)),
            ):
                check(api.wasmtime_linker_define(linker, self.context, b"env", 3, name, len(name), byref(item)))
            error = api.wasmtime_linker_instantiate(
                linker, self.context, code.pointer, byref(self._instance), byref(trap)
            )
            check(error, trap.value)
        finally:
            api.wasmtime_linker_delete(linker)

    def _i32(self, value: int) -> Tagged:
        number, item = Tagged(capi.I32), Tagged(capi.EXTERN_GLOBAL)
        number.of[0] = value
        kind = api.wasm_globaltype_new(api.wasm_valtype_new(capi.I32), 0)
        error = api.wasmtime_global_new(self.context, kind, byref(number), byref(item, Tagged.OF))
        api.wasm_globaltype_delete(kind)
        check(error)
        return item

    def _table(self, size: int) -> Tagged:
        nothing, item = Tagged(capi.VAL_FUNCREF), Tagged(capi.EXTERN_TABLE)
        kind = api.wasm_tabletype_new(api.wasm_valtype_new(capi.FUNCREF), byref(capi.Limits(size, _UNLIMITED)))
        error = api.wasmtime_table_new(self.context, kind, byref(nothing), byref(item, Tagged.OF))
        api.wasm_tabletype_delete(kind)
        check(error)
        return item

    def function(self, name: str) -> Any:
        """A pointer to an exported function, for wasmtime_func_call_unchecked."""
        item, key = Tagged(), name.encode()
        is_there = api.wasmtime_instance_export_get(self.context, byref(self._instance), key, len(key), byref(item))
        assert is_there, name
        return byref(item, Tagged.OF)
