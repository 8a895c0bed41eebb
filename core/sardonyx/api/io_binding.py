"""Inputs and outputs that are bound: what stays on a device from run to run is copied there, never through the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from sardonyx.api.ort_value import OrtValue, fetched, provider_of
from sardonyx.api.ort_value_vector import OrtValueVector
from sardonyx.api.outputs import Target
from sardonyx.errors import InvalidArgument


class HasOutputs(Protocol):
    """What a binding asks of a session."""

    def check_outputs(self, output_names: Sequence[str] | None) -> None:
        """Raise InvalidArgument where the model has no output of a name."""
        ...


class IOBinding:
    """The inputs and outputs of runs by `InferenceSession.run_with_iobinding`, made by `InferenceSession.io_binding`.

    An output that is bound to a device is a new OrtValue after each run, unless it is bound to one.
    """

    def __init__(self, session: HasOutputs) -> None:
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
        for device in dict.fromkeys(value.device for value in self.results.values() if value.place is not None):
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
