"""Sardonyx runs ONNX models in browsers, on boards and on desktops, with onnxruntime's API.

    import sardonyx as ort

    session = ort.InferenceSession("model.onnx")
    outputs = session.run(None, {"input": array})

Importing it costs little more than importing NumPy: what a name needs is imported when the name is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sardonyx.version import __version__

if TYPE_CHECKING:
    from sardonyx import capi as capi
    from sardonyx import errors as errors
    from sardonyx.adapters import (
        AdapterFormat,
        LoraAdapter,
    )
    from sardonyx.assignment import (
        OrtEpAssignedNode,
        OrtEpAssignedSubgraph,
    )
    from sardonyx.capi.native import SessionIOBinding
    from sardonyx.custom import (
        custom_op,
        register,
    )
    from sardonyx.devices import (
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
    from sardonyx.environment import (
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
    from sardonyx.ep_context import (
        ModelCompiler,
        OrtCompileApiFlags,
        OrtEpContextData,
        OrtEpContextDataBuffer,
        OrtExternalInitializerInfo,
        OrtSyncStream,
    )
    from sardonyx.host.random import (
        set_seed,
    )
    from sardonyx.io_binding import IOBinding
    from sardonyx.options import (
        ExecutionMode,
        ExecutionOrder,
        GraphOptimizationLevel,
        ModelMetadata,
        NodeArg,
        RunOptions,
        SessionOptions,
    )
    from sardonyx.ort_value import OrtValue
    from sardonyx.ort_value_vector import copy_tensors
    from sardonyx.providers import available as get_available_providers
    from sardonyx.session import (
        InferenceSession,
    )
    from sardonyx.sparse import (
        OrtSparseFormat,
        SparseTensor,
    )

_HOMES = {
    "AdapterFormat": "adapters",
    "ExecutionMode": "options",
    "ExecutionOrder": "options",
    "GraphOptimizationLevel": "options",
    "IOBinding": "io_binding",
    "InferenceSession": "session",
    "LoraAdapter": "adapters",
    "ModelCompiler": "ep_context",
    "ModelMetadata": "options",
    "NodeArg": "options",
    "OrtAllocatorType": "devices",
    "OrtArenaCfg": "devices",
    "OrtCompileApiFlags": "ep_context",
    "OrtDevice": "devices",
    "OrtDeviceMemoryType": "devices",
    "OrtDeviceVendorId": "devices",
    "OrtEpAssignedNode": "assignment",
    "OrtEpAssignedSubgraph": "assignment",
    "OrtEpContextData": "ep_context",
    "OrtEpContextDataBuffer": "ep_context",
    "OrtEpDevice": "devices",
    "OrtExecutionProviderDevicePolicy": "devices",
    "OrtExternalInitializerInfo": "ep_context",
    "OrtHardwareDevice": "devices",
    "OrtHardwareDeviceType": "devices",
    "OrtMemType": "devices",
    "OrtMemoryInfo": "devices",
    "OrtMemoryInfoDeviceType": "devices",
    "OrtSparseFormat": "sparse",
    "OrtSyncStream": "ep_context",
    "OrtValue": "ort_value",
    "RunOptions": "options",
    "SessionIOBinding": "capi.native",
    "SessionOptions": "options",
    "SparseTensor": "sparse",
    "copy_tensors": "ort_value_vector",
    "create_and_register_allocator": "devices",
    "create_and_register_allocator_v2": "devices",
    "custom_op": "custom",
    "disable_telemetry_events": "environment",
    "enable_telemetry_events": "environment",
    "get_all_providers": "environment",
    "get_available_providers": "providers:available",
    "get_build_info": "environment",
    "get_device": "environment",
    "get_ep_devices": "devices",
    "get_version_string": "environment",
    "has_collective_ops": "environment",
    "preload_dlls": "environment",
    "print_debug_info": "environment",
    "register": "custom",
    "register_execution_provider_library": "environment",
    "set_default_logger_severity": "environment",
    "set_default_logger_verbosity": "environment",
    "set_global_thread_pool_sizes": "environment",
    "set_seed": "host.random",
    "unregister_execution_provider_library": "environment",
}
_MODULES = frozenset({"capi", "errors"})
"""Modules that are reached as attributes."""

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
    "unregister_execution_provider_library",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"sardonyx.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'sardonyx' has no attribute {name!r}")
    module, _, attribute = home.partition(":")
    value = getattr(importlib.import_module(f"sardonyx.{module}"), attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
