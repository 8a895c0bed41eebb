"""Rules of primitives that compute element by element, and of those that move elements."""

from __future__ import annotations

from sardonyx import primitives as p
from sardonyx.code import scalar
from sardonyx.common import dtypes
from sardonyx.ops.gradient.rule import Gradients, Rule, of_one, unbroadcast, zeros_like
from sardonyx.primitives.array import Array, Equation


def _elementwise(equation: Equation, g: Array) -> Gradients:
    """As the function's row says."""
    (y,), xs = equation.outputs, equation.inputs
    gradient = scalar.FUNCTIONS[equation.params["function"]].gradient
    if gradient is None or not y.dtype.is_float:
        return [None] * len(xs)
    return [
        None if own is None or not x.dtype.is_float else unbroadcast(p.broadcast_to(own, g.shape), x)
        for own, x in zip(gradient(p.elementwise, g, y, *xs), xs, strict=True)
    ]


def _cast(equation: Equation, g: Array) -> Gradients:
    (x,) = equation.inputs
    return [p.cast(g, x.dtype) if x.dtype.is_float and g.dtype.is_float else None]


def _reshape(equation: Equation, g: Array) -> Gradients:
    return [p.reshape(g, equation.inputs[0].shape)]


def _transpose(equation: Equation, g: Array) -> Gradients:
    perm = equation.params["perm"]
    return [p.transpose(g, [perm.index(axis) for axis in range(len(perm))])]


def _broadcast(equation: Equation, g: Array) -> Gradients:
    (x,), axes = equation.inputs, equation.params["axes"]
    gone = [axis for axis in range(g.rank) if axis not in axes]
    kept = p.sum_(g, gone) if gone else g
    return [unbroadcast(kept, x)]


def _slice(equation: Equation, g: Array) -> Gradients:
    (x,), params = equation.inputs, equation.params
    if any(step not in (1, -1) for step in params["steps"]):
        spans = zip(params["starts"], params["steps"], params["sizes"], strict=True)
        grid = [
            p.iota([size if k == axis else 1 for k in range(g.rank)], axis) * step + start
            for axis, (start, step, size) in enumerate(spans)
        ]
        return [p.scatter(zeros_like(x), g, grid, range(x.rank), "add")]
    low, high = [], []
    for axis, (start, step, size) in enumerate(zip(params["starts"], params["steps"], params["sizes"], strict=True)):
        first = start if step > 0 else start - size + 1
        low.append(first)
        high.append(x.shape[axis] - first - size)
        g = g if step > 0 else p.flip(g, [axis])
    return [p.pad(g, low, high)]


def _pad(equation: Equation, g: Array) -> Gradients:
    return [p.slice_(g, equation.params["low"], equation.inputs[0].shape)]


def _concat(equation: Equation, g: Array) -> Gradients:
    axis, start, parts = equation.params["axis"], 0, []
    for x in equation.inputs:
        parts.append(p.slice_axis(g, axis, start, x.shape[axis]))
        start = start + x.shape[axis]
    return parts


def _append(equation: Equation, g: Array) -> Gradients:
    cache, new = equation.inputs
    axis, start = equation.params["axis"], equation.params["start"]
    own, low, high = p.slice_axis(g, axis, start, new.shape[axis]), [0] * new.rank, [0] * new.rank
    low[axis], high[axis] = start, cache.shape[axis] - start - new.shape[axis]
    return [p.where(p.pad(p.full(new.shape, True, dtypes.bool_), low, high), 0.0, g), own]


def _bitcast(equation: Equation, g: Array) -> Gradients:
    """Bits are integers, which have no slopes."""
    return [None]


RULES: dict[str, Rule] = {
    "bitcast": of_one(_bitcast),
    "elementwise": of_one(_elementwise),
    "cast": of_one(_cast),
    "reshape": of_one(_reshape),
    "transpose": of_one(_transpose),
    "broadcast": of_one(_broadcast),
    "slice": of_one(_slice),
    "pad": of_one(_pad),
    "concat": of_one(_concat),
    "append": of_one(_append),
}
