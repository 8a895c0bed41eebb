"""The primitive of attention: scores of queries and keys weigh the values (Vaswani et al., 2017)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.host import products
from sardonyx.primitives.array import Array, Primitive, primitive
from sardonyx.primitives.binding import bind
from sardonyx.primitives.contraction import dot_general
from sardonyx.primitives.elementwise import (
    Types,
    Values,
    broadcast_shapes,
    cast,
    equal,
    exp,
    iota,
    maximum,
    native,
    show,
    where,
)
from sardonyx.primitives.movement import reshape
from sardonyx.primitives.reduction import max_, sum_
from sardonyx.sizes.symbolic import Size

NEVER = float("-inf")
"""The score of a key that a query may not see."""


class Attention(Primitive):
    """softmax(q k' + bias) v of q [B, H, S, D], k [B, G, T, D] and v [B, G, T, E]: [B, H, S, E], where H is a multiple
    of G. Scores are -inf where not `allowed`, and if `causal` is not None, for keys behind the query's own place, the
    first query having that place. A row that is -inf throughout gives 0. `others` are a bias if `biased`, and a
    condition if `masked`; both broadcast to [B, H, S, T]."""

    name = "attention"

    def infer(
        self, q: Array, k: Array, v: Array, *others: Array, biased: bool, masked: bool, causal: Size | None
    ) -> Types:
        _check(q, k, v)
        return [(q.dtype, (*q.shape[:3], v.shape[3]))]

    def numpy(
        self,
        q: np.ndarray,
        k: np.ndarray,
        v: np.ndarray,
        *others: np.ndarray,
        biased: bool,
        masked: bool,
        causal: int | None,
    ) -> Values:
        never, one = np.asarray(NEVER, q.dtype), np.ones((), q.dtype)
        k, v = (np.repeat(x.astype(q.dtype), q.shape[1] // max(1, k.shape[1]), 1) for x in (k, v))
        with np.errstate(all="ignore"):
            scores = products.matmul(q, k.swapaxes(2, 3))
            if biased:
                scores = scores + others[0]
            if masked:
                scores = np.where(others[-1], scores, never)
            if causal is not None:
                scores = np.where(np.arange(k.shape[2]) <= np.arange(q.shape[2])[:, None] + causal, scores, never)
            peak = scores.max(3, keepdims=True, initial=NEVER)
            powers = np.exp(scores - np.where(np.isneginf(peak), 0 * one, peak))
            total = powers.sum(3, keepdims=True)
            return [products.matmul(powers, v) / np.where(total == 0, one, total)]

    def expand(
        self, q: Array, k: Array, v: Array, *others: Array, biased: bool, masked: bool, causal: Size | None
    ) -> Sequence[Array]:
        scores = by_head(q, k, 3, q.dtype)
        if biased:
            scores = scores + others[0]
        mask = seen(q, k, others[-1] if masked else None, causal)
        if mask is not None:
            scores = where(mask, scores, NEVER)
        powers, total = softmax(scores)
        return [by_head(powers, v, 2, q.dtype) / total]


ATTENTION = primitive(Attention)


def _check(q: Array, k: Array, v: Array) -> None:
    """Raises ValueError where sizes do not fit each other."""
    fits = q.rank == k.rank == v.rank == 4 and q.shape[0] == k.shape[0] and q.shape[3] == k.shape[3]
    if fits and q.shape[1] % k.shape[1] != 0:
        raise ValueError(f"{q.shape[1]} heads of queries do not share {k.shape[1]} heads of keys and values evenly")
    if not (fits and all(k.shape[axis] == v.shape[axis] for axis in range(3))):
        shapes = ", ".join(show(x.shape) for x in (q, k, v))
        raise ValueError(f"queries, keys and values {shapes} are not [B, H, S, D], [B, G, T, D], [B, G, T, E]")


def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    bias: Array | None = None,
    allowed: Array | None = None,
    causal: Size | None = None,
) -> Array:
    """What `Attention` says, of the dtype of q; k and v may be narrower. Raises ValueError for other shapes."""
    others = [x for x in (bias, allowed) if x is not None]
    scores = (*q.shape[:3], k.shape[2])
    keys = broadcast_shapes(scores, *(x.shape for x in others))[3]
    if keys != scores[3]:
        raise ValueError(f"{show(scores)} are scores of {scores[3]} keys, and a mask or bias is of {keys}")
    params = {"biased": bias is not None, "masked": allowed is not None, "causal": causal}
    return bind(ATTENTION, q, native(k), native(v), *others, **params)[0]


def by_head(a: Array, b: Array, axis: int, dtype: DType) -> Array:
    """The product of each matrix of a [B, H, S, n] with the one of b [B, G, ...] that H / G neighbouring heads share,
    over `axis` of b; sums in `dtype`."""
    batch, heads, rows, inner = a.shape
    groups = b.shape[1]
    contract, shared = ([a.rank - 1], [axis]), ([0, 1], [0, 1])
    if heads == groups:
        return dot_general(a, b, contract, shared, dtype)
    if heads % groups != 0:
        raise ValueError(f"{heads} heads of queries do not share {groups} heads of keys and values evenly")
    grouped = reshape(a, (batch, groups, heads // groups, rows, inner))
    result = dot_general(grouped, b, ([4], [axis]), shared, dtype)
    return reshape(result, (batch, heads, rows, result.shape[-1]))


def seen(q: Array, k: Array, allowed: Array | None, causal: Size | None) -> Array | None:
    """Which keys each query may see; None for all."""
    if causal is None:
        return allowed
    own = iota((1, 1, q.shape[2], 1), 2, dtypes.int32) + causal
    before = iota((1, 1, 1, k.shape[2]), 3, dtypes.int32) <= own
    return before if allowed is None else before & allowed


def softmax(scores: Array, sink: Array | None = None) -> tuple[Array, Array]:
    """Weights of scores [..., T], and their sums [..., 1], which are 1 where there are none. `sink` is one more score
    of each row."""
    peak = max_(scores, [3], keepdims=True)
    if sink is not None:
        peak = maximum(peak, cast(sink, scores.dtype))
    peak = where(equal(peak, NEVER), 0.0, peak)
    powers = exp(scores - peak)
    total = sum_(powers, [3], keepdims=True)
    if sink is not None:
        total = total + exp(cast(sink, scores.dtype) - peak)
    return powers, where(equal(total, 0.0), 1.0, total)
