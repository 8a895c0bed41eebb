"""The host's memory as a device: chunks are byte arrays, buffers are views of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from operator import length_hint
from typing import Any

import numpy as np

from sardonyx.code.kernel import Kernel, Routine
from sardonyx.common import threads
from sardonyx.common.crew import Crew
from sardonyx.common.termination import poll
from sardonyx.errors import RuntimeException, SardonyxError
from sardonyx.host.products import shared
from sardonyx.numpy_backend.codegen import factory
from sardonyx.numpy_backend.lookup import Mapped
from sardonyx.numpy_backend.memory import view
from sardonyx.numpy_backend.routines import BoundRoutine
from sardonyx.providers.contract import ALIGNMENT, Address, Device, Executable, SegmentLaunch

Bound = Callable[[], None]


PRODUCTS = frozenset({"dot_general", "conv_general", "attention", "recurrent"})
"""Routines that multiply matrices."""


class NumpyDevice(Device):
    """The host's memory; so many threads share large products, if BLAS can be kept from doing so."""

    name = "numpy"

    def __init__(self, count: int = 1) -> None:
        self._count = count

    @cached_property
    def crew(self) -> Crew:
        """Who shares its products."""
        return Crew(self._count if threads.blas() else 1)

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
        target.chunk[target.offset : target.offset + source.nbytes] = source.chunk[
            source.offset : source.offset + source.nbytes
        ]

    def load(self, codes: Sequence[Any], segments: Sequence[Sequence[SegmentLaunch]]) -> Executable:
        return NumpyExecutable(codes, segments, self.crew)


class NumpyExecutable(Executable):
    """Code as Python functions that make bound functions."""

    def __init__(self, codes: Sequence[Any], segments: Sequence[Sequence[SegmentLaunch]], crew: Crew) -> None:
        self.makers = [self._maker(code) for code in codes]
        self.segments = segments
        self._multiply = [isinstance(code, Routine) and code.primitive in PRODUCTS for code in codes]
        self._crew = crew

    def _maker(self, code: Any) -> Callable[[Sequence[Address], Sequence[int]], Bound]:
        if isinstance(code, Kernel):
            return factory(code)
        assert isinstance(code, Routine)
        return BoundRoutine(code)

    def bind(self, segment: int, buffers: Sequence[Sequence[Address]], params: Sequence[Sequence[Any]]) -> Bound:
        launches = self.segments[segment]
        calls: list[Bound] = []
        try:
            with np.errstate(all="ignore"):  # what depends on indices alone is computed here
                for launch, addresses, values in zip(launches, buffers, params, strict=True):
                    calls.append(self.makers[launch.code](addresses, values))
        except Exception as error:
            raise _failed(launches[len(calls)], error) from error

        def run() -> None:
            with shared(self._crew):
                alone()

        def alone() -> None:
            left = iter(calls)
            try:
                with np.errstate(all="ignore"):
                    for call in left:
                        poll()
                        call()
            except Exception as error:
                raise _failed(launches[len(calls) - length_hint(left) - 1], error) from error

        if not any(self._multiply[launch.code] for launch in launches):
            return alone
        return run


def _failed(launch: SegmentLaunch, error: Exception) -> SardonyxError:
    """What is said of a launch that failed."""
    if isinstance(error, SardonyxError):
        return error
    return RuntimeException(f"{launch.label}: {type(error).__name__}: {error}")
