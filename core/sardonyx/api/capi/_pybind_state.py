"""The same as `onnxruntime_pybind11_state`, by its other name."""

from __future__ import annotations

from typing import Any

from sardonyx.api.capi import onnxruntime_pybind11_state
from sardonyx.api.capi.onnxruntime_pybind11_state import *  # noqa: F403


def __getattr__(name: str) -> Any:
    return getattr(onnxruntime_pybind11_state, name)
