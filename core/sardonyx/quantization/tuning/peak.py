"""python -m sardonyx.quantization.tuning.peak MODEL FEEDS.npz PROVIDER: prints the most bytes that this process had."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from sardonyx.api.session import InferenceSession
from sardonyx.common.memory import peak


def main(model: str, feeds: str, provider: str) -> None:
    """Run a model once, and print what that took."""
    with np.load(feeds) as arrays:
        given = dict(arrays)
    InferenceSession(model, providers=[provider]).run(None, given)
    print(_most())


def _most() -> int:
    """The most bytes since the program began: what the system tells of a process may be its parent's on Linux."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return peak()


if __name__ == "__main__":
    main(*sys.argv[1:])
