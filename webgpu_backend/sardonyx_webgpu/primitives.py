"""The primitives that this provider brings in: each is a routine, see `routines`."""

from __future__ import annotations

from sardonyx.array import Primitive


class _Matmul(Primitive):
    """a [B, M, K] x b [B, K, N] to [B, M, N], in tiles of `tile` rows and fours of columns."""

    name = "matmul"


MATMUL = _Matmul()
