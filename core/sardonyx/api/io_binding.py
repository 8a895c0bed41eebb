"""Inputs and outputs that are bound: what stays on a device from run to run is copied there, never through the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sardonyx.api.devices import OrtDevice
from sardonyx.api.ort_value import OrtValue, fetched, provider_of, reserve
from sardonyx.api.ort_value_vector import OrtValueVector
from sardonyx.common import dtypes
from sardonyx.common.convert import outward
from sardonyx.common.strings import RunStrings
from sardonyx.errors import InvalidArgument
from sardonyx.model.structure import TENSOR, Form, fill, present
from sardonyx.providers.contract import Address, Device
from sardonyx.runtime.handles import Handle, downloaded

if TYPE_CHECKING:
    from sardonyx.api.session import InferenceSession


@dataclass
class Target:
    """Where an output is to be: on the device of a provider, None for the host, in `value` if there is one."""

    provider: str | None
    value: OrtValue | None = None


class IOBinding:
    """The inputs and outputs of runs by `InferenceSession.run_with_iobinding`, made by `InferenceSession.io_binding`.

    An output that is bound to a device is a new OrtValue after each run, unless it is bound to one.
    """

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self.inputs: dict[str, OrtValue] = {}
        self.targets: dict[str, Target] = {}
        self.results: dict[str, OrtValue] = {}

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray) -> None:
        """Feed an array of the host; it is read when a run begins."""
        self.inputs[name] = OrtValue.ortvalue_from_numpy(arr_on_cpu)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Feed a value, wherever it lies; it is read when a run begins, and never changed."""
        self.inputs[name] = ortvalue

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Feed what lies at an address of the host."""
        self.inputs[name] = _at(name, device_type, device_id, element_type, shape, buffer_ptr)

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Have an output on the host, at an address if there is one, or on a device (`gpu` or `webgpu`)."""
        self._session.check_outputs([name])
        value = None
        if buffer_ptr:
            value = _at(name, device_type, device_id, element_type, shape or (), buffer_ptr)
        self.targets[name] = Target(provider_of(device_type, device_id), value)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Have an output in the memory of a value of its type and shape."""
        self._session.check_outputs([name])
        self.targets[name] = Target(None, ortvalue)

    def synchronize_inputs(self) -> None:
        """Nothing to do: what was bound is there."""

    def synchronize_outputs(self) -> None:
        """Wait for the devices on which outputs lie."""
        for device in {id(v.device): v.device for v in self.results.values() if v.place is not None}.values():
            device.synchronize()

    def get_outputs(self) -> list[OrtValue]:
        """The outputs of the last run, in the order in which they were bound."""
        return [self.results[name] for name in self.targets if name in self.results]

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        """The same in the class of onnxruntime's native lists."""
        return OrtValueVector(self.get_outputs())

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The outputs of the last run as arrays, read together."""
        return fetched(self.get_outputs())

    def clear_binding_inputs(self) -> None:
        self.inputs.clear()

    def clear_binding_outputs(self) -> None:
        self.targets.clear()
        self.results.clear()


def _at(
    name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
) -> OrtValue:
    """The tensor at an address of the host."""
    if provider_of(device_type, device_id) is not None:
        raise InvalidArgument(f"{name!r}: what lies on a GPU has no address; bind an OrtValue")
    return OrtValue.at_address(buffer_ptr, element_type, shape)


@dataclass(frozen=True)
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
            values = ran.present(downloaded(self.devices, ran.handles))
            return {name: self._nested(name, values[names.index(name)], target) for name, target in targets.items()}
        handles = {name: ran.handles[names.index(name)] for name in targets}
        found = {name: self.placed(name, handles[name], target) for name, target in targets.items()}
        left = [name for name, value in found.items() if value is None]
        arrays = downloaded(self.devices, [handles[name] for name in left])
        for name, array in zip(left, arrays, strict=True):
            given, handle = targets[name].value, handles[name]
            if given is not None:
                given.update_inplace(array)
            found[name] = given or OrtValue(ran.outward(array, handle), handle.element)
        for device in self.devices:
            device.flush()
        return {name: value for name, value in found.items() if value is not None}

    def _nested(self, name: str, value: Any, target: Target) -> OrtValue:
        if target.provider is not None or target.value is not None:
            raise InvalidArgument(f"output {name!r} is of a model that gives sequences or maps: bind it to the host")
        return OrtValue(value, dtypes.of(value.dtype) if isinstance(value, np.ndarray) else None)

    def placed(self, name: str, handle: Handle, target: Target) -> OrtValue | None:
        """The output on a device; None if it is wanted on the host."""
        if target.value is not None:
            return self._given(name, handle, target.value)
        if target.provider is None:
            return None
        if target.provider not in self.providers:
            raise InvalidArgument(f"output {name!r} is bound to {target.provider}, which this session does not have")
        number = self.providers.index(target.provider)
        device = self.devices[number]
        place = reserve(device, handle.element, handle.shape)
        self._copy(handle, number, place.address)
        return OrtValue.placed(device, place)

    def _given(self, name: str, handle: Handle, value: OrtValue) -> OrtValue | None:
        if list(handle.shape) != value.shape() or handle.element.number != value.element_type():
            found = f"tensor({handle.element.onnx_name}){list(handle.shape)}"
            raise InvalidArgument(f"output {name!r} is {found}, but is bound to {value}")
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


class Binds:
    """What a session has for OrtValues."""

    @property
    def _sess(self: Any) -> Any:
        """The session as scripts reach it that go past onnxruntime's Python class."""
        from sardonyx.api.capi.native import NativeSession

        return NativeSession.of(self)

    def io_binding(self: Any) -> IOBinding:
        """Inputs and outputs to be bound, for `run_with_iobinding`."""
        return IOBinding(self)

    def run_with_iobinding(self: Any, iobinding: IOBinding, run_options: Any = None) -> None:
        """Run for the inputs that are bound; what is bound of the outputs is there afterwards."""
        if not iobinding.targets:
            raise InvalidArgument("no output is bound")
        iobinding.results = self.run_bound(iobinding.inputs, iobinding.targets, run_options)

    def run_with_ort_values(
        self: Any,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: Any = None,
    ) -> list[OrtValue]:
        """The outputs of these names (all if None), on the host, for values wherever they lie."""
        self.check_outputs(output_names)
        names = list(output_names or [output.name for output in self.get_outputs()])
        results = self.run_bound(input_dict_ort_values, {name: Target(None) for name in names}, run_options)
        return [results[name] for name in names]

    def run_with_ortvaluevector(
        self: Any,
        run_options: Any,
        feed_names: Sequence[str],
        feeds: Sequence[OrtValue],
        fetch_names: Sequence[str],
        fetches: list[OrtValue],
        fetch_devices: Sequence[OrtDevice],
    ) -> None:
        """Put the outputs of these names, for feeds of those names, into the list `fetches`, on these devices."""
        self.check_outputs(fetch_names)
        targets = {
            name: Target(provider_of("cpu" if device.device_type() == OrtDevice.cpu() else "gpu"))
            for name, device in zip(fetch_names, fetch_devices, strict=True)
        }
        results = self.run_bound(dict(zip(feed_names, feeds, strict=True)), targets, run_options)
        fetches[:] = [results[name] for name in fetch_names]

    def create_ortvalue_from_shape_and_type(
        self,
        shape: Sequence[int],
        element_type: Any,
        device_type: str,
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> OrtValue:
        """A tensor whose contents are undefined, as `OrtValue.ortvalue_from_shape_and_type` makes it."""
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id, vendor_id)
