"""Rotary position embeddings of pictures and films: positions in time, height and width (Wang et al., 2024)."""

from __future__ import annotations

import numpy as np

from sardonyx import primitives as p
from sardonyx.ops.microsoft.attention import MICROSOFT, refuse
from sardonyx.ops.operator import Operator
from sardonyx.ops.rotary import rotate, split_heads
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant


class MRotaryEmbedding(Operator, domain=MICROSOFT):
    """Heads turned by angles of three positions [3, B, S] (time, height, width) for each token.

    `mrope_section` counts the pairs of a head that each position turns: one after the other, or, where `mrope_layout`
    is 1, in turn, time taking also what the others leave. The first `rotary_embedding_dim` elements of a head (all if
    0) are turned.
    """

    interleaved: int = 0
    is_packed_batching: int = 0
    mrope_layout: int = 0
    mrope_section: tuple[int, ...]
    num_heads: int = 0
    rotary_embedding_dim: int = 0
    scale: float = 1.0

    def expand(self, x: Array, positions: Array, cos: Array, sin: Array) -> Array:
        refuse(is_packed_batching=self.is_packed_batching, scale=self.scale - 1.0)
        if x.rank not in (3, 4) or positions.rank != 3:
            raise ValueError(f"input {p.show(x.shape)} has neither three axes nor four, or position_ids not three")
        if x.rank == 3 and not self.num_heads:
            raise ValueError("input has three axes, which the attribute num_heads splits: set it")
        heads, axis = (x, 1) if x.rank == 4 else (split_heads(x, self.num_heads), 2)
        streams = constant(np.array(self._streams()))
        if cos.shape[1] != streams.shape[0] or cos.shape[1] != (self.rotary_embedding_dim or heads.shape[3]) // 2:
            raise ValueError(f"mrope_section {list(self.mrope_section)} or cos {p.show(cos.shape)} is not of all pairs")
        places = p.transpose(p.gather(positions, [streams], [0]), [1, 2, 0])
        pairs = p.iota((1, 1, streams.shape[0]), 2)
        cos, sin = (p.unsqueeze(p.gather(table, [places, pairs], [0, 1]), [axis]) for table in (cos, sin))
        return p.reshape(rotate(heads, cos, sin, bool(self.interleaved)), x.shape)

    def _streams(self) -> list[int]:
        """Which position turns each pair."""
        if len(self.mrope_section) != 3 or min(self.mrope_section) < 0:
            raise ValueError(f"mrope_section {list(self.mrope_section)} is not three counts of pairs")
        if not self.mrope_layout:
            return [stream for stream, count in enumerate(self.mrope_section) for _ in range(count)]
        pairs = sum(self.mrope_section)
        return [k % 3 if k < 3 * self.mrope_section[k % 3] else 0 for k in range(pairs)]
