"""onnxruntime's native session and binding, which some scripts make instead of those of its Python classes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sardonyx.api.capi.wrapper import SessionWrapper
from sardonyx.api.devices import OrtDevice
from sardonyx.api.io_binding import IOBinding
from sardonyx.api.options import SessionOptions
from sardonyx.api.ort_value_vector import OrtValueVector
from sardonyx.api.session import InferenceSession


class NativeSession(SessionWrapper):
    """A session that is not made before `initialize_session`."""

    def __init__(
        self, session_options: SessionOptions | None, path_or_bytes: Any, is_path: bool, read_config: bool = False
    ) -> None:
        super().__init__()
        self._wanted = (path_or_bytes, session_options, read_config)

    def initialize_session(
        self,
        provider_types: Sequence[str] = (),
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        disabled_optimizer_names: Collection[str] = (),
    ) -> None:
        path_or_bytes, options, read_config = self._wanted
        self._session = InferenceSession(
            path_or_bytes,
            options,
            list(provider_types),
            list(provider_options or ()) or None,
            disabled_optimizers=list(disabled_optimizer_names),
            read_config_from_model=read_config,
            enable_fallback=0,
        )


class SessionIOBinding(IOBinding):
    """A binding with the arguments of onnxruntime's native class: an `OrtDevice` instead of its kind and number."""

    def __init__(self, session: SessionWrapper) -> None:
        super().__init__(session.session)

    def bind_input(self, name: str, *arguments: Any) -> None:
        """Feed an array, or what lies on a device: `device, element_type, shape, buffer_ptr`."""
        if len(arguments) == 1:
            self.bind_cpu_input(name, arguments[0])
        else:
            device, *others = arguments
            super().bind_input(name, *_kind(device), *others)

    def bind_output(self, name: str, *arguments: Any) -> None:
        """Have an output on a device: `device`, or `device, element_type, shape, buffer_ptr`."""
        device, *others = arguments
        super().bind_output(name, *_kind(device), *others)

    def get_outputs(self) -> OrtValueVector:
        return OrtValueVector(super().get_outputs())


def _kind(device: OrtDevice) -> tuple[str, int]:
    return ("cpu" if device.device_type() == OrtDevice.cpu() else "gpu"), device.device_id()
