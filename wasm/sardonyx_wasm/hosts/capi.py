"""wasmtime's C API, as much of it as the native host calls, from the shared library in the package `wasmtime`.

The package declares every function of the library when it is imported: 30 ms and 4 MB, a quarter of what a session of
a small model takes from the cache. What is declared here is of the headers wasm.h and wasmtime.h. Of a release that is
not among TESTED it is compared first with the package's own declarations: what changed is an error, not a crash.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from ctypes import byref
from typing import Any, Final

from sardonyx.errors import EngineError

from .support import library

TESTED: Final = ("50",)
"""The releases for which the declarations were compared: tests/wasm/test_capi.py."""

_SIMPLE: dict[str, Any] = {
    "P": ctypes.c_void_p, "N": ctypes.c_size_t, "Q": ctypes.c_uint64, "B": ctypes.c_uint8, "?": ctypes.c_bool, "": None,
}  # fmt: skip

FUNCTIONS: Final = {
    "wasm_config_new": ":P",
    "wasmtime_config_shared_memory_set": "P?:",
    "wasmtime_config_wasm_threads_set": "P?:",
    "wasmtime_config_wasm_relaxed_simd_set": "P?:",
    "wasmtime_config_memory_reservation_set": "PQ:",
    "wasmtime_config_memory_may_move_set": "P?:",
    "wasmtime_config_parallel_compilation_set": "P?:",
    "wasm_engine_new_with_config": "P:P",
    "wasm_engine_delete": "P:",
    "wasmtime_memorytype_new": "Q?Q??BP:P",
    "wasm_memorytype_delete": "P:",
    "wasmtime_sharedmemory_new": "PPP:P",
    "wasmtime_sharedmemory_data": "P:P",
    "wasmtime_sharedmemory_data_size": "P:N",
    "wasmtime_sharedmemory_grow": "PQP:P",
    "wasmtime_sharedmemory_delete": "P:",
    "wasmtime_module_new": "PPNP:P",
    "wasmtime_module_validate": "PPN:P",
    "wasmtime_module_serialize": "PP:P",
    "wasmtime_module_deserialize": "PPNP:P",
    "wasmtime_module_delete": "P:",
    "wasmtime_store_new": "PPP:P",
    "wasmtime_store_context": "P:P",
    "wasmtime_store_delete": "P:",
    "wasm_valtype_new": "B:P",
    "wasm_globaltype_new": "PB:P",
    "wasm_globaltype_delete": "P:",
    "wasmtime_global_new": "PPPP:P",
    "wasm_tabletype_new": "PP:P",
    "wasm_tabletype_delete": "P:",
    "wasmtime_table_new": "PPPP:P",
    "wasmtime_linker_new": "P:P",
    "wasmtime_linker_define": "PPPNPNP:P",
    "wasmtime_linker_instantiate": "PPPPP:P",
    "wasmtime_linker_delete": "P:",
    "wasmtime_instance_export_get": "PPPNP:?",
    "wasmtime_func_call_unchecked": "PPPNP:P",
    "wasmtime_error_message": "PP:",
    "wasmtime_error_delete": "P:",
    "wasm_trap_message": "PP:",
    "wasm_trap_delete": "P:",
    "wasm_byte_vec_delete": "P:",
}
"""The types of arguments and result: pointer, size_t, uint64_t, uint8_t, bool, and nothing for void."""

I32, FUNCREF = 0, 129  # of wasm_valkind_t
EXTERN_GLOBAL, EXTERN_TABLE, EXTERN_SHAREDMEMORY = 1, 2, 4  # of wasmtime_extern_kind_t
VAL_FUNCREF = 5  # of wasmtime_valkind_t, where I32 is 0 as well


class WasmtimeError(Exception):
    """What wasmtime says about the failure of a call."""


class Tagged(ctypes.Structure):
    """A wasmtime_extern_t or a wasmtime_val_t, and room for either to grow."""

    _fields_ = (("kind", ctypes.c_uint8), ("of", ctypes.c_uint64 * 7))
    OF = 8


class Bytes(ctypes.Structure):
    """A wasm_byte_vec_t, which owns what it points to."""

    _fields_ = (("size", ctypes.c_size_t), ("data", ctypes.c_void_p))

    def take(self) -> bytes:
        """Its contents, which are freed."""
        contents = ctypes.string_at(self.data, self.size)
        api.wasm_byte_vec_delete(byref(self))
        return contents


class Limits(ctypes.Structure):
    """A wasm_limits_t."""

    _fields_ = (("min", ctypes.c_uint32), ("max", ctypes.c_uint32))


class Api:
    """The functions of FUNCTIONS, as attributes, in the library at `path`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._library = ctypes.CDLL(self.path)
        for name in FUNCTIONS:
            _ = self._library[name]  # raises AttributeError where a release has lost it

    def __getattr__(self, name: str) -> Any:
        if name not in FUNCTIONS:
            raise AttributeError(f"{name} is not declared in {__name__}")
        arguments, result = FUNCTIONS[name].split(":")
        function = self._library[name]
        function.argtypes = tuple([_SIMPLE[kind] for kind in arguments])
        function.restype = _SIMPLE[result]
        setattr(self, name, function)
        return function

    def prepared(self, name: str) -> Any:
        """A function that takes ctypes' objects as they are, a third faster than by its types."""
        function = self._library[name]
        function.restype = _SIMPLE[FUNCTIONS[name].split(":")[1]]
        return function


