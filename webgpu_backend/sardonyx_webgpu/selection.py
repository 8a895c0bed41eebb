"""What sorts, selects, scatters and follows trees, on its way to routines."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import dtypes
from sardonyx import primitives as p
from sardonyx.array import Array, Equation
from sardonyx.compiler.rewriting import Rewriter
from sardonyx.compiler.routines import counts_along
from sardonyx.primitives.ensemble import combined
from sardonyx.primitives.suppression import LOWEST
from sardonyx.symbolic import Dim, Size, hint, poly, product
from sardonyx_webgpu import primitives as own
from sardonyx_webgpu.sorting import keys, order, take

FEWEST_UPDATES = 256
"""Updates that a thread may write one after the other before sorting them is better."""
MOST_SCORES = 1 << 16
"""Scores up to which all are sorted; of more, those of boxes that no class may choose are left out first."""
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
    found = p.reshape(keys(lines, descending), flat)
    _, places = order(rewriter, found, None if k is n else k)
    results = [take(p.reshape(lines, flat), places), p.cast(places, dtypes.int64)]
    for output, result in zip(equation.outputs, results, strict=True):
        rewriter.define_transposed(output, p.reshape(result, (*lines.shape[:-1], k)), back)


def scatter(rewriter: Rewriter, equation: Equation) -> bool:
    """scatter -> the updates in the order of their places, and a thread for each element that looks for its own"""
    x, updates, *indices = equation.inputs
    (output,), axes = equation.outputs, equation.params["axes"]
    shape = indices[0].shape
    own_lines = {line for index in indices if (line := counts_along(index)) is not None}
    turns = product([size for k, size in enumerate(shape) if k not in own_lines])
    if hint(turns) <= FEWEST_UPDATES:
        return False
    kept = [axis for axis in range(x.rank) if axis not in axes]
    count, width = product(shape), product([x.shape[axis] for axis in kept])
    slots = product([x.shape[axis] for axis in axes])
    places, numbers = order(rewriter, p.reshape(_slots(x, indices, axes), (1, count)))
    target = p.reshape(p.transpose(x, [*axes, *kept]), (slots, width))
    values = p.reshape(updates, (count, width))
    found = [p.reshape(places, (count,)), p.reshape(numbers, (count,))]
    if equation.params["reduction"] == "none":
        last = rewriter.record(own.LAST_UPDATES, found, {}, dtypes.int32, (slots,))
        taken = p.gather(values, [p.maximum(last, 0)], [0])
        made = p.where(p.unsqueeze(last, [1]) < 0, target, taken)
    else:
        first = rewriter.record(own.FIRST_UPDATES, found[:1], {}, dtypes.int32, (slots + 1,))
        # A Dim, so that it is a parameter of the code.
        params = {"reduction": equation.params["reduction"], "most": Dim(poly(turns))}
        made = rewriter.record(own.COMBINE_UPDATES, [target, values, found[1], first], params, x.dtype, (slots, width))
    result = p.reshape(made, [x.shape[axis] for axis in (*axes, *kept)])
    back = [[*axes, *kept].index(axis) for axis in range(x.rank)]
    rewriter.define_transposed(output, result, back)
    return True


def _slots(x: Array, indices: Sequence[Array], axes: Sequence[int]) -> Array:
    """The row-major position of updates along the axes, uint32; those out of range come last."""
    total, inside = None, None
    for axis, index in zip(axes, indices, strict=True):
        fits = (index >= 0) & (index < x.shape[axis])
        place = p.cast(index, dtypes.int32)
        total = place if total is None else total * x.shape[axis] + place
        inside = fits if inside is None else inside & fits
    assert total is not None
    assert inside is not None
    return p.where(inside, p.cast(total, dtypes.uint32), 0xFFFFFFFF)


def suppression(rewriter: Rewriter, equation: Equation) -> bool:
    """suppression -> boxes that some class may choose, sorted, and a workgroup for each class"""
    sides, scores, most, overlap, threshold = equation.inputs
    (output,) = equation.outputs
    good = scores > threshold
    left, numbers = p.where(good, scores, LOWEST), None
    if hint(product(scores.shape)) > MOST_SCORES:
        numbers = p.squeeze(p.nonzero(p.reduce(good, "any", [0, 1])), [0])
        sides, left = p.gather(sides, [numbers], [2], 2), p.gather(left, [numbers], [2], 2)
    lines = (product(left.shape[:2]), left.shape[2])
    _, places = order(rewriter, p.reshape(keys(left, descending=True), lines))
    inputs = [sides, left, p.reshape(places, left.shape), most, overlap]
    chosen = rewriter.record(own.SUPPRESS, inputs, {}, dtypes.int32, output.shape)
    if numbers is not None:
        found = p.cast(p.gather(numbers, [p.maximum(chosen, 0)], [0]), dtypes.int32)
        chosen = p.where(chosen < 0, -1, found)
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
