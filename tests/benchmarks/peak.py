"""The most memory that one side needs for a model, in a process that imports nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.benchmarks import fresh


def resident(field: str) -> float:
    """Read one of Linux's figures of this process in MiB: VmRSS is what is resident, VmHWM the most that ever was."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def measure(side: str, path: str, feeds: str) -> float:
    """Return MiB that library, session and a run added to a process with NumPy and the feeds, a file of arrays."""
    with np.load(feeds, allow_pickle=True) as arrays:
        given = dict(arrays)
    before = resident("VmRSS")
    fresh.session(side, path).run(None, given)
    return resident("VmHWM") - before
