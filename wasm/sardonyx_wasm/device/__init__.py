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
from itertools import chain
from time import perf_counter
from typing import Any

import numpy as np

from sardonyx.common import memory, relief, sources
from sardonyx.common.crew import Crew
from sardonyx.common.fingerprint import fingerprint
from sardonyx.common.forks import Whole
from sardonyx.common.recent import Recent
from sardonyx.common.record import record
from sardonyx.common.termination import is_governed, poll, stopping
from sardonyx.common.threads import OneThread
from sardonyx.common.trial import Trial
from sardonyx.errors import Fail
from sardonyx.providers.contract import ALIGNMENT, Address, Device, Executable, LoopBody, SegmentLaunch, Turn

from ..abi import BROKEN, COPIES, COPY, HOSTED, PARTS_OF, SCRATCH, STOPPED, TAKEN, room_of
from ..hosts import Host, LoadedModule
from ..hosts.interface import PACKAGES
from . import blas
from .allocation import Allocation
from .products import MOST_BOUND, MOST_SIZES, Products
from .steps import Bound, Hosted, Numbers, Place, Shared, Step
from .words import Entry, Launch, Words

_FLOAT = np.dtype(np.float32)
_PRODUCT = (1 << 32) - 1
SHARED = 1 << 20
"""Bytes that the launches of a segment read and write from which on it is worth waking other threads."""
SMALL = 4096
"""Bytes up to which it is quicker to copy an array twice than to make a view of where it goes."""


class WasmDevice(Device):
    """The host's WebAssembly memory; many threads may run bound segments at the same time."""

    name = "wasm"
    in_order = True

    def __init__(self, host: Host, threads: int = 1, spins: bool = True) -> None:
        self.host = host
        self.spins = spins
        """Whether threads that wait for each other may spin."""
        self.crew = Crew(threads if "threads" in host.features else 1)
        self._base: int = host.array(ALIGNMENT, (1,), np.uint8).__array_interface__["data"][0] - ALIGNMENT
        self._lock = threading.Lock()
        self._scratches: list[Allocation] = []
        self._loaded: weakref.WeakValueDictionary[Any, LoadedModule] = weakref.WeakValueDictionary()

    def allocate(self, nbytes: int) -> Allocation:
        """All sessions share 4 GiB, so those at rest make room for others."""
        try:
            return Allocation(self.host, nbytes)
        except MemoryError:
            relief.relieve()
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

    def array(
        self, address: int, shape: Sequence[int], strides: Sequence[int], dtype: np.dtype[Any] = _FLOAT
    ) -> np.ndarray:
        """An array in the host's memory."""
        return np.ndarray(shape, dtype, self.host.memory_view(), address, strides)

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
        halves = [number for number, is_hosted in enumerate(hosted) if is_hosted]
        module = self.host.load(library) if library else self._module(codes, halves)
        return WasmExecutable(self, module, codes, hosted, segments, repeated and not halves)

    def _module(self, codes: Sequence[Any], halves: Sequence[int]) -> LoadedModule:
        """The module for these codes, and what surrounds the products of those in `halves`."""
        key = (sorted(self.host.features), [code.key for code in codes], halves)
        digest = fingerprint(repr((sources.installation(PACKAGES), key)).encode()).digest()
        with Whole(), self._lock:
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
        segments: Sequence[Sequence[SegmentLaunch]],
        repeated: bool = False,
    ) -> None:
        self._device = device
        self._module = module
        self._turns = module.function("turns") if repeated else None
        self._codes = codes
        self._hosted = hosted
        self._segments = segments
        self._run = module.function("run") if codes else _nothing
        self._walk = module.function("walk") if any(hosted) else _nothing
        self._products = {k: Products(codes[k]) for k, is_hosted in enumerate(hosted) if is_hosted}
        self._order = {number: k for k, number in enumerate(self._products)}
        own = [number for number, is_hosted in enumerate(hosted) if not is_hosted]
        self._numbers = {number: getattr(codes[number], "number", k) for k, number in enumerate(own)}

    def bind(
        self, segment: int, buffers: Sequence[Sequence[Address]], params: Sequence[Sequence[int]]
    ) -> Callable[[], None]:
        addresses = [[a.chunk.address + a.offset for a in line] for line in buffers]
        entries: list[Entry] = []
        steps: list[tuple[Step, int, int]] = []
        place = Place()
        last = touched = 0
        for launch, line, a, b in zip(self._segments[segment], buffers, addresses, params, strict=True):
            code = launch.code
            if self._hosted[code]:
                step = self._step(len(steps), code, a, len(b), place)
                steps.append((step, last, last + len(b)))
                entries.append(step)
            else:
                entries.append(Launch(self._numbers[code], a, b, last))
                touched += sum([a.nbytes for a in line])
            last += len(b)
        owners: list[Any] = [self._module, *{a.chunk for line in buffers for a in line}]
        is_large = touched >= SHARED and self._device.crew.size > 1
        words = Words(self._device.host, entries, self._device.crew.size, self._device.spins)
        if steps:
            given = np.array([*chain.from_iterable(params)], np.int64)
            return _Walk(self._device, words, self._walk, steps, given, place, is_large, owners)
        if self._turns and not is_large:
            return _Body(self._device, words, self._run, self._turns, owners)
        return _Run(self._device, words, self._run, is_large, owners)

    def rebind(self, run: Callable[[], None], params: np.ndarray) -> bool:
        assert isinstance(run, _Run)
        run.rebind(params)
        return True

    def _step(self, base: int, number: int, addresses: Sequence[int], count: int, place: Place) -> Step:
        """A launch that is left to BLAS, with so many parameters."""
        device, code = self._device, self._codes[number]
        own = len(self._numbers)
        numbers = Numbers(base, own, own + 1 + 3 * self._order[number], room_of(code))
        if HOSTED in code.attributes:
            maker = _attended if code.primitive == "attend" else _unpacked
            part = self._module.function(f"{PARTS_OF[code.primitive]}_{number}")
            make = lambda params: maker(code, addresses, params, device.array, part)  # noqa: E731
            return Shared(numbers, device.crew.size, make, addresses, place)
        array = partial(device.array, dtype=np.dtype(code.reads[0]))
        return Hosted(device.host, numbers, device.crew.size, self._products[number], array, addresses, count)


