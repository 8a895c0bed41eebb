"""The primitives that this provider brings in: each is a routine, see `routines`."""

from __future__ import annotations

from sardonyx.array import Primitive


class _Matmul(Primitive):
    """a [*batch, M, K] x b [*batch or none, K, N] to [*batch, M, N], in tiles of `tile` rows and fours of columns."""

    name = "matmul"


MATMUL = _Matmul()
