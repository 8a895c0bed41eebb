"""Random numbers that a seed decides, and exponentials, to the last bit: what a page of JavaScript can repeat.

The numbers are those of xoshiro128++ (Blackman and Vigna, 2019), whose state is four times 32 bits. Its seed is spread
by splitmix32. Two numbers of 32 bits make a float64 of [0, 1): the upper 27 bits of the first, and the upper 26 bits of
the second. All of it is integer arithmetic that JavaScript has as `Math.imul` and `>>>`.

`exponential` adds and multiplies float64 alone, in an order that is written here, since the last bit of `exp` differs
between machines.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_MASK = 0xFFFFFFFF
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
"""The logarithm of 2, its first 33 bits and the rest."""
_SMALLEST = -708.0
"""Below it an exponential is 0."""
_DEGREE = 13


class Random:
    """A stream of numbers; `stream` tells apart those of one seed, as of the rows of a batch.

    >>> draw = Random(42)
    >>> draw.next(), draw.next(), Random(42, stream=1).next()
    (0.018713091345023636, 0.6397555712318338, 0.9239629086307393)
    """

    def __init__(self, seed: int, stream: int = 0) -> None:
        words = _splitmix((seed ^ (seed >> 32) ^ (stream * 0x9E3779B9)) & _MASK)
        self._a, self._b, self._c, self._d = (next(words) for _ in range(4))

    @classmethod
    def of(cls, seed: int, stream: int) -> Random:
        """A stream of a seed, or of one that nobody knows where it is negative."""
        return cls(seed if seed >= 0 else secrets.randbits(32), stream)

    def bits(self) -> int:
        """The next 32 bits."""
        total = (self._a + self._d) & _MASK
        result = ((total << 7 | total >> 25) + self._a) & _MASK
        shifted = self._b << 9 & _MASK
        self._c ^= self._a
        self._d ^= self._b
        self._b ^= self._c
        self._a ^= self._d
        self._c ^= shifted
        self._d = (self._d << 11 | self._d >> 21) & _MASK
        return result

    def next(self) -> float:
        """The next float64 of [0, 1)."""
        high, low = self.bits() >> 5, self.bits() >> 6
        return (high * 67108864.0 + low) / 9007199254740992.0


def exponential(x: Array) -> Array:
    """e to the power of float64 numbers that are 0 or less, within two units of the last place.

    >>> exponential(np.array([0.0, -1.0, -1000.0]))
    array([1.        , 0.36787944, 0.        ])
    """
    bounded = np.maximum(x, _SMALLEST)
    power = np.floor(bounded * _LOG2_E + 0.5)
    rest = bounded - power * _LN2_HIGH - power * _LN2_LOW
    result = np.ones_like(rest)
    for n in range(_DEGREE, 0, -1):
        result = result * rest / n + 1.0
    return np.where(x < _SMALLEST, 0.0, np.ldexp(result, power.astype(np.int32)))


def _splitmix(state: int) -> Iterator[int]:
    """splitmix32: words that differ much for seeds that differ little."""
    while True:
        state = (state + 0x9E3779B9) & _MASK
        word = state ^ state >> 16
        word = word * 0x21F0AAAD & _MASK
        word ^= word >> 15
        word = word * 0x735A2D97 & _MASK
        yield word ^ word >> 15
