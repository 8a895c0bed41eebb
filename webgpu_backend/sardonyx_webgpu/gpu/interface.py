"""What the backend asks of WebGPU; wgpu-py gives it natively (`native`), and in a page `navigator.gpu` (`browser`).

Buffers, pipelines and groups are opaque. Nothing here is thread-safe but waiting in what `Gpu.read` returns: the device
holds one lock around the rest. What WebGPU refuses is raised as `errors.EngineError`, never printed, and `DeviceLost`
where the device is gone.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from sardonyx.common.record import record
from sardonyx.errors import EPFail

Buffer: TypeAlias = Any
Pipeline: TypeAlias = Any
Group: TypeAlias = Any

DEFAULT_LIMITS: Mapping[str, int] = {
    "maxBindGroups": 4,
    "maxBindingsPerBindGroup": 1000,
    "maxBufferSize": 1 << 28,
    "maxComputeInvocationsPerWorkgroup": 256,
    "maxComputeWorkgroupSizeX": 256,
    "maxComputeWorkgroupSizeY": 256,
    "maxComputeWorkgroupSizeZ": 64,
    "maxComputeWorkgroupStorageSize": 16384,
    "maxComputeWorkgroupsPerDimension": 65535,
    "maxDynamicUniformBuffersPerPipelineLayout": 8,
    "maxDynamicStorageBuffersPerPipelineLayout": 4,
    "maxStorageBufferBindingSize": 1 << 27,
    "maxStorageBuffersPerShaderStage": 8,
    "maxUniformBufferBindingSize": 1 << 16,
    "maxUniformBuffersPerShaderStage": 12,
    "minStorageBufferOffsetAlignment": 256,
    "minUniformBufferOffsetAlignment": 256,
}
"""What every WebGPU device grants unasked (https://www.w3.org/TR/webgpu/#limits), as far as it matters here."""


def wants_most(options: Mapping[str, str]) -> bool:
    """Whether a device is to have the limits of its adapter: the option `limits`, or the variable SARDONYX_LIMITS."""
    wanted = options.get("limits") or os.environ.get("SARDONYX_LIMITS") or "max"
    if wanted not in ("default", "max"):
        raise EPFail(f"WebGpuExecutionProvider: limits are 'default' or 'max', not {wanted!r}")
    return wanted == "max"


HALF = "shader-f16"
"""The feature of a device whose shaders may have f16."""


def wants_half(options: Mapping[str, str], adapter: Adapter) -> bool:
    """Whether float16 is to be f16 in memory, where a device can: the option `float16`, or SARDONYX_FLOAT16.

    Unasked, not where a processor plays the GPU: on llvmpipe a product of f16 takes half as long again as of pairs.
    """
    usual = "packed" if adapter.is_software else "native"
    wanted = options.get("float16") or os.environ.get("SARDONYX_FLOAT16") or usual
    if wanted not in ("native", "packed"):
        raise EPFail(f"WebGpuExecutionProvider: float16 is 'native' or 'packed', not {wanted!r}")
    return wanted == "native"


@record(frozen=True)
class Adapter:
    """The physical device and its driver; `kind` is WebGPU's word for it, `CPU` for a software device."""

    name: str
    vendor: str = ""
    backend: str = ""
    driver: str = ""
    kind: str = ""

    @property
    def is_software(self) -> bool:
        """Whether shaders run on the CPU, as on llvmpipe or SwiftShader."""
        return self.kind == "CPU" or any(word in self.name.lower() for word in ("llvmpipe", "swiftshader", "warp"))

    @property
    def most_trips(self) -> float:
        """How often the loops of a thread may turn, all together, before the driver ends them without a word."""
        # Mesa's LP_MAX_TGSI_LOOP_ITERATIONS, which hardware drivers do not share.
        return 65535 if "llvmpipe" in self.name.lower() else math.inf


class Shader(NamedTuple):
    """A compute shader: entry point `main`, `buffers` read_write storage bindings in group 0, parameters in group 1."""

    name: str
    wgsl: str
    buffers: int


class Binding(NamedTuple):
    """A range of a buffer, in bytes."""

    buffer: Buffer
    offset: int
    nbytes: int


class Dispatch(NamedTuple):
    """One dispatch of x times y workgroups; `params` is where its parameters start in the parameters' buffer."""

    pipeline: Pipeline
    group: Group
    params: int
    x: int
    y: int


class Pass(NamedTuple):
    """Dispatches in order, as one compute pass; `params` is the group of their parameters."""

    params: Group
    dispatches: Sequence[Dispatch]


class Copy(NamedTuple):
    """A copy of `source.nbytes` bytes between two buffers."""

    source: Binding
    target: Binding


Command: TypeAlias = Pass | Copy


class Gpu(Protocol):
    """A WebGPU device with its queue."""

    adapter: Adapter
    limits: Mapping[str, int]
    half: bool
    """Whether float16 is f16 in memory, for which the device has shader-f16; else two share a word."""

    @property
    def clock(self) -> Any:
        """What `submit` times a pass with: its buffer `ticks` gets two timestamps, in units of `period` seconds. None
        where the device has none."""
        ...

    @property
    def is_lost(self) -> bool:
        """Whether the device is gone, so that another one must be opened."""
        ...

    def buffer(self, nbytes: int, uniform: bool = False) -> Buffer:
        """A new buffer of a multiple of 4 bytes."""
        ...

    def destroy(self, buffer: Buffer) -> None:
        """Give the memory back, at once or with the last group that has it."""
        ...

    def write(self, buffer: Buffer, offset: int, data: memoryview) -> None:
        """Queue a copy of these bytes, a multiple of 4, into the buffer, behind all that was submitted."""
        ...

    def submit(self, commands: Sequence[Command], clock: Any = None) -> None:
        """Queue commands, in order, as one submission; times one pass where the device has that `clock`."""
        ...

    def read(
        self, bindings: Sequence[Binding], after: Sequence[Command] = ()
    ) -> Callable[[Sequence[memoryview]], None]:
        """Queue commands and copies of these ranges, each of a multiple of 4 bytes, to one buffer of the host, as one
        submission. The result waits, and fills a target for each range."""
        ...

    def pipelines(self, shaders: Sequence[Shader]) -> list[Pipeline]:
        """Compile shaders; an error names the shader and the line."""
        ...

    def storage_group(self, bindings: Sequence[Binding]) -> Group:
        """Group 0 of a dispatch."""
        ...

    def params_group(self, buffer: Buffer, nbytes: int) -> Group:
        """Group 1: a window of `nbytes` into a uniform buffer, which `Dispatch.params` moves."""
        ...


def staged(bindings: Sequence[Binding], staging: Buffer) -> list[Copy]:
    """The copies that put ranges into one buffer, one behind the other."""
    copies, start = [], 0
    for binding in bindings:
        copies.append(Copy(binding, Binding(staging, start, binding.nbytes)))
        start += binding.nbytes
    return copies
