"""Modules and expressions run by wasmtime."""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from typing import Any

import numpy as np
import wasmtime

from sardonyx_wasm.assembler import Memory, Module
from sardonyx_wasm.assembler.expression import Expr

Array = np.ndarray[Any, Any]
OWN_MEMORY = Memory(minimum=1, maximum=2, shared=True, import_from=None)


def engine() -> wasmtime.Engine:
    config = wasmtime.Config()
    config.shared_memory = True
    config.wasm_threads = True
    config.wasm_relaxed_simd = True
    return wasmtime.Engine(config)


ENGINE = engine()
atexit.register(ENGINE.close)  # wasmtime's finalizers fail once the interpreter has cleared its modules


class Program:
    """A module with a memory of its own, instantiated: `call` its functions, look at its `memory`."""

    def __init__(self, module: Module, imports: list[Any] | None = None, store: Any = None) -> None:
        self.store = store or wasmtime.Store(ENGINE)
        compiled = wasmtime.Module(ENGINE, module.to_bytes(OWN_MEMORY))
        self.exports: Mapping[str, Any] = wasmtime.Instance(self.store, compiled, imports or []).exports(self.store)

    def call(self, name: str, *arguments: float) -> Any:
        return self.exports[name](self.store, *arguments)

    @property
    def memory(self) -> Array:
        memory = self.exports["memory"]
        return np.ctypeslib.as_array(memory.data_ptr(), (memory.data_len(),))


def evaluate(expr: Expr) -> Any:
    """The value of an expression without variables."""
    m = Module()
    with m.function("f", {}, [expr.type], export=True) as f:
        f.return_(expr)
    return Program(m).call("f")


def stored(expr: Expr) -> Array:
    """The 16 bytes of a vector expression, over a memory that starts with 0, 1, 2, ..."""
    m = Module()
    with m.function("f", {}, export=True) as f:
        f.store(256, expr)
    program = Program(m)
    program.memory[:64] = np.arange(64)
    program.call("f")
    return program.memory[256:272].copy()
