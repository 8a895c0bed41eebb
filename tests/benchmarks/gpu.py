"""Models on this machine's GPU, natively, beside onnxruntime on all of its cores.

    python -m tests.benchmarks.gpu [--models ID,...] [--runs 30] [--write]

A model has a process of its own, in which the sides run in turns with the same inputs, which lie on the CPU, as do the
outputs. Times are medians. What the GPU itself takes, by its clock, is that of a run in which every launch is timed
alone: it has no gaps, and no launches that overlap. Outputs must agree with onnxruntime's as closely as the tests ask.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any

from sardonyx import InferenceSession, SessionOptions
from sardonyx.runtime.profile import milliseconds
from tests.benchmarks import fresh
from tests.benchmarks.fresh import ONNXRUNTIME
from tests.benchmarks.report import machine, publish, table
from tests.benchmarks.table import number
from tests.benchmarks.turns import turns
from tests.models import MODELS, assert_close, inputs, path, reference

SIDE = "WebGPU"
SECONDS = 20
"""Runs end after this time, though not before three of them."""


def measure(id: str, runs: int, threads: int) -> dict[str, Any]:
    """Milliseconds of both sides, those of the GPU alone, and how many launches a run has."""
    file, feeds = path(id), inputs(id)
    sessions = {side: fresh.session(side, file, threads) for side in (ONNXRUNTIME, SIDE)}
    outputs = {side: made.run(None, feeds) for side, made in sessions.items()}
    times: dict[str, list[float]] = {side: [] for side in sessions}
    end = time.perf_counter() + SECONDS
    while len(times[SIDE]) < runs and (len(times[SIDE]) < 3 or time.perf_counter() < end):
        for side in turns(times, len(times[SIDE])):
            begun = time.perf_counter()
            sessions[side].run(None, feeds)
            times[side].append(1e3 * (time.perf_counter() - begun))
    assert_close(id, outputs[SIDE], reference(id))
    sessions.clear()
    busy, launches = alone(id)
    return {**{side: statistics.median(taken) for side, taken in times.items()}, "GPU": busy, "launches": launches}


def alone(id: str) -> tuple[float, int]:
    """Milliseconds of the launches of a run, and how many they are."""
    options = SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = os.devnull
    session = InferenceSession(str(path(id)), options, ["WebGpuExecutionProvider"])
    profiler = session._runner.profiling.profiler
    assert profiler is not None
    found = []
    for _ in range(4):
        before = len(profiler.trace())
        session.run(None, inputs(id))
        taken = [milliseconds(event) for event in profiler.trace()[before:] if event.get("cat") == "Node"]
        found.append((sum(taken), len(taken)))
    return min(found)


def rows(models: list[str], runs: int, threads: int) -> tuple[list[list[str]], list[str]]:
    """Rows of the table, and what went wrong."""
    lines, ratios, wrong = [], [], []
    for id in models:
        try:
            found = fresh.call(__spec__.name, "measure", id, runs, threads, environment=_all(threads))
        except RuntimeError as error:
            wrong.append(f"{id}: {error}")
            continue
        ratios.append(found[SIDE] / found[ONNXRUNTIME])
        times = [number(found[name]) for name in (ONNXRUNTIME, SIDE)]
        lines.append([id, *times, f"{ratios[-1]:.2f}", number(found["GPU"]), str(found["launches"])])
        print(" | ".join(lines[-1]), flush=True)
    mean = statistics.geometric_mean(ratios)
    return [*lines, ["geometric mean", "", "", f"**{mean:.2f}**", "", ""]], wrong


def _all(threads: int) -> dict[str, str]:
    return {name: str(threads) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=lambda text: text.split(","), default=[*MODELS], metavar="ID,...")
    parser.add_argument("--runs", type=int, default=30, help="of each side (default %(default)s)")
    parser.add_argument("--write", action="store_true", help="write the table into README.md")
    arguments = parser.parse_args()
    fresh.quiet()
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    found, wrong = rows(arguments.models, arguments.runs, threads)
    head = ["model", f"onnxruntime, {threads} threads, ms", f"{SIDE}, ms", "ratio", "of it the GPU, ms", "launches"]
    publish("gpu", [*table(head, found), "", f"{machine()}.", *wrong], arguments.write)


if __name__ == "__main__":
    main()
