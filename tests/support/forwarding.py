"""A device in front of another one: what measures, checks or spoils a device overrides what it cares about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sardonyx.providers.device import Address, Device, Executable, SegmentLaunch, Tensor


class ForwardingDevice(Device):
    """Hands everything on to the device `inner`."""

    def __init__(self, inner: Device) -> None:
        self.inner = inner
        self.reads_together = inner.reads_together
        self.in_order = inner.in_order

    def allocate(self, nbytes: int) -> Any:
        return self.inner.allocate(nbytes)

    def free(self, chunk: Any) -> None:
        self.inner.free(chunk)

    def constant(self, array: np.ndarray) -> Address:
        return self.inner.constant(array)

    def reads_in_place(self, array: np.ndarray) -> bool:
        return self.inner.reads_in_place(array)

    def in_place(self, array: np.ndarray) -> Address | None:
        return self.inner.in_place(array)

    def view(self, address: Address, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray | None:
        return self.inner.view(address, dtype, shape)

    def upload(self, address: Address, array: np.ndarray) -> None:
        self.inner.upload(address, array)

    def download(self, address: Address, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
        return self.inner.download(address, dtype, shape)

    def download_all(self, tensors: Sequence[Tensor]) -> list[np.ndarray]:
        return self.inner.download_all(tensors)

    async def download_all_async(self, tensors: Sequence[Tensor]) -> list[np.ndarray]:
        return await self.inner.download_all_async(tensors)

    def copy(self, source: Address, target: Address) -> None:
        self.inner.copy(source, target)

    def load(self, codes: Sequence[Any], segments: Sequence[Sequence[SegmentLaunch]]) -> Executable:
        return self.inner.load(codes, segments)

    def load_body(self, codes: Sequence[Any], launches: Sequence[SegmentLaunch]) -> Executable:
        return self.inner.load_body(codes, launches)

    def flush(self) -> None:
        self.inner.flush()

    def synchronize(self) -> None:
        self.inner.synchronize()

    def timed(self, run: Callable[[], None]) -> float | None:
        return self.inner.timed(run)

    @property
    def largest(self) -> int | None:
        return self.inner.largest

    @property
    def is_lost(self) -> bool:
        return self.inner.is_lost
