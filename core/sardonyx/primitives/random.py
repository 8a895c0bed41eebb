"""Random numbers that depend on a key and their place alone, spelled in integers: each provider draws the same bits.

The generator is Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi

from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.host import KEY
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.elementwise import bitcast, cast, cos, full, iota, log, shift_left, shift_right, sqrt
from sardonyx.primitives.host_call import host
from sardonyx.primitives.movement import reshape, slice_axis
from sardonyx.sizes.symbolic import Size, product

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA

_PRECISION = {dtypes.float16: 11, dtypes.bfloat16: 8, dtypes.float32: 24}
"""Bits of a mantissa."""


def random_key(seed: float | None) -> Array:
    """The key of a seed, uint32[2]; without one another for each run, which `sardonyx.set_seed` makes repeatable."""
    if seed is None:
        return host(KEY, results=[(dtypes.uint32, (2,))])[0]
    return bitcast(constant([seed, 0.0], dtypes.float32), dtypes.uint32)


def random_bits(key: Array, shape: Sequence[Size]) -> tuple[Array, Array]:
    """Two words of chance for each place: uint32 of this shape, from a key uint32[2].

    >>> high, low = random_bits(constant([0, 0], dtypes.uint32), (1,))
    >>> hex(high.value[0]), hex(low.value[0])
    ('0x6b200159', '0x99ba4efe')
    """
    keys = [slice_axis(key, 0, k, 1) for k in (0, 1)]
    keys.append(keys[0] ^ keys[1] ^ full((1,), _PARITY, dtypes.uint32))
    size = product(tuple(shape))
    x, y = iota((size,), 0, dtypes.uint32) + keys[0], keys[1]
    for turn in range(5):
        for rotation in _ROTATIONS[turn % 2]:
            x = x + y
            y = x ^ (shift_left(y, rotation) | shift_right(y, 32 - rotation))
        x = x + keys[(turn + 1) % 3]
        y = y + keys[(turn + 2) % 3] + full((1,), turn + 1, dtypes.uint32)
    return reshape(x, shape), reshape(y, shape)


def random_uniform(key: Array, shape: Sequence[Size], dtype: DType) -> Array:
    """Floats from 0 to 1, 0 among them and 1 not, all multiples of the type's epsilon / 2 equally likely."""
    high, low = random_bits(key, shape)
    if dtype is dtypes.float64:
        wide = cast(shift_right(high, 5), dtype) * 2.0**26 + cast(shift_right(low, 6), dtype)
        return wide * 2.0**-53
    bits = _PRECISION[dtype]
    return cast(_fraction(high, bits), dtype)


def random_normal(key: Array, shape: Sequence[Size], dtype: DType) -> Array:
    """Floats of the standard normal distribution (Box and Muller, 1958)."""
    high, low = random_bits(key, shape)
    wide = dtypes.float64 if dtype is dtypes.float64 else dtypes.float32
    above_zero = (cast(shift_right(high, 8), wide) + 1) * 2.0**-24
    angle = cast(shift_right(low, 8), wide) * (2.0**-24 * 2 * pi)
    return cast(sqrt(log(above_zero) * -2) * cos(angle), dtype)


def _fraction(word: Array, bits: int) -> Array:
    """The first bits of words as float32 from 0 to 1."""
    return cast(shift_right(word, 32 - bits), dtypes.float32) * 2.0**-bits
