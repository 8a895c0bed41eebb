"""What sorts, selects and follows trees, on its way to routines."""

from __future__ import annotations

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.rewriting import Rewriter
from sardonyx.primitives.array import Equation
from sardonyx.primitives.ensemble import combined
from sardonyx.primitives.non_max_suppression import LOWEST
from sardonyx.sizes.symbolic import Dim, Size, hint, poly, product
from sardonyx_webgpu import primitives as own
from sardonyx_webgpu.legalization.sorting import keys, order, take

MOST_SCORES = 1 << 16
"""Scores up to which all are sorted; of more, those of boxes that no class may choose are left out first. No fewer than
`array.FOLD_LIMIT`: what has been rewritten cannot be evaluated."""
MOST_LEAVES = 1 << 24
"""Leaves that are in memory at a time."""


def sort(rewriter: Rewriter, equation: Equation) -> bool:
    """sort -> keys, runs, and what is taken in their order"""
    (x,) = equation.inputs
    _ordered(rewriter, equation, x.shape[equation.params["axis"]], equation.params["descending"])
    return True


def top_k(rewriter: Rewriter, equation: Equation) -> bool:
    """top_k -> the same of the first ones"""
    _ordered(rewriter, equation, equation.params["k"], equation.params["largest"])
    return True


def _ordered(rewriter: Rewriter, equation: Equation, k: Size, descending: bool) -> None:
    (x,) = equation.inputs
    axis = equation.params["axis"]
    last = [*range(axis), *range(axis + 1, x.rank), axis]
    back = [*range(axis), x.rank - 1, *range(axis, x.rank - 1)]
    n = x.shape[axis]
    lines = p.transpose(x, last)
    flat = (product(lines.shape[:-1]), n)
    unsigned = p.reshape(keys(lines, descending), flat)
    _, places = order(rewriter, unsigned, None if k is n else k)
    results = [take(p.reshape(lines, flat), places), p.cast(places, dtypes.int64)]
    for output, result in zip(equation.outputs, results, strict=True):
        rewriter.define_transposed(output, p.reshape(result, (*lines.shape[:-1], k)), back)


def suppression(rewriter: Rewriter, equation: Equation) -> bool:
    """suppression -> boxes that some class may choose, sorted, and a workgroup for each class"""
    sides, scores, most, overlap, threshold = equation.inputs
    (output,) = equation.outputs
    good = scores > threshold
    candidates, numbers = p.where(good, scores, LOWEST), None
    if hint(product(scores.shape)) > MOST_SCORES:
        numbers = p.squeeze(p.nonzero(p.reduce(good, "any", [0, 1])), [0])
        sides, candidates = p.gather(sides, [numbers], [2], 2), p.gather(candidates, [numbers], [2], 2)
    lines = (product(candidates.shape[:2]), candidates.shape[2])
    _, places = order(rewriter, p.reshape(keys(candidates, descending=True), lines))
    inputs = [sides, candidates, p.reshape(places, candidates.shape), most, overlap]
    chosen = rewriter.record(own.SUPPRESS, inputs, {}, dtypes.int32, output.shape)
    if numbers is not None:
        boxes = p.cast(p.gather(numbers, [p.maximum(chosen, 0)], [0]), dtypes.int32)
        chosen = p.where(chosen < 0, -1, boxes)
    rewriter.define_reshaped(output, chosen)
    return True


def tree_ensemble(rewriter: Rewriter, equation: Equation) -> bool:
    """tree_ensemble -> a thread for each row and tree, and what combines the votes"""
    x, roots, *tables, votes = equation.inputs
    (output,), params = equation.outputs, equation.params
    shape = (roots.shape[0], x.shape[0])
    if product(shape) > MOST_LEAVES:
        assert equation.primitive.expand is not None
        (result,) = equation.primitive.expand(*equation.inputs, **params)
    else:
        steps = {"depth": Dim(poly(params["depth"]))}
        leaves = rewriter.record(own.WALK_TREES, [x, roots, *tables], steps, dtypes.int32, shape)
        result = combined(p.gather(votes, [leaves], [0]), params["targets"], params["function"])
    rewriter.define_reshaped(output, result)
    return True
