"""Weights that are larger than what a device holds in one tensor, in parts: rows of the matrix that the model has."""

from __future__ import annotations

from collections.abc import Iterator

from sardonyx import primitives as p
from sardonyx.compiler.rewriting import Rewriter
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.binding import constant
from sardonyx.primitives.trace import Trace


def split(trace: Trace, most: int) -> None:
    """Take products with weights of more than `most` bytes, and lookups in them, part by part."""

    def is_giant(x: Array) -> bool:
        return x.value is not None and x.value.nbytes > most

    if not any(is_giant(x) for equation in trace.equations for x in equation.inputs):
        return
    rewriter = Rewriter(trace)

    def rule(equation: Equation) -> bool:
        if equation.primitive.name == "gather" and is_giant(equation.inputs[0]):
            return _gather(rewriter, equation, most)
        if equation.primitive.name != "dot_general":
            return False
        weight = _source(equation.inputs[1])
        return is_giant(weight) and weight.rank == 2 and _product(rewriter, equation, weight, most)

    rewriter.run(rule)


def _source(b: Array) -> Array:
    """The weight that an operand is, or that it is a transposition of."""
    equation = b.equation
    return equation.inputs[0] if equation is not None and equation.primitive.name == "transpose" else b


def _rows(x: Array, most: int) -> Iterator[tuple[int, Array]]:
    """Rows of a weight, as many as `most` bytes hold, and the number of the first."""
    assert x.value is not None
    rows = max(1, most // max(1, x.value[:1].nbytes))
    for start in range(0, x.value.shape[0], rows):
        yield start, constant(x.value[start : start + rows], x.dtype)


def _gather(rewriter: Rewriter, equation: Equation, most: int) -> bool:
    x, index, *others = equation.inputs
    (output,) = equation.outputs
    if others or equation.params["axes"] != (0,) or equation.params["place"] != 0:
        return False
    result: Array | None = None
    wide = (*index.shape, *[1] * (x.rank - 1))
    for start, part in _rows(x, most):
        found = p.gather(part, [index - start], [0])
        result = found if result is None else p.where(p.reshape(index >= start, wide), found, result)
    assert result is not None
    rewriter.define_reshaped(output, result)
    return True


def _product(rewriter: Rewriter, equation: Equation, weight: Array, most: int) -> bool:
    """Parts along the contracted axis are added, others are put side by side."""
    a, b = equation.inputs
    (output,) = equation.outputs
    params = equation.params
    if params["batch"] != ((), ()) or len(params["contract"][1]) != 1:
        return False
    perm = b.equation.params["perm"] if b is not weight and b.equation is not None else (0, 1)
    (left,), (right,) = params["contract"]
    parts = []
    for start, rows in _rows(weight, most):
        count = int(rows.shape[0])
        operand = a
        if perm[right] == 0:
            low = [start if axis == left else 0 for axis in range(a.rank)]
            operand = p.slice_(a, low, [count if axis == left else size for axis, size in enumerate(a.shape)])
        part = rows if b is weight else p.transpose(rows, perm)
        parts.append(p.dot_general(operand, part, params["contract"], params["batch"], params["dtype"]))
    if perm[right] == 0:
        result = parts[0]
        for part in parts[1:]:
            result = result + part
    else:
        result = p.concat(parts, output.rank - 1)
    rewriter.define_reshaped(output, result)
    return True
