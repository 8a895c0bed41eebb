"""Attention: scaled products of queries and keys weigh the values (Vaswani et al., 2017)."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.ops.operator import Operator, sample
from sardonyx.ops.rotary import split_heads
from sardonyx.primitives.array import Array
from sardonyx.primitives.dot_product_attention import NEVER, by_head, seen, softmax
from sardonyx.sizes.symbolic import Size, same


def attend(
    q: Array,
    k: Array,
    v: Array,
    scale: float | None = None,
    *,
    allowed: Array | None = None,
    bias: Array | None = None,
    softcap: float = 0.0,
    sink: Array | None = None,
    precision: DType | None = None,
    causal: Size | None = None,
) -> tuple[Array, Callable[[int], Array]]:
    """Attention of q [B, H, S, D] to k [B, G, T, D] and v [B, G, T, E]: [B, H, S, E], where H is a multiple of G.

    Scores are q k' times `scale` (1 / sqrt(D) by default), capped by `softcap` if it is not 0, plus `bias`, and -inf
    where not `allowed`; both broadcast to [B, H, S, T]. If the first query has the place `causal` among the keys, none
    sees those behind its own. A row that is -inf throughout gives zeros. `sink` is a further score in each row, whose
    value is 0. 16-bit floats are computed with in float32, the softmax in `precision` if that is wider. Also gives what
    makes the scores scaled (0), capped (1), and biased (2), and the probabilities (3).
    """
    wide = p.widen(q)
    wide = wide / p.sqrt(p.literal(q.shape[-1], wide.dtype)) if scale is None else wide * scale
    work = precision if precision is not None and precision.bits > 16 else wide.dtype
    bias = None if bias is None else p.cast(bias, wide.dtype)

    @functools.cache
    def scores() -> list[Array]:
        scaled = by_head(wide, k, 3, wide.dtype)
        capped = p.tanh(scaled * (1 / softcap)) * softcap if softcap else scaled
        biased = capped if bias is None else capped + bias
        mask = seen(wide, k, allowed, causal)
        return [scaled, capped, biased if mask is None else p.where(mask, biased, NEVER)]

    @functools.cache
    def weights() -> tuple[Array, Array]:
        return softmax(p.cast(scores()[2], work), sink)

    def shown(stage: int) -> Array:
        return scores()[stage] if stage < 3 else operator.truediv(*weights())

    if softcap or sink is not None or work is not wide.dtype:
        return by_head(weights()[0], v, 2, work) / weights()[1], shown
    return p.attention(wide, k, v, bias=bias, allowed=allowed, causal=causal), shown


def window(
    length: Size, total: Size, offset: Array | Size, causal: bool, left: int = -1, right: int = -1
) -> list[Array]:
    """Conditions that broadcast to [B, H, length, total] and say which keys each query sees.

    The first query has the place `offset` among the keys. A query sees no key behind its own place if `causal`, and at
    most `left` keys before it and `right` keys behind it (all if -1).
    """
    query = p.iota((1, 1, length, 1), 2, dtypes.int32) + offset
    key = p.iota((1, 1, 1, total), 3, dtypes.int32)
    conditions = []
    if causal:
        conditions.append(key <= query)
    if left >= 0:
        conditions.append(query - left <= key)
    if right >= 0:
        conditions.append(key <= query + right)
    return conditions


def every(conditions: Sequence[Array]) -> Array | None:
    """Where all conditions hold; None if there are none."""
    return functools.reduce(lambda a, b: a & b, conditions) if conditions else None


def heads_first(x: Array, heads: Size) -> Array:
    """[B, S, heads * size] as [B, heads, S, size]."""
    return p.transpose(split_heads(x, heads), [0, 2, 1, 3])


def heads_merged(x: Array) -> Array:
    """[B, heads, S, size] as [B, S, heads * size]."""
    batch, heads, length, size = x.shape
    return p.reshape(p.transpose(x, [0, 2, 1, 3]), (batch, length, heads * size))


class Attention(Operator, since=23):
    """Attention of one or several heads, which may share keys and values, with a cache, masks, and windows.

    Inputs of three axes are split into heads by `q_num_heads` and `kv_num_heads`.
    """

    is_causal: int = 0
    kv_num_heads: int | None = None
    left_window_size: int = -1
    q_num_heads: int | None = None
    qk_matmul_output_mode: int = 0
    right_window_size: int = -1
    scale: float | None = None
    softcap: float = 0.0
    softmax_precision: int | None = None

    def expand(
        self,
        q: Array,
        k: Array,
        v: Array,
        mask: Array | None = None,
        past_key: Array | None = None,
        past_value: Array | None = None,
        lengths: Array | None = None,
    ) -> Sequence[Array]:
        packed = q.rank == 3
        if packed:
            if not self.q_num_heads or not self.kv_num_heads:
                raise ValueError("Q has three axes, which q_num_heads and kv_num_heads split: set both attributes")
            q = heads_first(q, self.q_num_heads)
            k, v = (heads_first(x, self.kv_num_heads) for x in (k, v))
        if (past_key is None) != (past_value is None):
            raise ValueError("past_key and past_value come together; one of them is missing")
        if past_key is not None and lengths is not None:
            raise ValueError("nonpad_kv_seqlen is for a cache outside of the node; leave out past_key and past_value")
        offset: Array | Size = 0
        if past_key is not None and past_value is not None:
            offset = past_key.shape[2]
            k, v = p.concat([past_key, k], 2), p.concat([past_value, v], 2)
        length, total = q.shape[2], k.shape[2]
        conditions = []
        if lengths is not None:
            valid = p.reshape(p.cast(lengths, dtypes.int32), (lengths.shape[0], 1, 1, 1))
            offset = valid - length
            conditions.append(p.iota((1, 1, 1, total), 3, dtypes.int32) < valid)
        left, right = self.left_window_size, self.right_window_size
        causal = offset if self.is_causal and not isinstance(offset, Array) else None
        conditions += window(length, total, offset, bool(self.is_causal) and causal is None, left, right)
        bias = None
        if mask is not None and mask.dtype is dtypes.bool_:
            conditions.append(_with_all_keys(mask, total, False))
        elif mask is not None:
            bias = _with_all_keys(p.cast(mask, p.widen(q).dtype), total, NEVER)
        precision = None if self.softmax_precision is None else dtypes.by_number(self.softmax_precision)
        result, scores = attend(
            q,
            k,
            v,
            self.scale,
            allowed=every(conditions),
            bias=bias,
            softcap=self.softcap,
            precision=precision,
            causal=causal,
        )
        if not 0 <= self.qk_matmul_output_mode < 4:
            raise ValueError(f"qk_matmul_output_mode is {self.qk_matmul_output_mode}; use 0..3")
        result = p.cast(result, q.dtype)
        shown = p.cast(scores(self.qk_matmul_output_mode), q.dtype)
        return heads_merged(result) if packed else result, k, v, shown


def _with_all_keys(mask: Array, total: Size, value: float | bool) -> Array:
    """A mask that may stop short of the last keys, filled up."""
    missing = total - mask.shape[-1]
    if same(missing, 0) or not missing > 0:
        return mask
    none: list[Size] = [0] * mask.rank
    return p.pad(mask, none, [*none[:-1], missing], value)


class TensorScatter(Operator, since=24):
    """A cache of fixed size with the update written along `axis`, in each entry of the batch from its own place on."""

    axis: int = -2
    mode: str = "linear"

    def expand(self, cache: Array, update: Array, starts: Array | None = None) -> Array:
        axis = p.normalize_axis(self.axis, cache.rank)
        if axis == 0:
            raise ValueError("axis 0 is that of the batch; choose another one")
        if self.mode not in ("linear", "circular"):
            raise ValueError(f"mode {self.mode!r} is unknown; use 'linear' or 'circular'")
        batch, count = cache.shape[0], update.shape[axis]
        places = p.iota((1, count), 1)
        if starts is not None:
            places = places + p.reshape(p.cast(starts, dtypes.int64), (batch, 1))
        if self.mode == "circular":
            places = places % cache.shape[axis]
        entries = p.iota((batch, 1), 0)
        order = [0, axis, *(k for k in range(1, cache.rank) if k != axis)]
        places = p.broadcast_to(places, (batch, count))
        return p.scatter(cache, p.transpose(update, order), [entries, places], [0, axis])

    samples = [
        sample((2, 3, 5, 2), (2, 3, 2, 2)),
        sample((2, 5, 3), (2, 2, 3), np.array([3, 0])),
        sample((2, 3, 2, 5), (2, 3, 2, 3), np.array([4, 1]), axis=3, mode="circular"),
        sample(np.zeros((1, 4), np.int8), np.ones((1, 2), np.int8), np.array([1]), axis=1),
    ]
