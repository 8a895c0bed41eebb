"""How the threads of a GPU share a convolution: each makes a tile of its result, or a part of the sums of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sardonyx_webgpu.routines.designs import SLICED, power, tile

BUSY = 1 << 17
"""Threads that keep hardware busy."""
MOST = 32
"""Parts of a sum at most."""


class Windows(NamedTuple):
    """A tile of `rows` places times `quads` fours of channels, of which a workgroup makes `across` side by side.

    Of a sum a thread has one part in `channels`, of the channels that it sees, and one in `taps`, along this axis.
    """

    rows: int
    quads: int
    across: int = 1
    channels: int = 1
    taps: int = 1
    axis: int = 0

    @property
    def slices(self) -> int:
        """The parts of a sum."""
        return self.channels * self.taps

    @property
    def threads(self) -> int:
        """The threads of a workgroup that share sums."""
        return self.slices * self.across


def of(attributes: Any) -> Windows:
    """The design that a routine is to have."""
    return Windows(*attributes["design"])


def software(places: int, maps: int, mixed: bool) -> Windows:
    """The fastest one on llvmpipe and SwiftShader. Fours of `mixed` channels are of several groups.

    >>> software(3136, 64, False)[:2], software(3136, 64, True)[:2]
    ((8, 2), (8, 1))
    """
    rows, quads = tile(places, maps)
    return Windows(rows, 1 if mixed else quads)


def hardware(places: int, columns: int, channels: int, taps: Sequence[int], phases: int = 1) -> Windows:
    """The one that keeps a GPU busy, for so many places of each phase, and fours of channels of all groups. Measured on
    an NVIDIA H200. A phase sees few of the taps, so that threads do not share them.

    >>> hardware(49, 128, 512, [3, 3])
    Windows(rows=4, quads=1, across=2, channels=32, taps=1, axis=0)
    >>> hardware(12544, 16, 4, [7, 7])
    Windows(rows=4, quads=1, across=16, channels=1, taps=4, axis=0)
    """
    rows = min(4, power(places))
    threads = max(1, -(-places // rows) * columns * phases)
    wanted = min(MOST, power_up(-(-BUSY // threads)))
    of_channels = min(wanted, power_down(max(1, channels // 4)))
    axis = max(range(len(taps)), key=lambda k: taps[k])
    of_taps = min(wanted // of_channels, power_down(taps[axis])) if phases == 1 else 1
    slices = of_channels * of_taps
    if slices == 1:
        return Windows(power(places) if threads >= 2 * BUSY else rows, 1)
    return Windows(rows, 1, min(max(1, SLICED // slices), power_up(columns)), of_channels, of_taps, axis)


def places(most: Sequence[int], sizes: Sequence[int], quads: int) -> tuple[int, int]:
    """The rows and columns of places of which hardware makes four channels of one filter each, at most so many.

    >>> places((4, 4), (5, 80), 64), places((4, 4), (112, 112), 24)
    ((1, 1), (2, 2))
    """
    down, across = most
    while down * across > 1 and -(-sizes[0] // down) * -(-sizes[1] // across) * quads < BUSY // 2:
        down, across = (down, across // 2) if across >= down else (down // 2, across)
    return down, across


def power_up(number: int) -> int:
    """The power of two from a number on."""
    return 1 << max(0, number - 1).bit_length()


def power_down(number: int) -> int:
    """The power of two up to a number."""
    return 1 << (number.bit_length() - 1)
