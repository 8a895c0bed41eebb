"""Replays a plan: no graph, no shape inference, no allocation once the sizes have been seen.

An `Executor` belongs to one plan and holds what all its runs share: compiled code and weights. A run takes a `Frame`
from a pool: the chunks of memory and the launches bound to them, which stay valid until other sizes come. So any
number of threads may run one plan, each in a frame of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np

from sardonyx import dtypes, providers
from sardonyx import plan as plans
from sardonyx.device import Address, Device, Executable
from sardonyx.device import Launch as Code
from sardonyx.epochs import Segment, code_of, split
from sardonyx.errors import InvalidGuard, RuntimeException
from sardonyx.handles import Feed, Handle, Stack
from sardonyx.polynomial import evaluate
from sardonyx.sizecode import compile_all, symbols_of
from sardonyx.symbolic import guard_text

MOST_PLANS = 8
"""Plans kept per function; the least recently used one goes."""
MOST_RETRIES = 16
"""How often one run may find other data-dependent sizes than its plan was made for."""


class GuardError(Exception):
    """These sizes break a guard of the plan; `symbols` are all that are known by now."""

    def __init__(self, guard: str, symbols: Mapping[str, int]) -> None:
        super().__init__(guard)
        self.symbols = dict(symbols)


class Weights:
    """A plan's constants on the devices of a session, each uploaded once."""

    def __init__(self) -> None:
        self._addresses: dict[tuple[int, str], Address] = {}
        self._lock = threading.Lock()

    def address(self, device: Device, name: str, array: np.ndarray) -> Address:
        key = (id(device), name)
        with self._lock:
            if key not in self._addresses:
                self._addresses[key] = device.constant(array)
            return self._addresses[key]


class Frame:
    """Memory and bound launches for one run at a time."""

    def __init__(self, epochs: int) -> None:
        self.chunks: dict[tuple[int, int], tuple[Any, int]] = {}
        self.addresses: list[Address | None] = []
        self.symbols: list[dict[str, int] | None] = [None] * epochs
        self.rooms: list[list[int] | None] = [None] * epochs
        self.launches: list[list[Callable[[], None]]] = [[] for _ in range(epochs)]


class Function:
    """A graph with all the plans made for it: a model, or the body of control flow."""

    def __init__(
        self,
        known: Sequence[plans.Plan],
        devices: Sequence[Device],
        weights: Weights,
        compiler: Callable[[Mapping[str, int]], plans.Plan] | None = None,
    ) -> None:
        self._devices = devices
        self._weights = weights
        self._compiler = compiler
        self._lock = threading.Lock()
        self.executors = [Executor(plan, devices, weights) for plan in known]
        self.compiled = len(self.executors)
        """How many plans were made."""

    def call(
        self,
        feeds: Sequence[Feed],
        symbols: Mapping[str, int] | None = None,
        compiler: Callable[[Mapping[str, int]], plans.Plan] | None = None,
    ) -> tuple[list[Handle], Callable[[], None]]:
        """The outputs, and what releases them. Makes a new plan where none is for these sizes."""
        hints = dict(symbols or {})
        for _ in range(MOST_RETRIES):
            broken = "no plan was made yet"
            for executor in list(self.executors):
                frame = executor.frame()
                try:
                    results = executor.call(frame, feeds, symbols)
                except GuardError as error:
                    executor.release(frame)
                    hints.update(error.symbols)
                    broken = str(error)
                except BaseException:
                    executor.release(frame)
                    raise
                else:
                    self._touch(executor)
                    return results, partial(executor.release, frame)
            self._add(hints, compiler or self._compiler, broken)
        raise RuntimeException(f"the sizes that depend on data did not settle in {MOST_RETRIES} runs")

    def _add(
        self, hints: Mapping[str, int], compiler: Callable[[Mapping[str, int]], plans.Plan] | None, broken: str
    ) -> None:
        if compiler is None:
            raise InvalidGuard(f"the plan is not for these sizes, and there is no compiler here: {broken}")
        self.add(compiler(hints))

    def add(self, plan: plans.Plan) -> None:
        """Have one more plan, to be tried first."""
        executor = Executor(plan, self._devices, self._weights)
        with self._lock:
            self.executors.insert(0, executor)
            self.compiled += 1
            del self.executors[MOST_PLANS:]

    def _touch(self, executor: Executor) -> None:
        if self.executors[0] is not executor:
            with self._lock:
                if executor in self.executors:
                    self.executors.remove(executor)
                    self.executors.insert(0, executor)


