"""Numbers of a few bits that share bytes."""

from __future__ import annotations

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant

WIDTHS = (2, 4, 8)


def unpack(x: Array, bits: int) -> Array:
    """The numbers of `bits` bits in bytes [..., n]: [..., 8 / bits, n], the lowest bits first.

    >>> unpack(constant([0x21, 0xF3], dtypes.uint8), 4).value
    array([[ 1,  3],
           [ 2, 15]], dtype=uint8)
    """
    if bits not in WIDTHS:
        raise NotImplementedError(f"{bits} bits are not supported; use 2, 4 or 8")
    row = p.unsqueeze(x, [x.rank - 1])
    if bits == 8:
        return row
    shifts = constant(np.arange(0, 8, bits)[:, None], dtypes.uint8)
    return p.shift_right(row, shifts) & ((1 << bits) - 1)


def unpack_rows(x: Array, bits: int) -> Array:
    """The numbers of `bits` bits in bytes, as they follow one another along the last axis."""
    if bits == 8:
        return x
    return p.reshape(p.swap_last(unpack(x, bits)), (*x.shape[:-1], x.shape[-1] * (8 // bits)))
