"""Replays a plan: no graph, no shape inference, no allocation once the sizes have been seen.

An `Executor` belongs to one plan and holds what all its runs share: compiled code and weights. A run takes a `Frame`
from a pool: the chunks of memory and the launches bound to them, which stay valid until other sizes come. So any
number of threads may run one plan, each in a frame of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sardonyx import dtypes
from sardonyx import plan as plans
from sardonyx.compiler.kernel import Kernel, Routine
from sardonyx.compiler.program import Program
from sardonyx.device import ALIGNMENT, Address, Device, Executable
from sardonyx.device import Launch as Code
from sardonyx.sizecode import Evaluator, compile_all, symbols_of
from sardonyx.symbolic import guard_text


class GuardError(Exception):
    """These sizes break a guard of the plan; `symbols` are all that are known by now."""

    def __init__(self, guard: str, symbols: Mapping[str, int]) -> None:
        super().__init__(guard)
        self.symbols = dict(symbols)


_FORMS: dict[str, Any] = {"kernel": Kernel, "routine": Routine, "program": Program}


def code_of(data: dict[str, Any]) -> Any:
    """The Kernel, Routine or Program that a plan stores."""
    kind = data.get("kind", "program")
    return _FORMS[kind].from_json({name: value for name, value in data.items() if name not in ("device", "kind")})


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


@dataclass
class _Segment:
    """A run of consecutive launches on one device."""

    device: int
    number: int
    launches: list[plans.Launch]


@dataclass
class _Epoch:
    """What is laid out and bound together: everything up to the next halt."""

    buffers: list[int] = field(default_factory=list)
    segments: list[_Segment] = field(default_factory=list)
    items: list[Any] = field(default_factory=list)
    guards: list[list[Any]] = field(default_factory=list)
    check: Evaluator | None = None
    layout: Callable[[Mapping[str, int]], Any] | None = None
    params: Evaluator | None = None


class Frame:
    """Memory and bound launches for one run at a time."""

    def __init__(self, epochs: int) -> None:
        self.chunks: dict[tuple[int, int], tuple[Any, int]] = {}
        self.addresses: list[Address | None] = []
        self.symbols: list[dict[str, int] | None] = [None] * epochs
        self.launches: list[list[Callable[[], None]]] = [[] for _ in range(epochs)]


class Executor:
    """Runs one plan on devices. `weights` may be shared with other plans of the same constants."""

    def __init__(self, plan: plans.Plan, devices: Sequence[Device], weights: Weights | None = None) -> None:
        self.plan = plan
        self.devices = devices
        self._weights = weights or Weights()
        self._epochs = self._split()
        self._executables = [self._load(k) for k in range(len(devices))]
        self._free: list[Frame] = []
        self._lock = threading.Lock()
        self._inputs = [compile_all(port.shape) for port in plan.inputs]
        self._outputs = [compile_all(port.shape) for port in plan.outputs]

    # ---- preparation

    def _split(self) -> list[_Epoch]:
        epochs = [_Epoch()]
        counts = [0] * len(self.devices)
        for step in self.plan.steps:
            epoch = epochs[-1]
            if isinstance(step, plans.Launch):
                last = epoch.items[-1] if epoch.items else None
                if not (isinstance(last, _Segment) and last.device == step.device):
                    last = _Segment(step.device, counts[step.device], [])
                    counts[step.device] += 1
                    epoch.segments.append(last)
                    epoch.items.append(last)
                last.launches.append(step)
            else:
                epoch.items.append(step)
                if isinstance(step, plans.Read):
                    epochs.append(_Epoch())
        for number, buffer in enumerate(self.plan.buffers):
            if buffer.weight is None:
                epochs[buffer.epoch].buffers.append(number)
        known = set(self.plan.symbols).union(*(port.symbols for port in self.plan.inputs))
        waiting = list(self.plan.guards)
        for epoch in epochs:
            epoch.guards = [guard for guard in waiting if symbols_of(guard[0]) <= known]
            waiting = [guard for guard in waiting if guard not in epoch.guards]
            epoch.check = compile_all([guard[0] for guard in epoch.guards])
            epoch.layout = _layout(self.plan, epoch.buffers)
            epoch.params = compile_all([p for s in epoch.segments for launch in s.launches for p in launch.params])
            for item in epoch.items:
                if isinstance(item, plans.Read):
                    known.update(item.symbols)
        return epochs

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

    def run(self, feeds: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs for feeds in the order of the plan's inputs, C-contiguous and of the right dtypes."""
        symbols = self._bind_symbols(feeds)
        with self._lock:
            frame = self._free.pop() if self._free else Frame(len(self._epochs))
        try:
            return self._run(frame, feeds, symbols)
        finally:
            with self._lock:
                self._free.append(frame)

    def _bind_symbols(self, feeds: Sequence[np.ndarray]) -> dict[str, int]:
        symbols: dict[str, int] = {}
        for name, places in self.plan.symbols.items():
            sizes = {feeds[k].shape[axis] for k, axis in places}
            if len(sizes) != 1:
                raise GuardError(f"{name} would be {' and '.join(map(str, sorted(sizes)))}", symbols)
            symbols[name] = sizes.pop()
        for port, feed in zip(self.plan.inputs, feeds, strict=True):
            if port.symbols:
                symbols.update(zip(port.symbols, (int(item) for item in feed.reshape(-1).tolist()), strict=True))
        for k, (port, feed) in enumerate(zip(self.plan.inputs, feeds, strict=True)):
            if self._inputs[k](symbols) != feed.shape:
                raise GuardError(f"{port.name} has the shape {list(feed.shape)}", symbols)
        return symbols

    def _run(self, frame: Frame, feeds: Sequence[np.ndarray], symbols: dict[str, int]) -> list[np.ndarray]:
        for number, epoch in enumerate(self._epochs):
            self._enter(frame, number, symbols)
            if number == 0:
                self._upload(frame, feeds)
            launches = iter(frame.launches[number])
            for item in epoch.items:
                if isinstance(item, _Segment):
                    next(launches)()
                elif isinstance(item, plans.Copy):
                    self._copy(frame, item, symbols)
                elif isinstance(item, plans.Read):
                    values = self._download(frame, item.buffer, (len(item.symbols),))
                    symbols.update(zip(item.symbols, (int(value) for value in values.tolist()), strict=True))
        return [
            self._download(frame, port.buffers[0], evaluate(symbols))
            for port, evaluate in zip(self.plan.outputs, self._outputs, strict=True)
        ]

    def _enter(self, frame: Frame, number: int, symbols: dict[str, int]) -> None:
        """Lay out and bind an epoch, unless the frame was bound for these sizes already."""
        if frame.symbols[number] == symbols:
            return
        epoch = self._epochs[number]
        assert epoch.check is not None
        assert epoch.layout is not None
        assert epoch.params is not None
        for (expression, relation, truth), value in zip(epoch.guards, epoch.check(symbols), strict=True):
            if (value == 0 if relation == "==" else value >= 0) != truth:
                raise GuardError(guard_text(expression, relation, truth), symbols)
        if not frame.addresses:
            frame.addresses = [None] * len(self.plan.buffers)
            for k, buffer in enumerate(self.plan.buffers):
                if buffer.weight is not None:
                    device = self.devices[buffer.device]
                    array = self.plan.weights[buffer.weight]
                    frame.addresses[k] = self._weights.address(device, buffer.weight, array)
        totals, offsets, rooms = epoch.layout(symbols)
        for device, total in totals.items():
            chunk, capacity = frame.chunks.get((device, number), (None, -1))
            if capacity < total:
                if chunk is not None:
                    self.devices[device].free(chunk)
                chunk = self.devices[device].allocate(total)
                frame.chunks[device, number] = (chunk, total)
        for k, offset, room in zip(epoch.buffers, offsets, rooms, strict=True):
            chunk, _ = frame.chunks[self.plan.buffers[k].device, number]
            frame.addresses[k] = Address(chunk, offset, room)
        params = iter(epoch.params(symbols))
        frame.launches[number] = [self._bind(frame, segment, params) for segment in epoch.segments]
        frame.symbols[number] = dict(symbols)
        for later in range(number + 1, len(self._epochs)):
            frame.symbols[later] = None

    def _bind(self, frame: Frame, segment: _Segment, params: Any) -> Callable[[], None]:
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

    def _upload(self, frame: Frame, feeds: Sequence[np.ndarray]) -> None:
        for port, feed in zip(self.plan.inputs, feeds, strict=True):
            for k in port.buffers:
                self.devices[self.plan.buffers[k].device].upload(self._address(frame, k), feed)

    def _download(self, frame: Frame, buffer: int, shape: tuple[int, ...]) -> np.ndarray:
        stored = self.plan.buffers[buffer]
        dtype = dtypes.by_name(stored.dtype).storage
        return self.devices[stored.device].download(self._address(frame, buffer), dtype, shape)

    def _copy(self, frame: Frame, step: plans.Copy, symbols: Mapping[str, int]) -> None:
        source, target = self.plan.buffers[step.source], self.plan.buffers[step.target]
        shape = compile_all(source.shape)(symbols)
        array = self._download(frame, step.source, shape)
        self.devices[target.device].upload(self._address(frame, step.target), array)


