"""WebGPU outside a browser: wgpu-py on Vulkan, Metal or Direct3D 12. The only module that knows wgpu."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import wgpu

from sardonyx.common.cached import cached_property
from sardonyx.errors import DeviceLost, EngineError, EPFail
from sardonyx_webgpu.gpu import wgpu_public
from sardonyx_webgpu.gpu.interface import (
    DEFAULT_LIMITS,
    HALF,
    Adapter,
    Binding,
    Buffer,
    Command,
    Copy,
    Group,
    Pass,
    Pipeline,
    Shader,
    staged,
    wants_half,
    wants_most,
)

REMEDY = (
    "install a Vulkan, Metal or Direct3D 12 driver (on Debian the packages mesa-vulkan-drivers and libvulkan1 bring"
    " those of Intel, AMD, Raspberry Pi and a software one), or use CPUExecutionProvider"
)

CLOCK = "timestamp-query"
_PROCESS = os.getpid()
KEPT = 1 << 20
"""The bytes of a buffer that is kept for the next read: to make a small one takes as long as to read it."""
SLICE = 1 << 24
"""Bytes written at once: the driver holds a copy of them until the next submission."""


def request(options: Mapping[str, str]) -> NativeGpu:
    """The GPU that provider options and the environment ask for.

    `adapter` (or the variable SARDONYX_ADAPTER): part of the adapter's name, in any case; `power_preference`:
    `high-performance` (the default) or `low-power`; `limits` (or the variable SARDONYX_LIMITS): `max` for all that this
    adapter has, `default` for what every WebGPU device grants; `float16` (or the variable SARDONYX_FLOAT16): `native`
    for f16 in memory where this adapter can, or `packed`. Raises EPFail where there is no such adapter.
    """
    if sys.platform == "linux":
        # Mesa's drivers complain on standard error where this is not set.
        os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    _check_process()
    adapter = _adapter(options)
    granted = {name: int(adapter.limits[_dashed(name)]) for name in DEFAULT_LIMITS}
    if not wants_most(options):
        granted = {
            name: (max if name.startswith("min") else min)(default, granted[name])
            for name, default in DEFAULT_LIMITS.items()
        }
    described = describe(adapter)
    half = HALF in adapter.features and wants_half(options, described)
    features = [CLOCK] * (CLOCK in adapter.features) + [HALF] * half
    limits_ = {_dashed(name): n for name, n in granted.items()}
    with _errors("the device"):
        device = adapter.request_device_sync(required_features=features, required_limits=limits_)
    return NativeGpu(device, described, granted, half)


def _adapter(options: Mapping[str, str]) -> Any:
    wanted = options.get("adapter") or os.environ.get("SARDONYX_ADAPTER", "")
    if not wanted:
        try:
            preference = options.get("power_preference", "high-performance")
            return wgpu.gpu.request_adapter_sync(power_preference=preference)
        except RuntimeError as error:
            raise EPFail(f"WebGpuExecutionProvider: no GPU was found: {REMEDY}") from error
    adapters = wgpu.gpu.enumerate_adapters_sync()
    for adapter in adapters:
        if wanted.lower() in adapter.summary.lower():
            return adapter
    names = ", ".join(repr(adapter.summary) for adapter in adapters)
    choice = f"choose one of {names}" if names else REMEDY
    raise EPFail(f"WebGpuExecutionProvider: no adapter has {wanted!r} in its name: {choice}")


def describe(adapter: Any) -> Adapter:
    """What wgpu says about an adapter."""
    info = adapter.info
    return Adapter(info["device"], info["vendor"], info["backend_type"], info["description"], info["adapter_type"])


def _dashed(name: str) -> str:
    """wgpu-py's spelling of a limit.

    >>> _dashed("maxComputeWorkgroupSizeX")
    'max-compute-workgroup-size-x'
    """
    return re.sub("[A-Z]", lambda letter: f"-{letter[0].lower()}", name)


def _check_process() -> None:
    """Raise EPFail in the child of a fork, where the driver's threads are not, and waiting for them would never end."""
    if os.getpid() != _PROCESS:
        raise EPFail(
            "WebGpuExecutionProvider: the GPU was left to the process that this one was forked from; start processes "
            'that use it by "spawn", or use CPUExecutionProvider'
        )


