"""Transposed convolutions by their phases: outputs that are as far apart as the elements of the image."""

from __future__ import annotations

from sardonyx import primitives as p
from sardonyx.primitives.array import Array


def interleaved(phases: Array) -> Array:
    """The image [B, *(size * spread), M] of what its phases are, [B, *size, *spread, M]."""
    rank = (phases.rank - 2) // 2
    order = [0, *(axis for k in range(rank) for axis in (1 + k, 1 + rank + k)), 1 + 2 * rank]
    sizes, spread = phases.shape[1 : 1 + rank], phases.shape[1 + rank : -1]
    wide = [size * step for size, step in zip(sizes, spread, strict=True)]
    return p.reshape(p.transpose(phases, order), [phases.shape[0], *wide, phases.shape[-1]])
