"""The host's WebAssembly memory as a device: chunks are addresses in it, a segment is one call."""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import count, groupby
from typing import Any

import numpy as np

from sardonyx import cache
from sardonyx.device import ALIGNMENT, Address, Launch
from sardonyx.termination import poll, stopping

from . import RELEASE, blas, target
from .crew import Crew
from .driver import CONVOLUTIONS, HEADER, SCRATCH, STATE, STOP
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

    def __init__(self, host: Host, threads: int = 1) -> None:
        self.host = host
        self.crew = Crew(threads if "threads" in host.features else 1)
        self._lock = threading.Lock()
        self._scratches: list[Allocation] = []
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

    def array(self, address: int, shape: Sequence[int], strides: Sequence[int]) -> np.ndarray:
        """An array of float32 in the host's memory."""
        return np.ndarray(shape, np.float32, self.host.memory_view(), address, strides)

    def synchronize(self) -> None:
        """Nothing to do: every call has finished when it returns."""

    def load(self, codes: Sequence[Any], segments: Sequence[Sequence[Launch]]) -> WasmExecutable:
        native = self.host.name == "wasmtime"
        hosted = [native and blas.takes(code) for code in codes]
        parts = [[list(run) for _, run in groupby(s, lambda launch: hosted[launch.code])] for s in segments]
        calls = [part for s in parts for part in s if not hosted[part[0].code]]
        launches = tuple(tuple(launch.code for launch in part) for part in calls)
        key = (sorted(self.host.features), [code.key for code in codes], launches)
        digest = hashlib.sha256(repr((cache.release(RELEASE), key)).encode()).digest()
        with self._lock:
            module = self._modules.get(digest) or self.host.recall(digest)
            if module is None:
                from .generator import generate  # which brings all that writes code with it

                made = generate(codes, calls, self.host.features, target(self.host.name))
                module = self.host.load(made, digest)
            self._modules[digest] = module
        return WasmExecutable(self, module, codes, hosted, parts)

    def scratch(self) -> Allocation:
        """Scratch memory for the threads of a run, until it is given back."""
        with self._lock:
            return self._scratches.pop() if self._scratches else Allocation(self.host, SCRATCH * self.crew.size)

    def give_back(self, scratch: Allocation) -> None:
        """Let others have the scratch memory."""
        with self._lock:
            self._scratches.append(scratch)


class WasmExecutable:
    """The code of one plan: a module, and what is left to BLAS. Each segment has parts that are either."""

    def __init__(
        self,
        device: WasmDevice,
        module: LoadedModule,
        codes: Sequence[Any],
        hosted: Sequence[bool],
        parts: Sequence[Sequence[Sequence[Launch]]],
    ) -> None:
        self._device = device
        self._module = module
        self._codes = codes
        self._hosted = hosted
        self._parts = parts
        numbers = count()
        self._functions = [
            [None if hosted[part[0].code] else module.function(f"segment_{next(numbers)}") for part in segment]
            for segment in parts
        ]

    def bind(
        self, segment: int, buffers: Sequence[Sequence[Address]], params: Sequence[Sequence[int]]
    ) -> Callable[[], None]:
        addresses = [[a.chunk.address + a.offset for a in line] for line in buffers]
        operands = iter(zip(addresses, params, strict=True))
        steps: list[_Call | _Hosted] = []
        touched = self._touched(segment, buffers)
        for part, function in zip(self._parts[segment], self._functions[segment], strict=True):
            mine = [next(operands) for _ in part]
            if function is None:
                steps += [self._hosted_step(launch.code, *m) for launch, m in zip(part, mine)]
            else:
                words = [word for places, numbers in mine for word in (*places, *numbers)]
                steps.append(_Call(self._device, function, words, touched.pop(0) >= SHARED))
        chunks = {id(a.chunk): a.chunk for line in buffers for a in line}
        return _Bound(self._device, steps, [self._module, *chunks.values()])

    def _touched(self, segment: int, buffers: Sequence[Sequence[Address]]) -> list[int]:
        """The bytes of buffers that each call of the module binds."""
        rooms = iter(sum(a.nbytes for a in line) for line in buffers)
        sums = [sum(next(rooms) for _ in part) for part in self._parts[segment]]
        return [total for total, function in zip(sums, self._functions[segment], strict=True) if function]

    def _hosted_step(self, number: int, addresses: Sequence[int], params: Sequence[int]) -> _Hosted:
        """A launch that is left to BLAS."""
        product = blas.product(self._codes[number], addresses, params)
        stages = self._stages(number, product, addresses, params)
        return _Hosted(self._device, blas.Call(product, self._device.array, stages))

    def _stages(
        self, number: int, product: blas.Product, addresses: Sequence[int], params: Sequence[int]
    ) -> blas.Stages | None:
        """The parts of a convolution that the module does; they number units from the start of all."""
        x, _, y = addresses
        seen, made = (4 * product.unit * product.count * size for size in (product.depth, product.columns))

        def part(name: str, row: int, place: Callable[[int], Sequence[int]]) -> Callable[[int, int, int, int], Any]:
            function = self._module.function(f"{name}_{number}")
            return lambda first, last, scratch, rows: function(
                first, last, scratch, *place(rows - row * first), *params
            )

        parts = CONVOLUTIONS.get(self._codes[number].primitive, {})
        if not parts:
            return None
        after = part("after", made, lambda rows: (rows, y)) if "after" in parts else None
        return blas.Stages(part("before", seen, lambda rows: (x, rows)), after)


