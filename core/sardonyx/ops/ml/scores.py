"""What classifiers and regressors of ai.onnx.ml do to their scores at last, and the labels that they give."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant

NEARLY_ZERO = 1e-7
"""Scores up to here count as absent in SOFTMAX_ZERO."""


def logistic(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow."""
    above = 1.0 / (1.0 + p.exp(-p.absolute(x)))
    return p.where(x < 0, 1.0 - above, above)


def probit(x: Array) -> Array:
    """The quantile of the normal distribution, by Winitzki's approximation of the inverse of erf."""
    x = 2.0 * x - 1.0
    log = p.log((1.0 - x) * (1.0 + x))
    half = 2.0 / (3.14159 * 0.147) + 0.5 * log
    rest = -log / 0.147
    outer = p.sqrt(half * half + rest)
    root = p.sqrt(p.where(half > 0, rest / (half + outer), outer - half))  # neither may cancel
    return math.sqrt(2.0) * p.where(x < 0, -root, root)


def softmax(x: Array) -> Array:
    """exp(x) divided by its sum along the last axis."""
    powers = p.exp(x - p.max_(x, [-1], keepdims=True))
    return powers / p.sum_(powers, [-1], keepdims=True)


def softmax_zero(x: Array) -> Array:
    """Softmax of what is not zero; zeros stay."""
    top = p.max_(x, [-1], keepdims=True)
    there = p.absolute(x) > NEARLY_ZERO
    powers = p.exp(x - top)
    total = p.sum_(p.where(there, powers, 0.0), [-1], keepdims=True)
    return p.where(there, powers, x * p.exp(-top)) / total


TRANSFORMS: dict[str, Callable[[Array], Array]] = {
    "NONE": lambda x: x,
    "LOGISTIC": logistic,
    "PROBIT": probit,
    "SOFTMAX": softmax,
    "SOFTMAX_ZERO": softmax_zero,
}


def transformed(scores: Array, name: str) -> Array:
    """Scores [rows, classes] after a `post_transform`, in float32."""
    if name not in TRANSFORMS:
        raise ValueError(f"post_transform {name!r} is not one of {', '.join(TRANSFORMS)}")
    return TRANSFORMS[name](p.cast(scores, dtypes.float32))


def pair(score: Array, name: str, positive: bool) -> Array:
    """Both columns of a binary classifier [rows, 2] from its one score [rows, 1].

    A score of weights that are all `positive` is a probability p, and the other is 1 - p; else the other is -score.
    LOGISTIC sees both signs, the softmaxes change nothing, and PROBIT leaves the second column to nobody.
    """
    score = p.cast(score, dtypes.float32)
    if name == "LOGISTIC":
        return logistic(p.concat([-score, score], 1))
    if name == "PROBIT":
        return p.concat([probit(score), score], 1)
    return p.concat([1.0 - score if positive else -score, score], 1)


def column(scores: Array, k: int) -> Array:
    """One column [rows] of scores [rows, classes]."""
    return p.squeeze(p.slice_axis(scores, 1, k, 1), [1])


def labels(texts: Sequence[str], numbers: Sequence[int]) -> Array:
    """The labels of a classifier [classes]: strings, or int64 where there are none."""
    return constant(np.array(texts, object)) if len(texts) else constant(np.array(numbers, np.int64))


def label(names: Array, place: Array) -> Array:
    """The labels at these places, which may be bool: false is the first label."""
    return p.gather(names, [p.cast(place, dtypes.int64)], [0])


def floats(values: Any) -> np.ndarray:
    """An attribute's list of floats as an array."""
    return np.asarray(values, np.float32)
