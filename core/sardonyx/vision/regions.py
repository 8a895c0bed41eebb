"""Connected pixels of a mask, and the smallest rectangles around them, turned as need be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sardonyx.common.record import record

Floats = NDArray[np.float64]


@record(frozen=True)
class Rectangle:
    """A rectangle by its middle, its sides, and the direction of the first of them as a unit vector; x before y."""

    middle: Floats
    width: float
    height: float
    along: Floats

    @property
    def across(self) -> Floats:
        """The direction of the other side, a quarter turn from the first."""
        return np.array([-self.along[1], self.along[0]])

    def grown(self, distance: float) -> Rectangle:
        """The rectangle whose sides are this far outside."""
        return Rectangle(self.middle, self.width + 2 * distance, self.height + 2 * distance, self.along)

    def corners(self) -> Floats:
        """[4, 2], clockwise as y goes down; first the upper one of the two on the left."""
        half = np.array([self.width / 2 * self.along, self.height / 2 * self.across])
        found = self.middle + np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) @ half
        left = np.argsort(found[:, 0], kind="stable")[:2]
        first = left[np.argmin(found[left, 1])]
        return np.roll(found, -int(first), axis=0)

    def holds(self, points: Floats) -> NDArray[np.bool_]:
        """Which of points [..., 2] lie in it, its edges included."""
        offsets = points - self.middle
        inside = np.abs(offsets @ self.along) <= self.width / 2 + EDGE
        held: NDArray[np.bool_] = inside & (np.abs(offsets @ self.across) <= self.height / 2 + EDGE)
        return held


EDGE = 1e-6
"""How far outside rounding may put a point of an edge."""


def regions(mask: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """For each set of pixels that touch, at corners too, the first and last ones of its rows: [n, 2], x before y.

    >>> mask = np.array([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0]], bool)
    >>> [points.tolist() for points in regions(mask)]
    [[[0, 0], [1, 0], [2, 1], [2, 1]], [[0, 3], [0, 3]]]
    """
    height, width = mask.shape
    padded = np.zeros((height, width + 2), np.int8)
    padded[:, 1:-1] = mask
    edges = np.flatnonzero(np.diff(padded.ravel()))
    starts, ends = edges[0::2], edges[1::2]  # in a row of their own: its last pixel is followed by the edge
    rows, span = starts // (width + 2), width + 2
    # those of the next row that begin at most one pixel behind the end, and end at least one before the start
    first = np.searchsorted(ends, starts + span, "left")
    last = np.searchsorted(starts, ends + span, "right")
    roots = list(range(len(starts)))

    def root(number: int) -> int:
        while roots[number] != number:
            roots[number] = roots[roots[number]]
            number = roots[number]
        return number

    for number, (low, high) in enumerate(zip(first.tolist(), last.tolist())):
        for other in range(low, high):
            if rows[other] == rows[number] + 1:
                mine, its = root(number), root(other)
                roots[max(mine, its)] = min(mine, its)
    groups: dict[int, list[int]] = {}
    for number in range(len(roots)):
        groups.setdefault(root(number), []).append(number)
    found = []
    for numbers in groups.values():
        y = np.repeat(rows[numbers], 2)
        x = np.stack([starts[numbers], ends[numbers] - 1], 1).ravel() - y * span
        found.append(np.stack([x, y], 1))
    return found


def smallest(points: NDArray[np.int64]) -> Rectangle:
    """The rectangle of the least area around points [n, 2]: one of its sides lies on their convex hull (Freeman and
    Shapira, 1975). The first side is that which is nearer to level."""
    hull = _hull(points).astype(np.float64)
    sides = np.roll(hull, -1, 0) - hull
    lengths = np.hypot(*sides.T)
    directions = sides[lengths > 0] / lengths[lengths > 0, None] if lengths.any() else np.array([[1.0, 0.0]])
    along = hull @ directions.T
    across = hull @ np.stack([-directions[:, 1], directions[:, 0]])
    best = int(np.argmin(np.ptp(along, 0) * np.ptp(across, 0)))
    direction = directions[best]
    if abs(direction[1]) > abs(direction[0]):
        direction = np.array([-direction[1], direction[0]])
    direction = direction if direction[0] > 0 else -direction
    places = hull @ np.stack([direction, [-direction[1], direction[0]]], 1)
    low, high = places.min(0), places.max(0)
    middle = (low + high) / 2 @ np.stack([direction, [-direction[1], direction[0]]])
    return Rectangle(middle, float(high[0] - low[0]), float(high[1] - low[1]), direction)


def _hull(points: NDArray[np.int64]) -> NDArray[np.int64]:
    """The corners of the convex hull, in order (Andrew, 1979)."""
    ordered = sorted(set(map(tuple, points.tolist())))
    if len(ordered) < 3:
        return np.array(ordered)
    halves = []
    for line in (ordered, ordered[::-1]):
        chain: list[tuple[int, ...]] = []
        for x, y in line:
            while len(chain) > 1 and _turn(chain[-2], chain[-1], x, y) <= 0:
                chain.pop()
            chain.append((x, y))
        halves += chain[:-1]
    return np.array(halves)


def _turn(a: tuple[int, ...], b: tuple[int, ...], x: int, y: int) -> int:
    return (b[0] - a[0]) * (y - a[1]) - (b[1] - a[1]) * (x - a[0])
