"""The WebGPU device: memory, compiled programs, and runs of them, over a `Gpu`."""

from __future__ import annotations

import struct
import sys
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from threading import Lock
from typing import Any, NamedTuple, Protocol
from weakref import WeakValueDictionary

import numpy as np

from sardonyx.common import debug
from sardonyx.common.cached import cached_property
from sardonyx.common.record import record
from sardonyx.errors import EPFail
from sardonyx.providers.contract import ALIGNMENT, Address, Device, Executable, SegmentLaunch, Tensor
from sardonyx_webgpu.code import WORKGROUP, Code
from sardonyx_webgpu.gpu.interface import Binding, Buffer, Copy, Dispatch, Gpu, Group, Pass, Pipeline, Shader
from sardonyx_webgpu.lower import lower
from sardonyx_webgpu.runtime.grid import portions, workgroups
from sardonyx_webgpu.runtime.queue import Queue, Reading, Work, estimate
from sardonyx_webgpu.wgsl.prelude import exact

GROUPS = 4096
"""Bind groups that a device keeps; what was bound longest ago goes first."""

PIPELINES = 1024
"""Pipelines that a device keeps for later sessions; those used longest ago go first. Work that is bound has its own."""
MOST_DEAD = 1 << 26
"""Bytes of buffers that are not given back before what waits is submitted."""
NO_CHUNK = -1
"""What stands for a number with buffers that are no chunk's."""

_Key = tuple[tuple[int, int, int], ...]


@record(eq=False)
class Chunk:
    """One WebGPU buffer, with a number of its own. It goes when it is freed, or with its last reference."""

    buffer: Buffer
    nbytes: int
    number: int
    release: Callable[[], Any] = lambda: None


class Chooser(Protocol):
    """What chooses among the codes that there are for a launch (`tuner.Tuner`)."""

    def code(self, source: Any, buffers: Sequence[Address], params: Sequence[Any]) -> Code | None:
        """The code to be used for these buffers and parameters; None where there is one alone."""
        ...


