"""Logic on booleans and on the bits of integers."""

from __future__ import annotations

import operator

import numpy as np

from sardonyx import primitives as p
from sardonyx.ops.arithmetic import DIVISORS, INTEGERS, broadcast_from_axis
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array

BOOLEANS = [
    sample(np.array([True, False]), np.array([[True], [False]])),
    sample(np.ones((2, 0), bool), np.array(True)),
]
BITS = [sample(INTEGERS, DIVISORS), sample(np.array([7, 2**40], np.uint64), np.array(2**40 + 5, np.uint64))]


class And(Operator):
    """Whether both hold."""

    expand = staticmethod(operator.and_)
    upgrades = {7: broadcast_from_axis}
    samples = BOOLEANS


class Or(Operator):
    """Whether either holds."""

    expand = staticmethod(operator.or_)
    upgrades = {7: broadcast_from_axis}
    samples = BOOLEANS


class Xor(Operator):
    """Whether just one holds."""

    expand = staticmethod(operator.xor)
    upgrades = {7: broadcast_from_axis}
    samples = BOOLEANS


class Not(Operator, since=1):
    """Whether it does not hold."""

    expand = staticmethod(operator.invert)
    samples = [sample(np.array([[True], [False]])), sample(np.zeros((0,), bool))]


class BitwiseAnd(Operator, since=18):
    """The bits that both have."""

    expand = staticmethod(operator.and_)
    samples = BITS


class BitwiseOr(Operator, since=18):
    """The bits that either has."""

    expand = staticmethod(operator.or_)
    samples = BITS


class BitwiseXor(Operator, since=18):
    """The bits that just one has."""

    expand = staticmethod(operator.xor)
    samples = BITS


class BitwiseNot(Operator, since=18):
    """All bits turned."""

    expand = staticmethod(operator.invert)
    samples = [sample(INTEGERS), sample(np.array([0, 7], np.uint16))]


class BitShift(Operator, since=11):
    """Bits moved by Y places; to the right the sign follows. Y beyond the width, or negative, moves all of them out."""

    direction: str

    def expand(self, x: Array, y: Array) -> Array:
        if self.direction == "LEFT":
            return p.shift_left(x, y)
        if self.direction != "RIGHT":
            raise ValueError(f"direction {self.direction!r} is unknown; use LEFT or RIGHT")
        if x.dtype.kind == "uint":
            return p.shift_right(x, y)
        last = x.dtype.bits - 1
        return p.shift_right(x, p.where((y < 0) | (y > last), last, y))

    samples = [
        sample(np.array([1, 255, 7], np.uint8), np.array([[0], [1], [7], [8]], np.uint8), direction="LEFT"),
        sample(np.array([1, 255, 7], np.uint8), np.array([[0], [1], [7], [8]], np.uint8), direction="RIGHT"),
        sample(INTEGERS, np.array([[-1], [0], [3], [7], [8], [100]], np.int8), direction="LEFT"),
        sample(INTEGERS, np.array([[-1], [0], [3], [7], [8], [100]], np.int8), direction="RIGHT"),
    ]
