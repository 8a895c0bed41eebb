"""The primitive of non-maximum suppression."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx.common import dtypes
from sardonyx.primitives.array import Array, Primitive, primitive
from sardonyx.primitives.binding import bind
from sardonyx.primitives.control import loop
from sardonyx.primitives.elementwise import Types, Values, cast, elementwise, equal, full, iota, maximum, minimum, where
from sardonyx.primitives.indexing import gather, nonzero
from sardonyx.primitives.movement import slice_axis, squeeze, unsqueeze
from sardonyx.primitives.reduction import arg, max_, reduce
from sardonyx.sizes.symbolic import Size

LOWEST = float("-inf")
"""The score of a box that is out."""
_BLOCK = 64
"""Boxes that NumPy compares with one another at a time."""


class Suppression(Primitive):
    """Sides [images, 4, boxes] (top, left, bottom, right), scores [images, classes, boxes], and three numbers of shape
    []: how many boxes are chosen at most (int64), what part of their union the intersection of two of them may be, and
    what the score of one must exceed. Output: int32 [images, classes, room], the chosen boxes in order of their scores,
    then -1. The first of equal ones comes first; what is not above -inf is never chosen."""

    name = "suppression"

    def infer(self, sides: Array, scores: Array, most: Array, overlap: Array, threshold: Array, room: Size) -> Types:
        return [(dtypes.int32, (*scores.shape[:2], room))]

    def numpy(
        self,
        sides: np.ndarray,
        scores: np.ndarray,
        most: np.ndarray,
        overlap: np.ndarray,
        threshold: np.ndarray,
        room: int,
    ) -> Values:
        chosen = np.full((*scores.shape[:2], room), -1, np.int32)
        count = max(0, min(int(most), room))
        with np.errstate(all="ignore"):
            for image, kind in np.ndindex(*scores.shape[:2]):
                line = scores[image, kind]
                places = np.flatnonzero(line > max(threshold, LOWEST))
                places = places[np.argsort(-line[places], kind="stable")]
                survivors = places[_survivors(sides[image][:, places], count, overlap)]
                chosen[image, kind, : len(survivors)] = survivors
        return [chosen]

    def expand(
        self, sides: Array, scores: Array, most: Array, overlap: Array, threshold: Array, room: Size
    ) -> Sequence[Array]:
        """A loop that chooses one box of each image and class in every turn, among those that any class may choose."""
        good = scores > threshold
        numbers = squeeze(nonzero(reduce(good, "any", [0, 1])), [0])
        candidates = gather(where(good, scores, LOWEST), [numbers], [2], 2)
        chosen = self._turns(
            gather(sides, [numbers], [2], 2), candidates, elementwise("min", most, room), overlap, room
        )
        boxes = gather(numbers, [maximum(chosen, 0)], [0])
        return [where(chosen < 0, -1, cast(boxes, dtypes.int32))]

    def _turns(self, sides: Array, scores: Array, most: Array, overlap: Array, room: Size) -> Array:
        """int32 [images, classes, room]: the best box at each turn, -1 where there was none."""
        images, places, turns = (iota(shape, 0) for shape in ((scores.shape[0], 1), (scores.shape[2],), (room,)))
        lines = [squeeze(slice_axis(sides, 1, k, 1), [1]) for k in range(4)]

        def turn(number: Array, going: Array, candidates: Array, chosen: Array) -> list[Array]:
            best = arg(candidates, "argmax", 2)
            taken = [unsqueeze(gather(line, [images, best], [0, 1]), [2]) for line in lines]
            gone = _overlap(taken, [unsqueeze(line, [1]) for line in lines], overlap)
            rest = where(gone | equal(places, unsqueeze(best, [2])), LOWEST, candidates)
            choice = where(_any_left(candidates), cast(best, dtypes.int32), -1)
            now = where(equal(turns, number), unsqueeze(choice, [2]), chosen)
            return [reduce(_any_left(rest), "any"), rest, now]

        none = full((*scores.shape[:2], room), -1, dtypes.int32)
        return loop(most, reduce(_any_left(scores), "any"), [scores, none], turn)[1]


def _any_left(scores: Array) -> Array:
    """Whether any box is left: [images, classes], so that no thread of a GPU looks at all scores."""
    return max_(scores, [2]) > LOWEST


def _overlap(a: list[Array], b: list[Array], limit: Array) -> Array:
    """Whether the intersection of boxes is more than this part of their union."""
    height = maximum(minimum(a[2], b[2]) - maximum(a[0], b[0]), 0)
    width = maximum(minimum(a[3], b[3]) - maximum(a[1], b[1]), 0)
    union = _area(a) + _area(b) - height * width
    return (union > 0) & (height * width / where(union > 0, union, 1) > limit)


def _area(sides: list[Array]) -> Array:
    return (sides[2] - sides[0]) * (sides[3] - sides[1])


def _survivors(sides: np.ndarray, most: int, limit: np.ndarray) -> list[int]:
    """The places of the first boxes [4, count], at most `most`, that no survivor before them drives out."""
    survivors: list[int] = []
    for start in range(0, sides.shape[1], _BLOCK):
        block = sides[:, start : start + _BLOCK]
        gone = np.asarray(_driven_out(sides[:, survivors, None], block[:, None], limit).any(0))
        others = _driven_out(block[:, :, None], block[:, None], limit)
        for place in range(block.shape[1]):
            if len(survivors) == most:
                return survivors
            if not gone[place]:
                survivors.append(start + place)
                gone |= others[place]
    return survivors


def _driven_out(a: np.ndarray, b: np.ndarray, limit: np.ndarray) -> np.ndarray:
    height = np.maximum(np.minimum(a[2], b[2]) - np.maximum(a[0], b[0]), 0)
    width = np.maximum(np.minimum(a[3], b[3]) - np.maximum(a[1], b[1]), 0)
    common = height * width
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common
    exceeds: np.ndarray = (union > 0) & (common / union > limit)
    return exceeds


SUPPRESSION = primitive(Suppression)


def suppression(sides: Array, scores: Array, most: Array, overlap: Array, threshold: Array, room: Size) -> Array:
    """The boxes that non-maximum suppression chooses: `Suppression` says what goes in and comes out."""
    return bind(SUPPRESSION, sides, scores, most, overlap, threshold, room=room)[0]
