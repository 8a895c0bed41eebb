"""Types that the engine stores otherwise than callers: strings, and those that NumPy lacks.

The latter are `ml_dtypes`' where they are installed, else the storage integers.
"""

from __future__ import annotations

import importlib.util

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.common.strings import Strings

_TYPES = {dtypes.ML_NAMES[dtype.name]: dtype for dtype in dtypes.ALL if not dtype.is_native}


def inward(array: np.ndarray, dtype: DType) -> np.ndarray:
    """An array of a caller as the engine stores it; any other array comes back as it is.

    Strings become an array of objects, which a run numbers when it begins.

    >>> inward(np.zeros(2, np.uint16), dtypes.bfloat16).dtype
    dtype('uint16')
    """
    if dtype is dtypes.string and array.dtype.char in "SUTV":
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

    wanted = np.dtype(getattr(ml_dtypes, dtypes.ML_NAMES[dtype.name]))
    return array.astype(wanted) if dtype.is_int else array.view(wanted)
