"""Times and memory of two models, measured by turns, so that what else the machine does hits both alike."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from sardonyx.api.session import InferenceSession
from sardonyx.quantization.tuning import peak
from sardonyx.quantization.tuning.samples import Feeds

ROUNDS = (3, 21)
"""Runs of each model that are timed, at least and at most."""
SECONDS = 4.0
"""How long more than the least rounds may take on a provider."""
SLOWER = 1.05
"""A ratio of times from which on a model is called slower: below it, it is chance."""
PATIENCE = 300
"""Seconds after which a process that measures memory is given up."""


def times(before: str | Path, after: str | Path, feeds: Feeds, provider: str) -> tuple[float, float]:
    """The medians of a run's seconds with either model, after the first, which compiles, and one to warm up."""
    sessions = [InferenceSession(str(path), providers=[provider]) for path in (before, after)]
    for session in (*sessions, *sessions):
        session.run(None, dict(feeds))
    found: list[list[float]] = [[], []]
    end = time.perf_counter() + SECONDS
    for number in range(ROUNDS[1]):
        if number >= ROUNDS[0] and time.perf_counter() > end:
            break
        for side in (0, 1) if number % 2 else (1, 0):  # the first finds colder caches
            start = time.perf_counter()
            sessions[side].run(None, dict(feeds))
            found[side].append(time.perf_counter() - start)
    one, other = map(median, found)
    return one, other


def peak_memory(path: str | Path, feeds: Feeds, provider: str) -> int | None:
    """The most bytes that a process has which runs the model once; None where no process can be started or told."""
    arrays = {name: np.asarray(value) for name, value in feeds.items()}
    if sys.platform == "emscripten" or hasattr(sys, "frozen") or any(a.dtype.kind == "O" for a in arrays.values()):
        return None
    with tempfile.TemporaryDirectory(prefix="sardonyx-peak-") as folder:
        given = Path(folder) / "feeds.npz"
        np.savez(given, allow_pickle=False, **arrays)
        command = [sys.executable, "-m", peak.__name__, str(Path(path).absolute()), str(given), provider]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        except (OSError, subprocess.TimeoutExpired):
            return None
    text = done.stdout.strip()
    return int(text) or None if text.isdecimal() else None


def compared(
    before: str | Path, after: str | Path, feeds: Feeds, providers: Sequence[str], *, memory: bool = True
) -> list[dict[str, Any]]:
    """Times, and peak memory if it is asked for, of two models on each provider: seconds and bytes."""
    rows = []
    for provider in providers:
        seconds = times(before, after, feeds, provider)
        peaks = [peak_memory(path, feeds, provider) if memory else None for path in (before, after)]
        sides = [{"seconds": one, "peak_memory": most} for one, most in zip(seconds, peaks, strict=True)]
        rows.append({"provider": provider, "before": sides[0], "after": sides[1], "ratio": seconds[1] / seconds[0]})
    return rows


def slower(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows of providers on which the second model is slower."""
    return [row for row in rows if row["ratio"] > SLOWER]
