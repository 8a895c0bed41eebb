"""A plan that loads its weights: what it says beyond a plan, and what its own steps do (`streaming` makes it)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sardonyx.common import memory
from sardonyx.common.record import field, record
from sardonyx.plans import plan as plans
from sardonyx.providers.contract import Address, Device


@record
class Load:
    """Fill a buffer with a constant of the plan."""

    weight: str
    buffer: int
    do: str = "load"


@record
class Drop:
    """Let the system drop the pages of constants that were read where they lie."""

    weights: list[str]
    do: str = "drop"


@record
class Streamed(plans.Plan):
    """A plan that loads what it does not keep. `original` is what it was made of, and what caches remember."""

    original: plans.Plan | None = field(default=None, repr=False)
    mapped: frozenset[int] = frozenset()
    """The buffers of constants that are read where they lie, aligned or not."""
    need: int = 0
    """Bytes of the arena and of the weights that are kept, for the sizes that it was made for."""


def load(device: Device, address: Address, array: np.ndarray) -> None:
    """Copy a constant to a buffer, piece by piece; the system may drop the pages of its file."""
    for offset, piece in memory.pieces(np.ascontiguousarray(array)):
        device.upload(Address(address.chunk, address.offset + offset, piece.nbytes), piece)


def drop(arrays: Iterable[np.ndarray]) -> None:
    """What a `Drop` does."""
    for array in arrays:
        memory.forget(array)


def is_in_place(device: Device, array: np.ndarray | None) -> bool:
    """Whether a device reads a constant where it lies."""
    return array is not None and device.reads_in_place(array)
