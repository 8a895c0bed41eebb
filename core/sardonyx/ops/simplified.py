"""Operators that onnxruntime counts to ai.onnx, though ONNX does not have them."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.operator import Operator
from sardonyx.primitives.array import Array


def divided_by_root(x: Array, axes: Sequence[int], epsilon: float) -> tuple[Array, Array]:
    """x divided by its root mean square along axes, and one over that root."""
    inverse = 1.0 / p.sqrt(p.mean(x * x, axes, keepdims=True) + epsilon)
    return x * inverse, inverse


class SimplifiedLayerNormalization(Operator):
    """The axes from `axis` on divided by their root mean square, times scale; 1 / root.

    RMSNormalization before ONNX had it.
    """

    axis: int = -1
    epsilon: float = 1e-5
    stash_type: int = 1

    def expand(self, x: Array, scale: Array) -> Sequence[Array]:
        wide = p.widen(x)
        normal, inverse = divided_by_root(wide, range(p.normalize_axis(self.axis, x.rank), x.rank), self.epsilon)
        stash = dtypes.by_number(self.stash_type) or inverse.dtype
        return p.cast(normal * p.cast(scale, wide.dtype), scale.dtype), p.cast(inverse, stash)


class MicrosoftSimplifiedLayerNormalization(
    SimplifiedLayerNormalization, domain="com.microsoft", name="SimplifiedLayerNormalization"
):
    """The same under another domain."""
