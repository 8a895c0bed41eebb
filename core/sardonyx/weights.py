"""A session's constants on its devices: uploaded once, and what can be computed from them alone is computed once."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from sardonyx import dtypes, memory
from sardonyx.device import Address, Device, Launch
from sardonyx.epochs import code_of
from sardonyx.plan import Launch as Step
from sardonyx.plan import Plan


class Weights:
    """Shared by all plans of a session; constants are known by their names."""

    def __init__(self) -> None:
        self._addresses: dict[tuple[int, str], Address] = {}
        self._shared: set[tuple[int, str]] = set()
        self._lock = threading.Lock()

    def place(self, plan: Plan, devices: Sequence[Device]) -> list[Address | None]:
        """Where the constants of a plan lie, by the numbers of their buffers; runs what is left of its `setup`."""
        with self._lock:
            self._set_up(plan, devices)
            return [
                None if buffer.weight is None or buffer.once else self._address(plan, devices, number)
                for number, buffer in enumerate(plan.buffers)
            ]

    def sizes(self, device: Device) -> tuple[int, int]:
        """The bytes of all constants on a device, and those among them that are views of the host's arrays."""
        with self._lock:
            mine = {key: address.nbytes for key, address in self._addresses.items() if key[0] == id(device)}
            return sum(mine.values()), sum(nbytes for key, nbytes in mine.items() if key in self._shared)

    def _address(self, plan: Plan, devices: Sequence[Device], number: int) -> Address:
        """Where a constant lies; it is uploaded, or given room if it is to be computed."""
        buffer = plan.buffers[number]
        device, name = devices[buffer.device], str(buffer.weight)
        key = (id(device), name)
        if key not in self._addresses:
            if (array := plan.weights.get(name)) is None:
                nbytes = -(-int(buffer.elements) * dtypes.by_name(buffer.dtype).itemsize // 4) * 4
                address = Address(device.allocate(nbytes), 0, nbytes)
            else:
                address = device.constant(array)
                if isinstance(address.chunk, np.ndarray) and np.may_share_memory(address.chunk, array):
                    self._shared.add(key)
                else:
                    memory.forget(array)
            self._addresses[key] = address
        return self._addresses[key]

    def _set_up(self, plan: Plan, devices: Sequence[Device]) -> None:
        before = set(self._addresses)  # what other plans use stays
        for launch in self._left(plan, devices):
            self._run(plan, devices, launch)
        for buffer in plan.buffers:
            if buffer.weight is not None and buffer.once:
                device = devices[buffer.device]
                if (id(device), buffer.weight) not in before:
                    self._give_back(device, buffer.weight)
                    if (array := plan.weights.get(buffer.weight)) is not None:
                        memory.forget(array)

    def _run(self, plan: Plan, devices: Sequence[Device], launch: Step) -> None:
        """Run a launch of the setup; what it writes is known to be there only if it came to its end."""
        code, device = plan.codes[launch.code], devices[launch.device]
        addresses = [self._address(plan, devices, number) for number in launch.buffers]
        try:
            executable = device.load([code_of(code)], [[Launch(0, code["name"])]])
            executable.bind(0, [addresses], [launch.params])()
            device.synchronize()
        except BaseException:
            for number in launch.buffers[len(code["reads"]) :]:
                self._give_back(device, str(plan.buffers[number].weight))
            raise

    def _give_back(self, device: Device, name: str) -> None:
        address = self._addresses.pop((id(device), name), None)
        if address is not None:
            self._shared.discard((id(device), name))
            device.free(address.chunk)

    def _left(self, plan: Plan, devices: Sequence[Device]) -> list[Step]:
        """The launches of `setup` whose results are not there yet, and those that these need."""
        needed: set[int] = set()
        left: list[Step] = []
        for launch in reversed(plan.setup):
            reads = len(plan.codes[launch.code]["reads"])
            for number in launch.buffers[reads:]:
                buffer = plan.buffers[number]
                known = (id(devices[buffer.device]), str(buffer.weight)) in self._addresses
                if number in needed or not (buffer.once or known):
                    needed.update(launch.buffers[:reads])
                    left.append(launch)
                    break
        return left[::-1]
