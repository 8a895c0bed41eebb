"""The host's WebAssembly memory as a device: chunks are addresses in it, a segment is one call.

What runs a plan is here, with the products that are left to NumPy's BLAS. Nothing here writes code: a session that
finds its module in the cache needs no other room than `hosts`.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, groupby
from typing import Any

import numpy as np

from sardonyx.common import cache, memory
from sardonyx.common.crew import Crew
from sardonyx.common.fingerprint import fingerprint
from sardonyx.common.termination import is_governed, poll, stopping
from sardonyx.common.threads import one_thread
from sardonyx.errors import Fail
from sardonyx.providers.contract import ALIGNMENT, Address, Device, Executable, LoopBody, SegmentLaunch, Turn

from ..abi import CONVOLUTIONS, COPIES, COPY, DONE, HOSTED, SCRATCH, STOPPED
from ..hosts import Host, LoadedModule
from . import blas, calls
from .allocation import Allocation
from .products import Products
from .steps import SHARED, Call, Hosted, Shared, Step, Words

RELEASE = ("sardonyx", "sardonyx_wasm")
"""The packages on whose sources generated code depends."""
_FLOAT = np.dtype(np.float32)
SMALL = 4096
"""Bytes up to which it is quicker to copy an array twice than to make a view of where it goes."""


class WasmDevice(Device):
    """The host's WebAssembly memory; many threads may run bound segments at the same time."""

    name = "wasm"
    in_order = True

    def __init__(self, host: Host, threads: int = 1) -> None:
        self.host = host
        self.crew = Crew(threads if "threads" in host.features else 1)
        self._base: int = host.array(ALIGNMENT, (1,), np.uint8).__array_interface__["data"][0] - ALIGNMENT
        self._lock = threading.Lock()
        self._scratches: list[Allocation] = []
        self._loaded: weakref.WeakValueDictionary[Any, LoadedModule] = weakref.WeakValueDictionary()

    def allocate(self, nbytes: int) -> Allocation:
        return Allocation(self.host, nbytes)

    def free(self, chunk: Allocation) -> None:
        chunk.free()

    def constant(self, array: np.ndarray) -> Address:
        chunk = self.allocate(array.nbytes)
        for offset, piece in memory.pieces(np.ascontiguousarray(array)):
            self.upload(Address(chunk, offset, piece.nbytes), piece)
        return Address(chunk, 0, array.nbytes)

    def upload(self, address: Address, array: np.ndarray) -> None:
        if array.nbytes <= SMALL:
            ctypes.memmove(self._base + _place(address), array.tobytes(), array.nbytes)
            return
        target = self.host.array(_place(address), (array.nbytes,), np.uint8)
        target[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)

    def download(self, address: Address, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
        return self.view(address, dtype, shape).copy()

    def view(self, address: Address, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
        return self.host.array(_place(address), shape, dtype)

    def copy(self, source: Address, target: Address) -> None:
        ctypes.memmove(self._base + _place(target), self._base + _place(source), source.nbytes)

    def array(self, address: int, shape: Sequence[int], strides: Sequence[int]) -> np.ndarray:
        """An array of float32 in the host's memory."""
        return np.ndarray(shape, _FLOAT, self.host.memory_view(), address, strides)

    def synchronize(self) -> None:
        """Wait for the compiler alone: every call has finished when it returns."""
        self.host.synchronize()

    def load(self, codes: Sequence[Any], segments: Sequence[Sequence[SegmentLaunch]]) -> WasmExecutable:
        return self._load(codes, segments)

    def load_body(self, codes: Sequence[Any], launches: Sequence[SegmentLaunch]) -> WasmExecutable:
        """The body of a loop, which the module repeats by itself unless there are products for BLAS in it."""
        return self._load(codes, [launches], repeated=True)

    def _load(
        self, codes: Sequence[Any], segments: Sequence[Sequence[SegmentLaunch]], repeated: bool = False
    ) -> WasmExecutable:
        library = getattr(codes[0], "library", None) if codes else None  # see `bundles.StoredCode`
        native = self.host.name == "wasmtime" and library is None
        hosted = [native and blas.takes(code, repeated) for code in codes]
        parts = [[list(run) for _, run in groupby(s, lambda launch: hosted[launch.code])] for s in segments]
        halves = [number for number, is_hosted in enumerate(hosted) if is_hosted]
        module = self.host.load(library) if library else self._module(codes, halves)
        return WasmExecutable(self, module, codes, hosted, parts, repeated and not halves)

    def _module(self, codes: Sequence[Any], halves: Sequence[int]) -> LoadedModule:
        """The module for these codes, and what surrounds the products of those in `halves`."""
        key = (sorted(self.host.features), [code.key for code in codes], halves)
        digest = fingerprint(repr((cache.release(RELEASE), key)).encode()).digest()
        with self._lock:
            module = self._loaded.get(digest) or self.host.recall(digest)
            if module is None:
                from ..generator import generate  # which brings all that writes code with it

                written = generate(codes, self.host.features, self.host.target, halves)
                module = self.host.load(written, digest)
            self._loaded[digest] = module
        return module

    def scratch(self) -> Allocation:
        """Scratch memory for the threads of a run, until it is given back."""
        try:
            return self._scratches.pop()  # at once: no other thread gets it
        except IndexError:
            return Allocation(self.host, SCRATCH * self.crew.size)

    def give_back(self, scratch: Allocation) -> None:
        """Let others have the scratch memory."""
        self._scratches.append(scratch)


class WasmExecutable(Executable):
    """The code of one plan: a module, and what is left to BLAS. Each segment has parts that are either."""

    def __init__(
        self,
        device: WasmDevice,
        module: LoadedModule,
        codes: Sequence[Any],
        hosted: Sequence[bool],
        parts: Sequence[Sequence[Sequence[SegmentLaunch]]],
        repeated: bool = False,
    ) -> None:
        self._device = device
        self._module = module
        self._turns = module.function("turns") if repeated else None
        self._codes = codes
        self._hosted = hosted
        self._parts = parts
        self._run = None if all(hosted) else module.function("run")
        self._products = {k: Products(codes[k]) for k, is_hosted in enumerate(hosted) if is_hosted}
        own = [number for number, is_hosted in enumerate(hosted) if not is_hosted]
        self._numbers = {number: getattr(codes[number], "number", k) for k, number in enumerate(own)}

    def bind(
        self, segment: int, buffers: Sequence[Sequence[Address]], params: Sequence[Sequence[int]]
    ) -> Callable[[], None]:
        addresses = [[a.chunk.address + a.offset for a in line] for line in buffers]
        operands = iter(zip(addresses, params, strict=True))
        steps: list[Step] = []
        products: list[tuple[Hosted | Shared, int, int]] = []
        last = 0
        touched = self._touched(segment, buffers)
        for part in self._parts[segment]:
            mine: list[tuple[int, Sequence[int], Sequence[int]]] = [(launch.code, *next(operands)) for launch in part]
            if self._run is None or self._hosted[part[0].code]:
                for code, a, b in mine:
                    steps.append(product := self._hosted_step(code, a, tuple(b)))
                    products.append((product, last, last := last + len(b)))
            else:
                launches = [(self._numbers[code], a, b) for code, a, b in mine]
                steps.append(Call(self._device.crew, self._run, launches, last, touched.pop(0) >= SHARED))
                last += sum([len(b) for _, _, b in mine])
        owners: list[Any] = [self._module, *{a.chunk for line in buffers for a in line}]
        match steps:
            case [Call(is_alone=True) as call] if self._turns:
                return _Body(self._device, call, self._turns, owners)
        return _Bound(self._device, steps, products, owners)

    def rebind(self, run: Callable[[], None], params: np.ndarray) -> bool:
        assert isinstance(run, _Bound)
        run.rebind(params)
        return True

    def _touched(self, segment: int, buffers: Sequence[Sequence[Address]]) -> list[int]:
        """The bytes of buffers that each call of the module binds."""
        rooms = iter(sum(a.nbytes for a in line) for line in buffers)
        sums = [sum(next(rooms) for _ in part) for part in self._parts[segment]]
        return [total for total, part in zip(sums, self._parts[segment]) if not self._hosted[part[0].code]]

    def _hosted_step(self, number: int, addresses: Sequence[int], params: tuple[int, ...]) -> Hosted | Shared:
        """A launch that is left to BLAS."""
        if HOSTED in self._codes[number].attributes:
            from .unpacked import Unpacked  # which few plans need

            parts = [self._module.function(f"{name}_{number}") for name in ("widen", "alone")]

            def unpacked(params: Sequence[int]) -> Unpacked:
                return Unpacked(self._codes[number], addresses, params, self._device.array, *parts)

            return Shared(self._device.crew, unpacked, params)
        stages = partial(self._stages, number, addresses) if self._codes[number].primitive in CONVOLUTIONS else None
        return Hosted(self._device.crew, self._products[number], self._device.array, addresses, params, stages)

    def _stages(
        self, number: int, addresses: Sequence[int], product: blas.Product, params: Sequence[int]
    ) -> calls.Stages:
        """The parts of a convolution that the module does; they number units from the start of all."""
        x, _, y = addresses
        seen, made = (4 * product.unit * product.count * size for size in (product.depth, product.columns))

        def part(name: str, row: int, place: Callable[[int], Sequence[int]]) -> Callable[[int, int, int, int], Any]:
            function = self._module.function(f"{name}_{number}")
            return lambda first, last, scratch, rows: function(
                first, last, scratch, *place(rows - row * first), *params
            )

        parts = CONVOLUTIONS[self._codes[number].primitive]
        after = part("after", made, lambda rows: (rows, y)) if "after" in parts else None
        return calls.Stages(part("before", seen, lambda rows: (x, rows)), after)


class _Bound:
    """The steps of a segment; keeps the memory that they work on.

    `products` are those that NumPy does, with the range of the parameters of each.
    """

    def __init__(
        self,
        device: WasmDevice,
        steps: Sequence[Step],
        products: Sequence[tuple[Hosted | Shared, int, int]],
        owners: Sequence[Any],
    ) -> None:
        self._device = device
        self._steps = steps
        self._products = products
        self._users = [step for step in steps if not isinstance(step, Hosted)]
        self._hosted = [step for step in steps if isinstance(step, Hosted)]
        self._calls = [step for step in steps if isinstance(step, Call)]
        self._words = Words(device.host, self._calls)
        self._is_pure = len(self._calls) == len(steps)
        self._scratch = 0
        self._stopped = False
        self._owners = owners
        self._shared: Allocation | None = None
        self._most = 0
        self._make_room()

    def _make_room(self) -> None:
        """Have memory for the products: one room for all of them stays in the cache."""
        most = max([step.room for step in self._hosted], default=0)
        if most > self._most:
            self._shared, self._most = Allocation(self._device.host, most), most
            for step in self._hosted:
                step.use(self._shared.address)

    def rebind(self, params: np.ndarray) -> None:
        """Work with other parameters, those of all launches in a row."""
        self._words.take(params)
        if self._products:
            values = tuple(params.tolist())
            for product, first, end in self._products:
                product.take(values[first:end])
            self._make_room()

    def __call__(self) -> None:
        scratch = self._begin()
        try:
            if is_governed():
                with stopping(self._stop):
                    self._run()
            else:  # a context takes as long as a small launch
                self._run()
        finally:
            self._end(scratch)

    def _run(self) -> None:
        if self._is_pure:
            for step in self._steps:
                step()
        else:
            with one_thread, np.errstate(all="ignore"):
                for step in self._steps:
                    step()

    def _begin(self) -> Allocation:
        """Have scratch memory, to be given back by `_end`."""
        scratch = self._device.scratch()
        if scratch.address != self._scratch:
            self._scratch = scratch.address
            for user in self._users:
                user.use(scratch.address)
        return scratch

    def _end(self, scratch: Allocation) -> None:
        self._device.give_back(scratch)
        if self._stopped:
            self._stopped = False
            for call in self._calls:
                call.stop(0)

    def _stop(self) -> None:
        self._stopped = True
        for call in self._calls:
            call.stop(1)


class _Body(_Bound, LoopBody):
    """The body of a loop."""

    def __init__(self, device: WasmDevice, call: Call, turns: Callable[..., int], owners: Sequence[Any]) -> None:
        super().__init__(device, [call], [], owners)
        self._call = call
        self._turns = turns
        self._record: Allocation | None = None
        self._memory = np.empty(0, np.uint32)

    def repeat(self, turn: Turn, first: int, count: int) -> tuple[int, bool]:
        copies = [(_place(a), _place(b), a.nbytes) for a, b in (*turn.slices, *turn.moves)]
        record = self._room(COPIES + COPY * len(copies))
        middle, end = (record + COPIES + COPY * k for k in (len(turn.slices), len(copies)))
        told = [place and _place(place) for place in (turn.number, turn.going, turn.condition)]
        words = [first & 0xFFFFFFFF, first >> 32, *(place or 0 for place in told), middle, end]
        self._memory[:] = [*words, *chain.from_iterable(copies)]
        scratch = self._begin()
        try:
            with stopping(self._stop):
                outcome = self._turns(self._call.words, record, count)
        finally:
            self._end(scratch)
        if outcome == STOPPED:
            poll()
            raise Fail("the run was ended, since RunOptions.terminate was set")
        return int(self._memory[:2].view(np.int64)[0]) - first, outcome == DONE

    def _room(self, nbytes: int) -> int:
        """The address of so many bytes."""
        if self._record is None or self._memory.nbytes != nbytes:
            self._record = Allocation(self._device.host, nbytes)
            self._memory = self._device.host.array(self._record.address, (nbytes // 4,), np.uint32)
        return self._record.address


def _place(address: Address) -> int:
    place: int = address.chunk.address + address.offset
    return place
