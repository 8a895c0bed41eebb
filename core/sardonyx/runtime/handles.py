"""Tensors that stay where they are: what passes between a plan and its sub-plans."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from sardonyx.common.cached import cached_property
from sardonyx.common.dtypes import DType
from sardonyx.common.record import record
from sardonyx.errors import RuntimeException
from sardonyx.providers.contract import Address, Device, Tensor


@record(frozen=True)
class Handle:
    """A tensor on a device, valid as long as the frame that holds it."""

    device: int
    address: Address
    element: DType
    shape: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        """How NumPy stores the elements."""
        return self.element.storage

    @cached_property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.element.itemsize

    @cached_property
    def words(self) -> Address:
        """Where the elements are, up to the end of the last word: devices copy words."""
        return Address(self.address.chunk, self.address.offset, -(-self.nbytes // 4) * 4)

    @property
    def tensor(self) -> Tensor:
        """What a device that reads several at once wants to know."""
        return self.address, self.dtype, self.shape


Feed: TypeAlias = np.ndarray | Handle


def by_device(handles: Sequence[Handle]) -> dict[int, list[int]]:
    """The places of tensors in a list, by their device."""
    places: dict[int, list[int]] = {}
    for place, handle in enumerate(handles):
        places.setdefault(handle.device, []).append(place)
    return places


def downloaded(devices: Sequence[Device], handles: Sequence[Handle]) -> list[np.ndarray]:
    """The arrays of tensors, those of one device read together."""
    found: dict[int, np.ndarray] = {}
    for number, places in by_device(handles).items():
        arrays = devices[number].download_all([handles[k].tensor for k in places])
        found.update(zip(places, arrays, strict=True))
    return [found[k] for k in range(len(handles))]


EAGER = 1 << 18
"""Bytes of memory for slices that may not come."""
DIFFERENT = "the slices of a scan output differ in shape from iteration to iteration"


class Stack:
    """Equal slices of a scan output, one behind the other in the memory of the device that makes them."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self._devices = devices
        self._rows: list[np.ndarray] = []
        self._first: Handle | None = None
        self._chunk: Any = None
        self._room = 0
        self._count = 0

    def push(self, slice_: Handle) -> None:
        """Append a copy of a slice."""
        first = self._first = self._first or slice_
        if slice_.shape != first.shape:
            raise RuntimeException(DIFFERENT)
        if slice_.nbytes % 4 or slice_.device != first.device:
            # Devices copy whole words; such slices wait on the host.
            self._rows.append(self._devices[slice_.device].download(slice_.address, slice_.dtype, slice_.shape))
            return
        self._grow((self._count + 1) * slice_.nbytes)
        target = Address(self._chunk, self._count * slice_.nbytes, slice_.nbytes)
        source = Address(slice_.address.chunk, slice_.address.offset, slice_.nbytes)
        self._devices[slice_.device].copy(source, target)
        self._count += 1

    @property
    def is_on_host(self) -> bool:
        """Whether the slices wait on the host."""
        return bool(self._rows)

    def most(self, slice_: Handle) -> int:
        """How many such slices to reserve memory for at once: at least one, and no more than there are already."""
        return max(1, self._count, EAGER // max(1, slice_.nbytes))

    def reserve(self, slice_: Handle, count: int) -> Address:
        """Where the device may put `count` more slices of this kind; `extend` says how many it did."""
        first = self._first = self._first or slice_
        if slice_.shape != first.shape:
            raise RuntimeException(DIFFERENT)
        self._grow((self._count + count) * slice_.nbytes)
        return Address(self._chunk, self._count * slice_.nbytes, count * slice_.nbytes)

    def extend(self, count: int) -> None:
        """Have the first slices of the reserved memory."""
        self._count += count

    def _grow(self, nbytes: int) -> None:
        if self._chunk is not None and nbytes <= self._room:
            return
        assert self._first is not None
        device, room = self._devices[self._first.device], max(4096, 2 * nbytes)
        chunk = device.allocate(room)
        if used := self._count * self._first.nbytes:
            device.copy(Address(self._chunk, 0, used), Address(chunk, 0, used))
        self.free()
        self._chunk, self._room = chunk, room

    def result(self) -> Feed | None:
        """All slices along a new first axis; None if there was none."""
        if self._first is None:
            return None
        if self._rows:
            return np.stack(self._rows)
        nbytes = self._count * self._first.nbytes
        shape = (self._count, *self._first.shape)
        return Handle(self._first.device, Address(self._chunk, 0, nbytes), self._first.element, shape)

    def free(self) -> None:
        """Give the memory back; the result is not valid any more."""
        if self._chunk is not None and self._first is not None:
            self._devices[self._first.device].free(self._chunk)
            self._chunk = None