class _Run:
    """A segment that the module does; keeps the memory that it works on."""

    def __init__(
        self, device: WasmDevice, words: Words, run: Callable[..., int], is_large: bool, owners: Sequence[Any]
    ) -> None:
        self._device = device
        self._words = words
        self._run = partial(run, words.address)
        self._is_large = is_large
        """Whether it may be worth waking other threads,"""
        self._trial = Trial()
        """and whether it is."""
        self._amount = 1
        """How much work there is, as far as sizes change it."""
        self._owners = owners
        self._scratch = 0
        self._stopped = False

    def rebind(self, params: np.ndarray) -> None:
        """Work with other parameters, those of all launches in a row."""
        self._words.take(params)

    def __call__(self) -> None:
        scratch = self._begin()
        try:
            if is_governed():
                with stopping(self._stop):
                    self._start()
            else:  # a context takes as long as a small launch
                self._start()
        finally:
            self._end(scratch)

    def _start(self) -> None:
        if not self._is_large:
            self._do(False)
            return
        way, begun = self._trial.next(), perf_counter()
        self._do(way == 1)
        self._trial.took(way, perf_counter() - begun, self._amount)

    def _do(self, is_shared: bool) -> None:
        if is_shared:
            self._words.begin()
            self._device.crew.join(self._share)
        elif self._run(0, 1):
            poll()

    def _share(self, thread: int, threads: int) -> None:
        """Do what no other thread has begun."""
        try:
            if self._run(thread, threads):
                poll()
        except BaseException:
            self._words.release()
            raise

    def _begin(self) -> Allocation:
        """Have scratch memory, to be given back by `_end`."""
        scratch = self._device.scratch()
        if scratch.address != self._scratch:
            self._use(scratch.address)
            self._scratch = scratch.address  # last, since a signal may come between
        return scratch

    def _use(self, scratch: int) -> None:
        """Have scratch memory at an address."""
        self._words.use(scratch)

    def _end(self, scratch: Allocation) -> None:
        self._device.give_back(scratch)
        if self._stopped:
            self._stopped = False
            self._words.stop(0)

    def _stop(self) -> None:
        self._stopped = True
        self._words.stop(1)


@record(slots=True)
class _Form:
    """All steps of a segment for some parameters."""

    bounds: list[Bound]
    placed: list[tuple[Step, Bound]]
    """Those that may need memory of their own while they run."""
    steps: list[Callable[[int, int], Any]]
    words: list[list[int]]
    work: int
    is_large: bool
    room: int
    """The bytes that one of them at a time needs."""


