"""WebGPU in a page, for Python in Pyodide: `navigator.gpu`. The only module that knows it.

To look up an attribute of a JavaScript object takes some 6 us here, and to call what was looked up before 0.5 us, so
methods are kept. Nothing waits but reads and the opening of a device: what waits lets other Python run, which would
find the device's lock taken. A page learns later than it happens that WebGPU refused something, so the next read says
it. Where Python cannot wait, which takes JavaScript Promise Integration, opening and reading can be awaited.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import js
from pyodide.ffi import JsException, can_run_sync, create_once_callable, create_proxy, run_sync, to_js

from sardonyx.errors import DeviceLost, EngineError, EPFail, MustAwait
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
    "use a browser that has it (Chrome, Edge, Safari 26, Firefox 141; on Linux they may want it to be enabled) on a"
    " page of https or localhost, or CPUExecutionProvider"
)
CANNOT_WAIT = (
    "WebGpuExecutionProvider: Python cannot wait for the GPU here. Use `await session.run_async(...)`, unless the model"
    " halts for Python (sizes that depend on data, control flow, nodes on a CPU); or code that runs asynchronously"
    " (`pyodide.runPythonAsync`, the cell of a notebook) in a browser with JavaScript Promise Integration (Chrome or"
    " Edge from 137); or CPUExecutionProvider"
)
MAP_READ, COPY_SRC, COPY_DST, UNIFORM, STORAGE = 0x1, 0x4, 0x8, 0x40, 0x80
"""GPUBufferUsage, and GPUMapMode.READ: https://www.w3.org/TR/webgpu/#namespacedef-gpubufferusage."""
COMPUTE = 0x4
"""GPUShaderStage.COMPUTE."""


async def request(options: Mapping[str, str]) -> BrowserGpu:
    """The GPU that provider options ask for, as `native.request` has them.

    A browser offers one GPU for each preference, and a software one: `adapter` is part of the name of one of these.
    Raises EPFail where there is none.
    """
    adapter = await _adapter(options)
    more = {}
    if wants_most(options):
        more = {name: int(getattr(adapter.limits, name)) for name in DEFAULT_LIMITS}
    described = describe(adapter)
    half = bool(adapter.features.has(HALF)) and wants_half(options, described)
    try:
        device = await adapter.requestDevice(_object(requiredLimits=more, requiredFeatures=[HALF] * half))
    except JsException as error:
        raise EPFail(f"WebGpuExecutionProvider: the browser gives no device: {error}") from None
    return BrowserGpu(device, described, {**DEFAULT_LIMITS, **more}, half)


async def _adapter(options: Mapping[str, str]) -> Any:
    wanted = options.get("adapter") or os.environ.get("SARDONYX_ADAPTER", "")
    preference = options.get("power_preference", "high-performance")
    offered = []
    for request in ({"powerPreference": preference}, {"forceFallbackAdapter": True})[: 2 if wanted else 1]:
        if adapter := await js.navigator.gpu.requestAdapter(_object(**request)):
            name = describe(adapter).name
            if wanted.lower() in name.lower():
                return adapter
            offered.append(name)
    if not offered:
        raise EPFail(f"WebGpuExecutionProvider: the browser finds no GPU: {REMEDY}")
    names = " and ".join(map(repr, dict.fromkeys(offered)))
    raise EPFail(
        f"WebGpuExecutionProvider: no adapter has {wanted!r} in its name; the browser offers {names}, and chooses"
        " itself by the option power_preference (high-performance or low-power)"
    )


def describe(adapter: Any) -> Adapter:
    """What a browser says about an adapter, which is little."""
    info = adapter.info
    words = [str(getattr(info, name, "")) for name in ("vendor", "architecture")]
    text = str(getattr(info, "description", ""))
    is_fallback = getattr(info, "isFallbackAdapter", getattr(adapter, "isFallbackAdapter", False))
    name = text or " ".join(filter(None, words)) or "a GPU that the browser does not name"
    return Adapter(name, words[0], "browser", text, "CPU" if is_fallback else "")


def _object(**fields: Any) -> Any:
    return to_js(fields, dict_converter=js.Object.fromEntries)


