"""The devices of a page: opened once for each choice of options, and anew when the browser took one away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from pyodide.ffi import can_run_sync, run_sync

from sardonyx.errors import MustAwait
from sardonyx.providers.contract import Tensor
from sardonyx_webgpu.gpu import browser
from sardonyx_webgpu.gpu.browser import BrowserGpu
from sardonyx_webgpu.runtime.device import WebGpuDevice


class BrowserDevice(WebGpuDevice):
    """A WebGPU device whose downloads can be awaited."""

    gpu: BrowserGpu
    in_order = True

    async def download_all_async(self, tensors: Sequence[Tensor]) -> list[np.ndarray]:
        """As `download_all`."""
        arrays, reading, targets = self._reading(tensors)
        if reading is not None:
            await reading.arrive(targets)
        return arrays


_devices: dict[frozenset[tuple[str, str]], BrowserDevice] = {}


def device(options: Mapping[str, str]) -> BrowserDevice:
    """The device for these options. Raises MustAwait where it is not open, and Python cannot wait for it."""
    key = frozenset(options.items())
    if not _is_open(key):
        if not can_run_sync():
            raise MustAwait(browser.CANNOT_WAIT)
        run_sync(open_(options))
    return _devices[key]


async def open_(options: Mapping[str, str]) -> None:
    """Open the device for these options."""
    key = frozenset(options.items())
    if _is_open(key):
        return
    gpu = await browser.request(options)
    if _is_open(key):  # by other Python meanwhile
        gpu.close()
    else:
        _devices[key] = BrowserDevice(gpu)


def _is_open(key: frozenset[tuple[str, str]]) -> bool:
    return key in _devices and not _devices[key].gpu.is_lost
