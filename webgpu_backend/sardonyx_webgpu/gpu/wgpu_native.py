"""What wgpu-py lacks or does slowly, by functions of wgpu-native, the library under it.

The names are inner ones of wgpu-py 0.32. All of them are taken when this is imported: that fails with an ImportError or
an AttributeError where a version lacks one, and `wgpu_public` does the same then.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from wgpu.backends.wgpu_native import GPUShaderModule, ffi, lib
from wgpu.backends.wgpu_native._api import libf, new_struct_p, to_c_string_view

from sardonyx_webgpu.gpu.interface import Pass, Shader

_BOUNDS_CHECKS = 1
"""WGPUShaderRuntimeChecks: accesses stay in their buffers. Its other checks count the turns of loops up to 2^64, which
costs products half as much time again, and would end no loop that anybody waits for."""
_create = libf.wgpuDeviceCreateShaderModuleTrusted
_set_pipeline = lib.wgpuComputePassEncoderSetPipeline
_set_group = lib.wgpuComputePassEncoderSetBindGroup
_add = lib.wgpuComputePassEncoderDispatchWorkgroups
_period = lib.wgpuQueueGetTimestampPeriod
_WGSL = lib.WGPUSType_ShaderSourceWGSL


def shader_module(device: Any, shader: Shader) -> Any:
    """The module of a shader; wgpu.GPUError where WebGPU refuses it."""
    code = to_c_string_view(shader.wgsl)
    source = new_struct_p("WGPUShaderSourceWGSL *", code=code)
    source[0].chain.next = ffi.NULL
    source[0].chain.sType = _WGSL
    label = to_c_string_view(shader.name)
    link = ffi.cast("WGPUChainedStruct *", source)
    descriptor = new_struct_p("WGPUShaderModuleDescriptor *", nextInChain=link, label=label)
    return GPUShaderModule(shader.name, _create(device._internal, descriptor, _BOUNDS_CHECKS), device)


def dispatch(encoder: Any, command: Pass) -> None:
    """Add all dispatches of a pass to its encoder. What is wrong with them is said when commands are finished."""
    inner, params = encoder._internal, command.params._internal
    set_pipeline, set_group, add, nothing, current = _set_pipeline, _set_group, _add, ffi.NULL, None
    for pipeline, group, offset, x, y in command.dispatches:
        if pipeline is not current:
            set_pipeline(inner, pipeline._internal)
            current = pipeline
        set_group(inner, 0, group._internal, 0, nothing)
        set_group(inner, 1, params, 1, _offset(offset))
        add(inner, x, y, 1)


@cache
def _offset(number: int) -> Any:
    return ffi.new("uint32_t []", [number])


def tick(queue: Any) -> float | None:
    """The seconds of a tick of timestamps."""
    return float(_period(queue._internal)) * 1e-9
