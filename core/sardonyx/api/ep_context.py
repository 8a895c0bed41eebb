"""Models that are compiled ahead for one execution provider: onnxruntime's names for that.

Here plans are kept by themselves (`sardonyx.plans.plan_cache`), and `sardonyx compile` makes bundles. So no node of a
model is compiled: what onnxruntime does then is done, and what is only there for compiled nodes cannot be made.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sardonyx.api.devices import OrtEpDevice, OrtHardwareDevice
from sardonyx.api.options import SessionOptions
from sardonyx.common.enums import Choice
from sardonyx.common.record import record, replace
from sardonyx.errors import Fail, InvalidArgument, InvalidValue, NotImplemented
from sardonyx.model.ir import Model
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import write
from sardonyx.passes.copy import copy_model
from sardonyx.passes.downgrade import lower, save_lowered
from sardonyx.passes.levels import GraphOptimizationLevel
from sardonyx.passes.pipeline import prepare

_WHY = "no provider here compiles models into EPContext nodes; `sardonyx compile` makes a bundle of a model"


class OrtCompileApiFlags(Choice):
    """What `ModelCompiler` would refuse."""

    NONE = 0
    ERROR_IF_NO_NODES_COMPILED = 1
    ERROR_IF_OUTPUT_FILE_EXISTS = 2


class OrtCompiledModelCompatibility(Choice):
    """Whether a compiled model fits a device."""

    EP_NOT_APPLICABLE = 0
    EP_SUPPORTED_OPTIMAL = 1
    EP_SUPPORTED_PREFER_RECOMPILATION = 2
    EP_UNSUPPORTED = 3


class OrtDeviceEpIncompatibilityReason(Choice):
    """Why a provider cannot use a device, in bits."""

    NONE = 0
    DRIVER_INCOMPATIBLE = 1
    DEVICE_INCOMPATIBLE = 2
    MISSING_DEPENDENCY = 4
    UNKNOWN = -(1 << 31)


@record(frozen=True)
class OrtExternalInitializerInfo:
    """Where in which file an initializer lies."""

    filepath: str
    file_offset: int
    byte_size: int


class OrtEpContextData:
    """What a provider would have compiled; nothing here makes one."""

    def __init__(self) -> None:
        raise NotImplemented(f"OrtEpContextData: {_WHY}")


class OrtEpContextDataBuffer:
    """Where a provider would put what it compiled; nothing here makes one."""

    def __init__(self) -> None:
        raise NotImplemented(f"OrtEpContextDataBuffer: {_WHY}")


class OrtSyncStream:
    """A queue of a device's work; nothing here makes one, since runs wait for their results."""

    def __init__(self) -> None:
        raise NotImplemented("OrtSyncStream: devices have no streams here; a run waits for its results")


class ModelCompiler:
    """Writes a model as a level optimizes it, which is what onnxruntime's does where no provider compiles nodes.

    >>> from sardonyx.demo import assets
    >>> compiler = ModelCompiler(SessionOptions(), assets() / "digits.onnx")
    >>> len(compiler.compile_to_bytes()) > 100_000
    True
    """

    def __init__(
        self,
        sess_options: SessionOptions,
        input_model_path_or_bytes: str | os.PathLike[str] | bytes,
        embed_compiled_data_into_model: bool = False,
        external_initializers_file_path: str | os.PathLike[str] | None = None,
        external_initializers_size_threshold: int = 1024,
        flags: int = OrtCompileApiFlags.NONE,
        graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_DISABLE_ALL,
        get_initializer_location_func: Callable[..., Any] | None = None,
    ) -> None:
        if not isinstance(input_model_path_or_bytes, (str, os.PathLike, bytes)):
            raise TypeError(f"Unable to load from type '{type(input_model_path_or_bytes)}'")
        if not input_model_path_or_bytes:
            raise ValueError("Input model is empty: give a path, or the bytes of a model")
        if get_initializer_location_func is not None:
            raise NotImplemented("get_initializer_location_func: give external_initializers_file_path instead")
        self._given = input_model_path_or_bytes
        self._options = replace(sess_options, graph_optimization_level=GraphOptimizationLevel(graph_optimization_level))
        self._external = os.fspath(external_initializers_file_path or "")
        self._threshold = external_initializers_size_threshold
        self._flags = int(flags)

    def compile_to_file(self, output_model_path: str | os.PathLike[str] | None = None) -> None:
        """Write the model; without a path beside the given one, whose name ends in `_ctx.onnx` then."""
        if output_model_path is None:
            if isinstance(self._given, bytes):
                raise InvalidArgument("the model came as bytes: say where to write it, output_model_path")
            output_model_path = f"{os.path.splitext(self._given)[0]}_ctx.onnx"
        target = os.fspath(output_model_path)
        if self._flags & OrtCompileApiFlags.ERROR_IF_OUTPUT_FILE_EXISTS and os.path.exists(target):
            raise Fail(f"{target} exists, and the flag ERROR_IF_OUTPUT_FILE_EXISTS is set")
        model, imports = self._optimized()
        save_lowered(model, imports, target, self._external, self._threshold)

    def compile_to_bytes(self) -> bytes:
        """The model as the bytes of an .onnx file."""
        if self._external:
            raise InvalidArgument("bytes have no folder for external_initializers_file_path: use compile_to_file")
        model, imports = self._optimized()
        return write(lower(copy_model(model), imports))

    def compile_to_stream(self, write_function: Callable[[bytes], None]) -> None:
        """Give the bytes to a function."""
        write_function(self.compile_to_bytes())

    def _optimized(self) -> tuple[Model, Mapping[str, int]]:
        if self._flags & OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED:
            raise Fail(f"no node is compiled, and the flag ERROR_IF_NO_NODES_COMPILED is set: {_WHY}")
        model = read(self._given)
        return prepare(model, self._options), model.opset_imports

    def set_ep_context_data_write_func(self, write_func: Callable[[str, OrtEpContextData], None]) -> None:
        """Accepted for compatibility: nothing is compiled that it could be given."""

    def clear_ep_context_data_write_func(self) -> None:
        """Accepted for compatibility: nothing is compiled that it could be given."""


def get_compatibility_info_from_model(model_path: str | os.PathLike[str], ep_type: str) -> str | None:
    """What a provider wrote into a model that it compiled, as the metadata `ep_compatibility_info.` and its name."""
    return _info(read(model_path).metadata, ep_type)


def get_compatibility_info_from_model_bytes(model_data: Any, ep_type: str) -> str | None:
    """The same of the bytes of a model."""
    return _info(read(memoryview(model_data)).metadata, ep_type)


def _info(metadata: dict[str, str], ep_type: str) -> str | None:
    if not ep_type:
        raise InvalidValue("Invalid argument: the name of the execution provider is empty")
    return metadata.get(f"ep_compatibility_info.{ep_type}")


def get_model_compatibility_for_ep_devices(
    ep_devices: Sequence[OrtEpDevice], compatibility_info: str
) -> OrtCompiledModelCompatibility:
    """EP_NOT_APPLICABLE: no provider here takes what was compiled for one."""
    if not ep_devices or len({device.ep_name for device in ep_devices}) > 1:
        raise InvalidValue(
            f"Invalid argument: give devices of one execution provider, not {[each.ep_name for each in ep_devices]}"
        )
    return OrtCompiledModelCompatibility.EP_NOT_APPLICABLE


def get_hardware_device_ep_incompatibility_details(ep_name: str, hw: OrtHardwareDevice) -> dict[str, Any]:
    """Nothing: no provider here knows of a device that it cannot use."""
    return {"reasons_bitmask": 0, "notes": None, "error_code": 0}
