"""Code of vectors, run on arrays of any dtype."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx_wasm import hosts, vectors
from sardonyx_wasm.assembler import i32
from sardonyx_wasm.generator import Generator
from sardonyx_wasm.scalars.values import kind
from sardonyx_wasm.vectors import FunctionScope, Vector
from tests.support import interpreter
from tests.wasm.compiled import PLAIN

Array = np.ndarray[Any, Any]


class Case:
    """Functions of one module, each of which maps arrays element by element, 4 at a time."""

    def __init__(self, features: frozenset[str] = PLAIN) -> None:
        self.unit = Generator(features, "wasmtime")
        self.types: dict[str, list[str]] = {}

    def add(self, name: str, reads: Sequence[str], to: str, rule: Callable[..., Vector]) -> None:
        """A function called `name`; the rule takes the scope and a vector of each dtype read."""
        self.types[name] = [*reads, to]
        operands = [f"buffer{n}" for n in range(len(self.types[name]))]
        with self.unit.module.function(name, dict.fromkeys(["count", *operands], i32), export=True) as f:
            s = FunctionScope(self.unit, f)
            at = f.local(i32)
            with f.loop(at, 0, f.count, step=4):
                places = [b + at * (kind(t).bits // 8) for b, t in zip(f.params[1:], self.types[name])]
                x = [vectors.load(s, kind(t), place) for t, place in zip(reads, places)]
                vectors.store(f, s, kind(to), places[-1], rule(s, *x))

    def run(self, name: str, *operands: Array) -> Array:
        """What the function makes of arrays, held as the interpreter holds them."""
        return self.run_all({name: operands})[name]

    def run_all(self, operands: Mapping[str, Sequence[Array]]) -> dict[str, Array]:
        host = hosts.host()
        loaded = host.load(self.unit.module)
        results = {}
        for name, arrays in operands.items():
            *reads, to = self.types[name]
            count = arrays[0].size
            results[name] = np.zeros(count, dtypes.by_name(to).storage)
            padded = -(-count // 4) * 4
            buffers = [*(encoded(a.ravel(), t) for a, t in zip(arrays, reads)), results[name]]
            addresses = [host.allocate(max(1, padded * b.itemsize)) for b in buffers]
            views = [host.array(a, [padded], b.dtype) for a, b in zip(addresses, buffers)]
            for view, buffer in zip(views[:-1], buffers):
                view[:count], view[count:] = buffer, 0
            loaded.function(name)(count, *addresses)
            results[name] = decoded(views[-1][:count].copy(), to)
            del view, views
            for address in addresses:
                host.free(address)
        return results


def decoded(array: Array, dtype: str) -> Array:
    return interpreter.from_bfloat16(array) if dtype == "bfloat16" else array


def encoded(values: Array, dtype: str) -> Array:
    return interpreter.to_bfloat16(values) if dtype == "bfloat16" else values
