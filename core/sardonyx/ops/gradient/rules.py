"""What each primitive makes of the gradient of its output: the gradients of its inputs, None for those without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from sardonyx import primitives as p
from sardonyx.code import scalar
from sardonyx.primitives.array import Array, Equation
from sardonyx.sizes.symbolic import same

Rule: TypeAlias = Callable[[Equation, Array], Sequence[Array | None]]


def _unbroadcast(own: Array, x: Array) -> Array:
    """A gradient in the shape of what was stretched to its shape."""
    extra = own.rank - x.rank
    axes = [k for k in range(own.rank) if k < extra or (same(x.shape[k - extra], 1) and not same(own.shape[k], 1))]
    return p.reshape(p.sum_(own, axes), x.shape) if axes else own


def _elementwise(equation: Equation, g: Array) -> Sequence[Array | None]:
    """As the function's row says."""
    (y,), xs = equation.outputs, equation.inputs
    gradient = scalar.FUNCTIONS[equation.params["function"]].gradient
    if gradient is None or not y.dtype.is_float:
        return [None] * len(xs)
    return [
        None if own is None or not x.dtype.is_float else _unbroadcast(p.broadcast_to(own, g.shape), x)
        for own, x in zip(gradient(p.elementwise, g, y, *xs), xs, strict=True)
    ]


def _cast(equation: Equation, g: Array) -> Sequence[Array | None]:
    (x,) = equation.inputs
    return [p.cast(g, x.dtype) if x.dtype.is_float and g.dtype.is_float else None]


def _reshape(equation: Equation, g: Array) -> Sequence[Array]:
    return [p.reshape(g, equation.inputs[0].shape)]


def _transpose(equation: Equation, g: Array) -> Sequence[Array]:
    perm = equation.params["perm"]
    return [p.transpose(g, [perm.index(axis) for axis in range(len(perm))])]


def _broadcast(equation: Equation, g: Array) -> Sequence[Array]:
    (x,), axes = equation.inputs, equation.params["axes"]
    gone = [axis for axis in range(g.rank) if axis not in axes]
    kept = p.sum_(g, gone) if gone else g
    return [_unbroadcast(kept, x)]


def _slice(equation: Equation, g: Array) -> Sequence[Array]:
    (x,), params = equation.inputs, equation.params
    if any(step not in (1, -1) for step in params["steps"]):
        spans = zip(params["starts"], params["steps"], params["sizes"], strict=True)
        grid = [
            p.iota([size if k == axis else 1 for k in range(g.rank)], axis) * step + start
            for axis, (start, step, size) in enumerate(spans)
        ]
        return [p.scatter(p.full(x.shape, 0.0, x.dtype), g, grid, range(x.rank), "add")]
    low, high = [], []
    for axis, (start, step, size) in enumerate(zip(params["starts"], params["steps"], params["sizes"], strict=True)):
        first = start if step > 0 else start - size + 1
        low.append(first)
        high.append(x.shape[axis] - first - size)
        g = g if step > 0 else p.flip(g, [axis])
    return [p.pad(g, low, high)]


def _pad(equation: Equation, g: Array) -> Sequence[Array]:
    return [p.slice_(g, equation.params["low"], equation.inputs[0].shape)]


def _concat(equation: Equation, g: Array) -> Sequence[Array]:
    axis, start, parts = equation.params["axis"], 0, []
    for x in equation.inputs:
        parts.append(p.slice_axis(g, axis, start, x.shape[axis]))
        start = start + x.shape[axis]
    return parts


def _reduce(equation: Equation, g: Array) -> Sequence[Array | None]:
    (x,), function, axes = equation.inputs, equation.params["function"], equation.params["axes"]
    if function in ("argmax", "argmin"):
        return [None]
    kept = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    spread, y = p.reshape(g, kept), p.reshape(equation.outputs[0], kept)
    if function == "sum":
        return [p.broadcast_to(spread, x.shape)]
    if function in ("max", "min"):
        best = p.cast(p.equal(x, y), g.dtype)
        return [spread * best / p.sum_(best, axes, keepdims=True)]
    raise NotImplementedError(f"the reduction {function!r} has no gradient")


def _dot_general(equation: Equation, g: Array) -> Sequence[Array]:
    """Each operand's gradient is a product of g with the other one, its axes put back in order."""
    a, b = equation.inputs
    (ca, cb), (ba, bb) = equation.params["contract"], equation.params["batch"]
    free_a = [axis for axis in range(a.rank) if axis not in (*ca, *ba)]
    free_b = [axis for axis in range(b.rank) if axis not in (*cb, *bb)]
    outer = list(range(len(ba)))
    of_a = [len(ba) + k for k in range(len(free_a))]
    of_b = [len(ba) + len(free_a) + k for k in range(len(free_b))]
    left = p.dot_general(g, b, (of_b, free_b), (outer, bb))  # batch, free axes of a, contracted ones in b's order
    right = p.dot_general(g, a, (of_a, free_a), (outer, ba))
    return [
        p.transpose(left, _back([*ba, *free_a, *(ca[k] for k in _ranks(cb))])),
        p.transpose(right, _back([*bb, *free_b, *(cb[k] for k in _ranks(ca))])),
    ]


def _ranks(axes: Sequence[int]) -> list[int]:
    """The places of axes in ascending order."""
    return sorted(range(len(axes)), key=lambda k: axes[k])


def _back(order: Sequence[int]) -> list[int]:
    """The permutation that brings axes in this order to 0, 1, 2, ..."""
    return [list(order).index(axis) for axis in range(len(order))]


def _gather(equation: Equation, g: Array) -> Sequence[Array | None]:
    x, *indices = equation.inputs
    axes, place, rank = equation.params["axes"], equation.params["place"], indices[0].rank
    order = [*range(place, place + rank), *range(place), *range(place + rank, g.rank)]
    limited = [
        p.minimum(p.maximum(index, 0), p.literal(x.shape[axis] - 1, index.dtype)) for axis, index in zip(axes, indices)
    ]
    added = p.scatter(p.full(x.shape, 0.0, x.dtype), p.transpose(g, order), limited, axes, "add")
    return [added, *[None] * len(indices)]


RULES: dict[str, Rule] = {
    "elementwise": _elementwise,
    "cast": _cast,
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast": _broadcast,
    "slice": _slice,
    "pad": _pad,
    "concat": _concat,
    "reduce": _reduce,
    "dot_general": _dot_general,
    "gather": _gather,
}
