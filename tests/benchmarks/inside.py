"""Our side of the benchmark in a browser: this file runs inside Pyodide, and JavaScript calls its functions."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from sardonyx import InferenceSession

_feeds: dict[str, tuple[Any, np.dtype[Any], tuple[int, ...]]] = {}
_sessions: dict[str, InferenceSession] = {}
_kinds: dict[str, list[tuple[str, list[int]]]] = {}


def feed(name: str, data: Any, dtype: str, shape: Any) -> None:
    """Keep an input, a Uint8Array, which every run copies, as onnxruntime-web does with its arrays."""
    _feeds[name] = data, np.dtype(dtype), tuple(shape)


def create(side: str, model: Any, provider: str) -> float:
    """Make a session of a model in a Uint8Array, and return the milliseconds that it took."""
    begun = time.perf_counter()
    session = InferenceSession(model.to_bytes(), providers=[provider])
    taken = 1e3 * (time.perf_counter() - begun)
    if provider not in session.get_providers():
        raise RuntimeError(f"{provider} does not work here")
    _sessions[side] = session
    return taken


def run(side: str) -> list[npt.NDArray[np.uint8]]:
    """Run with copies of JavaScript's arrays, and return the outputs' bytes, which JavaScript copies."""
    arrays = {name: np.frombuffer(data.to_py(), dtype).reshape(shape) for name, (data, dtype, shape) in _feeds.items()}
    found = [np.ascontiguousarray(array) for array in _sessions[side].run(None, arrays)]
    _kinds[side] = [(array.dtype.name, list(array.shape)) for array in found]
    return [array.reshape(-1).view(np.uint8) for array in found]


def kinds(side: str) -> list[tuple[str, list[int]]]:
    """Return dtype and shape of what the last run gave."""
    return _kinds[side]
