"""Inputs of ai.onnx.ml as matrices, and functions of their rows in bounded memory."""

from __future__ import annotations

from collections.abc import Callable

from sardonyx import dtypes
from sardonyx import primitives as p
from sardonyx.array import Array

MOST_ELEMENTS = 1 << 19
"""Elements of the intermediate results that `by_rows` allows at a time."""


def matrix(x: Array, wide: bool = False) -> Array:
    """Features as floats [rows, features]: a vector is one row; float64 stays as it is only if `wide`."""
    if x.rank not in (1, 2):
        raise ValueError(f"takes features of shape [rows, features] or [features], not {p.show(x.shape)}")
    x = p.cast(x, dtypes.float64 if wide and x.dtype is dtypes.float64 else dtypes.float32)
    return p.unsqueeze(x, [0]) if x.rank == 1 else x


def by_rows(x: Array, elements: int, function: Callable[[Array], Array]) -> Array:
    """`function(x)`, row by row the same as for all rows at once, for as many rows at a time as memory allows.

    `elements` counts what an intermediate result of the function has for one row; the result has x's rows first.
    """
    rows, block = x.shape[0], max(1, MOST_ELEMENTS // max(1, elements))
    if rows <= block:
        return function(x)
    blocks = (rows + (block - 1)) // block

    def of_block(number: Array, going: Array) -> list[Array]:
        places = number * block + p.iota((block,), 0)  # those behind the last row give it again
        return [going, function(p.gather(x, [places], [0]))]

    (stacked,) = p.loop(p.reshape(p.sizes([blocks]), ()), None, [], of_block)
    return p.slice_axis(p.reshape(stacked, (blocks * block, *stacked.shape[2:])), 0, 0, rows)
