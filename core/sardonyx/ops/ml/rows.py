"""Inputs of ai.onnx.ml as matrices."""

from __future__ import annotations

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.primitives.array import Array


def matrix(x: Array, wide: bool = False) -> Array:
    """Features as floats [rows, features]: a vector is one row; float64 stays as it is only if `wide`."""
    if x.rank not in (1, 2):
        raise ValueError(f"takes features of shape [rows, features] or [features], not {p.show(x.shape)}")
    x = p.cast(x, dtypes.float64 if wide and x.dtype is dtypes.float64 else dtypes.float32)
    return p.unsqueeze(x, [0]) if x.rank == 1 else x