def disagreements() -> list[str]:
    """What the installed package declares otherwise: names of functions, structures and constants."""
    import wasmtime._bindings as theirs
    from wasmtime import _ffi as constants

    def same(mine: Any, other: Any) -> bool:
        if mine is None or other is None:
            return mine is other
        simple = isinstance(getattr(other, "_type_", None), str) and other is not ctypes.c_void_p
        return simple != (mine is ctypes.c_void_p) and ctypes.sizeof(mine) == ctypes.sizeof(other)

    wrong = []
    for name, types in FUNCTIONS.items():
        arguments, result = types.split(":")
        declared = getattr(theirs, f"_{name}", None)
        mine = [_SIMPLE[kind] for kind in [result, *arguments]]
        other = [] if declared is None else [declared.restype, *declared.argtypes]
        if len(mine) != len(other) or not all(map(same, mine, other)):
            wrong.append(name)
    layouts = {
        "wasmtime_extern_t": theirs.wasmtime_extern_t.of.offset == Tagged.OF,
        "wasmtime_val_t": theirs.wasmtime_val_t.of.offset == Tagged.OF,
        "wasmtime_val_raw_t": ctypes.sizeof(theirs.wasmtime_val_raw_t) == 16,
        "wasm_limits_t": ctypes.sizeof(theirs.wasm_limits_t) == ctypes.sizeof(Limits),
        "wasm_byte_vec_t": ctypes.sizeof(theirs.wasm_byte_vec_t) == ctypes.sizeof(Bytes),
    }
    wrong += [name for name, agrees in layouts.items() if not agrees]
    rooms = ("wasmtime_extern_t", "wasmtime_val_t", "wasmtime_instance_t")
    wrong += [name for name in rooms if ctypes.sizeof(getattr(theirs, name)) > ctypes.sizeof(Tagged)]
    numbers = {
        "WASM_I32": I32, "WASM_FUNCREF": FUNCREF, "WASMTIME_I32": I32, "WASMTIME_FUNCREF": VAL_FUNCREF,
        "WASMTIME_EXTERN_GLOBAL": EXTERN_GLOBAL, "WASMTIME_EXTERN_TABLE": EXTERN_TABLE,
        "WASMTIME_EXTERN_SHAREDMEMORY": EXTERN_SHAREDMEMORY,
    }  # fmt: skip
    return wrong + [name for name, number in numbers.items() if getattr(constants, name).value != number]


def open_library() -> Api:
    """The library of the installed package.

    Raises EngineError where this system cannot load it, or its release has changed what is called.
    """
    path = library()
    assert path is not None
    beside = os.listdir(os.path.dirname(os.path.dirname(os.path.dirname(path))))
    metadata = [name for name in beside if name.startswith("wasmtime-") and name.endswith(".dist-info")]
    release = metadata[0].removesuffix(".dist-info").split("-")[1] if metadata else "of an unknown release"
    if release.split(".")[0] not in TESTED and (wrong := disagreements()):
        raise EngineError(
            f"wasmtime {release} has changed {', '.join(wrong)}: pip install 'wasmtime=={TESTED[-1]}.*', "
            "or a newer sardonyx"
        )
    try:
        return Api(os.path.realpath(path))  # as the system names it among what is mapped
    except (OSError, AttributeError) as error:
        raise EngineError(
            f"this system cannot load wasmtime {release} ({error}): pip install --force-reinstall wasmtime, "
            "or ask for NumpyExecutionProvider"
        ) from None


api = open_library()


def _said(tell: Callable[..., None], told: int, delete: Callable[..., None]) -> str:
    """The text of an error or a trap, which is deleted."""
    message = Bytes()
    tell(told, byref(message))
    delete(told)
    return message.take().rstrip(b"\0").decode(errors="replace")


def check(error: int | None, trap: int | None = None) -> None:
    """Raise WasmtimeError for what a call gave, unless it gave nothing."""
    if error:
        raise WasmtimeError(_said(api.wasmtime_error_message, error, api.wasmtime_error_delete))
    if trap:
        raise WasmtimeError(_said(api.wasm_trap_message, trap, api.wasm_trap_delete))