SHARED = 1 << 20
"""Bytes that a call reads and writes from which on it is worth waking other threads."""
_ALONE = Crew(1)


class _Call:
    """A driver of the module with its operands."""

    def __init__(self, device: WasmDevice, function: Callable[..., Any], words: Sequence[int], shared: bool) -> None:
        self._block = Allocation(device.host, STATE + 4 * (HEADER + len(words)))
        self._memory = device.host.array(self._block.address, (STATE // 4 + HEADER + len(words),), np.uint32)
        state = [0] * (STATE // 4)
        self._memory[:] = np.array([*state, 0, self._block.address, *words], np.int64).astype(np.uint32)
        self._scratch = 0
        alone = not shared or device.crew.size == 1
        work = partial(function, self._block.address + STATE)
        self._run = partial(work, 0, 1) if alone else partial(device.crew.run, work)

    def use(self, scratch: int) -> None:
        """Have scratch memory at an address."""
        if scratch != self._scratch:
            self._scratch = self._memory[STATE // 4] = scratch

    def stop(self, now: int) -> None:
        """Ask a call to end early, or no more."""
        self._memory[STOP // 4] = now

    def __call__(self) -> None:
        if self._run():
            poll()


class _Hosted:
    """A product, which is done by NumPy."""

    def __init__(self, device: WasmDevice, call: blas.Call) -> None:
        crew = device.crew if call.work >= blas.SHARED else _ALONE
        self._room = Allocation(device.host, call.room * crew.size) if call.room else None
        work = partial(call, self._room.address if self._room else 0)
        self._run = partial(work, 0, 1) if crew.size == 1 else partial(crew.run, work)

    def __call__(self) -> None:
        self._run()


class _Bound:
    """The steps of a segment; keeps the memory that they work on."""

    def __init__(self, device: WasmDevice, steps: Sequence[_Call | _Hosted], kept: Sequence[Any]) -> None:
        self._device = device
        self._steps = steps
        self._calls = [step for step in steps if isinstance(step, _Call)]
        self._quiet = len(self._calls) < len(steps)
        self._stopped = False
        self._kept = kept

    def __call__(self) -> None:
        scratch = self._device.scratch()
        try:
            for call in self._calls:
                call.use(scratch.address)
            with stopping(self._stop), np.errstate(all="ignore") if self._quiet else nullcontext():
                for step in self._steps:
                    step()
        finally:
            self._device.give_back(scratch)
            if self._stopped:
                self._stopped = False
                for call in self._calls:
                    call.stop(0)

    def _stop(self) -> None:
        self._stopped = True
        for call in self._calls:
            call.stop(1)
