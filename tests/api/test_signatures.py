"""Names, arguments and defaults are those of the installed onnxruntime."""

from __future__ import annotations

import inspect
import re
from typing import Any

import onnxruntime
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as native

import sardonyx
from sardonyx.api.capi import onnxruntime_pybind11_state

SESSION = """
run run_async io_binding run_with_ort_values run_with_iobinding run_with_ortvaluevector
create_ortvalue_from_shape_and_type get_inputs get_outputs get_overridable_initializers get_modelmeta
get_session_options get_input_memory_infos get_output_memory_infos get_input_epdevices get_providers
get_provider_options set_providers enable_fallback disable_fallback get_provider_graph_assignment_info end_profiling
get_profiling_start_time_ns set_ep_dynamic_options get_tuning_results set_tuning_results release_captured_graph
"""
OPTIONS = """
add_session_config_entry get_session_config_entry add_free_dimension_override_by_name
add_free_dimension_override_by_denotation add_initializer add_external_initializers
add_external_initializers_from_files_in_memory register_custom_ops_library add_provider add_provider_for_devices
set_provider_selection_policy has_providers set_load_cancellation_flag
"""
BINDING = """
bind_cpu_input bind_input bind_output bind_ortvalue_input bind_ortvalue_output synchronize_inputs synchronize_outputs
get_outputs get_outputs_as_ortvaluevector copy_outputs_to_cpu clear_binding_inputs clear_binding_outputs
"""
VALUE = """
ortvalue_from_numpy ortvalue_from_numpy_with_onnx_type ortvalue_from_shape_and_type from_dlpack __dlpack__ numpy
update_inplace shape data_type element_type device_name data_ptr has_value is_tensor is_sparse_tensor
is_tensor_sequence as_sparse_tensor tensor_size_in_bytes
"""
CLASSES = {
    "InferenceSession": SESSION,
    "IOBinding": BINDING,
    "OrtValue": VALUE,
    "SessionOptions": OPTIONS,
    "RunOptions": "add_run_config_entry get_run_config_entry add_active_adapter",
    "ModelMetadata": "",
    "NodeArg": "",
    "OrtDevice": "make device_id device_type device_vendor_id device_mem_type",
    "OrtMemoryInfo": "create_v2",
    "OrtArenaCfg": "",
    "SparseTensor": """sparse_coo_from_numpy sparse_csr_from_numpy values as_coo_view as_csrc_view as_blocksparse_view
        to_cuda format dense_shape data_type device_name""",
    "OrtEpAssignedNode": "",
    "OrtEpAssignedSubgraph": "get_nodes",
    "OrtEpDevice": "memory_info",
    "OrtHardwareDevice": "",
}
FIELDS = {
    "ModelMetadata": "custom_metadata_map description domain graph_description graph_name producer_name version",
    "NodeArg": "name shape type",
    "OrtMemoryInfo": "allocator_type device_id device_mem_type device_vendor_id mem_type name",
    "OrtEpAssignedNode": "domain name op_type",
    "OrtEpAssignedSubgraph": "ep_name",
    "OrtEpDevice": "device ep_metadata ep_name ep_options ep_vendor",
    "OrtHardwareDevice": "device_id metadata type vendor vendor_id",
}
ENUMS = """
GraphOptimizationLevel ExecutionMode ExecutionOrder OrtAllocatorType OrtMemType OrtDeviceMemoryType
OrtMemoryInfoDeviceType OrtHardwareDeviceType OrtExecutionProviderDevicePolicy OrtSparseFormat
"""
FUNCTIONS = """
get_available_providers get_all_providers get_device get_version_string get_build_info has_collective_ops
set_default_logger_severity set_default_logger_verbosity set_seed set_global_thread_pool_sizes
create_and_register_allocator create_and_register_allocator_v2 enable_telemetry_events disable_telemetry_events
preload_dlls print_debug_info get_ep_devices register_execution_provider_library unregister_execution_provider_library
"""
EXCEPTIONS = """
Fail InvalidArgument NoSuchFile NoModel EngineError RuntimeException InvalidProtobuf ModelLoaded NotImplemented
InvalidGraph EPFail DeviceReset ModelLoadCanceled ModelRequiresCompilation NotFound
"""
BOUND = "io_binding run_with_ort_values run_with_iobinding run_with_ortvaluevector create_ortvalue_from_shape_and_type"
"""The methods of sessions that take and give OrtValues."""
METHODS = [
    (owner, name)
    for owner, names in CLASSES.items()
    for name in names.split()
    if hasattr(sardonyx, "OrtValue") or (owner not in ("OrtValue", "IOBinding") and name not in BOUND.split())
]


def of(function: Any) -> list[tuple[str, Any]]:
    """The parameters by name with their defaults; the optional ones that we have in addition come last."""
    found = inspect.signature(function).parameters.values()
    return [(each.name, each.default) for each in found if each.name != "self" and each.kind is not each.VAR_KEYWORD]


