"""Where onnxruntime's Python classes are."""

from __future__ import annotations

from typing import Any

import sardonyx
from sardonyx.devices import OrtDevice, OrtDeviceVendorId
from sardonyx.session import InferenceSession
from sardonyx.sparse import SparseTensor

__all__ = ["InferenceSession", "OrtDevice", "OrtDeviceVendorId", "SparseTensor"]


def __getattr__(name: str) -> Any:
    return getattr(sardonyx, name)
