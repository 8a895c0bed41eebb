"""onnxruntime's forms of attention: projections, caches and masks as its optimizers and exporters write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.attention import attend, every, heads_first, heads_merged, window
from sardonyx.ops.microsoft.quantized_cache import QuantizedCache
from sardonyx.ops.operator import Operator, sample
from sardonyx.ops.rotary import rotate, split_heads
from sardonyx.primitives.array import Array
from sardonyx.primitives.dot_product_attention import seen
from sardonyx.primitives.reading import known_sizes
from sardonyx.primitives.trace import active_trace
from sardonyx.sizes.symbolic import Size, same

MICROSOFT = "com.microsoft"
LOWEST = float(np.finfo(np.float32).min)
"""What onnxruntime adds to the score of a key that is behind its query."""


def refuse(**features: Any) -> None:
    """Raise for the first of these features that a node asks for; none of them is supported."""
    for name, value in features.items():
        if value is not None and value != 0:
            raise NotImplementedError(f"{name} is not supported; export the model without it")


def _part(x: Array, axis: int, start: Size, size: Size) -> Array:
    return p.slice_axis(x, axis, start, size)


class RotaryEmbedding(Operator, domain=MICROSOFT):
    """Heads turned by the angles of their positions: one for each token, or that of the first one, a scalar or [1]."""

    interleaved: int = 0
    is_packed_batching: int = 0
    num_heads: int = 0

    def expand(self, x: Array, positions: Array, cos: Array, sin: Array) -> Array:
        refuse(is_packed_batching=self.is_packed_batching)
        if x.rank not in (3, 4):
            raise ValueError(f"input {p.show(x.shape)} has neither three axes nor four")
        if x.rank == 4:
            heads, axis, length = x, 1, x.shape[2]
        else:
            heads, axis, length = split_heads(x, self.num_heads or x.shape[2] // (2 * cos.shape[1])), 2, x.shape[1]
        if positions.rank < 2:
            positions = p.reshape(positions, (1, 1)) + p.iota((1, length), 1, positions.dtype)
        cos, sin = (p.unsqueeze(p.gather(table, [positions], [0]), [axis]) for table in (cos, sin))
        return p.reshape(rotate(heads, cos, sin, bool(self.interleaved)), x.shape)

    samples = [
        sample((2, 3, 16), np.array([[0, 1, 2], [4, 3, 2]]), (6, 4), (6, 4)),
        sample((2, 2, 3, 8), np.array([2]), (6, 4), (6, 4), interleaved=1),
        sample((2, 3, 16), np.array(2), (6, 4), (6, 4)),
    ]


class _Masked(Operator, abstract=True):
    """Attention whose masks are added to the scores."""

    mask_filter_value: float = -10000.0
    num_heads: int
    scale: float = 0.0
    unidirectional: int = 0

    def attended(
        self, q: Array, k: Array, v: Array, past: Size, mask: Array | None, bias: Array | None
    ) -> tuple[Array, Array]:
        """[B, S, hidden], and the scores with all that is added to them. `past` keys come before the queries' own."""
        batch, _, length, _ = q.shape
        total = k.shape[2]
        added = None if mask is None else self._padding(mask, batch, total)
        if bias is not None:
            bias = p.widen(bias)
            added = bias if added is None else added + bias
        if self.unidirectional and (same(total, past + length) or length != 1):  # one query alone sees all keys
            (seen,) = window(length, total, past, causal=True)
            added = p.where(seen, p.full((), 0.0, p.widen(q).dtype) if added is None else added, LOWEST)
        result, scores = attend(q, k, v, self.scale or None, bias=added)
        return heads_merged(p.cast(result, q.dtype)), p.cast(scores(2), q.dtype)

    def _padding(self, mask: Array, batch: Size, total: Size) -> Array | None:
        """The bias that a mask adds to the scores.

        The mask holds counts of keys [B], ends and starts [2 B], counts and more [3 B + 2], or a number above 0 for
        each key [B, T], or for each query and key [B, S, T], that takes part.
        """
        if mask.rank == 1:
            key = p.iota((1, 1, 1, total), 3, mask.dtype)
            ends = p.reshape(_part(mask, 0, 0, batch), (batch, 1, 1, 1))
            allowed = key < ends
            if mask.shape[0] == 2 * batch:
                allowed = allowed & (key >= p.reshape(_part(mask, 0, batch, batch), (batch, 1, 1, 1)))
        elif mask.rank == 2:
            if mask.shape[1] == 1 and total != 1:
                return None
            allowed = p.unsqueeze(mask > 0, [1, 2])
        elif mask.rank == 3:
            allowed = p.unsqueeze(mask > 0, [1])
        else:
            raise NotImplementedError(f"a mask of shape {p.show(mask.shape)} is not supported; use one of three axes")
        return p.where(allowed, p.full((), 0.0, dtypes.float32), self.mask_filter_value)


