"""Convolutions over three axes as such over two: the planes that a window sees become channels of one image."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import primitives as p
from sardonyx.primitives.array import Array
from sardonyx.sizes.symbolic import Size, hint, product

GATHERED = 1 << 25
"""Bytes that the planes may take, each of which is there once for each window that sees it."""


def is_plane(kernel: Sequence[int], strides: Sequence[int], low: Sequence[Size]) -> bool:
    """Whether each plane of outputs sees one plane of a volume, its own."""
    return kernel[0] == strides[0] == 1 and isinstance(low[0], int) and low[0] == 0


def is_small(shape: Sequence[Size], channels: int) -> bool:
    """Whether the planes, of so many channels, may be gathered for outputs [B, Do, Ho, Wo, M]."""
    return 4 * channels * hint(product(shape[:-1])) <= GATHERED


def planes(volume: Array, w: Array, depth: Size, stride: int, dilation: int) -> tuple[Array, Array]:
    """A volume [B, D, H, W, C], border included, and w [M, N, kd, kh, kw] as an image [B * depth, H, W, kd * C] and
    w [M, kd * N, kh, kw]."""
    batch, _, *sizes, channels = volume.shape
    made, per_group, taps, *inner = map(int, w.shape)
    seen = [
        p.slice_(volume, [0, tap * dilation, 0, 0, 0], [batch, depth, *sizes, channels], [1, stride, 1, 1, 1])
        for tap in range(taps)
    ]
    image = p.reshape(p.concat(seen, 4), [batch * depth, *sizes, channels * taps])
    return image, p.reshape(p.transpose(w, [0, 2, 1, 3, 4]), [made, per_group * taps, *inner])
