"""The values of Arrays that depend on constants, sizes and feeds alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.primitives.array import Array, Equation, Shape
from sardonyx.sizes.symbolic import Dim, count

FOLD_LIMIT = 1 << 16
"""Elements up to which primitives on constants are evaluated while tracing."""
DEAR = {"branch", "conv_general", "coupling", "dot_general", "host", "loop", "recurrent", "reduce_window", "sort"}
DEAR |= {"suppression", "top_k", "tree_ensemble"}
"""Primitives that are not evaluated for the sake of a guess."""


EVALUATE_LIMIT = 1 << 24
"""Elements up to which primitives on constants are evaluated because the plan depends on them."""


Columns: TypeAlias = Callable[[int, int], np.ndarray]
"""What gives the elements of an Array from one place along its last axis to another."""


def _is_dear(equation: Equation, feeds: Mapping[Array, np.ndarray] | None) -> bool:
    if feeds is None:
        return any(isinstance(array.size, int) and array.size > EVALUATE_LIMIT for array in equation.outputs)
    return equation.primitive.name in DEAR or any(count(array.shape) > FOLD_LIMIT for array in equation.outputs)


def evaluate(array: Array, feeds: dict[Array, np.ndarray] | None = None) -> np.ndarray | None:
    """The value of an Array that depends on constants, sizes and feeds alone; guards tie sizes to their numbers.

    None where it depends on anything else, or, with feeds, is dear to compute. What is computed joins the feeds.
    """
    values: dict[Array, np.ndarray] = {} if feeds is None else feeds
    stack = [array]
    while stack:
        top = stack[-1]
        if top in values:
            stack.pop()
        elif top.value is not None:
            values[top] = top.value
        elif top.equation is None or not top.equation.primitive.pure or _is_dear(top.equation, feeds):
            return None
        elif waiting := [item for item in top.equation.inputs if item not in values]:
            stack += waiting
        else:
            equation = top.equation
            results = equation.primitive.numpy(*(values[item] for item in equation.inputs), **equation.params)
            values.update((item, result) for item, result in zip(equation.outputs, results, strict=True))
    return values[array]


def columns_of(array: Array) -> Columns | None:
    """What evaluates an Array part by part, however large it is; None where it does not depend on constants alone."""
    equation = array.equation
    if array.value is None and equation is not None and equation.primitive.name in ("cast", "elementwise"):
        operands = [columns_of(x) for x in equation.inputs]
        known = [operand for operand in operands if operand is not None]
        if len(known) < len(operands):
            return None

        def computed(begin: int, end: int) -> np.ndarray:
            result: np.ndarray = equation.primitive.numpy(*(read(begin, end) for read in known), **equation.params)[0]
            return result

        return computed
    value = evaluate(array)
    if value is None:
        return None
    return lambda begin, end: value[..., begin:end] if value.ndim and value.shape[-1] > 1 else value


def is_small(shape: Shape) -> bool:
    return all(isinstance(size, int) for size in shape) and count(shape) <= FOLD_LIMIT


def as_objects(array: Array) -> np.ndarray:
    assert array.value is not None
    return array.value if array.dtype is dtypes.bool_ else array.value.astype(object)


def of_sizes(elements: np.ndarray, dtype: DType, shape: Shape) -> Array:
    """The Array of these integers, a plain value if none of them is symbolic."""
    if any(isinstance(size, Dim) for size in elements.reshape(-1).tolist()):
        return Array(dtype, shape, sizes=elements)
    return Array(dtype, shape, value=elements.astype(dtype.storage))
