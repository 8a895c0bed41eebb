"""What onnxruntime's Python classes wrap: its native session and binding, which some scripts reach past those for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from sardonyx.api.devices import OrtDevice
from sardonyx.api.io_binding import IOBinding
from sardonyx.api.options import RunOptions, SessionOptions
from sardonyx.api.ort_value import OrtValue
from sardonyx.api.ort_value_vector import OrtValueVector
from sardonyx.api.session import InferenceSession
from sardonyx.errors import InvalidArgument


class NativeSession:
    """A session with the arguments, and the properties, of onnxruntime's native class."""

    def __init__(
        self, session_options: SessionOptions | None, path_or_bytes: Any, is_path: bool, read_config: bool = False
    ) -> None:
        """A session that is not made before `initialize_session`."""
        self._wanted = (path_or_bytes, session_options, read_config)
        self._session: InferenceSession | None = None

    @classmethod
    def of(cls, session: InferenceSession) -> NativeSession:
        """What stands for a session that is there."""
        native = cls(None, b"", False)
        native._session = session
        return native

    def initialize_session(
        self,
        provider_types: Sequence[str] = (),
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        disabled_optimizer_names: Collection[str] = (),
    ) -> None:
        given, options, read_config = self._wanted
        self._session = InferenceSession(
            given,
            options,
            list(provider_types),
            list(provider_options or ()) or None,
            disabled_optimizers=list(disabled_optimizer_names),
            read_config_from_model=read_config,
            enable_fallback=0,
        )

    @property
    def session(self) -> InferenceSession:
        if self._session is None:
            raise InvalidArgument("the session is not there yet: call initialize_session")
        return self._session

    def run(self, output_names: Sequence[str], input_feed: Mapping[str, Any], run_options: Any = None) -> list[Any]:
        return self.session.run(output_names, input_feed, run_options)

    def run_async(
        self,
        output_names: Sequence[str],
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], Any],
        user_data: Any = None,
        run_options: RunOptions | None = None,
    ) -> None:
        self.session.run_async(output_names, input_feed, callback, user_data, run_options)

    def run_with_ort_values(
        self, feeds: Mapping[str, OrtValue], output_names: Sequence[str], run_options: RunOptions | None = None
    ) -> OrtValueVector:
        return OrtValueVector(self.session.run_with_ort_values(output_names, feeds, run_options))

    def run_with_ortvaluevector(self, *arguments: Any) -> None:
        self.session.run_with_ortvaluevector(*arguments)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        self.session.run_with_iobinding(iobinding, run_options)

    @property
    def inputs_meta(self) -> list[Any]:
        return self.session.get_inputs()

    @property
    def outputs_meta(self) -> list[Any]:
        return self.session.get_outputs()

    @property
    def input_meminfos(self) -> list[Any]:
        return self.session.get_input_memory_infos()

    @property
    def output_meminfos(self) -> list[Any]:
        return self.session.get_output_memory_infos()

    @property
    def input_epdevices(self) -> list[Any]:
        return self.session.get_input_epdevices()

    @property
    def overridable_initializers(self) -> list[Any]:
        return self.session.get_overridable_initializers()

    @property
    def model_meta(self) -> Any:
        return self.session.get_modelmeta()

    @property
    def session_options(self) -> SessionOptions:
        return self.session.get_session_options()

    @property
    def get_profiling_start_time_ns(self) -> int:
        return self.session.get_profiling_start_time_ns()

    def create_ortvalue_from_shape_and_onnx_type(self, shape: Any, element_type: int, device: OrtDevice) -> OrtValue:
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device)

    def is_webgpu_graph_capture_enabled(self) -> bool:
        """False: plans are replayed anyway."""
        return False

    def webgpu_context_id(self) -> int:
        """-1: there is one context for all sessions."""
        return -1

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"a native session has no attribute {name!r}")
        return getattr(self.session, name)


class SessionIOBinding(IOBinding):
    """A binding with the arguments of onnxruntime's native class: an `OrtDevice` instead of its kind and number."""

    def __init__(self, session: NativeSession) -> None:
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
