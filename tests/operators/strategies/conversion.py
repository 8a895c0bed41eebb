"""Conversions between types."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from sardonyx.common import dtypes

from .draw import Draw, draws, types

NUMERALS = ["0", "1", "-3", "12", "100", "7", "5", "2"]
DECIMALS = [*NUMERALS, "2.5", "-1e3", "1e-2", "NaN", "INF", "-INF", "0.1", "1e10"]


def element_type(dtype: np.dtype[Any]) -> int:
    return int(helper.np_dtype_to_tensor_dtype(dtype))


def convertible(d: Draw, dtype: np.dtype[Any], to: np.dtype[Any]) -> np.ndarray:
    """Elements that another type can hold, where ONNX does not say what becomes of others."""
    shape, known, wanted = d.shape(), dtypes.of(dtype), dtypes.of(to)
    if known is dtypes.string:
        pool = DECIMALS if wanted.is_float else ["0", "1", "7"] if wanted.kind == "uint" else NUMERALS
        found = np.empty(shape, object)
        found.flat = [pool[k] for k in d.rng.integers(len(pool), size=found.size)]
        return found
    if known.is_float and wanted.is_int:
        low = -(2 ** (wanted.bits - 1)) if wanted.kind == "int" else 0
        return np.clip(d.noise(*shape) * 3, low, low + 2**wanted.bits - 1).astype(dtype)
    if wanted is dtypes.float8e8m0:
        return np.abs(d.noise(*shape)).astype(dtype) + np.asarray(1, dtype)
    return d.values(shape, dtype)


@draws("Cast", "CastLike")
def cast(d: Draw) -> dict[str, Any]:
    dtype, to = d.dtype("T1"), d.of(*types(d.schema, "T2"))
    x = convertible(d, dtype, to)
    options = {"saturate": (1, 0)} if dtypes.of(to).bits == 8 else {}
    if d.name == "Cast":
        return {"inputs": [x], "attributes": {"to": element_type(to), **d.attributes(**options)}, "wide": False}
    return {"inputs": [x, d.values((1,), to, edges=False)], "attributes": d.attributes(**options), "wide": False}


@draws("BitCast")
def bit_cast(d: Draw) -> dict[str, Any]:
    dtype = d.dtype("T1")
    width = dtypes.of(dtype).bits
    to = d.of(*(t for t in types(d.schema, "T2") if dtypes.of(t).bits == width))
    x = d.values(d.shape(), dtype)
    return {"inputs": [x], "attributes": {"to": element_type(to)}, "wide": False}