class WebGpuDevice(Device):
    """A `Device` that runs Programs as compute shaders. What it is asked for waits until something is read or written,
    so that a run is one submission (`queue`). One lock is held for as long as something is added or submitted.

    If it has a `tuner`, that measures which design of a product is fastest, when a plan is bound.
    """

    reads_together = True

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.is_software = gpu.adapter.is_software
        self.tuner: Chooser | None = None
        self.lock = Lock()
        self.queue = Queue(gpu)
        self._pipelines: OrderedDict[tuple[str, tuple[int, ...]], Pipeline] = OrderedDict()
        self._compiled: OrderedDict[Shader, Pipeline] = OrderedDict()
        self._codes: WeakValueDictionary[tuple[str, str], Code] = WeakValueDictionary()
        self._groups: OrderedDict[_Key, tuple[tuple[int, ...], Group]] = OrderedDict()
        self._keys: dict[int, set[_Key]] = {}
        self._numbers = count()
        # Chunks die in any thread at any time, with the lock held too: what is left of them waits here.
        self._dead: deque[tuple[int, Buffer, int]] = deque()
        self._scratch: tuple[Buffer, int] | None = None
        # What is bound for buffers without elements, a place for each: WebGPU binds no empty ranges.
        self._empty = gpu.buffer(gpu.limits["maxStorageBuffersPerShaderStage"] * ALIGNMENT)

    @property
    def is_lost(self) -> bool:
        """Whether it is gone, with all that lay on it."""
        return self.gpu.is_lost

    @property
    def largest(self) -> int:
        """The bytes that a tensor may have."""
        return self.gpu.limits["maxStorageBufferBindingSize"]

    def allocate(self, nbytes: int) -> Chunk:
        room = max(16, _padded(nbytes, 16))
        most = self.gpu.limits["maxBufferSize"]
        if room > most:
            raise EPFail(f"WebGpuExecutionProvider: a buffer of {nbytes:,} bytes exceeds {most:,}{self._remedy()}")
        with self.lock:
            self._bury()
            chunk = Chunk(self.gpu.buffer(room), room, next(self._numbers))
        finalizer = weakref.finalize(chunk, self._dead.append, (chunk.number, chunk.buffer, room))
        finalizer.atexit = False
        chunk.release = finalizer
        return chunk

    def free(self, chunk: Chunk) -> None:
        chunk.release()
        chunk.buffer = None
        with self.lock:
            self._bury()

    def _bury(self) -> None:
        if self.queue.is_waiting:  # what waits may use them
            if sum(nbytes for _, _, nbytes in list(self._dead)) < MOST_DEAD:
                return
            self.queue.flush()
        while self._dead:
            number, buffer, _ = self._dead.popleft()
            for key in self._keys.pop(number, ()):
                self._forget(key)
            self.gpu.destroy(buffer)

    def _forget(self, key: _Key) -> None:
        self._groups.pop(key, None)
        for number, _, _ in key:
            self._keys.get(number, set()).discard(key)

    def constant(self, array: np.ndarray) -> Address:
        address = Address(self.allocate(array.nbytes), 0, array.nbytes)
        with self.lock:
            self._write(address, np.ascontiguousarray(array))
        return address

    def upload(self, address: Address, array: np.ndarray) -> None:
        with self.lock:
            self.queue.flush()
            self._write(address, array)

    def _write(self, address: Address, array: np.ndarray) -> None:
        data = _bytes(array)
        whole = data.nbytes & ~3
        if whole:
            self.gpu.write(address.chunk.buffer, address.offset, data[:whole])
        if tail := bytes(data[whole:]):
            self.gpu.write(address.chunk.buffer, address.offset + whole, memoryview(tail.ljust(4, b"\0")))

    def download(self, address: Address, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
        return self.download_all([(address, dtype, shape)])[0]

    def download_all(self, tensors: Sequence[Tensor]) -> list[np.ndarray]:
        """As `Device.download_all` has it."""
        arrays, reading, targets = self._reading(tensors)
        if reading is not None:
            reading(targets)
        return arrays

    def _reading(self, tensors: Sequence[Tensor]) -> tuple[list[np.ndarray], Reading | None, list[memoryview]]:
        """Arrays, what fills them if they are not empty, and the memory that it fills."""
        arrays = [np.empty(shape, dtype) for _, dtype, shape in tensors]
        bindings, targets = [], []
        for (address, _, _), array in zip(tensors, arrays, strict=True):
            if array.nbytes:
                bindings.append(Binding(address.chunk.buffer, address.offset, _padded(array.nbytes)))
                targets.append(_bytes(array))
        if not bindings:
            return arrays, None, targets
        with self.lock:
            return arrays, self.queue.read(bindings), targets

    def copy(self, source: Address, target: Address) -> None:
        nbytes = _padded(source.nbytes)
        if nbytes == 0:
            return
        origin = Binding(source.chunk.buffer, source.offset, nbytes)
        goal = Binding(target.chunk.buffer, target.offset, nbytes)
        with self.lock:
            if source.chunk is not target.chunk:
                self.queue.add(Copy(origin, goal))
                return
            # WebGPU copies between two buffers only.
            between = Binding(self._between(nbytes), 0, nbytes)
            self.queue.add(Copy(origin, between))
            self.queue.add(Copy(between, goal))

    def _between(self, nbytes: int) -> Buffer:
        """A buffer of at least so many bytes; copies come in order, so all of them use the same one."""
        old = self._scratch
        if old is None or old[1] < nbytes:
            self._scratch = self.gpu.buffer(nbytes), nbytes
            if old is not None:
                self._dead.append((NO_CHUNK, *old))
        assert self._scratch is not None
        return self._scratch[0]

    def flush(self) -> None:
        """Submit what waits."""
        with self.lock:
            self.queue.flush()

    def synchronize(self) -> None:
        with self.lock:
            reading = self.queue.read([Binding(self._empty, 0, 4)])
        reading([memoryview(bytearray(4))])

    def timed(self, run: Callable[[], None]) -> float | None:
        """Run a bound segment, and wait; the seconds that it took on the GPU, None where that has no clock."""
        clock = self.gpu.clock
        if clock is None or not isinstance(run, _Run):
            run()
            self.synchronize()
            return None
        ticks = bytearray(16)
        with self.lock:
            self.queue.flush()
            self.gpu.submit([Pass(run.work.params, run.work.dispatches)], clock)
            reading = self.queue.read([Binding(clock.ticks, 0, 16)])
        reading([memoryview(ticks)])
        begin, end = struct.unpack("<2Q", ticks)
        return float((end - begin) * clock.period)

    def load(self, codes: Sequence[Any], segments: Sequence[Sequence[SegmentLaunch]]) -> WebGpuExecutable:
        used = sorted({launch.code for segment in segments for launch in segment})
        lowered = {k: self._lowered(codes[k]) for k in used}
        with self.lock:
            self._compile({(code.key, code.same): code for code in lowered.values()})
        return WebGpuExecutable(self, lowered, segments, codes)

    def _lowered(self, code: Any) -> Code:
        key = (type(code).__name__, code.key)
        lowered = self._codes.get(key)
        if lowered is None:
            lowered = self._codes[key] = lower(code, self.is_software)
        return lowered

    def _compile(self, codes: Mapping[tuple[str, tuple[int, ...]], Code]) -> None:
        new = {key: self._shader(code, key[1]) for key, code in codes.items() if key not in self._pipelines}
        if debug.level() >= debug.CODE:
            for item in new.values():
                print(item.wgsl, file=sys.stderr)
        unknown = [shader for shader in dict.fromkeys(new.values()) if shader not in self._compiled]
        self._compiled.update(zip(unknown, self.gpu.pipelines(unknown), strict=True))
        for shader in new.values():
            self._compiled.move_to_end(shader)
        self._pipelines.update({key: self._compiled[shader] for key, shader in new.items()})

    def _shader(self, code: Code, same: tuple[int, ...]) -> Shader:
        made = code.shader(same, self.gpu.half)
        return made._replace(wgsl=exact(made.wgsl)) if self.gpu.adapter.is_software else made

    def prepare(self, code: Code, buffers: Sequence[Address]) -> tuple[Pipeline, Group]:
        """The pipeline of a code, and the bind group for these buffers."""
        with self.lock:
            same, group = self._group(buffers)
            key = code.key, same
            if key not in self._pipelines:
                self._compile({key: code})
            self._pipelines.move_to_end(key)
            pipeline = self._pipelines[key]
            _limit(self._pipelines)
            _limit(self._compiled)
            return pipeline, group

    @property
    def most_trips(self) -> float:
        """How often the loops of a thread may turn, their ends included."""
        return self.gpu.adapter.most_trips + 1

    def check_loops(self, code: Code, label: str, params: Sequence[Any]) -> int:
        """How often the loops of a thread turn; raises EPFail where this driver would end them before that."""
        adapter = self.gpu.adapter
        (count,) = code.turns(params)
        if count > self.most_trips:
            raise EPFail(
                f"WebGpuExecutionProvider: {label or code.name} may turn loops {count:,} times in a thread, and"
                f" {adapter.name} ends them after {adapter.most_trips:,}; use CPUExecutionProvider, or another adapter"
            )
        return count

    def _group(self, buffers: Sequence[Address]) -> tuple[tuple[int, ...], Group]:
        """Which of the buffers coincide, and the bind group of those that differ."""
        key = tuple((address.chunk.number, address.offset, address.nbytes) for address in buffers)
        if key not in self._groups:
            same, bindings = self._bindings(buffers)
            self._groups[key] = same, self.gpu.storage_group(bindings)
            for number, _, _ in key:
                self._keys.setdefault(number, set()).add(key)
            while len(self._groups) > GROUPS:
                self._forget(next(iter(self._groups)))
        self._groups.move_to_end(key)
        return self._groups[key]

    def _bindings(self, buffers: Sequence[Address]) -> tuple[tuple[int, ...], list[Binding]]:
        same: list[int] = []
        distinct: dict[int, Binding] = {}
        most = self.gpu.limits["maxStorageBufferBindingSize"]
        for k, address in enumerate(buffers):
            nbytes = _padded(address.nbytes, 16)
            if nbytes > most:
                raise EPFail(
                    f"WebGpuExecutionProvider: a tensor of {address.nbytes:,} bytes exceeds {most:,}{self._remedy()}"
                )
            binding = Binding(address.chunk.buffer, address.offset, nbytes)
            if nbytes == 0:
                binding = Binding(self._empty, k * ALIGNMENT, ALIGNMENT)
            first = next((j for j, other in distinct.items() if _meet(other, binding)), k)
            if first == k or nbytes > distinct[first].nbytes:
                distinct[first] = binding
            same.append(first)
        return tuple(same), [distinct[k] for k in sorted(distinct)]

    def _remedy(self) -> str:
        return f" on {self.gpu.adapter.name} (with the limits that it was asked for); use CPUExecutionProvider"


@record(frozen=True)
class WebGpuExecutable(Executable):
    """The codes of one plan, and what they were made of."""

    device: WebGpuDevice
    codes: Mapping[int, Code]
    segments: Sequence[Sequence[SegmentLaunch]]
    sources: Sequence[Any]

    def bind(
        self, segment: int, buffers: Sequence[Sequence[Address]], params: Sequence[Sequence[Any]]
    ) -> Callable[[], None]:
        """As `Executable.bind` has it; raises EPFail where a buffer or a loop is larger than this device allows."""
        device = self.device
        window = max((-(-self.codes[launch.code].params // 4) * 16 for launch in self.segments[segment]), default=16)
        window = max(16, window)
        stride = -(-window // ALIGNMENT) * ALIGNMENT
        table = bytearray()
        dispatches: list[Dispatch] = []
        seconds: list[float] = []
        bound: list[_Bound] = []
        most = device.gpu.limits["maxComputeWorkgroupsPerDimension"]
        for launch, addresses, numbers in zip(self.segments[segment], buffers, params, strict=True):
            code = self.codes[launch.code]
            if device.tuner is not None:
                code = device.tuner.code(self.sources[launch.code], addresses, numbers) or code
            if code.steps is None and code.turns(numbers)[0] > device.most_trips:
                code = lower(self.sources[launch.code])  # threads do less each, so that this driver lets them end
            nbytes = sum(address.nbytes for address in addresses)
            x, y = workgroups(code.name, code.points(numbers), most)
            is_one = x > 0 and code.steps is None and device.tuner is None
            bound.append(_Bound(code, launch.label, len(numbers), nbytes, len(dispatches) if is_one else None))
            if x:
                pipeline, group = device.prepare(code, addresses)
                for portion in portions(code, numbers, device.most_trips):
                    trips = device.check_loops(code, launch.label, portion)
                    seconds.append(estimate(x * y * WORKGROUP, trips, nbytes))
                    dispatches.append(Dispatch(pipeline, group, len(table), x, y))
                    table += struct.pack(f"<{len(portion)}i", *portion).ljust(stride, b"\0")
        if not dispatches:
            return lambda: None
        with device.lock:
            device._bury()
            uniform = device.gpu.buffer(len(table), uniform=True)
            device.gpu.write(uniform, 0, memoryview(table))
            group = device.gpu.params_group(uniform, window)
        row = np.array([number for each in params for number in each], np.int64)
        run = _Run(device, Work(group, dispatches, seconds), buffers, bound, row, uniform, table)
        weakref.finalize(run, device._dead.append, (NO_CHUNK, uniform, len(table))).atexit = False
        return run

    def rebind(self, run: Callable[[], None], params: np.ndarray) -> bool:
        return isinstance(run, _Run) and run.rebind(params)


class _Bound(NamedTuple):
    """A launch of a segment that is bound: its code, and what that is called for users; how many parameters and bytes
    it has; and the number of its dispatch, None if it has not one but several, or none."""

    code: Code
    label: str
    params: int
    nbytes: int
    dispatch: int | None


@record(eq=False)
class _Run:
    """A bound segment, with its parameters, and the table that the GPU reads them from. It keeps the buffers that it
    works on."""

    device: WebGpuDevice
    work: Work
    buffers: Sequence[Sequence[Address]]
    launches: Sequence[_Bound]
    params: np.ndarray
    uniform: Buffer
    table: bytearray

    @cached_property
    def starts(self) -> np.ndarray:
        """Where the parameters of each launch start, and where the last one's end."""
        return np.cumsum([0, *(launch.params for launch in self.launches)])

    def __call__(self) -> None:
        with self.device.lock:
            self.device.queue.run(self.work)

    def rebind(self, params: np.ndarray) -> bool:
        """Work with other parameters; False where launches then have more dispatches or fewer."""
        changed = np.unique(np.searchsorted(self.starts, np.flatnonzero(params != self.params), "right") - 1)
        dispatches, seconds = [*self.work.dispatches], [*self.work.seconds]
        most = self.device.gpu.limits["maxComputeWorkgroupsPerDimension"]
        for k in changed.tolist():
            launch = self.launches[k]
            own = params[self.starts[k] : self.starts[k + 1]].tolist()
            if launch.dispatch is None:
                return False
            (trips,) = launch.code.turns(own)
            if trips > self.device.most_trips:
                return False
            x, y = workgroups(launch.code.name, launch.code.points(own), most)
            if not x:
                return False
            pipeline, group, place, *_ = dispatches[launch.dispatch]
            dispatches[launch.dispatch] = Dispatch(pipeline, group, place, x, y)
            seconds[launch.dispatch] = estimate(x * y * WORKGROUP, trips, launch.nbytes)
            struct.pack_into(f"<{len(own)}i", self.table, place, *own)
        with self.device.lock:
            self.device.queue.flush()
            self.device.gpu.write(self.uniform, 0, memoryview(self.table))
        self.work.change(dispatches, seconds)
        self.params = params
        return True


def _limit(pipelines: OrderedDict[Any, Pipeline]) -> None:
    while len(pipelines) > PIPELINES:
        pipelines.popitem(last=False)


def _padded(nbytes: int, unit: int = 4) -> int:
    return -(-nbytes // unit) * unit


def _bytes(array: np.ndarray) -> memoryview:
    return memoryview(array.reshape(-1).view(np.uint8).data)


def _meet(a: Binding, b: Binding) -> bool:
    """Whether two bindings start at one place; raises EPFail where they overlap in another way."""
    if a.buffer is not b.buffer or a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset:
        return False
    if a.offset != b.offset:
        raise EPFail("WebGpuExecutionProvider: buffers of one launch overlap, but do not start at one place")
    return True
