"""Gates: one tensor lets through as much of another one as an activation of it says."""

from __future__ import annotations

import numpy as np

from sardonyx import primitives as p
from sardonyx.ops.activation import in_float32
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array


class SwiGLU(Operator, since=28):
    """gate * sigmoid(alpha * gate) * x (Shazeer, 2020)."""

    alpha: float = 1.0

    @in_float32
    def expand(self, gate: Array, x: Array) -> Array:
        if not all(a == b for a, b in zip(gate.shape, x.shape, strict=True)):
            raise ValueError(f"A {p.show(gate.shape)} and B {p.show(x.shape)} differ in shape, and are not broadcast")
        return gate * p.sigmoid(self.alpha * gate) * x

    samples = [
        sample((2, 3, 4), (2, 3, 4)),
        sample((5,), (5,), alpha=1.7),
        sample(np.array([-200, 200], np.float32), np.ones(2, np.float32)),
    ]
