"""Rotary position embeddings (Su et al., 2021): pairs of elements turned by angles that grow with the position."""

from __future__ import annotations

import numpy as np

from sardonyx import primitives as p
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array
from sardonyx.sizes.symbolic import Size


def rotate(x: Array, cos: Array, sin: Array, interleaved: bool) -> Array:
    """Turn pairs of elements along the last axis of x by the angles whose cosines and sines [..., pairs] are given.

    A pair is two neighbours if `interleaved`, else an element and the one `pairs` behind it. What is behind the pairs
    stays as it is. 16-bit floats are turned in float32.
    """
    pairs, size = cos.shape[-1], x.shape[-1]
    wide, outer = p.widen(x), x.shape[:-1]
    cos, sin = p.cast(cos, wide.dtype), p.cast(sin, wide.dtype)
    turned = p.slice_axis(wide, -1, 0, 2 * pairs)
    axis = x.rank if interleaved else x.rank - 1
    by_pair = p.reshape(turned, (*outer, pairs, 2) if interleaved else (*outer, 2, pairs))
    real, imaginary = (p.squeeze(p.slice_axis(by_pair, axis, part, 1), [axis]) for part in (0, 1))
    parts = [real * cos - imaginary * sin, real * sin + imaginary * cos]
    turned = p.reshape(p.concat([p.unsqueeze(part, [axis]) for part in parts], axis), turned.shape)
    if size != 2 * pairs:
        turned = p.concat([turned, p.slice_axis(wide, -1, 2 * pairs, size - 2 * pairs)], -1)
    return p.cast(turned, x.dtype)


def split_heads(x: Array, heads: Size) -> Array:
    """[B, S, heads * size] as [B, S, heads, size]."""
    batch, length, hidden = x.shape
    if hidden % heads != 0:
        raise ValueError(f"the last axis of {p.show(x.shape)} does not make {heads} heads of equal size")
    return p.reshape(x, (batch, length, heads, hidden // heads))


class RotaryEmbedding(Operator, since=23):
    """The first `rotary_embedding_dim` elements of each head (all if 0) turned by the angles of their positions."""

    interleaved: int = 0
    num_heads: int = 0
    rotary_embedding_dim: int = 0

    def expand(self, x: Array, cos: Array, sin: Array, positions: Array | None = None) -> Array:
        if x.rank not in (3, 4):
            raise ValueError(f"x {p.show(x.shape)} is neither [batch, heads, length, size] nor [batch, length, hidden]")
        if x.rank == 3 and not self.num_heads:
            raise ValueError("x has three axes, which the attribute num_heads splits: set it")
        heads = x if x.rank == 4 else split_heads(x, self.num_heads)
        pairs = (self.rotary_embedding_dim or heads.shape[-1]) // 2
        if cos.shape[-1] != pairs or sin.shape[-1] != pairs:
            raise ValueError(f"cos {p.show(cos.shape)} and sin {p.show(sin.shape)} are not of {pairs} pairs")
        if positions is not None:
            cos, sin = p.gather(cos, [positions], [0]), p.gather(sin, [positions], [0])
        axis = 1 if x.rank == 4 else 2
        cos, sin = p.unsqueeze(cos, [axis]), p.unsqueeze(sin, [axis])
        return p.reshape(rotate(heads, cos, sin, bool(self.interleaved)), x.shape)

    samples = [
        sample((2, 3, 4, 8), (2, 4, 4), (2, 4, 4)),
        sample((2, 4, 24), (2, 4, 4), (2, 4, 4), num_heads=3, interleaved=1),
        sample((2, 3, 2, 8), (9, 4), (9, 4), np.array([[0, 1], [8, 3]])),
        sample((1, 2, 0, 4), (1, 0, 2), (1, 0, 2)),
    ]