def _layout(plan: plans.Plan, numbers: list[int]) -> Callable[[Mapping[str, int]], Any]:
    """A function from symbols to bytes per device, and to offset and room of every buffer of an epoch."""
    places = {number: k for k, number in enumerate(numbers)}
    items = [plan.buffers[number].elements for number in numbers]
    widths = [dtypes.by_name(plan.buffers[number].dtype).itemsize for number in numbers]
    below = [[places[other] for other in plan.buffers[number].beneath] for number in numbers]
    devices = [plan.buffers[number].device for number in numbers]
    elements = compile_all(items)
    order = _topological(below)

    def layout(symbols: Mapping[str, int]) -> Any:
        rooms = [-(-count * width // 4) * 4 for count, width in zip(elements(symbols), widths, strict=True)]
        ends = [0] * len(rooms)
        offsets = [0] * len(rooms)
        totals: dict[int, int] = {}
        for k in order:
            start = max([ends[other] for other in below[k]]) if below[k] else 0
            offsets[k] = start
            ends[k] = start + -(-rooms[k] // ALIGNMENT) * ALIGNMENT
            if ends[k] > totals.get(devices[k], -1):
                totals[devices[k]] = ends[k]
        return totals, offsets, rooms

    return layout


def _topological(below: list[list[int]]) -> list[int]:
    order: list[int] = []
    done = [False] * len(below)
    for first in range(len(below)):
        stack = [first]
        while stack:
            top = stack[-1]
            waiting = [k for k in below[top] if not done[k]]
            if waiting and not done[top]:
                stack += waiting
                continue
            stack.pop()
            if not done[top]:
                done[top] = True
                order.append(top)
    return order
