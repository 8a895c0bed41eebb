"""What `wgpu_native` does, by public functions of wgpu-py: slower, and for versions whose inner names are others."""

from __future__ import annotations

from typing import Any

from sardonyx_webgpu.gpu.interface import Pass, Shader


def shader_module(device: Any, shader: Shader) -> Any:
    """The module of a shader; wgpu.GPUError where WebGPU refuses it."""
    return device.create_shader_module(label=shader.name, code=shader.wgsl)


def dispatch(encoder: Any, command: Pass) -> None:
    """Add all dispatches of a pass to its encoder."""
    current = None
    for pipeline, group, offset, x, y in command.dispatches:
        if pipeline is not current:
            encoder.set_pipeline(pipeline)
            current = pipeline
        encoder.set_bind_group(0, group)
        encoder.set_bind_group(1, command.params, [offset])
        encoder.dispatch_workgroups(x, y)


def tick(queue: Any) -> float | None:
    """None: nothing public tells the seconds of a tick of timestamps."""
    return None
