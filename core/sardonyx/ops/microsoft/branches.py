"""Streams side by side: hyper-connections (Zhu et al., 2024), and the normalization of each branch.

Streams are [..., C, H], or [..., C * H] where `num_branches` says C.
"""

from __future__ import annotations

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.microsoft.normalization import MICROSOFT
from sardonyx.ops.operator import Operator, sample
from sardonyx.ops.simplified import divided_by_root
from sardonyx.primitives.array import Array


class _Branches(Operator, abstract=True):
    num_branches: int = 0

    def grouped(self, x: Array) -> Array:
        """[..., C, H] in float32."""
        wide, count = p.cast(x, dtypes.float32), self.num_branches
        if not count:
            if x.rank < 2:
                raise ValueError(
                    f"{p.show(x.shape)} is not [..., branches, features]; flattened, it needs num_branches"
                )
            return wide
        if x.rank < 1 or x.shape[-1] % count != 0:
            raise ValueError(f"the last axis of {p.show(x.shape)} does not make {count} branches of equal size")
        return p.reshape(wide, (*x.shape[:-1], count, x.shape[-1] // count))

    def gates(self, gate: Array, streams: Array) -> Array:
        """[..., C, 1 or H] in float32, of [..., C], [..., C, 1 or H], or flattened ones [..., C * H]."""
        wide = p.cast(gate, dtypes.float32)
        if gate.rank == streams.rank:
            return wide
        if gate.rank != streams.rank - 1:
            raise ValueError(f"gates {p.show(gate.shape)} do not go with the streams {p.show(streams.shape)}")
        flat = bool(self.num_branches) and gate.shape[-1] != streams.shape[-2]
        return p.reshape(wide, streams.shape) if flat else p.unsqueeze(wide, [gate.rank])


class BranchwiseRMSNorm(_Branches, domain=MICROSOFT):
    """Each branch divided by its root mean square, times a scale [C * H], [C, H] or [H]."""

    epsilon: float = 1e-5

    def expand(self, x: Array, scale: Array | None = None) -> Array:
        streams = self.grouped(x)
        normal, _ = divided_by_root(streams, [streams.rank - 1], self.epsilon)
        if scale is not None:
            wide, own = p.cast(scale, dtypes.float32), streams.shape[-2:]
            if scale.rank == 1 and scale.shape[0] != own[1]:
                wide = p.reshape(wide, own)
            normal = normal * wide
        return p.cast(p.reshape(normal, x.shape), x.dtype)

    samples = [
        sample((2, 3, 4)),
        sample((2, 3, 4), (4,), epsilon=0.1),
        sample((2, 12), (12,), num_branches=3),
    ]


class HyperConnectionPreMix(_Branches, domain=MICROSOFT):
    """The sum of all branches, each times its gates, times `reduction_scale`: [..., H].

    Gates are [..., C], [..., C, 1 or H], or as flat as the streams.
    """

    reduction_scale: float = 1.0

    def expand(self, x: Array, gate: Array) -> Array:
        streams = self.grouped(x)
        total = p.sum_(streams * self.gates(gate, streams), [streams.rank - 2])
        return p.cast(total * self.reduction_scale, x.dtype)

    samples = [
        sample((2, 3, 4), (2, 3)),
        sample((2, 3, 4), (2, 3, 4), reduction_scale=0.5),
        sample((2, 12), (2, 12), num_branches=3),
    ]


class HyperConnectionPostMix(_Branches, domain=MICROSOFT):
    """Branches mixed by a matrix [..., C, C], of which column k makes branch k (none is the identity), plus the output
    [..., H] of a block times the gates [..., C] or [..., C, 1 or H] of each branch."""

    def expand(self, x: Array, output: Array, gate: Array, mix: Array | None = None) -> Array:
        streams = self.grouped(x)
        mixed = streams if mix is None else p.matmul(p.swap_last(p.cast(mix, dtypes.float32)), streams)
        added = p.unsqueeze(p.cast(output, dtypes.float32), [streams.rank - 2])
        total = mixed + self.gates(gate, streams) * added
        return p.cast(p.reshape(total, x.shape), x.dtype)

    samples = [
        sample((2, 3, 4), (2, 4), (2, 3)),
        sample((2, 3, 4), (2, 4), (2, 3, 1), (2, 3, 3)),
        sample((2, 3, 4), (2, 4), (2, 3, 4), (2, 3, 3)),
    ]
