"""Attention that sees only some blocks of the keys (Abdin et al., "Phi-3 technical report", 2024)."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.attention import attend, every, heads_first, heads_merged, window
from sardonyx.ops.microsoft.attention import LOWEST, MICROSOFT, angles
from sardonyx.ops.operator import Operator
from sardonyx.ops.rotary import rotate
from sardonyx.primitives.array import Array
from sardonyx.primitives.reading import known_sizes
from sardonyx.sizes.symbolic import Size


class SparseAttention(Operator, domain=MICROSOFT):
    """Causal attention whose heads share keys and values in groups, and see blocks of keys, with a cache.

    Which blocks of keys each block of queries sees is a sparse matrix for each of some layouts [layouts, rows + 1] and
    [layouts, most]: where rows begin, and columns. Heads take the layouts in turn. The cache keeps its size.
    """

    do_rotary: int = 0
    kv_num_heads: int
    num_heads: int
    rotary_interleaved: int = 0
    scale: float = 0.0
    sparse_block_size: int

    def expand(
        self,
        query: Array,
        key: Array | None,
        value: Array | None,
        past_key: Array,
        past_value: Array,
        rows: Array,
        columns: Array,
        total_length: Array,
        lengths: Array,
        cos: Array | None = None,
        sin: Array | None = None,
    ) -> Sequence[Array]:
        own, shared = self.num_heads, self.kv_num_heads
        if key is None or value is None:
            heads = heads_first(query, own + 2 * shared)
            parts = ((0, own), (own, shared), (own + shared, shared))
            q, k, v = (p.slice_axis(heads, 1, at, count) for at, count in parts)
        else:
            q, k, v = heads_first(query, own), heads_first(key, shared), heads_first(value, shared)
        batch, _, length, _ = q.shape
        (total,) = known_sizes(total_length)
        most = (rows.shape[1] - 1) * self.sparse_block_size
        for name, room in (("the blocks", most), ("the cache", past_key.shape[2])):
            if total > room:
                raise ValueError(f"{total} tokens are more than the {room} of {name}")
        start: Array = p.reshape(p.cast(lengths, dtypes.int32), (batch, 1, 1, 1)) - length
        if total == length:
            start = start * 0
        if self.do_rotary:
            if cos is None or sin is None:
                raise ValueError("do_rotary needs cos_cache and sin_cache")
            cos, sin = (angles(table, start, length, None) for table in (cos, sin))
            q, k = (rotate(x, cos, sin, bool(self.rotary_interleaved)) for x in (q, k))
        caches = [_written(cache, new, start) for cache, new in ((past_key, k), (past_value, v))]
        k, v = (p.slice_axis(cache, 2, 0, total) for cache in caches)
        seen = self._seen(rows, columns, p.squeeze(start, [1, 3]) + p.iota((1, length), 1, start.dtype), total)
        bias = p.where(seen, p.full((), 0.0, dtypes.float32), LOWEST)
        allowed = every(window(length, total, start, causal=True))
        result, _ = attend(q, k, v, self.scale or None, allowed=allowed, bias=bias)
        return heads_merged(p.cast(result, q.dtype)), *caches

    def _seen(self, rows: Array, columns: Array, places: Array, total: Size) -> Array:
        """Which keys of `total` the heads see from places [B, S], as [B, heads, S, total], by blocks alone."""
        layouts, blocks, most = rows.shape[0], rows.shape[1] - 1, columns.shape[1]
        ends = p.unsqueeze(p.slice_axis(rows, 1, 1, blocks), [1])
        number = p.iota((1, most, 1), 1, rows.dtype)
        row = p.sum_(p.cast(ends <= number, dtypes.int32), [2])
        layout = p.iota((layouts, 1), 0, dtypes.int32)
        none = p.full((layouts, blocks, blocks), 0, dtypes.int32)
        ones = p.full((layouts, most), 1, dtypes.int32)
        matrix = p.scatter(none, ones, [layout, row, p.cast(columns, dtypes.int32)], [0, 1, 2])
        if self.num_heads % layouts != 0:
            raise ValueError(f"{layouts} layouts cannot be taken in turn by {self.num_heads} heads")
        head = p.iota((1, self.num_heads, 1, 1), 1, dtypes.int32) % layouts
        own = p.unsqueeze(p.cast(places, dtypes.int32) / self.sparse_block_size, [1, 3])
        other = p.iota((1, 1, 1, total), 3, dtypes.int32) / self.sparse_block_size
        return p.gather(matrix, [head, own, other], [0, 1, 2]) > 0


def _written(cache: Array, new: Array, start: Array) -> Array:
    """A cache [B, H, T, D] with new keys or values [B, H, S, D] at places from `start` [B, 1, 1, 1] on."""
    batch, _, length, _ = new.shape
    places = p.reshape(start, (batch, 1)) + p.iota((1, length), 1, start.dtype)
    entries = p.iota((batch, 1), 0, start.dtype)
    return p.scatter(cache, p.transpose(new, [0, 2, 1, 3]), [entries, places], [0, 2])
