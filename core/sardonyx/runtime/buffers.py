"""The buffers of a plan, in whichever frame they lie: what is read from them, written to them, and copied."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.cached import cached_property
from sardonyx.errors import UnsoundError
from sardonyx.plans.plan import Plan
from sardonyx.providers.contract import Address, Device
from sardonyx.runtime.frames import Frame
from sardonyx.runtime.handles import Feed, Handle, downloaded
from sardonyx.runtime.inputs import Input
from sardonyx.sizes.sizecode import Evaluator, compile_all


class Buffers:
    """The buffers of one plan on devices."""

    def __init__(self, plan: Plan, devices: Sequence[Device]) -> None:
        self.plan = plan
        self.devices = devices
        self._shapes: dict[int, Evaluator] = {}
        self._forms: dict[int, str] = {}

    def shape(self, buffer: int, symbols: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of a buffer for these sizes."""
        if buffer not in self._shapes:
            self._shapes[buffer] = compile_all(self.plan.buffers[buffer].shape)
        return self._shapes[buffer](symbols)

    def handle(self, frame: Frame, buffer: int, symbols: Mapping[str, int]) -> Handle:
        """A buffer as it lies in a frame, which remembers the handle."""
        handle = frame.handles.get(buffer)
        if handle is None:
            stored, shape = self.plan.buffers[buffer], self.shape(buffer, symbols)
            handle = Handle(stored.device, frame.address(buffer), dtypes.by_name(stored.dtype), shape)
            _fit(handle.nbytes, handle.address)
            frame.handles[buffer] = handle
        return handle

    def handles(self, frame: Frame, buffers: Sequence[int], symbols: Mapping[str, int]) -> list[Handle]:
        """Several buffers as they lie in a frame; what many have in common is found once."""
        known = frame.handles
        alike: dict[str, Handle] = {}
        for k in buffers:
            if k in known:
                continue
            form = self._form(k)
            like = alike.get(form)
            if like is None:
                alike[form] = self.handle(frame, k, symbols)
                continue
            address = frame.address(k)
            _fit(like.nbytes, address)
            known[k] = Handle(like.device, address, like.element, like.shape)
        return [known[k] for k in buffers]

    def _form(self, buffer: int) -> str:
        """Which device, type and shape a buffer has."""
        form = self._forms.get(buffer)
        if form is None:
            stored = self.plan.buffers[buffer]
            form = self._forms[buffer] = f"{stored.device} {stored.dtype} {stored.shape}"
        return form

    def reader(self, frame: Frame, buffer: int, symbols: Mapping[str, int]) -> Callable[[], np.ndarray]:
        """What gives a buffer as an array of the host."""
        read = frame.readers.get(buffer)
        if read is None:
            stored, address, shape = self.plan.buffers[buffer], frame.address(buffer), self.shape(buffer, symbols)
            dtype = dtypes.by_name(stored.dtype)
            _fit(prod(shape) * dtype.itemsize, address)
            read = frame.readers[buffer] = _reader(self.devices[stored.device], address, dtype.storage, shape)
        return read

    def arrays(self, frame: Frame, buffers: Sequence[int], symbols: Mapping[str, int]) -> list[np.ndarray]:
        """Buffers as arrays of the host, those of one device read together where it can."""
        if len(buffers) > 1 and self._reads_together:
            return downloaded(self.devices, [self.handle(frame, k, symbols) for k in buffers])
        return [self.reader(frame, k, symbols)() for k in buffers]

    @cached_property
    def _reads_together(self) -> bool:
        return any(device.reads_together for device in self.devices)

    def values(self, frame: Frame, buffer: int, count: int) -> list[int]:
        """The first elements of an integer buffer."""
        stored, address = self.plan.buffers[buffer], frame.address(buffer)
        dtype = dtypes.by_name(stored.dtype).storage
        _fit(count * dtype.itemsize, address)
        found = self.devices[stored.device].download(address, dtype, (count,))
        return [int(value) for value in found.tolist()]

    def fetch(self, feed: Feed) -> np.ndarray:
        """A tensor as an array of the host."""
        if isinstance(feed, Handle):
            return self.devices[feed.device].download(feed.address, feed.dtype, feed.shape)
        return feed

    def put(self, frame: Frame, items: Sequence[tuple[Feed, int]]) -> None:
        """Copy tensors to buffers of a frame."""
        for feed, k in items:
            self.move(feed, self.plan.buffers[k].device, frame.address(k))

    def move(self, source: Feed, device: int, target: Address) -> None:
        """Copy a tensor to a place on a device."""
        _fit(source.nbytes, target)
        if isinstance(source, Handle) and source.device == device:
            self.devices[device].copy(source.words, target)
        else:
            self.devices[device].upload(target, self.fetch(source))

    def inputs(self, frame: Frame, shapes: Sequence[tuple[int, ...]]) -> list[Input]:
        """What is known of arrays that were fed with these shapes."""
        found = []
        for port, shape in zip(self.plan.inputs, shapes, strict=True):
            dtype = dtypes.by_name(port.dtype)
            nbytes = prod(shape) * dtype.itemsize
            writes = []
            for k in port.buffers:
                owner, address = self.devices[self.plan.buffers[k].device], frame.address(k)
                _fit(nbytes, address)
                writes.append(_writer(owner, address, dtype.storage, shape))
            given = np.dtype(object) if dtype is dtypes.string else dtype.storage
            found.append(Input(port.name, given, shape, writes))
        return found


def _writer(device: Device, address: Address, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Callable[..., None]:
    """What copies an array of this type and shape, strided in any way, to the device, as often as wanted."""
    view = device.view(address, dtype, shape)
    if view is not None:
        return partial(view.__setitem__, ...)
    return lambda array: device.upload(address, np.ascontiguousarray(array))


def _reader(device: Device, address: Address, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Callable[[], np.ndarray]:
    """What gives a new array with the device's bytes, as often as wanted."""
    view = device.view(address, dtype, shape)
    if view is not None:
        copy: Callable[[], np.ndarray] = view.copy
        return copy
    return partial(device.download, address, dtype, shape)


def _fit(nbytes: int, address: Address) -> None:
    """Raise UnsoundError where a plan has less room for a tensor than that takes."""
    if nbytes > address.nbytes:
        raise UnsoundError(f"a tensor of {nbytes:,} bytes has room for {address.nbytes:,} in the plan: compile anew")
