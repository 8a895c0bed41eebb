"""Folds: what reductions begin with, and what combines two elements in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType

UFUNC: dict[str, Any] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "any": np.logical_or,
    "all": np.logical_and,
}


def identity(function: str, dtype: DType) -> float:
    """What a reduction over nothing gives."""
    if function in ("sum", "any", "argmax", "argmin"):
        return 0
    if function in ("prod", "all"):
        return 1
    if dtype.is_float:
        return float("-inf") if function == "max" else float("inf")
    if dtype is dtypes.bool_:
        return function == "min"
    half = 1 << (dtype.bits - 1)
    if function == "max":
        return -half if dtype.kind == "int" else 0
    return half - 1 if dtype.kind == "int" else 2 * half - 1
