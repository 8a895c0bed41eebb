"""Our side of the benchmark in a browser: this file runs inside Pyodide, and JavaScript calls its functions."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from sardonyx import InferenceSession

feeds: dict[str, npt.NDArray[Any]] = {}
_sessions: dict[str, InferenceSession] = {}
_outputs: dict[str, list[npt.NDArray[Any]]] = {}


def feed(name: str, data: Any, dtype: str, shape: Any) -> None:
    """Take an input from a Uint8Array."""
    feeds[name] = np.frombuffer(data.to_bytes(), dtype).reshape(tuple(shape))


def create(side: str, model: Any, provider: str) -> float:
    """Make a session of a model in a Uint8Array, and return the milliseconds that it took."""
    begun = time.perf_counter()
    session = InferenceSession(model.to_bytes(), providers=[provider])
    taken = 1e3 * (time.perf_counter() - begun)
    if provider not in session.get_providers():
        raise RuntimeError(f"{provider} does not work here")
    _sessions[side] = session
    return taken


def run(side: str, times: int) -> float:
    """Run, and return the milliseconds that one run took."""
    session = _sessions[side]
    begun = time.perf_counter()
    for _ in range(times):
        _outputs[side] = session.run(None, feeds)
    return 1e3 * (time.perf_counter() - begun) / times


def outputs(side: str) -> list[tuple[str, list[int], bytes]]:
    """Return dtype, shape and bytes of what the last run gave."""
    return [(array.dtype.name, list(array.shape), array.tobytes()) for array in _outputs[side]]
