"""A session's constants on its devices: uploaded once, and what can be computed from them alone is computed once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from sardonyx.common import dtypes, mapped, memory
from sardonyx.common.forks import Whole
from sardonyx.plans import reach
from sardonyx.plans.epochs import code_of
from sardonyx.plans.plan import Launch, Plan
from sardonyx.providers.contract import Address, Device, Executable, SegmentLaunch
from sardonyx.runtime.budget import Budget
from sardonyx.runtime.streamed import Streamed, is_in_place

_SMALL, _TOGETHER = memory.FOLIO // 8, 16  # to let go of each small array takes longer than to read it
_GROWN = 2  # more than from 16 bits to 32: from 8 bits, or by Winograd's transform of few channels


class Setup:
    """Launches of a plan's `setup` in order, each with the code of its device, where it is a segment of its own."""

    def __init__(self, plan: Plan, devices: Sequence[Device], launches: Sequence[Launch]) -> None:
        self.plan, self.launches = plan, launches
        self._executables: dict[int, Executable] = {}
        for number in {launch.device for launch in launches}:
            mine = [launch for launch in launches if launch.device == number]
            used = sorted({launch.code for launch in mine})
            segments = [[SegmentLaunch(used.index(launch.code), plan.codes[launch.code]["name"])] for launch in mine]
            self._executables[number] = devices[number].load([code_of(plan.codes[code]) for code in used], segments)

    def __iter__(self) -> Iterator[tuple[Launch, Executable, int]]:
        segments: Counter[int] = Counter()
        for launch in self.launches:
            yield launch, self._executables[launch.device], segments[launch.device]
            segments[launch.device] += 1


