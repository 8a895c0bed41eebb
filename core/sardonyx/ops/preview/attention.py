"""Attention whose scores and probabilities a model changes by graphs of its own."""

from __future__ import annotations

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.model.ir import Graph
from sardonyx.ops.operator import Operator
from sardonyx.primitives.array import Array
from sardonyx.primitives.dot_product_attention import by_head


class FlexAttention(Operator, domain="ai.onnx.preview"):
    """Attention in which `score_mod` changes the scores, and `prob_mod` the probabilities (Dong et al., 2024)."""

    prob_mod: Graph | None = None
    scale: float | None = None
    score_mod: Graph | None = None
    softmax_precision: int | None = None

    def expand(self, q: Array, k: Array, v: Array) -> Array:
        if not q.rank == k.rank == v.rank == 4:
            raise ValueError(f"Q {p.show(q.shape)}, K {p.show(k.shape)} and V {p.show(v.shape)} have four axes each")
        wide = p.widen(q)
        wide = wide / p.sqrt(p.literal(q.shape[3], wide.dtype)) if self.scale is None else wide * self.scale
        scores = by_head(wide, k, 3, wide.dtype)
        if self.softmax_precision is not None:
            scores = p.cast(scores, dtypes.by_number(self.softmax_precision) or wide.dtype)
        scores = p.widen(self._modified(self.score_mod, scores))
        powers = p.exp(scores - p.max_(scores, [3], keepdims=True))
        weights = powers / p.sum_(powers, [3], keepdims=True)
        if self.softmax_precision is not None:
            weights = p.cast(weights, dtypes.by_number(self.softmax_precision) or wide.dtype)
        weights = p.widen(self._modified(self.prob_mod, weights))
        return p.cast(by_head(weights, v, 2, weights.dtype), q.dtype)

    def _modified(self, graph: Graph | None, scores: Array) -> Array:
        """What a graph of one input makes of the scores; they themselves if there is none."""
        if graph is None:
            return scores
        from sardonyx.ops.interpret import interpret

        if len(graph.inputs) != 1 or len(graph.outputs) != 1:
            raise ValueError(
                f"graph {graph.name!r} has {len(graph.inputs)} inputs and {len(graph.outputs)} outputs, not one each"
            )
        (result,) = interpret(graph, {**self.environment, graph.inputs[0]: scores})
        if not isinstance(result, Array) or result.dtype is not scores.dtype or result.rank != 4:
            raise ValueError(f"graph {graph.name!r} makes {result} of {scores}, which is to keep its shape and type")
        return result
