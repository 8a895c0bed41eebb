"""What a DLPack capsule says of its tensor, before anybody takes it."""

from __future__ import annotations

import ctypes
from typing import Any


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    """The beginning of DLPack's `DLTensor`."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("dtype", _DataType),
    ]


_UNSIGNED = 1


def is_dlpack_uint8_tensor(capsule: Any) -> bool:
    """Whether a capsule holds uint8, as which older libraries give truth values.

    >>> import numpy as np
    >>> [is_dlpack_uint8_tensor(np.ones(2, kind).__dlpack__()) for kind in (np.uint8, np.int8, np.bool_)]
    [True, False, False]
    """
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    dtype = _Tensor.from_address(pointer(capsule, b"dltensor")).dtype
    return (dtype.code, dtype.bits, dtype.lanes) == (_UNSIGNED, 8, 1)
