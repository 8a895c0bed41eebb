"""A `Gpu` in headless Chromium, driven by Playwright: the shaders meet Tint and SwiftShader as well as naga."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sardonyx.errors import EngineError
from sardonyx_webgpu.gpu.interface import DEFAULT_LIMITS, Adapter, Binding, Command, Copy, Shader
from tests.support.browser import ARGUMENTS

PAGE = """<!doctype html><script type="module">
const adapter = await navigator.gpu.requestAdapter();
const device = await adapter.requestDevice();
const objects = [];
const keep = (object) => objects.push(object) - 1;
const { COMPUTE } = GPUShaderStage, { STORAGE, UNIFORM, COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage;
const layoutOf = (kinds) => device.createBindGroupLayout({
  entries: kinds.map((buffer, binding) => ({ binding, visibility: COMPUTE, buffer })) });
const storageLayouts = new Map();
const storage = (count) => {
  if (!storageLayouts.has(count)) storageLayouts.set(count, layoutOf(Array(count).fill({ type: "storage" })));
  return storageLayouts.get(count);
};
const uniform = layoutOf([{ type: "uniform", hasDynamicOffset: true }]);
const toBytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const toText = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
const group = (layout, bindings) => keep(device.createBindGroup({
  layout,
  entries: bindings.map(([id, offset, size], binding) => (
    { binding, resource: { buffer: objects[id], offset, size } })),
}));

const calls = {
  info: () => ({ vendor: adapter.info.vendor, name: adapter.info.architecture, driver: adapter.info.description }),
  buffer: (size, isUniform) =>
    keep(device.createBuffer({ size, usage: (isUniform ? UNIFORM : STORAGE) | COPY_SRC | COPY_DST })),
  destroy: (id) => objects[id].destroy(),
  write: (id, offset, text) => device.queue.writeBuffer(objects[id], offset, toBytes(text)),
  async submit(commands, ranges) {
    const encoder = device.createCommandEncoder();
    for (const [params, dispatches, ...copy] of commands) {
      if (copy.length) {
        encoder.copyBufferToBuffer(objects[params], dispatches, objects[copy[0]], copy[1], copy[2]);
        continue;
      }
      const compute = encoder.beginComputePass();
      for (const [pipeline, storageGroup, offset, x, y] of dispatches) {
        compute.setPipeline(objects[pipeline]);
        compute.setBindGroup(0, objects[storageGroup]);
        compute.setBindGroup(1, objects[params], [offset]);
        compute.dispatchWorkgroups(x, y);
      }
      compute.end();
    }
    const total = ranges.reduce((sum, [, , size]) => sum + size, 0);
    const staging = total && device.createBuffer({ size: total, usage: MAP_READ | COPY_DST });
    let start = 0;
    for (const [id, offset, size] of ranges) {
      encoder.copyBufferToBuffer(objects[id], offset, staging, start, size);
      start += size;
    }
    device.queue.submit([encoder.finish()]);
    if (!total) return "";
    await staging.mapAsync(GPUMapMode.READ);
    const text = toText(new Uint8Array(staging.getMappedRange()));
    staging.destroy();
    return text;
  },
  async pipelines(shaders) {
    return Promise.all(shaders.map(async ([label, code, buffers]) => {
      const module = device.createShaderModule({ label, code });
      for (const { type, lineNum, message } of (await module.getCompilationInfo()).messages)
        if (type === "error") throw Error(`${label}, line ${lineNum}: ${message}: ${code.split("\\n")[lineNum - 1]}`);
      const layout = device.createPipelineLayout({ bindGroupLayouts: [storage(buffers), uniform] });
      return keep(await device.createComputePipelineAsync({ label, layout, compute: { module, entryPoint: "main" } }));
    }));
  },
  storage_group: (bindings) => group(storage(bindings.length), bindings),
  params_group: (id, size) => group(uniform, [[id, 0, size]]),
};
globalThis.call = async ([name, ...parameters]) => {
  device.pushErrorScope("validation");
  let result, thrown;
  try { result = await calls[name](...parameters); } catch (error) { thrown = String(error); }
  const refused = await device.popErrorScope();
  const error = thrown ?? refused?.message;
  return error === undefined ? { result: result ?? null } : { error };
};
globalThis.ready = true;
</script>"""


@contextmanager
def open_browser() -> Iterator[BrowserGpu]:
    """Start Chromium with a software adapter; close it afterwards."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        page = browser.new_page()
        page.route("http://127.0.0.1/", lambda route: route.fulfill(body=PAGE, content_type="text/html"))
        page.goto("http://127.0.0.1/")
        page.wait_for_function("globalThis.ready")
        yield BrowserGpu(page)
        browser.close()


class BrowserGpu:
    """Buffers, pipelines and groups are numbers of objects that the page keeps."""

    limits: Mapping[str, int] = DEFAULT_LIMITS
    half = False
    clock = None

    def __init__(self, page: Any) -> None:
        self._page = page
        info = self._call("info")
        self.adapter = Adapter(info["name"], info["vendor"], "browser", info["driver"])

    def _call(self, *parameters: Any) -> Any:
        answer = self._page.evaluate("(parameters) => call(parameters)", list(parameters))
        if "error" in answer:
            raise EngineError(f"WebGPU refused {parameters[0]}: {answer['error']}")
        return answer["result"]

    def buffer(self, nbytes: int, uniform: bool = False) -> Any:
        return self._call("buffer", nbytes, uniform)

    def destroy(self, buffer: Any) -> None:
        self._call("destroy", buffer)

    def write(self, buffer: Any, offset: int, data: memoryview) -> None:
        self._call("write", buffer, offset, base64.b64encode(data).decode())

    def read(
        self, bindings: Sequence[Binding], after: Sequence[Command] = ()
    ) -> Callable[[Sequence[memoryview]], None]:
        data = base64.b64decode(self._call("submit", list(map(_told, after)), [list(each) for each in bindings]))

        def wait(targets: Sequence[memoryview]) -> None:
            start = 0
            for binding, target in zip(bindings, targets, strict=True):
                target[:] = data[start : start + target.nbytes]
                start += binding.nbytes

        return wait

    def pipelines(self, shaders: Sequence[Shader]) -> list[Any]:
        return list(self._call("pipelines", [list(shader) for shader in shaders]))

    def storage_group(self, bindings: Sequence[Binding]) -> Any:
        return self._call("storage_group", [list(binding) for binding in bindings])

    def params_group(self, buffer: Any, nbytes: int) -> Any:
        return self._call("params_group", buffer, nbytes)

    def submit(self, commands: Sequence[Command], clock: None = None) -> None:
        self._call("submit", list(map(_told, commands)), [])


def _told(command: Command) -> list[Any]:
    if isinstance(command, Copy):
        (source, start, nbytes), (target, goal, _) = command
        return [source, start, target, goal, nbytes]
    return [command.params, [list(dispatch) for dispatch in command.dispatches]]