class SelfAttention(_Masked, abstract=True):
    """Attention of x to itself, and its cache."""

    do_rotary: int = 0
    past_present_share_buffer: int = 0
    qkv_hidden_sizes: tuple[int, ...] = ()

    def of_projections(
        self,
        qkv: Array,
        mask: Array | None,
        past: Array | None,
        attention_bias: Array | None = None,
        past_length: Array | None = None,
    ) -> Sequence[Array]:
        """The results for queries, keys and values that are concatenated to [B, S, 3 * hidden]."""
        refuse(do_rotary=self.do_rotary)
        sizes: Sequence[Size] = self.qkv_hidden_sizes or [qkv.shape[2] // 3] * 3
        starts = [0, sizes[0], sizes[0] + sizes[1]]
        q, k, v = (heads_first(_part(qkv, 2, *place), self.num_heads) for place in zip(starts, sizes, strict=True))
        caches = [None, None] if past is None else [p.squeeze(_part(past, 0, part, 1), [0]) for part in (0, 1)]
        shared = past_length if self.past_present_share_buffer else None
        (k, present_key, before), (v, present_value, _) = (
            _appended(cache, new, shared) for cache, new in zip(caches, (k, v), strict=True)
        )
        result, _ = self.attended(q, k, v, before, mask, attention_bias)
        if self.outputs < 2:
            return [result]
        return result, p.concat([p.unsqueeze(present, [0]) for present in (present_key, present_value)], 0)


class Attention(SelfAttention, domain=MICROSOFT):
    """Attention of x to itself, by one matrix that makes queries, keys and values of it; and its cache."""

    def expand(
        self,
        x: Array,
        weights: Array,
        bias: Array | None = None,
        mask: Array | None = None,
        past: Array | None = None,
        attention_bias: Array | None = None,
        past_length: Array | None = None,
    ) -> Sequence[Array]:
        qkv = p.matmul(x, weights)
        return self.of_projections(qkv if bias is None else qkv + bias, mask, past, attention_bias, past_length)

    samples = [
        sample((2, 3, 6), (6, 24), (24,), num_heads=2),
        sample((2, 3, 6), (6, 24), (24,), np.array([[1, 0, 1], [0, 1, 1]], np.int32), num_heads=2, unidirectional=1),
        sample((2, 3, 6), (6, 24), (24,), np.array([2, 3, 1, 0], np.int32), num_heads=2, scale=0.5),
    ]


def _appended(past: Array | None, new: Array, length: Array | None = None) -> tuple[Array, Array, Size]:
    """New keys or values [B, H, S, D] behind those of a cache, the cache after it, and how many came before.

    If `length` says how many of the cache are in use, it keeps its size: the new ones overwrite what follows those.
    """
    if past is None:
        return new, new, 0
    if length is None:
        joined = p.concat([past, new], 2)
        return joined, joined, past.shape[2]
    (before,) = known_sizes(length)
    used = before + new.shape[2]
    if used > past.shape[2]:
        raise ValueError(f"{before} and {new.shape[2]} tokens do not fit into a cache of {past.shape[2]}")
    joined = p.concat([_part(past, 2, 0, before), new], 2)
    return joined, p.concat([joined, _part(past, 2, used, past.shape[2] - used)], 2), before


def _of_beams(x: Array, beams: Array, before: Size) -> Array:
    """Keys or values [B, H, T, D] of which each of the first `before` comes from the beam that is named for it, among
    those of the same prompt: `beams` are [prompts, beams of each, most]."""
    prompts, width, most = beams.shape
    count, total = x.shape[0], x.shape[2]
    if prompts * width != count or most < before:
        raise ValueError(f"cache_indirection {p.show(beams.shape)} is not for {count} beams with {before} tokens")
    own = p.iota((count, 1), 0, beams.dtype)
    source = _part(p.reshape(beams, (count, most)), 1, 0, before) + own / width * width
    rows = p.concat([source, p.broadcast_to(own, (count, total - before))], 1)
    return p.transpose(p.gather(x, [rows, p.iota((1, total), 1, beams.dtype)], [0, 2]), [0, 2, 1, 3])


class _MultiHead(_Masked, abstract=True):
    """Attention of query to key and value, which may be packed into one tensor, or be a cache themselves."""

    def results(
        self,
        tokens: tuple[Array, Array | None, Array | None],
        bias: Array | None,
        mask: Array | None,
        attention_bias: Array | None,
        past: tuple[Array | None, Array | None],
        past_length: Array | None,
        beams: Array | None = None,
    ) -> Sequence[Array]:
        """[B, S, hidden], the caches of keys and values, and the scores."""
        q, k, v = self._heads(*tokens, bias)
        k, present_key, before = _appended(past[0], k, past_length)
        v, present_value, _ = _appended(past[1], v, past_length)
        if beams is not None and past[0] is not None and past_length is not None and q.shape[2] == 1:
            k, v = (_of_beams(x, beams, before) for x in (k, v))
            if attention_bias is not None and attention_bias.shape[0] != 1:  # onnxruntime counts prompts, not beams
                prompts = p.iota((q.shape[0],), 0, dtypes.int32) / beams.shape[1]
                attention_bias = p.gather(attention_bias, [prompts], [0])
        result, scores = self.attended(q, k, v, before, mask, attention_bias)
        return result, present_key, present_value, scores

    def _heads(self, query: Array, key: Array | None, value: Array | None, bias: Array | None) -> list[Array]:
        """Queries, keys and values [B, heads, length, size]."""
        if key is None and query.rank == 3:
            size = query.shape[2] // 3
            parts = [_part(query, 2, size * part, size) for part in range(3)]
        elif key is None:
            parts = [self._merged(p.squeeze(_part(query, 3, part, 1), [3])) for part in range(3)]
        elif key.rank == 5:
            parts = [query, *(self._merged(p.squeeze(_part(key, 3, part, 1), [3])) for part in range(2))]
        elif value is None:
            raise ValueError("key is given without value; give both, or pack them")
        else:
            parts = [query, key, value]
        if bias is not None:
            start: Size = 0
            for k, part in enumerate(parts):
                if part.rank == 3:
                    parts[k] = part + _part(bias, 0, start, part.shape[2])
                    start = start + part.shape[2]
        return [heads_first(part, self.num_heads) if part.rank == 3 else part for part in parts]

    def _merged(self, x: Array) -> Array:
        batch, length, heads, size = x.shape
        return p.reshape(x, (batch, length, heads * size))


class MultiHeadAttention(_MultiHead, domain=MICROSOFT):
    """Attention of query to key and value, to which biases are added before.

    As on onnxruntime's GPUs, a cache has a part in it only where the node gives it back: its CPU reads beyond the keys.
    """

    def expand(
        self,
        query: Array,
        key: Array | None = None,
        value: Array | None = None,
        bias: Array | None = None,
        mask: Array | None = None,
        attention_bias: Array | None = None,
        past_key: Array | None = None,
        past_value: Array | None = None,
        past_length: Array | None = None,
        indirection: Array | None = None,
    ) -> Sequence[Array]:
        is_kept = any(output.name for output in self.node.outputs[1:3])
        past = (past_key, past_value) if is_kept else (None, None)
        return self.results((query, key, value), bias, mask, attention_bias, past, past_length, indirection)

    samples = [
        sample((2, 3, 8), (2, 5, 8), (2, 5, 6), num_heads=2),
        sample((2, 1, 8), (2, 5, 8), (2, 5, 6), num_heads=2, unidirectional=1),
        sample((2, 3, 8), (2, 5, 8), (2, 5, 6), (22,), np.array([3, 5], np.int32), num_heads=2, scale=0.3),
    ]


class DecoderMaskedMultiHeadAttention(_MultiHead, domain=MICROSOFT):
    """MultiHeadAttention of one new token to a cache; its inputs come in another order."""

    past_present_share_buffer: int = 0

    def expand(
        self,
        query: Array,
        key: Array | None = None,
        value: Array | None = None,
        mask: Array | None = None,
        attention_bias: Array | None = None,
        past_key: Array | None = None,
        past_value: Array | None = None,
        past_length: Array | None = None,
        beam_width: Array | None = None,
        indirection: Array | None = None,
        bias: Array | None = None,
    ) -> Sequence[Array]:
        shared = past_length if self.past_present_share_buffer else None
        past = past_key, past_value
        return self.results((query, key, value), bias, mask, attention_bias, past, shared, indirection)


class GroupQueryAttention(Operator, domain=MICROSOFT):
    """Causal attention whose heads share keys and values in groups, with rotary embedding and a cache.

    `seqlens_k` is one less than the number of keys of each entry of the batch, `total_sequence_length` the largest
    such number. The cache keeps its size if it has room for all keys, otherwise it grows to hold them. The keys of an
    entry are the first of its cache. Where that stays on the device (`InferenceSession.caches`) and tokens follow in
    a batch, they are the last, so that all entries have their new ones at the same place. Where the cache is quantized,
    new keys and values are rounded before they are attended to.
    """

    causal: int = 1
    do_rotary: int = 0
    k_quant_type: str = "NONE"
    kv_cache_bit_width: int = 0
    kv_num_heads: int
    local_window_size: int = -1
    num_heads: int
    qk_output: int = 0
    rotary_interleaved: int = 0
    scale: float = 0.0
    sliding_window_cache: int = 0
    smooth_softmax: int = 0
    softcap: float = 0.0
    v_quant_type: str = "NONE"

    def expand(
        self,
        query: Array,
        key: Array | None,
        value: Array | None,
        past_key: Array | None,
        past_value: Array | None,
        seqlens: Array,
        total_length: Array,
        cos: Array | None = None,
        sin: Array | None = None,
        positions: Array | None = None,
        bias: Array | None = None,
        sink: Array | None = None,
        k_scale: Array | None = None,
        v_scale: Array | None = None,
        q_norm: Array | None = None,
        k_norm: Array | None = None,
    ) -> Sequence[Array]:
        refuse(sliding_window_cache=self.sliding_window_cache)
        keys = QuantizedCache("k", self.k_quant_type, self.kv_cache_bit_width, k_scale)
        values = QuantizedCache("v", self.v_quant_type, self.kv_cache_bit_width, v_scale)
        keys.check(past_key)
        values.check(past_value)
        refuse(q_norm_weight=q_norm, k_norm_weight=k_norm)
        q, k, v = self._heads(query, key, value)
        batch, _, length, _ = q.shape
        (total,) = known_sizes(total_length)
        counts = p.reshape(p.cast(seqlens, dtypes.int32), (batch, 1, 1, 1)) + 1
        own: Size | Array = total - length
        place: Size | Array = own
        is_last = False
        if batch != 1 and length != total:
            is_last = past_key is not None and _stays(past_key) and bias is None and not self.qk_output
            if past_key is not None and is_last:
                own, place = counts - length, past_key.shape[2]
                total = place + length
            elif length != 1:
                raise ValueError(f"{length} tokens follow a cache in a batch of {batch}; use one token, or one entry")
            else:
                own = place = counts - 1
        if self.do_rotary:
            if cos is None or sin is None:
                raise ValueError("do_rotary needs cos_cache and sin_cache")
            if positions is not None and length == total:
                positions = _part(_part(positions, 0, 0, 1), 1, 0, 1) + p.iota((1, length), 1, positions.dtype)
            cos, sin = (angles(table, own, length, positions) for table in (cos, sin))
            q, k = (rotate(x, cos, sin, bool(self.rotary_interleaved)) for x in (q, k))
        held_keys, present_key = _extended(past_key, keys.write(k), place, total)
        held_values, present_value = _extended(past_value, values.write(v), place, total)
        k, v = keys.read(held_keys, q), values.read(held_values, q)
        causal = place if self.causal and not isinstance(place, Array) else None
        behind = bool(self.causal) and causal is None
        conditions = window(length, total, place, behind, max(self.local_window_size, 0) - 1)
        if is_last:
            conditions.append(p.iota((1, 1, 1, total), 3, dtypes.int32) >= total - counts)
        elif not self.causal:
            conditions.append(p.iota((1, 1, 1, total), 3, dtypes.int32) < counts)
        allowed = every(conditions)
        extra = None if sink is None else p.reshape(sink, (1, self.num_heads, 1, 1))
        if sink is None and self.smooth_softmax == 1:
            extra = p.full((), 0.0, q.dtype)
        result, scores = attend(
            q, k, v, self.scale or None, allowed=allowed, bias=bias, softcap=self.softcap, sink=extra, causal=causal
        )
        visible = seen(q, k, allowed, causal)
        shown = p.where(visible, scores(2), 0.0) if self.qk_output == 1 and visible is not None else scores(3)
        return heads_merged(p.cast(result, q.dtype)), present_key, present_value, p.cast(shown, q.dtype)

    def _heads(self, query: Array, key: Array | None, value: Array | None) -> list[Array]:
        """Queries, keys and values [B, heads, length, size]."""
        own, shared = self.num_heads, self.kv_num_heads
        if key is None or value is None:
            heads = heads_first(query, own + 2 * shared)
            return [_part(heads, 1, at, n) for at, n in ((0, own), (own, shared), (own + shared, shared))]
        return [heads_first(query, own), heads_first(key, shared), heads_first(value, shared)]


def _stays(past: Array) -> bool:
    """Whether a cache stays on the device, so that nobody sees which of its keys are whose."""
    trace = active_trace()
    return trace is not None and trace.is_cached(past)


def angles(table: Array, start: Size | Array, length: Size, positions: Array | None) -> Array:
    """The rows of a table for each token, [B, 1, S, pairs]: those from `start` on if there are no positions."""
    if positions is not None:
        return p.unsqueeze(p.gather(table, [positions], [0]), [1])
    if isinstance(start, Array):
        return p.gather(table, [p.squeeze(start, [3]) + p.iota((1, 1, length), 2, start.dtype)], [0])
    if start + length > table.shape[0]:
        raise ValueError(f"{start + length} tokens are more than the {table.shape[0]} rows of cos_cache and sin_cache")
    return p.unsqueeze(_part(table, 0, start, length), [0, 1])


def _extended(past: Array | None, new: Array, start: Size | Array, total: Size) -> tuple[Array, Array]:
    """The `total` keys or values after the new ones were put at `start` of the cache, and the cache after that."""
    if isinstance(start, Array):
        capacity: Size = 0 if past is None else past.shape[2]
        room = capacity if capacity >= total else total
        place = p.iota((1, 1, room, 1), 2, start.dtype)
        old = p.full((), 0, new.dtype)
        if past is not None:
            old = p.where(place < start, p.pad(past, [0] * 4, [0, 0, room - capacity, 0]), 0)
        cache = p.where(p.equal(place, start), new, old)
        return _part(cache, 2, 0, total), cache
    if past is None or past.shape[2] == start:
        joined = new if past is None else p.concat([past, new], 2)
        return joined, joined
    if start > past.shape[2]:
        raise ValueError(f"the cache has {past.shape[2]} tokens, but {start} come before the new ones")
    joined = p.concat([_part(past, 2, 0, start), new], 2)
    if not past.shape[2] > total:
        return joined, joined
    return joined, p.pad(joined, [0] * 4, [0, 0, past.shape[2] - total, 0])
