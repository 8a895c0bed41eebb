"""Pictures that are resized on their way to the routine."""

from __future__ import annotations

from typing import NamedTuple

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.primitives.array import Array, Equation

from .. import primitives as own
from .legalizer import Legalizer


class _Means(NamedTuple):
    """Sums of what lies along the first axis of x, at `places` [results, taps] and times weights."""

    x: Array
    places: Array
    weights: Array


def transpose(legalizer: Legalizer, equation: Equation) -> bool:
    """sums of rows of bytes, transposed, sums of columns, transposed back -> resample"""
    (output,), columns = equation.outputs, _means(equation.inputs[0])
    if columns is None:
        return False
    between = columns.x.equation
    if between is None or between.primitive.name != "transpose" or between.params["perm"] != (1, 2, 0):
        return False
    rows = _means(between.inputs[0])
    levels, scale = _levels(rows.x) if rows else (None, None)
    if rows is None or levels is None:
        return False
    operands = [levels, rows.places, rows.weights, columns.places, columns.weights]
    if scale is None:
        legalizer.define(output, own.RESAMPLE, operands, {})
        return True
    made = legalizer.record(own.RESAMPLE, operands, {}, dtypes.float32, output.shape)
    legalizer.define_reshaped(output, made * scale)
    return True


def _means(x: Array) -> _Means | None:
    """What a sum over taps [places, taps, ...] of what was gathered, times weights of each tap, is of."""
    total = x.equation
    if total is None or total.primitive.name != "reduce" or total.params != {"function": "sum", "axes": (1,)}:
        return None
    product = total.inputs[0].equation
    if product is None or product.params.get("function") != "mul":
        return None
    for taken, weights in (product.inputs, product.inputs[::-1]):
        gather = taken.equation
        if gather is None or gather.primitive.name != "gather" or gather.params != {"axes": (0,), "place": 0}:
            continue
        source, index = gather.inputs
        if index.rank == 2 and index.dtype is dtypes.int64 and weights.shape == (*index.shape, *[1] * (x.rank - 1)):
            return _Means(source, index, p.reshape(weights, index.shape))
    return None


def _levels(x: Array) -> tuple[Array | None, Array | None]:
    """Bytes [height, width, 1 to 4] that floats are made of, and by what they are multiplied; None for none."""
    equation, scale = x.equation, None
    if equation is not None and equation.params.get("function") == "mul":
        x, scale = equation.inputs
        equation = x.equation
        if scale.rank or scale.value is None:
            return None, None
    if equation is None or equation.primitive.name != "cast" or x.dtype is not dtypes.float32:
        return None, None
    (levels,) = equation.inputs
    return (levels if levels.dtype is dtypes.uint8 and levels.shape[2] in (1, 2, 3, 4) else None), scale
