"""Non-maximum suppression as a routine, by NumPy and spelled with a loop, against a naive one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sardonyx.primitives.binding import constant
from sardonyx.primitives.non_max_suppression import SUPPRESSION
from sardonyx_wasm.routines import suppression
from tests.support import require
from tests.wasm.compiled import run

Array = np.ndarray[Any, Any]

require("wasm")


def naive(sides: Array, scores: Array, most: int, limit: float, threshold: float, room: int) -> Array:
    chosen = np.full((*scores.shape[:2], room), -1, np.int32)
    for image, kind in np.ndindex(*scores.shape[:2]):
        line, box, kept = scores[image, kind], sides[image].astype(np.float32), []
        candidates = [k for k in np.argsort(-line, kind="stable").tolist() if line[k] > threshold]
        for k in candidates:
            if len(kept) < min(most, room) and not any(_overlap(box[:, j], box[:, k]) > limit for j in kept):
                kept.append(k)
        chosen[image, kind, : len(kept)] = kept
    return chosen


def _overlap(a: Array, b: Array) -> float:
    height = max(min(a[2], b[2]) - max(a[0], b[0]), np.float32(0))
    width = max(min(a[3], b[3]) - max(a[1], b[1]), np.float32(0))
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - height * width
    return float(height * width / union) if union > 0 else -1.0


def case(seed: int, boxes: int, classes: int = 3, images: int = 2) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    first, size = rng.uniform(0, 4, (images, 2, boxes)), rng.uniform(0.2, 2, (images, 2, boxes))
    scores = rng.uniform(0, 1, (images, classes, boxes)).round(2 if seed % 2 else 9)
    return np.concatenate([first, first + size], 1).astype("f4"), scores.astype("f4")


def scalars(most: int, limit: float, threshold: float) -> list[Array]:
    return [np.array(most, np.int64), np.array(limit, np.float32), np.array(threshold, np.float32)]


def by_routine(arrays: list[Array], room: int, pieces: int = 1, known: bool = True) -> Array:
    shape = (*arrays[1].shape[:2], room)
    work = [] if known else [("uint8", (*shape[:2], suppression.work(arrays[1].shape[2], room)))]
    return run("suppress", arrays, [("int32", shape), *work], {}, pieces, not known)[0]


@pytest.mark.parametrize("most", [0, 1, 4, 5, 1000, -3])
@pytest.mark.parametrize("boxes", [1, 3, 4, 17, 90])
def test_suppression(boxes: int, most: int) -> None:
    for seed, (limit, threshold) in enumerate([(0.0, 0.3), (0.3, 0.0), (0.6, 0.5), (1.0, -np.inf), (0.4, 1.0)]):
        arrays = [*case(seed, boxes), *scalars(most, limit, threshold)]
        for room in {min(boxes, 5), boxes}:
            wanted = naive(*arrays[:2], max(most, 0), np.float32(limit), np.float32(threshold), room)
            assert_array_equal(SUPPRESSION.numpy(*arrays, room=room)[0], wanted)
            assert_array_equal(by_routine(arrays, room), wanted)
            assert_array_equal(by_routine(arrays, room, pieces=4, known=False), wanted)


@pytest.mark.parametrize("seed", range(4))
def test_loop(seed: int) -> None:
    arrays = [*case(seed, 30), *scalars(7, 0.3, 0.2)]
    (found,) = SUPPRESSION.expand(*map(constant, arrays), room=9)
    assert_array_equal(found.value, naive(*arrays[:2], 7, np.float32(0.3), np.float32(0.2), 9))


def test_boxes_without_area_and_scores_that_are_no_numbers() -> None:
    sides, scores = case(1, 40)
    sides[:, 2:, ::3] = sides[:, :2, ::3]
    scores[..., ::5], scores[..., 1::5] = np.nan, -np.inf
    arrays = [sides, scores, *scalars(50, 0.2, -np.inf)]
    wanted = naive(sides, scores, 50, np.float32(0.2), -np.inf, 40)
    assert_array_equal(SUPPRESSION.numpy(*arrays, room=40)[0], wanted)
    assert_array_equal(by_routine(arrays, 40), wanted)