class _Walk(_Run):
    """A segment with products that NumPy does, with the range of the parameters of each."""

    def __init__(
        self,
        device: WasmDevice,
        words: Words,
        walk: Callable[..., int],
        steps: Sequence[tuple[Step, int, int]],
        params: np.ndarray,
        place: Place,
        is_large: bool,
        owners: Sequence[Any],
    ) -> None:
        super().__init__(device, words, walk, is_large, owners)
        self._steps = steps
        self._place = place
        self._has_large = is_large
        self._room: Allocation | None = None
        self._most = 0
        most = max(1, min(MOST_SIZES, MOST_BOUND // len(steps)))
        for step, _, _ in steps:
            step.remember(most)
        self._forms: Recent[bytes, _Form] = Recent(most)
        """Those that there are, by parameters."""
        self._written: list[list[int]] = [[]] * len(steps)
        self._form = self._take(params)

    def rebind(self, params: np.ndarray) -> None:
        super().rebind(params)
        self._form = self._take(params)

    def _take(self, params: np.ndarray) -> _Form:
        """Have the words of what these parameters make of the steps."""
        key = params.tobytes()
        form = self._forms.get(key)
        if form is None:
            form = self._forms.keep(key, self._formed(tuple(params.tolist())))
        if form.placed:
            self._make_room(form)
        if form.words != self._written:
            for number, (words, written) in enumerate(zip(form.words, self._written)):
                if words is not written:
                    self._words.write(number, words)
            self._written = form.words
        self._is_large, self._amount = form.is_large, form.work
        return form

    def _formed(self, params: tuple[int, ...]) -> _Form:
        bounds = [step.bound(params[first:end]) for step, first, end in self._steps]
        placed = [(step, bound) for (step, _, _), bound in zip(self._steps, bounds) if bound.call]
        return _Form(
            bounds,
            placed,
            [bound.do for bound in bounds],
            [bound.words for bound in bounds],
            sum([bound.work for bound in bounds]) or 1,
            self._has_large or any(bound.is_large for bound in bounds),
            max([bound.room for _, bound in placed], default=0),
        )

    def _make_room(self, form: _Form) -> None:
        """Have memory for the products: one room for all of them stays in the cache."""
        if form.room > self._most:
            self._room, self._most = Allocation(self._device.host, form.room), form.room
        for step, bound in form.placed:
            step.place(bound, self._room.address if self._room else 0)
        form.words = [bound.words for bound in form.bounds]

    def _use(self, scratch: int) -> None:
        super()._use(scratch)
        self._place.address = scratch

    def _do(self, is_shared: bool) -> None:
        self._words.begin()
        with OneThread(), np.errstate(all="ignore"):
            if is_shared:
                self._device.crew.join(self._share)
            else:
                self._share(0, 1)

    def _share(self, thread: int, threads: int) -> None:
        walk, steps = self._run, self._form.steps
        try:
            while (task := walk(thread, threads)) >= 0:
                steps[task & _PRODUCT](task >> 32, thread)
            if task == STOPPED:
                poll()
        except BaseException:
            self._words.release()
            raise


class _Body(_Run, LoopBody):
    """The body of a loop."""

    def __init__(
        self,
        device: WasmDevice,
        words: Words,
        run: Callable[..., int],
        turns: Callable[..., int],
        owners: Sequence[Any],
    ) -> None:
        super().__init__(device, words, run, False, owners)
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
                outcome = self._turns(self._words.address, record, count)
        finally:
            self._end(scratch)
        if outcome == BROKEN:
            poll()
            raise Fail("the run was ended, since RunOptions.terminate was set")
        return int(self._memory[:2].view(np.int64)[0]) - first, outcome == TAKEN

    def _room(self, nbytes: int) -> int:
        """The address of so many bytes."""
        if self._record is None or self._memory.nbytes != nbytes:
            self._record = Allocation(self._device.host, nbytes)
            self._memory = self._device.host.array(self._record.address, (nbytes // 4,), np.uint32)
        return self._record.address


def _nothing(*_: int) -> int:
    """What runs a segment without launches."""
    return 0


def _place(address: Address) -> int:
    place: int = address.chunk.address + address.offset
    return place


def _unpacked(*operands: Any) -> Any:
    from .unpacked import Unpacked  # which few plans need

    return Unpacked(*operands)


def _attended(*operands: Any) -> Any:
    from .attended import Attended  # which few plans need

    return Attended(*operands)
