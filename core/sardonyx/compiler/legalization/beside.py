"""Few output channels, computed for neighbouring places at once: as channels side by side."""

from __future__ import annotations

from sardonyx import primitives as p
from sardonyx.primitives.array import Array


def beside(w: Array, axis: int, count: int, step: int) -> Array:
    """The weights [count * M, N, *taps] of so many neighbouring outputs along a spatial axis, from those of one, with
    zeros where a neighbour sees nothing; outputs see `step` elements on."""
    parts = []
    for number in range(count):
        low, high = [0] * w.rank, [0] * w.rank
        low[2 + axis], high[2 + axis] = number * step, (count - 1 - number) * step
        parts.append(p.pad(w, low, high))
    return p.concat(parts, 0)