def replay(plan: plans.Plan, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of a plan for arrays by input name, on the devices that it names. Nothing is compiled."""
    devices = [providers.load(name).device({}) for name in plan.devices]
    function = Function([plan], devices, Weights())
    handles, release = function.call([feeds[port.name] for port in plan.inputs])
    try:
        return [function.executors[0].fetch(handle) for handle in handles]
    finally:
        release()


class Executor:
    """Runs one plan on devices. `weights` may be shared with other plans of the same constants."""

    def __init__(self, plan: plans.Plan, devices: Sequence[Device], weights: Weights | None = None) -> None:
        self.plan = plan
        self.devices = devices
        self._weights = weights or Weights()
        self._epochs = split(plan)
        self._executables = [self._load(k) for k in range(len(devices))]
        self._functions = [
            Function(plans_, devices, self._weights, compiler)
            for plans_, compiler in zip_longest(plan.functions, plan.compilers)
        ]
        self._shapes = [compile_all(buffer.shape) for buffer in plan.buffers]
        self._free: list[Frame] = []
        self._lock = threading.Lock()
        self._inputs = [compile_all(port.shape) for port in plan.inputs]

    # ---- preparation

    def _load(self, device: int) -> Executable | None:
        segments = [s for epoch in self._epochs for s in epoch.segments if s.device == device]
        if not segments:
            return None
        used = sorted({launch.code for segment in segments for launch in segment.launches})
        places = {number: k for k, number in enumerate(used)}
        codes = [code_of(self.plan.codes[number]) for number in used]
        calls = [
            [Code(places[launch.code], self._label(launch)) for launch in segment.launches] for segment in segments
        ]
        return self.devices[device].load(codes, calls)

    def _label(self, launch: plans.Launch) -> str:
        name = str(self.plan.codes[launch.code]["name"])
        labels = [self.plan.nodes[k] for k in launch.origins if 0 <= k < len(self.plan.nodes)]
        return f"{name} ({', '.join(labels[:3])}{', ...' if len(labels) > 3 else ''})" if labels else name

    # ---- running

    def frame(self) -> Frame:
        """A frame for one run; give it back with `release`."""
        with self._lock:
            return self._free.pop() if self._free else Frame(len(self._epochs))

    def release(self, frame: Frame) -> None:
        with self._lock:
            self._free.append(frame)

    def call(self, frame: Frame, feeds: Sequence[Feed], outer: Mapping[str, int] | None = None) -> list[Handle]:
        """The outputs for feeds in the order of the plan's inputs: they lie in the frame until it is released.

        `outer` are the symbols of the surrounding plan. Raises `GuardError` where the plan is not for these sizes.
        """
        symbols = self._bind_symbols(feeds, dict(outer or {}))
        results: list[tuple[Feed, int]] = []
        held: list[Callable[[], None]] = []
        try:
            for number, epoch in enumerate(self._epochs):
                self._enter(frame, number, symbols)
                if number == 0:
                    self._feed(frame, feeds)
                for handle, target in results:
                    self._move(handle, self.plan.buffers[target].device, self._address(frame, target))
                results = []
                while held:
                    held.pop()()
                launches = iter(frame.launches[number])
                for item in epoch.items:
                    if isinstance(item, Segment):
                        next(launches)()
                    elif isinstance(item, plans.Copy):
                        target = self.plan.buffers[item.target].device
                        self._move(self._handle(frame, item.source, symbols), target, self._address(frame, item.target))
                    elif isinstance(item, plans.Read):
                        values = self._values(frame, item.buffer, len(item.symbols))
                        symbols.update(zip(item.symbols, values, strict=True))
                    else:
                        run = self._branch if isinstance(item, plans.Branch) else self._loop
                        handles = run(frame, item, symbols, held)
                        symbols.update((name, handles[k].shape[axis]) for name, k, axis in item.symbols)
                        results = list(zip(handles, item.results, strict=True))
        finally:
            while held:
                held.pop()()
        return [self._handle(frame, port.buffers[0], symbols) for port in self.plan.outputs]

    def _bind_symbols(self, feeds: Sequence[Feed], symbols: dict[str, int]) -> dict[str, int]:
        for name, places in self.plan.symbols.items():
            sizes = {feeds[k].shape[axis] for k, axis in places}
            if len(sizes) != 1:
                raise GuardError(f"{name} would be {' and '.join(map(str, sorted(sizes)))}", symbols)
            symbols[name] = sizes.pop()
        for port, feed in zip(self.plan.inputs, feeds, strict=True):
            if port.symbols:
                values = self.fetch(feed).reshape(-1).tolist()
                if len(values) != len(port.symbols):
                    raise GuardError(f"{port.name} has {len(values)} elements, not {len(port.symbols)}", symbols)
                symbols.update(zip(port.symbols, map(int, values), strict=True))
        for k, (port, feed) in enumerate(zip(self.plan.inputs, feeds, strict=True)):
            if self._inputs[k](symbols) != feed.shape:
                raise GuardError(f"{port.name} has the shape {list(feed.shape)}", symbols)
        return symbols

    def fetch(self, feed: Feed) -> np.ndarray:
        """A tensor as an array of the host."""
        if isinstance(feed, Handle):
            return self.devices[feed.device].download(feed.address, feed.dtype, feed.shape)
        return feed

    def _feed(self, frame: Frame, feeds: Sequence[Feed]) -> None:
        for port, feed in zip(self.plan.inputs, feeds, strict=True):
            for k in port.buffers:
                self._move(feed, self.plan.buffers[k].device, self._address(frame, k))

    def _move(self, source: Feed, device: int, target: Address) -> None:
        if isinstance(source, Handle) and source.device == device:
            whole = -(-source.nbytes // 4) * 4
            self.devices[device].copy(Address(source.address.chunk, source.address.offset, whole), target)
        else:
            self.devices[device].upload(target, self.fetch(source))

    def _handle(self, frame: Frame, buffer: int, symbols: Mapping[str, int]) -> Handle:
        stored = self.plan.buffers[buffer]
        shape = self._shapes[buffer](symbols)
        return Handle(stored.device, self._address(frame, buffer), dtypes.by_name(stored.dtype), shape)

    def _values(self, frame: Frame, buffer: int, count: int) -> list[int]:
        """The first elements of an integer buffer."""
        stored = self.plan.buffers[buffer]
        dtype = dtypes.by_name(stored.dtype).storage
        found = self.devices[stored.device].download(self._address(frame, buffer), dtype, (count,))
        return [int(value) for value in found.tolist()]

    # ---- control flow

    def _branch(
        self, frame: Frame, step: plans.Branch, symbols: dict[str, int], held: list[Callable[[], None]]
    ) -> Sequence[Feed]:
        (condition,) = self._values(frame, step.condition, 1)
        chosen = 0 if condition else 1
        operands = [self._handle(frame, k, symbols) for k in step.operands[chosen]]
        results, release = self._functions[step.functions[chosen]].call(operands, symbols)
        held.append(release)
        return results

    def _loop(
        self, frame: Frame, step: plans.Loop, symbols: dict[str, int], held: list[Callable[[], None]]
    ) -> Sequence[Feed]:
        most = self._values(frame, step.trips, 1)[0] if step.trips >= 0 else None
        going = step.condition < 0 or bool(self._values(frame, step.condition, 1)[0])
        captured = [self._handle(frame, k, symbols) for k in step.captured]
        carried: list[Handle] = [self._handle(frame, k, symbols) for k in step.carried]
        scans = [Stack(self.devices) for _ in step.results[len(carried) :]]
        function = self._functions[step.function]
        count = 0
        while going and (most is None or count < most):
            feeds: list[Feed] = [np.array(count, np.int64), np.array(going, np.bool_), *carried, *captured]
            results, release = function.call(feeds, symbols)
            while held:
                held.pop()()
            held.append(release)
            if step.condition >= 0:
                going = bool(self.fetch(results[0]).item())
            carried = results[1 : 1 + len(carried)]
            for scan, handle in zip(scans, results[1 + len(carried) :], strict=True):
                scan.push(handle)
            count += 1
        held += [scan.free for scan in scans]
        stacked: list[Feed] = []
        for scan, buffer in zip(scans, step.results[len(carried) :], strict=True):
            result = scan.result()
            stacked.append(self._no_slices(buffer, symbols) if result is None else result)
        return [*carried, *stacked]

    def _no_slices(self, buffer: int, symbols: Mapping[str, int]) -> np.ndarray:
        """A scan output of no iteration; sizes that only an iteration tells are 0."""
        stored = self.plan.buffers[buffer]
        sizes = [evaluate(size, symbols) if symbols_of(size) <= symbols.keys() else 0 for size in stored.shape[1:]]
        return np.empty((0, *sizes), dtypes.by_name(stored.dtype).storage)

    def _enter(self, frame: Frame, number: int, symbols: dict[str, int]) -> None:
        """Lay out and bind an epoch, unless the frame was bound for these sizes already."""
        if frame.symbols[number] == symbols:
            return
        epoch = self._epochs[number]
        for (expression, relation, truth), value in zip(epoch.guards, epoch.check(symbols), strict=True):
            if (value == 0 if relation == "==" else value >= 0) != truth:
                raise GuardError(guard_text(expression, relation, truth), symbols)
        rooms = epoch.layout.rooms(symbols)
        if rooms is None:
            raise GuardError("a size would be negative", symbols)
        if not frame.addresses:
            self._place_weights(frame)
        laid = frame.rooms[number]
        if laid is None or any(room > old for room, old in zip(rooms, laid, strict=True)):
            self._place(frame, number, rooms)
        params = iter(epoch.params(symbols))
        frame.launches[number] = [self._bind(frame, segment, params) for segment in epoch.segments]
        frame.symbols[number] = dict(symbols)
        for later in range(number + 1, len(self._epochs)):
            frame.symbols[later] = None

    def _place_weights(self, frame: Frame) -> None:
        frame.addresses = [None] * len(self.plan.buffers)
        for k, buffer in enumerate(self.plan.buffers):
            if buffer.weight is not None:
                array = self.plan.weights[buffer.weight]
                frame.addresses[k] = self._weights.address(self.devices[buffer.device], buffer.weight, array)

    def _place(self, frame: Frame, number: int, rooms: list[int]) -> None:
        """Lay out an epoch for these rooms. A layout that was too small once grows by a quarter more than it must.

        So a cache that grows with every token keeps its addresses, and what devices remember by them, for many tokens.
        """
        epoch, laid = self._epochs[number], frame.rooms[number]
        if laid is not None:
            rooms = [max(old, room + room // 16 * 4) for old, room in zip(laid, rooms, strict=True)]
        totals, offsets = epoch.layout.place(rooms)
        for device, total in totals.items():
            chunk, capacity = frame.chunks.get((device, number), (None, -1))
            if capacity < total:
                if chunk is not None:
                    self.devices[device].free(chunk)
                frame.chunks[device, number] = (self.devices[device].allocate(total), total)
        for k, offset, room in zip(epoch.buffers, offsets, rooms, strict=True):
            chunk, _ = frame.chunks[self.plan.buffers[k].device, number]
            frame.addresses[k] = Address(chunk, offset, room)
        frame.rooms[number] = rooms

    def _bind(self, frame: Frame, segment: Segment, params: Any) -> Callable[[], None]:
        executable = self._executables[segment.device]
        assert executable is not None
        buffers: list[list[Address]] = []
        values = []
        for launch in segment.launches:
            buffers.append([self._address(frame, k) for k in launch.buffers])
            values.append([next(params) for _ in launch.params])
        return executable.bind(segment.number, buffers, values)

    def _address(self, frame: Frame, buffer: int) -> Address:
        address = frame.addresses[buffer]
        assert address is not None, f"buffer {buffer} is used before its epoch"
        return address
