"""Zero points of products with constant matrices are subtracted from what is multiplied.

(a - r) (b - c) is spelled a b - r sum(b) - sum(a) c + r c K, so that backends may multiply the bytes. Here the product
of bytes subtracts r by itself, and other products read wider numbers anyway, which hold the differences as well.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.legalization.products import contracted
from sardonyx.compiler.legalization.ranges import uncast
from sardonyx.compiler.live import live_equations
from sardonyx.primitives.array import Array, Equation
from sardonyx.sizes.symbolic import hint

from .legalizer import Legalizer

FEWEST = 512
"""Products of fewer multiplications stay generated kernels, which would subtract each time that they multiply."""


def centre(legalizer: Legalizer, origins: Collection[int]) -> None:
    """Have the products of a trace be products of differences, where these ONNX nodes have zero points."""

    def rewrite(equation: Equation) -> bool:
        operands = _differences(legalizer, equation) if equation.origin in origins else None
        if operands is None:
            return False
        product, *matrices = operands
        legalizer.define(equation.outputs[0], product.primitive, matrices, product.params)
        return True

    legalizer.run(rewrite)
    legalizer.trace.equations = live_equations(legalizer.trace)


def _differences(legalizer: Legalizer, equation: Equation) -> tuple[Equation, Array, Array] | None:
    """The product of which an equation is the end, with the matrices less their zero points in place of its own."""
    if len(equation.inputs) != 2 or [output.dtype for output in equation.outputs] != [dtypes.int32]:
        return None
    x, y = equation.inputs
    if equation.params.get("function") == "sub":
        product, rest = _product(legalizer, x), None
    elif equation.params.get("function") == "add" and (inner := _operands(x, "sub")):
        (x, y), rest = inner, y
        product = _product(legalizer, x)
    else:
        return None
    factors = _operands(y, "mul")
    if product is None or factors is None:
        return None
    (a, b), (over, along) = product.inputs, product.params["contract"]
    if rest is None and factors[0].size == 1 and _are_sums(factors[1], b, along):
        return product, p.cast(a, dtypes.int32) - factors[0], b
    sums, column = factors
    if not legalizer.is_constant(column):
        return None
    before = a
    if rest is not None:
        minus = _operands(a, "sub")
        if minus is None or not _is_rest(rest, minus[1], column, a, over):
            return None
        before = uncast(minus[0])
    return (product, a, p.cast(b, dtypes.int32) - column) if _are_sums(sums, before, over) else None


def _product(legalizer: Legalizer, x: Array) -> Equation | None:
    """The product of integers that is x, if it is large and has a constant matrix."""
    equation = x.equation
    if equation is None or equation.primitive.name != "dot_general" or not legalizer.is_constant(equation.inputs[1]):
        return None
    sizes = contracted(equation)
    return equation if sizes.work >= FEWEST and hint(sizes.n) > 1 else None


def _operands(x: Array, function: str) -> tuple[Array, ...] | None:
    """What an Array is the result of a function of."""
    return x.equation.inputs if x.equation is not None and x.equation.params.get("function") == function else None


def _are_sums(sums: Array, x: Array, axes: Collection[int]) -> bool:
    """Whether this is x summed along these axes."""
    while sums.equation is not None and sums.equation.primitive.name == "reshape":
        sums = sums.equation.inputs[0]
    if sums.value is not None:
        return x.value is not None and _equal(sums.value, x.value.sum(axis=tuple(axes), dtype=np.int64))
    equation = sums.equation
    if equation is None or equation.primitive.name != "reduce" or equation.params["function"] != "sum":
        return False
    return sorted(equation.params["axes"]) == sorted(axes) and uncast(equation.inputs[0]) is x


def _is_rest(rest: Array, row: Array, column: Array, a: Array, axes: Collection[int]) -> bool:
    """Whether this is a row's zero point times a column's times as many numbers as are summed."""
    (axis,) = axes
    outer = _operands(rest, "mul")
    inner = outer and _operands(outer[0], "mul")
    if not outer or not inner or outer[1].value is None or not isinstance(a.shape[axis], int):
        return False
    return inner[0] is row and inner[1] is column and _equal(outer[1].value, np.array(a.shape[axis]))


def _equal(x: np.ndarray, y: np.ndarray) -> bool:
    return x.size == y.size and bool((x.reshape(-1) == y.reshape(-1)).all())
