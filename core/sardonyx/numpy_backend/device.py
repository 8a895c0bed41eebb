"""The host's memory as a device: chunks are byte arrays, buffers are views of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx.common import threads
from sardonyx.common.cached import cached_property
from sardonyx.common.crew import Crew
from sardonyx.numpy_backend.lookup import Mapped
from sardonyx.numpy_backend.memory import view
from sardonyx.numpy_backend.team import Team
from sardonyx.providers.contract import ALIGNMENT, Address, Device, Executable, SegmentLaunch

KEPT = 1 << 24
"""Bytes of an allocation that are given back to the system at once when it is freed."""


class NumpyDevice(Device):
    """The host's memory; so many threads share large products, if BLAS can be kept from doing so."""

    name = "numpy"

    def __init__(self, count: int = 1) -> None:
        self._count = count
        # glibc then keeps what is freed in smaller pieces: to get the pages of temporary arrays from the system each
        # time takes longer than to work on them.
        np.empty(KEPT, np.uint8)

    @cached_property
    def team(self) -> Team:
        """Who shares its work."""
        return Team(Crew(self._count if threads.blas() else 1))

    def allocate(self, nbytes: int) -> np.ndarray:
        raw = np.empty(nbytes + ALIGNMENT, np.uint8)
        start = -raw.ctypes.data % ALIGNMENT
        return raw[start : start + nbytes]

    def constant(self, array: np.ndarray) -> Address:
        # Protobuf aligns nothing, and NumPy copies unaligned operands at every call.
        data = np.require(array, requirements=["C", "A"])
        return Address(data.reshape(-1).view(np.uint8), 0, data.nbytes)

    def reads_in_place(self, array: np.ndarray) -> bool:
        """Whether `constant` takes an array where it lies."""
        return array.flags.c_contiguous and array.flags.aligned

    def in_place(self, array: np.ndarray) -> Address:
        """Where a C-contiguous array lies, aligned or not, of which code takes rows alone (`lookup`)."""
        return Address(array.reshape(-1).view(np.uint8).view(Mapped), 0, array.nbytes)

    def upload(self, address: Address, array: np.ndarray) -> None:
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        address.chunk[address.offset : address.offset + flat.size] = flat

    def download(self, address: Address, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
        return view(address, dtype, shape).copy()

    def view(self, address: Address, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
        return view(address, dtype, shape)

    def copy(self, source: Address, target: Address) -> None:
        # whole words are copied, and a constant ends with its last element
        piece = source.chunk[source.offset : source.offset + source.nbytes]
        target.chunk[target.offset : target.offset + piece.size] = piece

    def load(self, codes: Sequence[Any], segments: Sequence[Sequence[SegmentLaunch]]) -> Executable:
        from sardonyx.numpy_backend.executable import NumpyExecutable  # which brings what kernels are made of

        return NumpyExecutable(codes, segments, self.team)
