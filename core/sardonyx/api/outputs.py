"""What a run gives: read as arrays, or put where its caller wants it, on a device or in memory of the caller's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx.api.ort_value import OrtValue, reserve
from sardonyx.common import dtypes
from sardonyx.common.convert import outward
from sardonyx.common.record import record
from sardonyx.common.strings import RunStrings
from sardonyx.errors import InvalidArgument
from sardonyx.model.structure import TENSOR, Form, fill, present
from sardonyx.providers.contract import Address, Device
from sardonyx.runtime.handles import Handle, downloaded


@record
class Target:
    """Where an output is to be: on the device of a provider, None for the host, in `value` if there is one."""

    provider: str | None
    value: OrtValue | None = None


@record(frozen=True)
class Ran:
    """What a run made, valid until `release`: the tensors of all outputs, which are arranged in these forms."""

    handles: list[Handle]
    forms: Sequence[Form]
    strings: RunStrings
    release: Callable[[], None]

    def present(self, arrays: Sequence[np.ndarray]) -> list[Any]:
        """What callers get, of the arrays of all tensors."""
        return [present(item) for item in fill(self.forms, map(self.outward, arrays, self.handles))]

    def outward(self, array: np.ndarray, handle: Handle) -> np.ndarray:
        """What callers get of a tensor."""
        return outward(array, handle.element, self.strings)


class Outputs:
    """Puts outputs where they are bound, while a frame holds them."""

    def __init__(self, devices: Sequence[Device], providers: Sequence[str]) -> None:
        self.devices = devices
        self.providers = providers

    def take(self, ran: Ran, names: Sequence[str], targets: Mapping[str, Target]) -> dict[str, OrtValue]:
        """The values of the outputs that are bound; those on the host are read together."""
        if any(form != TENSOR for form in ran.forms):
            nested = ran.present(downloaded(self.devices, ran.handles))
            return {name: self._nested(name, nested[names.index(name)], target) for name, target in targets.items()}
        handles = {name: ran.handles[names.index(name)] for name in targets}
        values = {name: self.placed(name, handles[name], target) for name, target in targets.items()}
        on_host = [name for name, value in values.items() if value is None]
        arrays = downloaded(self.devices, [handles[name] for name in on_host])
        for name, array in zip(on_host, arrays, strict=True):
            bound, handle = targets[name].value, handles[name]
            if bound is not None:
                bound.update_inplace(array)
            values[name] = bound or OrtValue(ran.outward(array, handle), handle.element)
        for device in self.devices:
            device.flush()
        return {name: value for name, value in values.items() if value is not None}

    def _nested(self, name: str, value: Any, target: Target) -> OrtValue:
        if target.provider is not None or target.value is not None:
            raise InvalidArgument(f"output {name!r} is of a model that gives sequences or maps: bind it to the host")
        return OrtValue(value, dtypes.of(value.dtype) if isinstance(value, np.ndarray) else None)

    def placed(self, name: str, handle: Handle, target: Target) -> OrtValue | None:
        """The output on a device; None if it is wanted on the host."""
        if target.value is not None:
            return self._bound(name, handle, target.value)
        if target.provider is None:
            return None
        if target.provider not in self.providers:
            raise InvalidArgument(f"output {name!r} is bound to {target.provider}, which this session does not have")
        number = self.providers.index(target.provider)
        device = self.devices[number]
        place = reserve(device, handle.element, handle.shape)
        self._copy(handle, number, place.address)
        return OrtValue.placed(device, place)

    def _bound(self, name: str, handle: Handle, value: OrtValue) -> OrtValue | None:
        if list(handle.shape) != value.shape() or handle.element.number != value.element_type():
            result = f"tensor({handle.element.onnx_name}){list(handle.shape)}"
            raise InvalidArgument(f"output {name!r} is {result}, but is bound to {value}")
        if value.place is None or value.device not in self.devices:
            return None
        self._copy(handle, self.devices.index(value.device), value.place.address)
        return value

    def _copy(self, handle: Handle, number: int, target: Address) -> None:
        device = self.devices[number]
        if handle.device == number:
            device.copy(handle.words, target)
        else:
            device.upload(target, self.devices[handle.device].download(*handle.tensor))
