"""Where the names of `sardonyx`, which are onnxruntime's, are defined: a module is imported when a name is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sardonyx.common.forks import Whole
from sardonyx.common.garbage import paused

HOMES = {
    "AdapterFormat": "api.adapters",
    "ExecutionMode": "api.options",
    "ExecutionOrder": "api.options",
    "GraphOptimizationLevel": "passes.levels",
    "IOBinding": "api.io_binding",
    "InferenceSession": "api.session",
    "LoraAdapter": "api.adapters",
    "ModelCompiler": "api.ep_context",
    "ModelMetadata": "model.metadata",
    "NodeArg": "api.options",
    "OrtAllocatorType": "api.devices",
    "OrtArenaCfg": "api.devices",
    "OrtCompileApiFlags": "api.ep_context",
    "OrtDevice": "api.devices",
    "OrtDeviceMemoryType": "api.devices",
    "OrtDeviceVendorId": "api.devices",
    "OrtEpAssignedNode": "api.assignment",
    "OrtEpAssignedSubgraph": "api.assignment",
    "OrtEpContextData": "api.ep_context",
    "OrtEpContextDataBuffer": "api.ep_context",
    "OrtEpDevice": "api.devices",
    "OrtExecutionProviderDevicePolicy": "api.devices",
    "OrtExternalInitializerInfo": "api.ep_context",
    "OrtHardwareDevice": "api.devices",
    "OrtHardwareDeviceType": "api.devices",
    "OrtMemType": "api.devices",
    "OrtMemoryInfo": "api.devices",
    "OrtMemoryInfoDeviceType": "api.devices",
    "OrtSparseFormat": "api.sparse",
    "OrtSyncStream": "api.ep_context",
    "OrtValue": "api.ort_value",
    "RunOptions": "api.options",
    "SessionIOBinding": "api.capi.native",
    "SessionOptions": "api.options",
    "SparseTensor": "api.sparse",
    "__version__": "version",
    "compile": "api.compile",
    "copy_tensors": "api.ort_value_vector",
    "create_and_register_allocator": "api.devices",
    "create_and_register_allocator_v2": "api.devices",
    "custom_op": "ops.custom",
    "disable_telemetry_events": "api.environment",
    "enable_telemetry_events": "api.environment",
    "get_all_providers": "api.environment",
    "get_available_providers": "providers.registry:available",
    "get_build_info": "api.environment",
    "get_device": "api.environment",
    "get_ep_devices": "api.devices",
    "get_version_string": "api.environment",
    "has_collective_ops": "api.environment",
    "preload_dlls": "api.environment",
    "print_debug_info": "api.environment",
    "register": "ops.custom",
    "register_execution_provider_library": "api.environment",
    "set_default_logger_severity": "api.environment",
    "set_default_logger_verbosity": "api.environment",
    "set_global_thread_pool_sizes": "api.environment",
    "set_seed": "host.random",
    "teach": "training.teach",
    "unregister_execution_provider_library": "api.environment",
}
"""For each name its module below `sardonyx`, and behind a colon how it is called there."""
MODULES = {"capi": "sardonyx.api.capi", "errors": "sardonyx.errors"}
"""Modules that are reached as attributes."""


def find(name: str, module: str = "sardonyx") -> Any:
    """What a public name stands for. Raises AttributeError where it is none, as of this module.

    >>> find("OrtValue").__module__
    'sardonyx.api.ort_value'
    """
    if name in MODULES:
        return import_module(MODULES[name])
    if name not in HOMES:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    home, _, attribute = HOMES[name].partition(":")
    with Whole(), paused():  # modules are no garbage
        return getattr(import_module(f"sardonyx.{home}"), attribute or name)
