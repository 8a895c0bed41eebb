"""A session with the arguments, and the properties, of onnxruntime's native class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sardonyx.api.devices import OrtDevice
from sardonyx.api.io_binding import IOBinding
from sardonyx.api.options import RunOptions
from sardonyx.api.ort_value import OrtValue
from sardonyx.api.ort_value_vector import OrtValueVector
from sardonyx.errors import InvalidArgument


class SessionWrapper:
    """What stands for an `InferenceSession` where scripts reach past it."""

    def __init__(self, session: Any = None) -> None:
        """Without a session, one that is to be made later."""
        self._session = session

    @property
    def session(self) -> Any:
        """The `InferenceSession` itself."""
        if self._session is None:
            raise InvalidArgument("the session is not there yet: call initialize_session")
        return self._session

    def run(self, output_names: Sequence[str], input_feed: Mapping[str, Any], run_options: Any = None) -> Any:
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
    def inputs_meta(self) -> Any:
        return self.session.get_inputs()

    @property
    def outputs_meta(self) -> Any:
        return self.session.get_outputs()

    @property
    def input_meminfos(self) -> Any:
        return self.session.get_input_memory_infos()

    @property
    def output_meminfos(self) -> Any:
        return self.session.get_output_memory_infos()

    @property
    def input_epdevices(self) -> Any:
        return self.session.get_input_epdevices()

    @property
    def overridable_initializers(self) -> Any:
        return self.session.get_overridable_initializers()

    @property
    def model_meta(self) -> Any:
        return self.session.get_modelmeta()

    @property
    def session_options(self) -> Any:
        return self.session.get_session_options()

    @property
    def get_profiling_start_time_ns(self) -> Any:
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
