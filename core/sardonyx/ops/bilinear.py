"""Images between their elements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.primitives.array import Array


def neighbours(x: Array, image: Array, places: Sequence[Array]) -> list[Array]:
    """The elements of x [N, C, *spatial] around places of the spatial axes, weighted so that their sum is linear in
    between: each [*places, C]. Beyond the border there are zeros; `image` counts along N and broadcasts to the places.
    """
    axes = []
    for place, size in zip(places, x.shape[2:], strict=True):
        base = p.floor(place)
        taps = []
        for tap in (base, base + 1):
            weight = p.where((tap >= 0) & (tap <= size - 1), -p.absolute(tap - place) + 1, 0)
            taps.append((p.cast(tap, dtypes.int32), p.unsqueeze(weight, [weight.rank])))
        axes.append(taps)
    parts = []
    for corner in product(*axes):
        part = p.gather(x, [image, *(tap for tap, _ in corner)], [0, *range(2, x.rank)])
        for _, weight in corner:
            part = part * weight
        parts.append(part)
    return parts
