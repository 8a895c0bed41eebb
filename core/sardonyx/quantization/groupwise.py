"""Groups of elements as integers, by two methods: the group's own range, or the best of twenty.

Both take rows that are groups, [groups, size], and give uint8 integers [groups, size], scales and zero points
[groups, 1]: an element is (integer - zero point) * scale.
"""

from __future__ import annotations

import numpy as np

PORTION = 1 << 18
"""Elements that `k_quant` takes at once: it has a dozen arrays of their size."""
STEPS = 20
"""Scales that `k_quant` tries for each group."""
STEP = 0.1
"""How much finer each of them divides the range than the one before, in units of the integers."""


def round_to_nearest(
    groups: np.ndarray, bits: int, symmetric: bool, ratio: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each element to the nearest integer; the range is the group's own times `ratio`, and need not hold zero.

    >>> integers, scales, zero_points = round_to_nearest(np.array([[-1.0, 0.0, 2.0]]), bits=4, symmetric=False)
    >>> integers.tolist(), scales.tolist(), zero_points.tolist()
    ([[0, 5, 15]], [[0.2]], [[5]])
    """
    largest = (1 << bits) - 1
    least, most = groups.min(axis=1, keepdims=True) * ratio, groups.max(axis=1, keepdims=True) * ratio
    if symmetric:
        reach = np.maximum(np.abs(least), np.abs(most))
        scales = np.where(reach > 0, (reach * 2.0).astype(np.float64) / largest, 1.0)
        zero_points = np.full(scales.shape, 1 << bits - 1, np.uint8)
    else:
        scales = np.where(least != most, (most - least).astype(np.float64) / largest, 1.0)
        zero_points = np.clip(np.rint((0.0 - least) / scales), 0, largest).astype(np.uint8)
    return _nearest(groups, scales, zero_points, largest), scales, zero_points


def k_quant(groups: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The scale and the least element, of twenty tried, whose weighted squared error is smallest.

    For integers q of each trial, sum(w * (scale * q + least - x)**2) is minimized in closed form, with
    w = |x| + the root of the group's mean square (`make_qkx2_quants` of llama.cpp).
    """
    step = max(1, PORTION // groups.shape[1])
    parts = [_k_quant(groups[start : start + step], bits) for start in range(0, len(groups), step)]
    integers, scales, zero_points = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return integers, scales, zero_points


def _k_quant(groups: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = groups.astype(np.float32)
    largest = (1 << bits) - 1
    weights = np.sqrt(_sum(x**2) / x.shape[1]) + np.abs(x)
    least, most = x.min(axis=1, keepdims=True), x.max(axis=1, keepdims=True)
    varies = least != most
    sum_w, sum_x = _sum(weights), _sum(weights * x)

    def trial(range_: float) -> tuple[np.ndarray, np.ndarray]:
        """The inverse of the scale that divides each range into so many steps, and the integers by it."""
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = np.where(varies, np.float32(range_) / (most - least), np.float32(1))
            return inverse, np.clip(np.rint(inverse * (x - least)), 0, largest)

    inverse, integers = trial(largest)
    scales = 1 / inverse
    errors = _sum(weights * (scales * integers + least - x) ** 2)
    for number in range(STEPS):
        _, integers = trial(-1 + STEP * number + largest)
        weighted = weights * integers
        sum_l, sum_l2, sum_xl = _sum(weighted), _sum(weighted * integers), _sum(weighted * x)
        with np.errstate(all="ignore"):  # where all integers are equal there is no line, and no better error
            determinant = sum_w * sum_l2 - sum_l**2
            scale = (sum_w * sum_xl - sum_x * sum_l) / determinant
            offset = (sum_l2 * sum_x - sum_l * sum_xl) / determinant
            error = _sum(weights * (scale * integers + offset - x) ** 2)
            better = error < errors
        errors = np.where(better, error, errors)
        scales = np.where(better, scale, scales)
        least = np.where(better, offset, least)
    with np.errstate(all="ignore"):
        zero_points = np.clip(np.rint(-least / scales), 0, largest).astype(np.uint8)
    scales = scales.astype(np.float64)
    return _nearest(x, scales, zero_points, largest), scales, zero_points


def _sum(values: np.ndarray) -> np.ndarray:
    total: np.ndarray = values.sum(axis=1, keepdims=True)
    return total


def _nearest(groups: np.ndarray, scales: np.ndarray, zero_points: np.ndarray, largest: int) -> np.ndarray:
    with np.errstate(all="ignore"):
        integers: np.ndarray = np.clip(np.rint(groups / scales + zero_points), 0, largest)
        return integers.astype(np.uint8)
