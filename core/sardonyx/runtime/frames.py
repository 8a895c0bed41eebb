"""Frames: what one run of a plan needs, laid out and bound, and kept for runs of the same sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import gt, is_
from typing import Any

import numpy as np

from sardonyx.common import memory
from sardonyx.common.cached import cached_property
from sardonyx.common.recent import Recent
from sardonyx.common.record import field, record
from sardonyx.common.strings import RunStrings, StringTable
from sardonyx.errors import EPFail, RuntimeException
from sardonyx.plans import plan as plans
from sardonyx.plans import reach
from sardonyx.plans.epochs import Epoch, Segment, code_of, split
from sardonyx.providers.contract import Address, Device, Executable, SegmentLaunch
from sardonyx.runtime.budget import OverLimitError
from sardonyx.runtime.handles import Feed, Handle
from sardonyx.runtime.inputs import Input
from sardonyx.runtime.weights import Weights
from sardonyx.sizes.expression import evaluate
from sardonyx.sizes.guards import guard_text
from sardonyx.sizes.sizecode import symbols_of

NO_STRINGS = RunStrings(StringTable())
STEPS = 64
"""How many more steps of the same growth a layout is made for,"""
SPARE = 32 << 20
"""if they take no more bytes."""
LARGEST = 1 << 62
"""More bytes than any buffer has."""
MOST_SIZES = 256
"""Sizes that an epoch remembers to have been bound for."""
FEW_TURNS = 32
"""Turns of a loop that a device takes at first before the host looks after it."""


class GuardError(Exception):
    """These sizes break a guard of the plan; `symbols` are all that are known by now."""

    def __init__(self, guard: str, symbols: Mapping[str, int]) -> None:
        super().__init__(guard)
        self.symbols = dict(symbols)


class Code:
    """What all frames of a plan share: its epochs, compiled for its devices once they are needed, and the weights."""

    def __init__(
        self, plan: plans.Plan, devices: Sequence[Device], weights: Weights, singly: bool, repeated: bool = False
    ) -> None:
        self.plan = plan
        self.devices = devices
        self.weights = weights
        self._singly = singly
        self._repeated = repeated
        self._limits: dict[tuple[int, int], reach.Limits | None] = {}

    @cached_property
    def epochs(self) -> list[Epoch]:
        return split(self.plan, self._singly)

    @cached_property
    def caches(self) -> list[int]:
        """The inputs that their callers hold."""
        return [number for number, port in enumerate(self.plan.inputs) if self.plan.is_cache(port)]

    @cached_property
    def largest(self) -> list[int | None]:
        """The bytes that a tensor may have on each device, None for any number."""
        return [device.largest for device in self.devices]

    @cached_property
    def is_bounded(self) -> bool:
        """Whether a device takes no tensor of any size."""
        return any(most is not None for most in self.largest)

    @cached_property
    def executables(self) -> list[Executable | None]:
        return [self._load(k) for k in range(len(self.devices))]

    def _load(self, device: int) -> Executable | None:
        segments = [s for epoch in self.epochs for s in epoch.segments if s.device == device]
        if not segments:
            return None
        used = sorted({launch.code for segment in segments for launch in segment.launches})
        places = {number: k for k, number in enumerate(used)}
        codes = [code_of(self.plan.codes[number]) for number in used]
        calls = [
            [SegmentLaunch(places[launch.code], self.label(launch)) for launch in segment.launches]
            for segment in segments
        ]
        if self.is_body:
            return self.devices[device].load_body(codes, calls[0])
        return self.devices[device].load(codes, calls)

    @cached_property
    def is_body(self) -> bool:
        """Whether this is the body of a loop that is one segment of one device, the same one for all turns."""
        items = self.epochs[0].items
        if not self._repeated or self._singly or len(self.epochs) > 1 or len(items) != 1:
            return False
        if any(port.symbols for port in self.plan.inputs):
            return False
        if not isinstance(items[0], Segment):
            return False
        ports = (*self.plan.inputs, *self.plan.outputs)
        return {self.plan.buffers[k].device for port in ports for k in port.buffers} <= {items[0].device}

    def limits(self, segment: Segment) -> reach.Limits | None:
        """How far the launches of a segment may go; None if nothing is known of that."""
        place = segment.device, segment.number
        if place not in self._limits:
            codes = [self.plan.codes[launch.code] for launch in segment.launches]
            counts = [len(launch.params) for launch in segment.launches]
            is_known = any("reach" in code for code in codes)
            self._limits[place] = reach.Limits(codes, counts) if is_known else None
        return self._limits[place]

    def label(self, launch: plans.Launch) -> str:
        name = str(self.plan.codes[launch.code]["name"])
        labels = [self.plan.nodes[k] for k in launch.origins if 0 <= k < len(self.plan.nodes)]
        return f"{name} ({', '.join(labels[:3])}{', ...' if len(labels) > 3 else ''})" if labels else name


@record(slots=True)
class Binding:
    """An epoch as it is bound for some sizes, good as long as its buffers lie where they lay."""

    symbols: dict[str, int]
    params: list[np.ndarray]
    """The parameters of each segment."""
    steps: list[Callable[[], None] | plans.Host] = field(default_factory=list)
    """What the executor does, up to the halt at its end."""
    inputs: list[Input] = field(default_factory=list)
    """What is fed to such a run, once that is known."""
    handles: dict[int, Handle] = field(default_factory=dict)
    """What is known of buffers,"""
    readers: dict[int, Callable[[], np.ndarray]] = field(default_factory=dict)
    """and what reads them."""


class Frame:
    """Memory and bound launches for one run at a time."""

    def __init__(self, code: Code) -> None:
        epochs = len(code.epochs)
        self.code = code
        self.chunks: dict[tuple[int, int], tuple[Any, int]] = {}
        self.addresses: list[Address | None] = []
        self.symbols: list[dict[str, int] | None] = [None] * epochs
        self.rooms: list[list[int] | None] = [None] * epochs
        """The bytes that there are for each kind of buffer of an epoch that is laid out."""
        self.launches: list[list[Callable[[], None]]] = [[] for _ in range(epochs)]
        self.lent: dict[int, Address] = {}
        self.fed: list[tuple[int, int, int]] = self._fed()
        """Which feed is copied to which buffer of which device: all that do not lie there anyway."""
        self.handles: dict[int, Handle] = {}
        """What is known of buffers, as long as no epoch is bound anew."""
        self.strings = NO_STRINGS
        self.pace = FEW_TURNS
        """How many turns of a loop a device takes before the host looks after it."""
        self.start: tuple[list[tuple[int, ...]], dict[str, int], dict[str, int]] | None = None
        """Shapes of feeds and outer symbols of the last run, and the symbols that they made."""
        self.inputs: list[Input] = []
        """What is fed to such a run, once there was one before; good until the first epoch is bound anew."""
        self.steps: list[list[Callable[[], None] | plans.Host]] = [[] for _ in range(epochs)]
        """What the executor does in an epoch that is bound, up to the halt at its end."""
        self.readers: dict[int, Callable[[], np.ndarray]] = {}
        """What reads buffers, as long as no epoch is bound anew."""
        self._lenders: list[Feed] = []
        self._moves = [0] * epochs
        """How often the buffers of each epoch came to lie elsewhere."""
        self._bound: list[list[int] | None] = [None] * epochs
        """What that was, up to each epoch, when its launches were bound."""
        self._known: list[Recent[frozenset[tuple[str, int]], Binding]] = [Recent(MOST_SIZES) for _ in range(epochs)]
        """What each epoch was bound for, with the launches that it has, since its buffers lie where they lie."""
        self._most_of: dict[tuple[int, int], np.ndarray] = {}
        """How far launches of segments that are bound may go."""
        if code.weights.budget is not None:
            code.weights.budget.frames.add(self)

    @property
    def nbytes(self) -> int:
        """The bytes of its memory."""
        return sum(total for _, total in self.chunks.values())

    def lend(self, feeds: Sequence[Feed], count: int) -> None:
        """Note where caches and the last feeds lie; launches are bound anew if that is elsewhere than in the frame's
        last run."""
        plan = self.code.plan
        ports = self.code.caches + list(range(len(feeds) - count, len(feeds)))
        lenders = [feeds[k] for k in ports]
        if len(lenders) == len(self._lenders) and all(map(is_, lenders, self._lenders)):
            return
        lent: dict[int, Address] = {}
        for number, feed in zip(ports, lenders, strict=True):
            if isinstance(feed, Handle):
                own = plan.inputs[number].buffers
                lent.update((k, feed.address) for k in own if plan.buffers[k].device == feed.device)
        if lent.keys() != self.lent.keys() or not all(_same(lent[k], self.lent[k]) for k in lent):
            self.symbols[0] = None
            self._move(0)
            self.lent = lent
            self.fed = self._fed()
        self._lenders = lenders  # a signal before this has the next run do it all again

    def _fed(self) -> list[tuple[int, int, int]]:
        plan = self.code.plan
        places = ((number, k) for number, port in enumerate(plan.inputs) for k in port.buffers if k not in self.lent)
        return [(number, k, plan.buffers[k].device) for number, k in places]

    def bind(self, number: int, symbols: Mapping[str, int]) -> Binding:
        """Lay out and bind an epoch for these sizes; `settle` says so once all is ready.

        The binding is one that was settled before where these sizes recur.
        """
        epoch, key = self.code.epochs[number], frozenset(symbols.items())
        moves = self._moves[: number + 1]
        stays = self._bound[number] == moves
        if stays and (known := self._known[number].get(key)) and self._is_bound_again(number, known):
            return known
        for (expression, relation, truth), value in zip(epoch.guards, epoch.check(symbols), strict=True):
            if (value == 0 if relation == "==" else value >= 0) != truth:
                raise GuardError(guard_text(expression, relation, truth), symbols)
        rooms = epoch.layout.rooms_by_kind(symbols)
        if rooms is None:
            raise GuardError(self._negative(epoch, symbols), symbols)
        self._check_budget(number, rooms, symbols)
        if not self.addresses:
            self.addresses = self.code.weights.place(self.code.plan, self.code.devices)
        if self.code.is_bounded:
            self._check_sizes(epoch, rooms, symbols)
        binding = Binding(dict(symbols), [])
        self._unsettle(number, binding)
        laid = self.rooms[number]
        if laid is None or any(map(gt, rooms, laid)):
            self._place(number, rooms)
            moves, stays = self._moves[: number + 1], False
        runs = self.launches[number]
        for k, (segment, values) in enumerate(zip(epoch.segments, epoch.params, strict=True)):
            distinct = values.distinct(symbols)
            params = values.array(distinct) if stays else None
            if params is not None and self._rebind(segment, runs[k], params):
                binding.params.append(params)
            else:
                runs[k : k + 1] = [self._bind(segment, [distinct[place] for place in values.places])]
                self._known[number].clear()
        if len(binding.params) == len(epoch.segments):
            self._known[number].keep(key, binding)
        self._bound[number] = moves
        return binding

    def _is_bound_again(self, number: int, known: Binding) -> bool:
        """Whether all segments of an epoch work with parameters that they had before."""
        self._unsettle(number, known)
        pairs = zip(self.code.epochs[number].segments, self.launches[number], known.params, strict=True)
        if not all(self._executable(segment).rebind(run, params) for segment, run, params in pairs):
            return False
        self._bound[number] = self._moves[: number + 1]
        return True

    def _unsettle(self, number: int, binding: Binding) -> None:
        """Begin to bind an epoch: what follows may fail, and leaves nothing then that is bound."""
        self.symbols[number] = self._bound[number] = None
        self.handles, self.readers = binding.handles, binding.readers  # also those of epochs before: symbols are theirs
        if number == 0:
            self.inputs = []

    def settle(self, number: int, binding: Binding) -> None:
        """Have an epoch bound, with what is done in it: a signal may come at any point before."""
        for later in range(number + 1, len(self.code.epochs)):
            self.symbols[later] = None
        self.steps[number] = binding.steps
        self.symbols[number] = binding.symbols

    def _move(self, number: int) -> None:
        """Note that buffers of an epoch lie elsewhere: no launch of this one or later ones is bound to them."""
        self._moves[number] += 1
        for known in self._known[number:]:
            known.clear()

    def _place(self, number: int, rooms: list[int]) -> None:
        """Lay out an epoch for these rooms. A layout that was too small once grows by a quarter more than it must, and
        for many more such steps, if these are small.

        So a cache that grows with every token keeps its addresses, and what devices remember by them, for many tokens.
        """
        layout, laid = self.code.epochs[number].layout, self.rooms[number]
        if laid is not None and self.code.weights.budget is None:
            growth = [max(0, room - old) for old, room in zip(laid, rooms, strict=True)]
            ahead = STEPS if STEPS * sum(layout.by_buffer(growth)) <= SPARE else 0
            more = [
                max(old, room, min(room + max(room // 16 * 4, ahead * step), self._most(k) or LARGEST))
                for k, old, room, step in zip(layout.first, laid, rooms, growth, strict=True)
            ]
            with suppress(RuntimeException, EPFail):  # there may be enough for what it must have
                self._lay(number, more)
                return
        self._lay(number, rooms)

    def _lay(self, number: int, rooms: list[int]) -> None:
        """Lay out an epoch; what fails leaves nothing that a later call would take for memory."""
        epoch, kinds = self.code.epochs[number], rooms
        rooms = epoch.layout.by_buffer(kinds)
        totals, offsets = epoch.layout.place(rooms)
        self.rooms[number] = None
        self._move(number)
        for device, total in totals.items():
            chunk, capacity = self.chunks.get((device, number), (None, -1))
            if capacity < total:
                if chunk is not None:
                    del self.chunks[device, number]
                    self.code.devices[device].free(chunk)
                self.chunks[device, number] = (self._allocate(epoch, device, total, rooms), total)
        for k, offset, room in zip(epoch.buffers, offsets, rooms, strict=True):
            chunk, _ = self.chunks[self.code.plan.buffers[k].device, number]
            self.addresses[k] = Address(chunk, offset, room)
        self.rooms[number] = kinds

    def free(self) -> None:
        """Give back all memory; the frame is of no use any more."""
        for (device, _), (chunk, _) in self.chunks.items():
            self.code.devices[device].free(chunk)
        self.chunks = {}

    def _allocate(self, epoch: Epoch, device: int, total: int, rooms: list[int]) -> Any:
        reason = ""
        if total <= memory.available():
            try:
                return self.code.devices[device].allocate(total)
            except MemoryError as error:
                reason = f": {error}" if str(error) else ""
        room, largest = max(zip(rooms, epoch.buffers, strict=True))
        where = self._maker(epoch, largest)
        raise RuntimeException(f"{where} wants {room:,} bytes of {total:,} in all, more than there are{reason}")

    def _check_sizes(self, epoch: Epoch, rooms: Sequence[int], symbols: Mapping[str, int]) -> None:
        """Raise GuardError where a tensor is larger than its device takes: another plan has it elsewhere."""
        for k, room in zip(epoch.layout.first, rooms, strict=True):
            most = self._most(k)
            if most is not None and room > most:
                raise GuardError(f"{self._maker(epoch, k)} wants {room:,} bytes, more than {most:,}", symbols)

    def _check_budget(self, number: int, rooms: list[int], symbols: Mapping[str, int]) -> None:
        """Raise OverLimitError where this epoch, and weights that are not there yet, are more than the session may
        have."""
        weights = self.code.weights
        if weights.budget is None:
            return
        layout = self.code.epochs[number].layout
        totals, _ = layout.place(layout.by_buffer(rooms))
        old = {place: total for place, (_, total) in self.chunks.items()}
        new = {(device, number): max(total, old.get((device, number), 0)) for device, total in totals.items()}
        arena = sum((old | new).values())
        stays, meanwhile = (0, 0) if self.addresses else weights.wanted(self.code.plan, self.code.devices)
        need = stays + max(meanwhile, arena)
        left = weights.budget.limit - weights.budget.arenas(but=self) - weights.held()
        if need > left:
            raise OverLimitError(f"this needs {need:,} bytes, and {left:,} are left of the memory limit", symbols)

    def fit(self, symbols: Mapping[str, int]) -> None:
        """Raise OverLimitError where the first epoch needs more for these sizes than the session may have."""
        rooms = self.code.epochs[0].layout.rooms_by_kind(symbols)
        if rooms is not None:
            self._check_budget(0, rooms, symbols)

    def _most(self, buffer: int) -> int | None:
        """The bytes that a buffer may have."""
        return self.code.largest[self.code.plan.buffers[buffer].device]

    def _negative(self, epoch: Epoch, symbols: Mapping[str, int]) -> str:
        for k in epoch.buffers:
            shape = [evaluate(s, symbols) for s in self.code.plan.buffers[k].shape if symbols_of(s) <= symbols.keys()]
            if min(shape, default=0) < 0:
                return f"{self._maker(epoch, k)} would give {shape}"
        return "a size would be negative"

    def _maker(self, epoch: Epoch, buffer: int) -> str:
        """What fills a buffer, for errors."""
        launches = (launch for segment in epoch.segments for launch in segment.launches if buffer in launch.buffers)
        return next(map(self.code.label, launches), "what is fed")

    def _bind(self, segment: Segment, params: Sequence[Any]) -> Callable[[], None]:
        """Bind a segment, whose parameters are those of all launches in a row."""
        buffers: list[list[Address]] = []
        values = []
        start = 0
        for launch in segment.launches:
            buffers.append([self.address(k) for k in launch.buffers])
            values.append(params[start : start + len(launch.params)])
            start += len(launch.params)
            reach.check(self.code.plan.codes[launch.code], buffers[-1], values[-1])
        if limits := self.code.limits(segment):
            self._most_of[segment.device, segment.number] = limits.most(buffers)
        return self._executable(segment).bind(segment.number, buffers, values)

    def _rebind(self, segment: Segment, run: Callable[[], None], params: np.ndarray) -> bool:
        """Have a bound segment, whose buffers lie where they lay, work with other parameters; False if it cannot."""
        limits = self.code.limits(segment)
        if limits and not limits.allow(self._most_of[segment.device, segment.number], params):
            return False  # binding it says what is wrong
        return self._executable(segment).rebind(run, params)

    def _executable(self, segment: Segment) -> Executable:
        executable = self.code.executables[segment.device]
        assert executable is not None
        return executable

    def address(self, buffer: int) -> Address:
        address = self.lent.get(buffer) or self.addresses[buffer]
        assert address is not None, f"buffer {buffer} is used before its epoch"
        return address


def _same(a: Address, b: Address) -> bool:
    return a.chunk is b.chunk and a.offset == b.offset and a.nbytes == b.nbytes
