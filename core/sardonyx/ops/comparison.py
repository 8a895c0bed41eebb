"""Comparisons, and the choice that follows one."""

from __future__ import annotations

import operator

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.arithmetic import DIVISORS, INTEGERS, broadcast_from_axis
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array

SPECIAL = np.array([0, -0.0, 1, np.inf, -np.inf, np.nan], np.float32)
ORDERED = [
    sample((3, 4), (4,)),
    sample(SPECIAL, SPECIAL[:, None]),
    sample(INTEGERS, DIVISORS),
    sample(np.array([2**63, 5], np.uint64), np.array([2**63 + 1, 5], np.uint64)),
]


class Equal(Operator):
    """Whether elements are equal; NaN equals nothing."""

    expand = staticmethod(p.equal)
    upgrades = {7: broadcast_from_axis}
    samples = [*ORDERED, sample(np.array([True, False]), np.array([[True], [False]]))]


class Greater(Operator):
    """a > b."""

    expand = staticmethod(operator.gt)
    upgrades = {7: broadcast_from_axis}
    samples = ORDERED


class GreaterOrEqual(Operator, since=12):
    """a >= b."""

    expand = staticmethod(operator.ge)
    samples = ORDERED


class Less(Operator):
    """a < b."""

    expand = staticmethod(operator.lt)
    upgrades = {7: broadcast_from_axis}
    samples = ORDERED


class LessOrEqual(Operator, since=12):
    """a <= b."""

    expand = staticmethod(operator.le)
    samples = ORDERED


class IsNaN(Operator, since=9):
    """Whether an element is not a number."""

    expand = staticmethod(p.isnan)
    samples = [sample(SPECIAL), sample(SPECIAL.astype(np.float16)), sample((0,))]


class IsInf(Operator, since=10):
    """Whether an element is infinite, of the signs that are asked for."""

    detect_negative: int = 1
    detect_positive: int = 1

    def expand(self, x: Array) -> Array:
        if not self.detect_negative and not self.detect_positive:
            return p.full(x.shape, False, dtypes.bool_)
        result = p.isinf(x)
        if not self.detect_negative:
            result = result & (x > 0)
        if not self.detect_positive:
            result = result & (x < 0)
        return result

    samples = [
        sample(SPECIAL),
        sample(SPECIAL.astype(np.float64), detect_negative=0),
        sample(SPECIAL, detect_positive=0),
        sample(SPECIAL, detect_positive=0, detect_negative=0),
    ]


class Where(Operator, since=9):
    """X where the condition holds, else Y."""

    expand = staticmethod(p.where)
    samples = [
        sample(np.array([True, False]), (3, 2), (2,)),
        sample(np.array([[True], [False]]), INTEGERS, np.array(3, np.int8)),
        sample(np.array(True), np.array([True, False]), np.array([[False]])),
    ]
