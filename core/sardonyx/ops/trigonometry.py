"""Trigonometric and hyperbolic functions, in radians."""

from __future__ import annotations

import numpy as np

from sardonyx import primitives as p
from sardonyx.ops.operator import Operator, sample

UNIT = np.array([-1, -0.7, -1e-6, 0, 1e-4, 0.3, 1, 1.5], np.float32)
SMALL = np.array([-90, -3, -1e-6, 0, 1e-4, 0.3, 20, np.inf], np.float32)
DOUBLE = np.array([0.001, 0.25, 0.9], np.float64)


class Sin(Operator, since=7):
    """The sine."""

    expand = staticmethod(p.sin)
    samples = [sample((3, 4)), sample(DOUBLE), sample(np.array([1000.0, -1e-6, np.inf], np.float32))]


class Cos(Operator, since=7):
    """The cosine."""

    expand = staticmethod(p.cos)
    samples = [sample((3, 4)), sample(DOUBLE), sample(np.array([1000.0, -1e-6, np.inf], np.float32))]


class Tan(Operator, since=7):
    """The tangent."""

    expand = staticmethod(p.tan)
    samples = [sample((3, 4)), sample(DOUBLE), sample(())]


class Asin(Operator, since=7):
    """The angle from -pi/2 to pi/2 with this sine; NaN beyond 1."""

    expand = staticmethod(p.asin)
    samples = [sample(UNIT), sample(DOUBLE)]


class Acos(Operator, since=7):
    """The angle from 0 to pi with this cosine; NaN beyond 1."""

    expand = staticmethod(p.acos)
    samples = [sample(UNIT), sample(DOUBLE)]


class Atan(Operator, since=7):
    """The angle from -pi/2 to pi/2 with this tangent."""

    expand = staticmethod(p.atan)
    samples = [sample((3, 4)), sample(DOUBLE), sample(SMALL)]


class Sinh(Operator, since=9):
    """The hyperbolic sine."""

    expand = staticmethod(p.sinh)
    samples = [sample((3, 4)), sample(DOUBLE), sample(SMALL)]


class Cosh(Operator, since=9):
    """The hyperbolic cosine."""

    expand = staticmethod(p.cosh)
    samples = [sample((3, 4)), sample(DOUBLE), sample(SMALL)]


class Tanh(Operator):
    """The hyperbolic tangent."""

    expand = staticmethod(p.tanh)
    samples = [sample((3, 4)), sample(DOUBLE), sample(SMALL)]


class Asinh(Operator, since=9):
    """The inverse of the hyperbolic sine."""

    expand = staticmethod(p.asinh)
    samples = [sample((3, 4)), sample(DOUBLE), sample(SMALL)]


class Acosh(Operator, since=9):
    """The inverse of the hyperbolic cosine, from 0 up; NaN below 1."""

    expand = staticmethod(p.acosh)
    samples = [sample(np.array([0.5, 1, 1.0001, 2, 1e20, np.inf], np.float32)), sample(1 + DOUBLE)]


class Atanh(Operator, since=9):
    """The inverse of the hyperbolic tangent; NaN beyond 1."""

    expand = staticmethod(p.atanh)
    samples = [sample(UNIT), sample(DOUBLE)]