class BrowserGpu:
    """A `Gpu` by a GPUDevice."""

    clock = None

    def __init__(self, device: Any, adapter: Adapter, limits: Mapping[str, int], half: bool) -> None:
        self.adapter = adapter
        self.limits = limits
        self.half = half
        self.lost = ""
        """Why the device is of no use any more; "" as long as it is."""
        self._device = device
        self._make_buffer, self._make_encoder = device.createBuffer, device.createCommandEncoder
        self._make_module, self._make_pipeline = device.createShaderModule, device.createComputePipeline
        self._make_group = device.createBindGroup
        self._submit, self._write = device.queue.submit, device.queue.writeBuffer
        self._size = _object(size=0, usage=0)
        self._offset = cache(lambda offset: to_js([offset]))
        self._storage_layout = cache(lambda buffers: self._layout([{"type": "storage"}] * buffers))
        self._params_layout = self._layout([{"type": "uniform", "hasDynamicOffset": True}])
        self._pipeline_layout = cache(self._make_pipeline_layout)
        self._unproven: list[tuple[Shader, Any]] = []
        self._refused: list[str] = []
        self._listener = create_proxy(lambda event: self._refused.append(str(event.error.message)))
        device.addEventListener("uncapturederror", self._listener)
        device.lost.then(create_once_callable(self._lose))

    def _lose(self, info: Any) -> None:
        self.lost = str(info.message) or f"it is {info.reason}"
        self._device.removeEventListener("uncapturederror", self._listener)
        self._listener.destroy()

    def close(self) -> None:
        """Give everything back; what was made of the device is of no use any more."""
        self._device.destroy()

    def _layout(self, kinds: Sequence[Mapping[str, Any]]) -> Any:
        entries = [{"binding": k, "visibility": COMPUTE, "buffer": kind} for k, kind in enumerate(kinds)]
        return self._device.createBindGroupLayout(_object(entries=entries))

    def _make_pipeline_layout(self, buffers: int) -> Any:
        layouts = [self._storage_layout(buffers), self._params_layout]
        return self._device.createPipelineLayout(_object(bindGroupLayouts=layouts))

    def _buffer(self, nbytes: int, usage: int) -> Buffer:
        self._size.size, self._size.usage = nbytes, usage
        try:
            return self._make_buffer(self._size)
        except JsException as error:
            raise EngineError(f"WebGPU refused a buffer of {nbytes} bytes: {error}") from None

    def buffer(self, nbytes: int, uniform: bool = False) -> Buffer:
        return self._buffer(nbytes, (UNIFORM if uniform else STORAGE) | COPY_SRC | COPY_DST)

    def destroy(self, buffer: Buffer) -> None:
        buffer.destroy()

    def write(self, buffer: Buffer, offset: int, data: memoryview) -> None:
        proxy = create_proxy(data)
        view = proxy.getBuffer()
        try:
            self._write(buffer, offset, view.data)
        finally:
            view.release()
            proxy.destroy()

    def read(self, bindings: Sequence[Binding], after: Sequence[Command] = ()) -> Read:
        staging = self._buffer(sum(binding.nbytes for binding in bindings), MAP_READ | COPY_DST)
        self.submit([*after, *staged(bindings, staging)])
        return Read(self, staging, bindings)

    def pipelines(self, shaders: Sequence[Shader]) -> list[Pipeline]:
        return [self._pipeline(shader) for shader in shaders]

    def _pipeline(self, shader: Shader) -> Pipeline:
        module = self._make_module(_object(label=shader.name, code=shader.wgsl))
        # Asked for later, Chromium 156 answers only if something else is sent to the GPU.
        self._unproven.append((shader, module.getCompilationInfo()))
        layout = self._pipeline_layout(shader.buffers)
        compute = {"module": module, "entryPoint": "main"}
        return self._make_pipeline(_object(label=shader.name, layout=layout, compute=compute))

    def storage_group(self, bindings: Sequence[Binding]) -> Group:
        return self._group(self._storage_layout(len(bindings)), bindings)

    def params_group(self, buffer: Buffer, nbytes: int) -> Group:
        return self._group(self._params_layout, [Binding(buffer, 0, nbytes)])

    def _group(self, layout: Any, bindings: Sequence[Binding]) -> Group:
        resources = ({"buffer": buffer, "offset": offset, "size": nbytes} for buffer, offset, nbytes in bindings)
        entries = [{"binding": k, "resource": resource} for k, resource in enumerate(resources)]
        return self._make_group(_object(layout=layout, entries=entries))

    def submit(self, commands: Sequence[Command], clock: None = None) -> None:
        encoder = self._make_encoder()
        for command in commands:
            if isinstance(command, Copy):
                source, target = command
                encoder.copyBufferToBuffer(source.buffer, source.offset, target.buffer, target.offset, source.nbytes)
            else:
                self._encode(encoder, command)
        self._submit(to_js([encoder.finish()]))

    def _encode(self, encoder: Any, command: Pass) -> None:
        params, dispatches = command
        compute = encoder.beginComputePass()
        set_pipeline, set_group, dispatch = compute.setPipeline, compute.setBindGroup, compute.dispatchWorkgroups
        current = None
        for pipeline, group, offset, x, y in dispatches:
            if pipeline is not current:
                set_pipeline(pipeline)
                current = pipeline
            set_group(0, group)
            set_group(1, params, self._offset(offset))
            dispatch(x, y)
        compute.end()

    @property
    def is_lost(self) -> bool:
        return bool(self.lost)

    def is_settled(self) -> bool:
        """Whether all that came before a read, which has arrived, went well."""
        if self._refused or self.lost:
            return False
        self._unproven.clear()
        return True

    async def complain(self, otherwise: str = "") -> None:
        """Raise EngineError for what WebGPU refused, or for why a read failed; DeviceLost if there is no device."""
        if otherwise and not self.lost:
            await asyncio.sleep(0.1)  # that the device is lost may be told after what comes of it
        if self.lost:
            raise DeviceLost(f"WebGpuExecutionProvider: the browser took the GPU away ({self.lost})")
        reason = [*self._refused, otherwise][0]
        shaders = self._unproven
        self._refused, self._unproven = [], []
        for shader, info in shaders:
            if text := await _complaint(shader, info):
                raise EngineError(f"WebGPU refused the shader of {text}")
        raise EngineError(f"WebGPU refused what it was given: {reason}")


