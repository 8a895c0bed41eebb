"""Sardonyx runs ONNX models in browsers, on boards and on desktops, with onnxruntime's API.

    import sardonyx as ort

    session = ort.InferenceSession("model.onnx")
    outputs = session.run(None, {"input": array})

Importing it costs little more than importing NumPy: what a name needs is imported when the name is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sardonyx.api import names
from sardonyx.common import bytecode
from sardonyx.version import __version__

if TYPE_CHECKING:
    from sardonyx import errors as errors
    from sardonyx.api import capi as capi
    from sardonyx.api.adapters import (
        AdapterFormat,
        LoraAdapter,
    )
    from sardonyx.api.assignment import (
        OrtEpAssignedNode,
        OrtEpAssignedSubgraph,
    )
    from sardonyx.api.capi.native import SessionIOBinding
    from sardonyx.api.compile import compile as compile
    from sardonyx.api.devices import (
        OrtAllocatorType,
        OrtArenaCfg,
        OrtDevice,
        OrtDeviceMemoryType,
        OrtDeviceVendorId,
        OrtEpDevice,
        OrtExecutionProviderDevicePolicy,
        OrtHardwareDevice,
        OrtHardwareDeviceType,
        OrtMemoryInfo,
        OrtMemoryInfoDeviceType,
        OrtMemType,
        create_and_register_allocator,
        create_and_register_allocator_v2,
        get_ep_devices,
    )
    from sardonyx.api.environment import (
        disable_telemetry_events,
        enable_telemetry_events,
        get_all_providers,
        get_build_info,
        get_device,
        get_version_string,
        has_collective_ops,
        preload_dlls,
        print_debug_info,
        register_execution_provider_library,
        set_default_logger_severity,
        set_default_logger_verbosity,
        set_global_thread_pool_sizes,
        unregister_execution_provider_library,
    )
    from sardonyx.api.ep_context import (
        ModelCompiler,
        OrtCompileApiFlags,
        OrtEpContextData,
        OrtEpContextDataBuffer,
        OrtExternalInitializerInfo,
        OrtSyncStream,
    )
    from sardonyx.api.io_binding import IOBinding
    from sardonyx.api.options import (
        ExecutionMode,
        ExecutionOrder,
        NodeArg,
        RunOptions,
        SessionOptions,
    )
    from sardonyx.api.ort_value import OrtValue
    from sardonyx.api.ort_value_vector import copy_tensors
    from sardonyx.api.session import (
        InferenceSession,
    )
    from sardonyx.api.sparse import (
        OrtSparseFormat,
        SparseTensor,
    )
    from sardonyx.host.random import (
        set_seed,
    )
    from sardonyx.model.metadata import ModelMetadata
    from sardonyx.ops.custom import (
        custom_op,
        register,
    )
    from sardonyx.passes.levels import GraphOptimizationLevel
    from sardonyx.providers.registry import available as get_available_providers
    from sardonyx.training.teach import teach as teach

__all__ = [
    "AdapterFormat",
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "LoraAdapter",
    "ModelCompiler",
    "ModelMetadata",
    "NodeArg",
    "OrtAllocatorType",
    "OrtArenaCfg",
    "OrtCompileApiFlags",
    "OrtDevice",
    "OrtDeviceMemoryType",
    "OrtDeviceVendorId",
    "OrtEpAssignedNode",
    "OrtEpAssignedSubgraph",
    "OrtEpContextData",
    "OrtEpContextDataBuffer",
    "OrtEpDevice",
    "OrtExecutionProviderDevicePolicy",
    "OrtExternalInitializerInfo",
    "OrtHardwareDevice",
    "OrtHardwareDeviceType",
    "OrtMemType",
    "OrtMemoryInfo",
    "OrtMemoryInfoDeviceType",
    "OrtSparseFormat",
    "OrtSyncStream",
    "OrtValue",
    "RunOptions",
    "SessionIOBinding",
    "SessionOptions",
    "SparseTensor",
    "__version__",
    "compile",
    "copy_tensors",
    "create_and_register_allocator",
    "create_and_register_allocator_v2",
    "custom_op",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_ep_devices",
    "get_version_string",
    "has_collective_ops",
    "preload_dlls",
    "print_debug_info",
    "register",
    "register_execution_provider_library",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_global_thread_pool_sizes",
    "set_seed",
    "teach",
    "unregister_execution_provider_library",
]

bytecode.install()


def __getattr__(name: str) -> Any:
    value = globals()[name] = names.find(name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