def native_defaults(function: Any) -> list[str] | None:
    """What a native function's parameters have for defaults, "" for none, as far as it is documented."""
    line = (function.__doc__ or "").split("\n")[0]
    if "*args" in line:
        return None
    inside = line.partition("(")[2].rpartition(") ->")[0]
    while "[" in inside:
        inside = re.sub(r"\[[^\[\]]*\]", "", inside)
    parts = [part.strip() for part in inside.split(",")]
    return [part.partition(" = ")[2] for part in parts if part and not part.startswith("self")]


def compare(ours: Any, theirs: Any) -> None:
    empty = inspect.Parameter.empty
    try:
        wanted = of(theirs)
    except ValueError:
        defaults = native_defaults(theirs)
        if defaults is not None:
            assert ["" if default is empty else str(default) for _, default in of(ours)] == defaults
        return
    assert of(ours)[: len(wanted)] == wanted
    assert all(default is not empty for _, default in of(ours)[len(wanted) :])


@pytest.mark.parametrize(("owner", "name"), METHODS, ids=lambda item: item)
def test_methods(owner: str, name: str) -> None:
    ours, theirs = getattr(getattr(sardonyx, owner), name), getattr(getattr(onnxruntime, owner), name)
    if name == "run_async":  # without a callback ours can be awaited
        assert [each for each, _ in of(ours)] == [each for each, _ in of(theirs)]
    else:
        compare(ours, theirs)


def test_the_session_is_made_alike() -> None:
    assert of(sardonyx.InferenceSession.__init__) == of(onnxruntime.InferenceSession.__init__)


@pytest.mark.parametrize("name", FUNCTIONS.split())
def test_functions(name: str) -> None:
    compare(getattr(sardonyx, name), getattr(onnxruntime, name))


@pytest.mark.parametrize("owner", FIELDS)
def test_fields(owner: str) -> None:
    ours, theirs = getattr(sardonyx, owner), getattr(onnxruntime, owner)
    for name in FIELDS[owner].split():
        assert hasattr(theirs, name)
        assert name in getattr(ours, "__annotations__", {})


@pytest.mark.parametrize("name", ["SessionOptions", "RunOptions"])
def test_options_and_their_defaults(name: str) -> None:
    ours, theirs = getattr(sardonyx, name)(), getattr(onnxruntime, name)()
    fields = [each for each in dir(theirs) if each[0] != "_" and not callable(getattr(theirs, each))]
    assert fields
    for field in fields:
        value = getattr(theirs, field)
        assert getattr(ours, field) == getattr(value, "value", value), field


@pytest.mark.parametrize("name", ENUMS.split())
def test_enumerations(name: str) -> None:
    ours, theirs = getattr(sardonyx, name), getattr(onnxruntime, name)
    assert {key: int(each) for key, each in ours.__members__.items()} == {
        key: int(each) for key, each in theirs.__members__.items()
    }
    member = next(iter(ours))
    assert str(member) == str(getattr(theirs, member.name))
    assert (member.name, member.value) == (getattr(theirs, member.name).name, getattr(theirs, member.name).value)


@pytest.mark.parametrize("name", EXCEPTIONS.split())
def test_exceptions(name: str) -> None:
    assert issubclass(getattr(native, name), Exception)
    assert getattr(onnxruntime_pybind11_state, name) is getattr(sardonyx.errors, name)
    assert getattr(sardonyx.api.capi.onnxruntime_pybind11_state, name) is getattr(sardonyx.errors, name)


@pytest.mark.parametrize("name", ["cpu", "gpu", "webgpu", "cuda", "dml", "npu", "cann"])
def test_devices(name: str) -> None:
    ours, theirs = sardonyx.OrtDevice.make(name, 1), onnxruntime.OrtDevice.make(name, 1)
    for method in ("device_id", "device_type", "device_vendor_id", "device_mem_type"):
        assert getattr(ours, method)() == getattr(theirs, method)()
    with pytest.raises(Exception, match="Unsupported device type: toaster"):
        onnxruntime.OrtDevice.make("toaster", 0)
    with pytest.raises(ValueError, match="Unsupported device type: toaster"):
        sardonyx.OrtDevice.make("toaster", 0)


@pytest.mark.parametrize("arguments", [(1, 2, 3, 4), ({"max_mem": 5, "initial_growth_chunk_size_bytes": 6},)], ids=str)
def test_arena_configurations(arguments: tuple[Any, ...]) -> None:
    ours, theirs = sardonyx.OrtArenaCfg(*arguments), onnxruntime.OrtArenaCfg(*arguments)
    assert vars(ours) == {name: getattr(theirs, name) for name in vars(ours)}
    for side in (sardonyx, onnxruntime):
        with pytest.raises(RuntimeError, match="Invalid OrtArenaCfg option: speed"):
            side.OrtArenaCfg({"speed": 1})


def test_all_providers_that_onnxruntime_knows_are_known_in_its_order() -> None:
    ours, theirs = sardonyx.get_all_providers(), onnxruntime.get_all_providers()
    assert [name for name in ours if name in theirs] == theirs
    assert set(sardonyx.get_available_providers()) <= set(ours)
    assert ours[-1] == "CPUExecutionProvider"