async def _complaint(shader: Shader, info: Any) -> str:
    """Shader, line and message of the first error in a module, or ""."""
    for message in (await info).messages:
        if message.type == "error":
            line = shader.wgsl.split("\n")[message.lineNum - 1].strip() if message.lineNum else ""
            return f"{shader.name!r}: line {message.lineNum}: {message.message}: {line}"
    return ""


class Read:
    """Bytes on their way to the host. One of its two methods is to be called, once."""

    def __init__(self, gpu: BrowserGpu, staging: Buffer, bindings: Sequence[Binding]) -> None:
        self._gpu = gpu
        self._staging = staging
        self._bindings = bindings

    def __call__(self, targets: Sequence[memoryview]) -> None:
        """Wait for them, and fill a target for each range. Raises MustAwait where Python cannot wait."""
        if not can_run_sync():
            self._staging.destroy()
            raise MustAwait(CANNOT_WAIT)
        problem = ""
        try:
            run_sync(self._staging.mapAsync(MAP_READ))  # to wait for a coroutine takes several times as long
        except JsException as error:
            problem = str(error)
        if not self._fill(targets, problem):
            run_sync(self._gpu.complain(problem))

    async def arrive(self, targets: Sequence[memoryview]) -> None:
        """The same, awaited."""
        problem = ""
        try:
            await self._staging.mapAsync(MAP_READ)
        except JsException as error:
            problem = str(error)
        if not self._fill(targets, problem):
            await self._gpu.complain(problem)

    def _fill(self, targets: Sequence[memoryview], problem: str) -> bool:
        good = not problem and self._gpu.is_settled()
        if good:
            mapped, start = self._staging.getMappedRange(), 0
            for binding, target in zip(self._bindings, targets, strict=True):
                js.Uint8Array.new(mapped, start, target.nbytes).assign_to(target)
                start += binding.nbytes
        self._staging.destroy()
        return good
