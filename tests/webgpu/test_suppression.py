"""Non-maximum suppression: a workgroup for each class, against one box after the other."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sardonyx_webgpu.legalization.selection import MOST_SCORES
from tests.webgpu.nodes import Array, on_device, run

__all__ = ["on_device"]


def naive(boxes: Array, scores: Array, most: int, limit: float, threshold: float) -> Array:
    found = []
    for image, kind in np.ndindex(*scores.shape[:2]):
        line, kept = scores[image, kind], []
        for k in np.argsort(-line, kind="stable").tolist():
            if line[k] > threshold and len(kept) < most and not overlaps(boxes[image], kept, k, limit):
                kept.append(k)
                found.append([image, kind, k])
    return np.array(found, np.int64).reshape(-1, 3)


def overlaps(boxes: Array, kept: list[int], k: int, limit: float) -> bool:
    a, b = boxes[kept], boxes[k]
    height = np.maximum(np.minimum(a[:, 2], b[2]) - np.maximum(a[:, 0], b[0]), 0)
    width = np.maximum(np.minimum(a[:, 3], b[3]) - np.maximum(a[:, 1], b[1]), 0)
    union = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1]) + (b[2] - b[0]) * (b[3] - b[1]) - height * width
    return bool(((union > 0) & (height * width > limit * union)).any())


def case(seed: int, boxes: int, classes: int = 3, images: int = 2, spread: int = 64) -> tuple[Array, Array]:
    """Boxes on a grid, so that areas are exact, and scores of which many are equal."""
    rng = np.random.default_rng(seed)
    first, size = rng.integers(0, spread, (images, boxes, 2)), rng.integers(0, 24, (images, boxes, 2))
    scores = rng.uniform(0, 1, (images, classes, boxes)).round(2 if seed % 2 else 6)
    return np.concatenate([first, first + size], 2).astype("f4"), scores.astype("f4")


def check(boxes: Array, scores: Array, most: int, limit: float, threshold: float, open_sizes: bool = False) -> None:
    wanted = naive(boxes, scores, most, np.float32(limit), np.float32(threshold))
    limits = [np.array([most]), np.array([limit], np.float32), np.array([threshold], np.float32)]
    (found,) = run("NonMaxSuppression", boxes, scores, constants=dict(enumerate(limits, 2)), open_sizes=open_sizes)
    assert_array_equal(found, wanted)
    if open_sizes:  # the number of boxes that are chosen at most is an input, too
        (found,) = run("NonMaxSuppression", boxes, scores, *limits, open_sizes=True)
        assert_array_equal(found, wanted)


@pytest.mark.parametrize("boxes", [1, 3, 63, 64, 65, 130, 500])
@pytest.mark.parametrize("open_sizes", [False, True])
def test_boxes(boxes: int, open_sizes: bool) -> None:
    for seed, (limit, threshold) in enumerate([(0.0, 0.3), (0.3, 0.0), (0.55, 0.5), (1.0, -np.inf), (0.4, 1.0)]):
        for most in {1, 7, 2 * boxes} if seed < 2 else {20}:
            check(*case(seed, boxes), most, limit, threshold, open_sizes)


def test_many_chosen() -> None:
    """More than a block of them are compared with each candidate."""
    check(*case(0, 1500, 1, 1, spread=1000), 1500, 0.3, 0.0)


@pytest.mark.parametrize("threshold", [0.98, 1.0])
def test_many_scores(threshold: float) -> None:
    """Boxes that no class may choose are left out first."""
    boxes = MOST_SCORES // 20
    check(*case(2, boxes, 80, 1, spread=600), 50, 0.5, threshold)


def test_scores_that_are_no_numbers() -> None:
    boxes, scores = case(1, 100)
    scores[0, 0, ::7], scores[0, 1, ::5], scores[1] = np.nan, np.inf, -np.inf
    check(boxes, scores, 30, 0.4, -np.inf)


def test_nothing() -> None:
    check(*case(0, 0), 3, 0.5, 0.0)
    check(*case(0, 10, 0), 3, 0.5, 0.0)
