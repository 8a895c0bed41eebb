"""The host's WebAssembly memory as a device: chunks are addresses in it, a segment is one call."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sardonyx.compiler.program import Program
from sardonyx.device import ALIGNMENT, Address, Launch

from .generator import generate
from .hosts import Host, LoadedModule


class Allocation:
    """Memory of a host, given back when this object dies or is freed."""

    def __init__(self, host: Host, nbytes: int, align: int = ALIGNMENT) -> None:
        self.address = host.allocate(nbytes, align)
        self.free = weakref.finalize(self, host.free, self.address)
        self.free.atexit = False


class WasmDevice:
    """Implements `sardonyx.device.Device`; any number of threads may run bound segments at the same time."""

    name = "wasm"

    def __init__(self, host: Host) -> None:
        self.host = host
        self._lock = threading.Lock()
        self._modules: weakref.WeakValueDictionary[Any, LoadedModule] = weakref.WeakValueDictionary()

    def allocate(self, nbytes: int) -> Allocation:
        return Allocation(self.host, nbytes)

    def free(self, chunk: Allocation) -> None:
        chunk.free()

    def constant(self, array: np.ndarray) -> Address:
        address = Address(self.allocate(array.nbytes), 0, array.nbytes)
        self.upload(address, array)
        return address

    def upload(self, address: Address, array: np.ndarray) -> None:
        self._bytes(address, array.nbytes)[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)

    def download(self, address: Address, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
        return self.host.array(address.chunk.address + address.offset, shape, dtype).copy()

    def copy(self, source: Address, target: Address) -> None:
        self._bytes(target, source.nbytes)[:] = self._bytes(source, source.nbytes)

    def _bytes(self, address: Address, nbytes: int) -> np.ndarray:
        return self.host.array(address.chunk.address + address.offset, (nbytes,), np.uint8)

    def synchronize(self) -> None:
        """Nothing to do: every call has finished when it returns."""

    def load(self, codes: Sequence[Program], segments: Sequence[Sequence[Launch]]) -> WasmExecutable:
        key = (tuple(code.key for code in codes), tuple(tuple(launch.code for launch in s) for s in segments))
        with self._lock:
            module = self._modules.get(key)
            if module is None:
                module = self._modules[key] = self.host.load(generate(codes, segments))
        return WasmExecutable(self.host, module)


class WasmExecutable:
    """The module of one plan."""

    def __init__(self, host: Host, module: LoadedModule) -> None:
        self._host = host
        self._module = module

    def bind(
        self, segment: int, buffers: Sequence[Sequence[Address]], params: Sequence[Sequence[int]]
    ) -> Callable[[], None]:
        words = [
            word
            for addresses, numbers in zip(buffers, params, strict=True)
            for word in (*(a.chunk.address + a.offset for a in addresses), *numbers)
        ]
        chunks = {id(a.chunk): a.chunk for addresses in buffers for a in addresses}
        block = Allocation(self._host, 4 * len(words))
        self._host.array(block.address, (len(words),), np.uint32)[:] = np.array(words, np.int64).astype(np.uint32)
        return _Bound(self._module, segment, block, list(chunks.values()))


class _Bound:
    """A segment with its operands; keeps the memory that they lie in."""

    def __init__(self, module: LoadedModule, segment: int, block: Allocation, chunks: list[Any]) -> None:
        self._kept = (module, block, chunks)
        self._function = module.function(f"segment_{segment}")
        self._block = block.address

    def __call__(self) -> None:
        self._function(self._block)