class Weights:
    """Shared by all plans of a session; constants are known by their names. `budget` is what the session may hold."""

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = budget
        self._addresses: dict[tuple[Device, str], Address] = {}
        self._shared: set[tuple[Device, str]] = set()
        self._mapped: set[Any] = set()
        """The files that constants lie in,"""
        self._copied: list[np.ndarray] = []
        """and what was copied from files."""
        self._prepared: dict[int, Setup] = {}
        self._lock = threading.Lock()

    def prepare(self, plan: Plan, devices: Sequence[Device]) -> None:
        """Have the code of a plan's `setup` made before `place` wants it, which devices may compile meanwhile."""
        with Whole(), self._lock:
            self._prepared[id(plan)] = Setup(plan, devices, self._left(plan, devices))

    def place(self, plan: Plan, devices: Sequence[Device]) -> list[Address | None]:
        """Where the constants of a plan lie, by the numbers of their buffers; runs what is left of its `setup`."""
        with Whole(), self._lock:
            if isinstance(plan, Streamed):  # whose weights are read in each run
                self._mapped.update(memory.owner(array) for array in plan.weights.values())
            self._set_up(plan, devices)
            found = [
                None if buffer.weight is None or buffer.once else self._address(plan, devices, number)
                for number, buffer in enumerate(plan.buffers)
            ]
            memory.forget(*self._copied)
            self._copied.clear()
            return found

    def check(self) -> None:
        """Raises Fail where a file that constants are read from was written anew."""
        if self._mapped:
            mapped.check(self._mapped)

    def held(self) -> int:
        """The bytes of the constants on all devices that are no views of the host's arrays."""
        with Whole(), self._lock:
            return sum(address.nbytes for key, address in self._addresses.items() if key not in self._shared)

    def wanted(self, plan: Plan, devices: Sequence[Device]) -> tuple[int, int]:
        """The bytes that `place` will add for a plan, and the most that it needs besides while it runs the `setup`."""
        with Whole(), self._lock:
            setup = self._left(plan, devices)
            stays: dict[tuple[Device, str], int] = {}
            for number, buffer in enumerate(plan.buffers):
                key = devices[buffer.device], str(buffer.weight)
                if buffer.weight is not None and not buffer.once and key not in self._addresses:
                    stays[key] = self._room(plan, devices, number)
            last = {
                number: k for k, launch in enumerate(setup) for number in launch.buffers if plan.buffers[number].once
            }
            most = 0
            live: set[int] = set()
            for k, launch in enumerate(setup):
                live.update(number for number in launch.buffers if number in last)
                most = max(most, sum(self._room(plan, devices, number) for number in live))
                live = {number for number in live if last[number] > k}
            return sum(stays.values()), most

    def clear(self) -> None:
        """Give back all constants; no frame may be in use."""
        with Whole(), self._lock:
            for key, address in self._addresses.items():
                key[0].free(address.chunk)
            self._addresses.clear()
            self._shared.clear()
            self._mapped.clear()

    def sizes(self, device: Device) -> tuple[int, int]:
        """The bytes of all constants on a device, and those among them that are views of the host's arrays."""
        with Whole(), self._lock:
            mine = {key: address.nbytes for key, address in self._addresses.items() if key[0] is device}
            return sum(mine.values()), sum(nbytes for key, nbytes in mine.items() if key in self._shared)

    def _address(self, plan: Plan, devices: Sequence[Device], number: int) -> Address:
        """Where a constant lies; it is uploaded, or given room if it is to be computed."""
        buffer = plan.buffers[number]
        device, name = devices[buffer.device], str(buffer.weight)
        key = (device, name)
        if key not in self._addresses:
            if (array := plan.weights.get(name)) is None:
                nbytes = -(-int(buffer.elements) * dtypes.by_name(buffer.dtype).itemsize // 4) * 4
                address = Address(device.allocate(nbytes), 0, nbytes)
            else:
                mapped.check((memory.owner(array),))
                address = (device.in_place(array) if _is_mapped(plan, number) else None) or device.constant(array)
                if isinstance(address.chunk, np.ndarray) and np.may_share_memory(address.chunk, array):
                    self._shared.add(key)
                    self._mapped.add(memory.owner(array))
                else:
                    self._forget(array)
            self._addresses[key] = address
        return self._addresses[key]

    def _forget(self, array: np.ndarray) -> None:
        """Let go of the pages of what a device has: of a large array at once, of small ones together."""
        self._copied.append(array)
        if array.nbytes >= _SMALL or len(self._copied) >= _TOGETHER:
            memory.forget(*self._copied)
            self._copied.clear()

    def _room(self, plan: Plan, devices: Sequence[Device], number: int) -> int:
        """The bytes that a constant takes; where it lies, none in a plan that drops its pages after use."""
        buffer = plan.buffers[number]
        array = plan.weights.get(str(buffer.weight))
        if isinstance(plan, Streamed) and (number in plan.mapped or is_in_place(devices[buffer.device], array)):
            return 0
        return -(-int(buffer.elements) * dtypes.by_name(buffer.dtype).itemsize // 4) * 4

    def _set_up(self, plan: Plan, devices: Sequence[Device]) -> None:
        kept = set(self._addresses)  # what other plans use stays
        left = self._left(plan, devices)
        last = {number: launch for launch in left for number in launch.buffers}
        setup = self._prepared.pop(id(plan), None)
        if setup is None or setup.launches != left:
            setup = Setup(plan, devices, left)
        if self._grows(plan, devices, left):
            for number in {launch.device for launch in left}:
                devices[number].synchronize()
        try:
            for launch, executable, segment in setup:
                self._run(plan, devices, launch, executable, segment)
                for number in launch.buffers:
                    if last[number] is launch:
                        self._done(plan, devices, number, kept)
        finally:
            for number in range(len(plan.buffers)):
                self._done(plan, devices, number, kept)

    def _done(self, plan: Plan, devices: Sequence[Device], number: int, kept: Collection[tuple[Device, str]]) -> None:
        """Give back what the setup alone needs."""
        buffer = plan.buffers[number]
        if buffer.weight is None or not buffer.once:
            return
        device = devices[buffer.device]
        if (device, buffer.weight) not in kept:
            self._give_back(device, buffer.weight)
            if (array := plan.weights.get(buffer.weight)) is not None:
                self._forget(array)

    def _run(self, plan: Plan, devices: Sequence[Device], launch: Launch, executable: Executable, segment: int) -> None:
        """Run a launch of the setup; what it writes is known to be there only if it came to its end."""
        try:
            addresses = [self._address(plan, devices, number) for number in launch.buffers]
            reach.check(plan.codes[launch.code], addresses, launch.params)
            executable.bind(segment, [addresses], [launch.params])()
            if not devices[launch.device].in_order:
                devices[launch.device].synchronize()
        except BaseException:
            for number in launch.buffers[len(plan.codes[launch.code]["reads"]) :]:
                self._give_back(devices[launch.device], str(plan.buffers[number].weight))
            raise

    def _grows(self, plan: Plan, devices: Sequence[Device], setup: Sequence[Launch]) -> bool:
        """Whether a setup makes much more than it reads, so that compilers should not need memory at the same time."""
        read: set[int] = set()
        made: set[int] = set()
        for launch in setup:
            reads = len(plan.codes[launch.code]["reads"])
            read.update(launch.buffers[:reads])
            made.update(number for number in launch.buffers[reads:] if not plan.buffers[number].once)
        before, after = (sum(self._room(plan, devices, number) for number in numbers) for numbers in (read, made))
        return after > _GROWN * before

    def _give_back(self, device: Device, name: str) -> None:
        address = self._addresses.pop((device, name), None)
        if address is not None:
            self._shared.discard((device, name))
            device.free(address.chunk)

    def _left(self, plan: Plan, devices: Sequence[Device]) -> list[Launch]:
        """The launches of `setup` whose results are not there yet, and those that these need."""
        needed: set[int] = set()
        left: list[Launch] = []
        for launch in reversed(plan.setup):
            reads = len(plan.codes[launch.code]["reads"])
            for number in launch.buffers[reads:]:
                buffer = plan.buffers[number]
                known = (devices[buffer.device], str(buffer.weight)) in self._addresses
                if number in needed or not (buffer.once or known):
                    needed.update(launch.buffers[:reads])
                    left.append(launch)
                    break
        return left[::-1]


def _is_mapped(plan: Plan, number: int) -> bool:
    """Whether a constant is read where it lies, aligned or not."""
    return isinstance(plan, Streamed) and number in plan.mapped