@contextmanager
def _errors(what: str) -> Iterator[None]:
    _check_process()
    try:
        yield
    except wgpu.GPUOutOfMemoryError as error:
        raise EPFail(f"WebGpuExecutionProvider: the GPU has no memory for {what}; use CPUExecutionProvider") from error
    except wgpu.GPUError as error:
        message = str(error).removeprefix("Validation Error\n\nCaused by:\n")
        if "device is lost" in message:
            raise DeviceLost("WebGpuExecutionProvider: the GPU was lost") from error
        raise EngineError(f"WebGPU refused {what}: {message.strip()}") from error


def functions(device: Any) -> ModuleType:
    """Those that are called most: of the library under wgpu-py where this version has the inner names that it takes."""
    try:
        from sardonyx_webgpu.gpu import wgpu_native
    except (AttributeError, ImportError):
        return wgpu_public
    return wgpu_native if hasattr(device, "_internal") else wgpu_public


class Clock(NamedTuple):
    """Two timestamps, the buffer that gets them, and the seconds of a tick."""

    queries: Any
    ticks: Buffer
    period: float

    @property
    def writes(self) -> dict[str, Any]:
        return {"query_set": self.queries, "beginning_of_pass_write_index": 0, "end_of_pass_write_index": 1}


class NativeGpu:
    """A `Gpu` by wgpu-py."""

    def __init__(self, device: Any, adapter: Adapter, limits: Mapping[str, int], half: bool = False) -> None:
        self.adapter = adapter
        self.limits = limits
        self.half = half
        self._device = device
        self._functions = functions(device)
        self._queue = device.queue
        self._storage_layout = cache(self._make_storage_layout)
        entry = {"type": "uniform", "has_dynamic_offset": True}
        self._params_layout = self._layout([entry])
        self._pipeline_layout = cache(self._make_pipeline_layout)
        self._staged = 0
        self._word = self.buffer(4)
        self._free: deque[Buffer] = deque(maxlen=4)

    def _layout(self, entries: Sequence[Mapping[str, Any]]) -> Any:
        visibility = wgpu.ShaderStage.COMPUTE
        listed = [{"binding": k, "visibility": visibility, "buffer": dict(entry)} for k, entry in enumerate(entries)]
        return self._device.create_bind_group_layout(entries=listed)

    def _make_storage_layout(self, buffers: int) -> Any:
        return self._layout([{"type": "storage"}] * buffers)

    def _make_pipeline_layout(self, buffers: int) -> Any:
        layouts = [self._storage_layout(buffers), self._params_layout]
        return self._device.create_pipeline_layout(bind_group_layouts=layouts)

    @property
    def is_lost(self) -> bool:
        try:
            self._probe()
        except DeviceLost:
            return True
        return False

    def _probe(self) -> None:
        """Raise DeviceLost if the device is gone: wgpu ends the process that submits to it, but not one that writes."""
        with _errors("a write"):
            self._queue.write_buffer(self._word, 0, b"\0\0\0\0")

    def buffer(self, nbytes: int, uniform: bool = False) -> Buffer:
        kind = wgpu.BufferUsage.UNIFORM if uniform else wgpu.BufferUsage.STORAGE
        with _errors(f"a buffer of {nbytes} bytes"):
            return self._device.create_buffer(
                size=nbytes, usage=kind | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
            )

    def destroy(self, buffer: Buffer) -> None:
        """Nothing to do: it goes with its last reference. A submission with a destroyed buffer ends the process."""

    def write(self, buffer: Buffer, offset: int, data: memoryview) -> None:
        with _errors(f"a write of {data.nbytes} bytes"):
            for start in range(0, data.nbytes, SLICE):
                part = data[start : start + SLICE]
                self._staged += part.nbytes
                if self._staged > SLICE:  # what is written waits in memory of its own until it is submitted
                    self.read([Binding(self._word, 0, 4)])([memoryview(bytearray(4))])
                    self._staged = part.nbytes
                self._queue.write_buffer(buffer, offset + start, part)

    def read(
        self, bindings: Sequence[Binding], after: Sequence[Command] = ()
    ) -> Callable[[Sequence[memoryview]], None]:
        nbytes = sum(binding.nbytes for binding in bindings)
        with _errors(f"a read of {nbytes} bytes"):
            staging = self._staging(nbytes)
        self.submit([*after, *staged(bindings, staging)])
        with _errors(f"a read of {nbytes} bytes"):
            mapped = staging.map_async(wgpu.MapMode.READ, 0, nbytes)

        def wait(targets: Sequence[memoryview]) -> None:
            if sys.is_finalizing():
                raise EngineError(
                    "the interpreter ends, and with it the thread that waits for the GPU: run before that"
                )
            with _errors(f"a read of {nbytes} bytes"):
                mapped.sync_wait()
                copied, start = staging.read_mapped(0, nbytes, copy=False), 0
                for binding, target in zip(bindings, targets, strict=True):
                    target[:] = copied[start : start + target.nbytes]
                    start += binding.nbytes
                staging.unmap()
            if staging.size <= KEPT:
                self._free.append(staging)

        return wait

    def _staging(self, nbytes: int) -> Buffer:
        """A buffer that the host can read, of at least so many bytes."""
        if self._free and (staging := self._free.pop()).size >= nbytes:
            return staging
        usage = wgpu.BufferUsage.COPY_DST | wgpu.BufferUsage.MAP_READ
        return self._device.create_buffer(size=nbytes, usage=usage)

    def pipelines(self, shaders: Sequence[Shader]) -> list[Pipeline]:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(self._pipeline, shaders))

    def _pipeline(self, shader: Shader) -> Pipeline:
        with _errors(f"the shader of {shader.name!r}"):
            module = self._functions.shader_module(self._device, shader)
            layout = self._pipeline_layout(shader.buffers)
            compute = {"module": module, "entry_point": "main"}
            return self._device.create_compute_pipeline(label=shader.name, layout=layout, compute=compute)

    def storage_group(self, bindings: Sequence[Binding]) -> Group:
        return self._group(self._storage_layout(len(bindings)), bindings)

    def params_group(self, buffer: Buffer, nbytes: int) -> Group:
        return self._group(self._params_layout, [Binding(buffer, 0, nbytes)])

    def _group(self, layout: Any, bindings: Sequence[Binding]) -> Group:
        resources = ({"buffer": buffer, "offset": offset, "size": nbytes} for buffer, offset, nbytes in bindings)
        entries = [{"binding": k, "resource": resource} for k, resource in enumerate(resources)]
        with _errors("a bind group"):
            return self._device.create_bind_group(layout=layout, entries=entries)

    def submit(self, commands: Sequence[Command], clock: Clock | None = None) -> None:
        self._probe()
        with _errors("what it was given"):
            encoder = self._device.create_command_encoder()
            for command in commands:
                if isinstance(command, Copy):
                    source, target = command
                    encoder.copy_buffer_to_buffer(
                        source.buffer, source.offset, target.buffer, target.offset, source.nbytes
                    )
                else:
                    self._encode(encoder, command, clock)
            if clock:
                encoder.resolve_query_set(clock.queries, 0, 2, clock.ticks, 0)
            self._queue.submit([encoder.finish()])

    def _encode(self, encoder: Any, command: Pass, clock: Clock | None) -> None:
        compute = encoder.begin_compute_pass(timestamp_writes=clock and clock.writes)
        self._functions.dispatch(compute, command)
        compute.end()

    @cached_property
    def clock(self) -> Clock | None:
        """What times a pass; None if this GPU cannot."""
        period = self._functions.tick(self._queue) if CLOCK in self._device.features else None
        if period is None:
            return None
        queries = self._device.create_query_set(type="timestamp", count=2)
        usage = wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC
        return Clock(queries, self._device.create_buffer(size=16, usage=usage), period)
