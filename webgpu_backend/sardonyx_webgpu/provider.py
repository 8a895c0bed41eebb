"""The execution provider: what it can run, and its devices."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from importlib.util import find_spec
from math import inf
from threading import Lock
from typing import TYPE_CHECKING, Any

from sardonyx.common import extras
from sardonyx.common.dtypes import DType
from sardonyx.common.record import field, record
from sardonyx.errors import EPFail
from sardonyx.providers.contract import Bundler, Provider
from sardonyx_webgpu.wgsl.values import MOVES, is_bits, supported

if TYPE_CHECKING:
    from sardonyx.primitives.trace import Trace
    from sardonyx_webgpu.runtime.device import WebGpuDevice

IN_BROWSER = sys.platform == "emscripten"
ROUTINES = frozenset(
    {
        "attend",
        "attention",
        "combine_updates",
        "conv",
        "depthwise",
        "find_nonzero",
        "first_updates",
        "last_updates",
        "matmul",
        "matmul_int8",
        "matmul_nbits",
        "merge_runs",
        "recur",
        "recurrent",
        "shader_map",
        "sort_runs",
        "suppress",
        "suppression",
        "top_k",
        "tree_ensemble",
        "walk_trees",
        "winograd_input",
        "winograd_output",
        "winograd_weights",
    }
)
"""The primitives of `primitives`, and the composite ones of core that there is a routine for."""
EPILOGUES = frozenset(
    {"attend", "combine_updates", "conv", "depthwise", "matmul", "matmul_int8", "matmul_nbits", "winograd_output"}
)
"""Those that go on with what is done to each element of their result."""
STRIDED = {"attend": (1, 2, 2, 1, 1), "matmul": (1, 2), "matmul_nbits": (1,), "recur": (1, 0, 1, 1, 1, 1)}
"""Those that read operands as views, for each operand along how many of its last axes an index is to be linear."""
SUMMED = {"matmul": ((0, 2), (1, 1))}
"""Those whose operands have axes along which they are summed, which may be as long as others."""
OPTIONS = frozenset({"adapter", "power_preference", "limits", "float16", "tune"})


@record
class WebGpuProvider(Provider):
    """Runs programs as WGSL compute shaders on the GPU that wgpu, or the browser, finds.

    Its options: `adapter`, part of the name of the GPU to use (also the variable SARDONYX_ADAPTER);
    `power_preference`, `high-performance` or `low-power`; `limits`, `max` for all that this device has, or
    `default` for what every WebGPU device grants (also the variable SARDONYX_LIMITS); `float16`, `native` for f16 in
    memory where the device can, or `packed` for pairs in words (also the variable SARDONYX_FLOAT16); `tune`, `1` to
    measure which way to multiply matrices is fastest here (also the variable SARDONYX_TUNE).
    """

    name: str = "WebGpuExecutionProvider"
    form: str = "kernel"
    max_buffers: int = 8
    routines: frozenset[str] = ROUTINES
    epilogues: frozenset[str] = EPILOGUES
    strided: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: STRIDED)
    lanes: int = 4
    literal: int = 1
    summed: Mapping[str, Collection[tuple[int, int]]] = field(default_factory=lambda: SUMMED)
    rows: bool = True
    prefers_integers: bool = True
    options: frozenset[str] = OPTIONS
    _devices: dict[frozenset[tuple[str, str]], WebGpuDevice] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def available(self) -> bool:
        if IN_BROWSER:
            import js

            return bool(getattr(getattr(js, "navigator", None), "gpu", None))
        return find_spec("wgpu") is not None

    def supports(
        self, primitive: str, inputs: Sequence[DType], outputs: Sequence[DType], params: Mapping[str, Any]
    ) -> bool:
        """Whether WGSL has the element types: it lacks float64, complex and string, and float8 has no arithmetic."""
        types = (*inputs, *outputs)
        if not all(map(supported, types)):
            return False
        if primitive == "shader_map" and (len(types) > self.max_buffers or any(x.lowered.bits > 32 for x in types)):
            return False
        return primitive in MOVES or params.get("function") == "where" or not any(map(is_bits, types))

    def rewrite(self, trace: Trace, origins: Collection[int]) -> None:
        """Have all be routines that there is one for."""
        from sardonyx_webgpu.legalization.legalize import legalize

        legalize(trace, origins, self.largest() or inf)

    def largest(self) -> int | None:
        """The bytes that a tensor may have on all devices that are open."""
        devices = list(self._devices.values())
        return min((device.gpu.limits["maxStorageBufferBindingSize"] for device in devices), default=None)

    def device(self, options: Mapping[str, str]) -> WebGpuDevice:
        """The device for these options; EPFail where there is none, MustAwait where only `open` can wait for it."""
        self._check(options)
        if IN_BROWSER:
            from sardonyx_webgpu.runtime import browser_device

            return browser_device.device(options)
        with self._lock:
            key = frozenset(options.items())
            if key not in self._devices or self._devices[key].gpu.is_lost:
                self._devices[key] = self._open(options)
            return self._devices[key]

    async def open(self, options: Mapping[str, str]) -> None:
        """Open the device for these options where that takes waiting; `device` has it then."""
        self._check(options)
        if IN_BROWSER:
            from sardonyx_webgpu.runtime import browser_device

            await browser_device.open_(options)

    def _check(self, options: Mapping[str, str]) -> None:
        if unknown := sorted(options.keys() - OPTIONS):
            raise EPFail(f"{self.name}: no option {unknown[0]!r}; there are {', '.join(sorted(OPTIONS))}")

    def _open(self, options: Mapping[str, str]) -> WebGpuDevice:
        if not self.available():
            raise EPFail(f"{self.name}: {extras.missing('wgpu')}")
        from sardonyx_webgpu.runtime.device import WebGpuDevice
        from sardonyx_webgpu.runtime.tuner import Tuner, is_wanted

        try:
            from sardonyx_webgpu.gpu import native
        except (ImportError, OSError) as error:
            raise EPFail(
                f"{self.name}: the package wgpu does not load here ({error}); use CPUExecutionProvider"
            ) from error
        device = WebGpuDevice(native.request(options))
        if is_wanted(options):
            device.tuner = Tuner(device)
        return device

    def fingerprint(self) -> str:
        """What plans depend on besides the sources: how large tensors may be."""
        return str(self.largest())

    def bundler(self) -> Bundler:
        """What makes its code part of bundles."""
        from sardonyx_webgpu.bundles import Bundler

        return Bundler(PageProvider())

    def is_software(self, device: WebGpuDevice) -> bool:
        """Whether the device's shaders run on the CPU."""
        return device.gpu.adapter.is_software

    def describe(self, options: Mapping[str, str] | None = None) -> dict[str, str]:
        """What `sardonyx info` shows of the device."""
        gpu = self.device(options or {}).gpu
        adapter = gpu.adapter
        return {
            "adapter": adapter.name,
            "vendor": adapter.vendor,
            "driver": adapter.driver,
            "backend": adapter.backend,
            "kind": "software" if adapter.is_software else adapter.kind,
            "largest tensor": f"{gpu.limits['maxStorageBufferBindingSize'] >> 20} MiB",
        }


class PageProvider(WebGpuProvider):
    """Compiles for pages, without a GPU."""

    def available(self) -> bool:
        return True


provider = WebGpuProvider()
