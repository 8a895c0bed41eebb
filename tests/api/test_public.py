"""What others import by its path, and the names there: to remove one is a decision."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.metadata import entry_points

import pytest

import sardonyx

NAMES = """
AdapterFormat ExecutionMode ExecutionOrder GraphOptimizationLevel IOBinding InferenceSession LoraAdapter ModelCompiler
ModelMetadata NodeArg OrtAllocatorType OrtArenaCfg OrtCompileApiFlags OrtDevice OrtDeviceMemoryType OrtDeviceVendorId
OrtEpAssignedNode OrtEpAssignedSubgraph OrtEpContextData OrtEpContextDataBuffer OrtEpDevice
OrtExecutionProviderDevicePolicy OrtExternalInitializerInfo OrtHardwareDevice OrtHardwareDeviceType OrtMemType
OrtMemoryInfo OrtMemoryInfoDeviceType OrtSparseFormat OrtSyncStream OrtValue RunOptions SessionIOBinding SessionOptions
SparseTensor __version__ compile copy_tensors create_and_register_allocator create_and_register_allocator_v2 custom_op
disable_telemetry_events enable_telemetry_events get_all_providers get_available_providers get_build_info get_device
get_ep_devices get_version_string has_collective_ops preload_dlls print_debug_info register
register_execution_provider_library set_default_logger_severity set_default_logger_verbosity
set_global_thread_pool_sizes set_seed teach unregister_execution_provider_library
"""
ERRORS = """
DeviceLost DeviceReset EPFail EngineError Fail InvalidArgument InvalidGraph InvalidProtobuf InvalidValue
ModelLoadCanceled ModelLoaded ModelRequiresCompilation NoModel NoSuchFile NotFound NotImplemented RuntimeException
SardonyxError
"""
PRIMITIVES = """
Array absolute acos acosh arg array asin asinh atan atanh attention bitcast branch broadcast_shapes broadcast_to cast
ceil concat constant conv_general cos cosh cumulative dot_general equal erf exp flip floor full gather identity iota
isinf isnan log loop matmul max_ maximum mean minimum negative nonzero normalize_axes normalize_axis not_equal pad
random_bits random_key random_normal random_uniform reduce reduce_window reshape round_even scatter shift_left
shift_right sigmoid sign sin sinh slice_ slice_axis sort sqrt squeeze sum_ tan tanh top_k transpose trunc unsqueeze
where
"""
PATHS = {
    "sardonyx": NAMES,
    "sardonyx.errors": ERRORS,
    "sardonyx.compat": "install uninstall",
    "sardonyx.primitives": PRIMITIVES,
    "sardonyx.providers.contract": "Address Bundler Device Executable SegmentLaunch Provider",
    "sardonyx.providers.registry": "available load",
}


@pytest.mark.parametrize("path", PATHS)
def test_names_are_where_others_import_them(path: str) -> None:
    module = import_module(path)
    assert [name for name in PATHS[path].split() if not hasattr(module, name)] == []


def test_the_package_exports_these_names() -> None:
    assert sorted(sardonyx.__all__) == sorted(NAMES.split())
    assert sardonyx.errors is import_module("sardonyx.errors")
    assert sardonyx.capi is import_module("sardonyx.api.capi")


def test_the_command_line() -> None:
    from sardonyx.cli import main

    (script,) = entry_points(group="console_scripts", name="sardonyx")
    assert script.load() is main
    command = [sys.executable, "-m", "sardonyx", "--version"]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=500).stdout
    assert sardonyx.__version__ in told


def test_providers_are_found_by_entry_points() -> None:
    ours = entry_points(group="sardonyx.execution_providers")
    assert {"NumpyExecutionProvider", "WasmExecutionProvider", "WebGpuExecutionProvider"} <= {
        each.name for each in ours
    }
