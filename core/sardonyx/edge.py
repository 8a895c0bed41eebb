"""Types that the engine stores otherwise than callers: strings, and those that NumPy lacks.

The latter are `ml_dtypes`' where they are installed, else the storage integers.
"""

from __future__ import annotations

import importlib.util

import numpy as np

from sardonyx import dtypes
from sardonyx.dtypes import DType
from sardonyx.strings import Strings

_NAMES = {
    "float4e2m1": "float4_e2m1fn",
    "float6e2m3": "float6_e2m3fn",
    "float6e3m2": "float6_e3m2fn",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
}
_TYPES = {
    name: dtype for dtype in dtypes.ALL if not dtype.is_native for name in (dtype.name, _NAMES.get(dtype.name, ""))
}


def inward(array: np.ndarray, dtype: DType) -> np.ndarray:
    """An array of a caller as the engine stores it; any other array comes back as it is.

    Strings become an array of objects, which a run numbers when it begins.

    >>> inward(np.zeros(2, np.uint16), dtypes.bfloat16).dtype
    dtype('uint16')
    """
    if dtype is dtypes.string and array.dtype.kind in "SUT":
        return array.astype(object)
    if _TYPES.get(array.dtype.name) is not dtype:
        return array
    return array.astype(dtype.storage) if dtype.is_int else array.view(dtype.storage)


def outward(array: np.ndarray, dtype: DType, strings: Strings) -> np.ndarray:
    """An array of the engine as a caller gets it; `strings` has the texts of the ids that it may hold."""
    if dtype is dtypes.string:
        return strings.decode(array)
    if dtype.is_native or importlib.util.find_spec("ml_dtypes") is None:
        return array
    import ml_dtypes

    wanted = np.dtype(getattr(ml_dtypes, _NAMES.get(dtype.name, dtype.name)))
    return array.astype(wanted) if dtype.is_int else array.view(wanted)
