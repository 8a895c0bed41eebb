"""Scatter: updates are sorted by their slots, the places that indices name, and each slot finds its own."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.rewriting import Rewriter
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.indexing import counts_along
from sardonyx.sizes.symbolic import Dim, hint, poly, product, same
from sardonyx_webgpu import primitives as own
from sardonyx_webgpu.legalization.sorting import order

FEWEST_UPDATES = 256
"""Updates that a thread may write one after the other before sorting them is better."""
MOST_TURNS = 1 << 15
"""Turns of a loop over the updates of a slot; of more, some are unrolled: loops have to be short on some drivers."""
UNROLLED = 8
DEPTH = 8
"""How far back it is looked for what an index is made of."""


def scatter(rewriter: Rewriter, equation: Equation) -> bool:
    """scatter -> the last update of each slot and a choice, or the first one and a routine that combines them"""
    x, updates, *indices = equation.inputs
    (output,), reduction = equation.outputs, equation.params["reduction"]
    lines = {counts_along(index) for index in indices}
    turns = product([size for k, size in enumerate(indices[0].shape) if k not in lines])
    if hint(turns) <= FEWEST_UPDATES:
        return False
    updates, named = _slices(x, updates, dict(zip(equation.params["axes"], indices, strict=True)))
    axes, indices = [*named], [*named.values()]
    free = [axis for axis in range(x.rank) if axis not in named]
    slots, width, count = (
        product(sizes)
        for sizes in ([x.shape[axis] for axis in axes], [x.shape[axis] for axis in free], indices[0].shape)
    )
    sorted_slots, numbers = (
        p.reshape(item, (count,)) for item in order(rewriter, p.reshape(_slots(x, indices, axes), (1, count)))
    )
    target, values = p.reshape(p.transpose(x, [*axes, *free]), (slots, width)), p.reshape(updates, (count, width))
    if reduction == "none":
        last = rewriter.record(own.LAST_UPDATES, [sorted_slots, numbers], {}, dtypes.int32, (slots,))
        latest = p.gather(values, [p.maximum(last, 0)], [0])
        updated = p.where(p.unsqueeze(last, [1]) < 0, target, latest)
    else:
        first = rewriter.record(own.FIRST_UPDATES, [sorted_slots], {}, dtypes.int32, (slots + 1,))
        # A Dim, so that it is a parameter of the code.
        params = {"reduction": reduction, "most": Dim(poly(turns)), "unrolled": 1 if turns <= MOST_TURNS else UNROLLED}
        operands = [target, values, numbers, first]
        updated = rewriter.record(own.COMBINE_UPDATES, operands, params, x.dtype, (slots, width))
    result = p.reshape(updated, [x.shape[axis] for axis in (*axes, *free)])
    rewriter.define_transposed(output, result, [[*axes, *free].index(axis) for axis in range(x.rank)])
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


def _slices(x: Array, updates: Array, named: dict[int, Array]) -> tuple[Array, dict[int, Array]]:
    """The updates, and the indices by their axes, without those that merely count along an axis of the indices where
    the others are seen to be the same: what are elements then are slices."""
    shape = next(iter(named.values())).shape
    counted: dict[int, int] = {}
    for axis, index in named.items():
        line = counts_along(index)
        others = [other for other in named.values() if other is not index]
        if line is None or line in counted.values() or not same(x.shape[axis], shape[line]):
            continue
        if all(_repeats(other, line) for other in others):
            counted[axis] = line
    if not counted or len(counted) == len(named):
        return updates, named
    rest = [k for k in range(len(shape)) if k not in counted.values()]
    free = [axis for axis in range(x.rank) if axis not in named]
    places = {axis: len(shape) + k for k, axis in enumerate(free)} | counted
    fewer = {axis: _first(index, rest) for axis, index in named.items() if axis not in counted}
    return p.transpose(updates, [*rest, *(places[axis] for axis in sorted(places))]), fewer


def _first(index: Array, axes: Sequence[int]) -> Array:
    """An Array along these axes, at the start of the others."""
    sizes = [size if k in axes else 1 for k, size in enumerate(index.shape)]
    return p.reshape(p.slice_(index, [0] * index.rank, sizes), [index.shape[k] for k in axes])


def _repeats(x: Array, axis: int, depth: int = DEPTH) -> bool:
    """Whether an Array is seen to be the same all along an axis."""
    if axis < 0 or same(x.shape[axis], 1):
        return True
    if x.value is not None:
        return bool((x.value == x.value.take([0], axis)).all()) if x.value.size else False
    if x.equation is None or depth == 0:
        return False
    inputs, params = x.equation.inputs, x.equation.params
    match x.equation.primitive.name:
        case "full":
            return True
        case "iota":
            return bool(params["axis"] != axis)
        case "broadcast":
            axes = params["axes"]
            return axis not in axes or _repeats(inputs[0], axes.index(axis), depth - 1)
        case "elementwise" | "cast":
            return all(_repeats(item, axis - x.rank + item.rank, depth - 1) for item in inputs)
    return False
