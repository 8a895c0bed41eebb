"""The devices of a page: opened once for each choice of options, and anew when the browser took one away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pyodide.ffi import can_run_sync, run_sync

from sardonyx.device import Address
from sardonyx.errors import MustAwait
from sardonyx_webgpu import browser
from sardonyx_webgpu.browser import BrowserGpu
from sardonyx_webgpu.device import WebGpuDevice


class BrowserDevice(WebGpuDevice):
    """A WebGPU device whose downloads can be awaited."""

    gpu: BrowserGpu
    in_order = True

    async def download_async(self, address: Address, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
        """As `download`."""
        array = np.empty(shape, dtype)
        if array.nbytes:
            with self.lock:
                read = self.gpu.read(address.chunk.buffer, address.offset, -(-array.nbytes // 4) * 4)
            await read.arrive(array.reshape(-1).view(np.uint8).data)
        return array


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
