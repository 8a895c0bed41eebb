"""The primitives that this provider brings in: each is a routine, see `routines`."""

from __future__ import annotations

from sardonyx.array import Primitive


class _Attend(Primitive):
    """q [B, H, S, D], k [B, G, T, D] and v [B, G, T, E], then a bias if `biased` and a condition if `masked`, both
    [B, H, S, T], to float32 [B, H, S, E], as core's `attention`. `share` heads of queries are with each of keys, D is
    `depth` and E `width`; a thread takes `rows` queries at most."""

    name = "attend"


class _Matmul(Primitive):
    """a [B, M, K] x b [B, K, N] to [B, M, N], in tiles of `tile` rows and fours of columns."""

    name = "matmul"


class _Recur(Primitive):
    """Core's `recurrent` with weights [directions, H, H * gates], the gates of a unit side by side, filled up to four;
    `hidden` is H; a workgroup takes `rows` sequences. States of all steps are [steps, batch, directions, H]."""

    name = "recur"


ATTEND, MATMUL, RECUR = _Attend(), _Matmul(), _Recur()
