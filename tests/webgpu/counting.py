"""A `Gpu` that counts what is asked of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sardonyx_webgpu.runtime.device import WebGpuDevice

COUNTED = {"submit", "read", "write", "storage_group", "params_group", "buffer", "pipelines"}


class CountingGpu:
    """Does what the other one does; a reading is a submission too."""

    def __init__(self, gpu: Any) -> None:
        self.inner = gpu
        self.counts: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        if name in COUNTED:
            self.counts[name] += 1
            if name == "read":
                self.counts["submit"] += 1
        return getattr(self.inner, name)

    def taken(self) -> dict[str, int]:
        """The counts since this was asked last, without zeros."""
        counts, self.counts = dict(self.counts), Counter()
        return counts


@contextmanager
def counting(device: WebGpuDevice) -> Iterator[CountingGpu]:
    """Count what a device asks of its GPU."""
    gpu = device.gpu
    device.gpu = device.queue.gpu = counted = CountingGpu(gpu)
    try:
        yield counted
    finally:
        device.gpu = device.queue.gpu = gpu
