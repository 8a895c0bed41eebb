"""Real models on every provider beside onnxruntime: how close the results are, and how long a run takes.

    python -m tests.benchmarks.models [--runs 9] [--models ppocr2-cls,minilm-l3] [--json]

Runs are interleaved, one thread each, medians; `error` is the largest difference in units of the largest value.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import sardonyx
from tests import models
from tests.support.needs import quieten_vulkan

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
PROVIDERS = ("NumpyExecutionProvider", "WasmExecutionProvider", "WebGpuExecutionProvider")
NAMES = ("digits", "ppocr2-cls", "minilm-l3")


def load(name: str) -> tuple[Path, dict[str, np.ndarray]]:
    """A model's file and feeds."""
    if name == "digits":
        return DIGITS, {"image": np.random.default_rng(0).random((1, 1, 28, 28), np.float32)}
    return models.path(name), models.inputs(name)


def milliseconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return 1e3 * (time.perf_counter() - start)


def measure(name: str, provider: str, runs: int) -> dict[str, Any]:
    """One row of the table."""
    path, feeds = load(name)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    reference = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    start = time.perf_counter()
    ours_options = sardonyx.SessionOptions(intra_op_num_threads=1)
    session = sardonyx.InferenceSession(path, ours_options, providers=[provider])
    found = session.run(None, feeds)
    first = 1e3 * (time.perf_counter() - start)
    errors = [
        float(np.abs(ours.astype("f8") - theirs).max() / max(1e-30, np.abs(theirs).max()))
        for ours, theirs in zip(found, reference.run(None, feeds), strict=True)
    ]
    ours, theirs = [], []
    for _ in range(runs):
        ours.append(milliseconds(lambda: session.run(None, feeds)))
        theirs.append(milliseconds(lambda: reference.run(None, feeds)))
    (plan,) = session.plans
    return {
        "model": name,
        "provider": session.get_providers()[0].removesuffix("ExecutionProvider"),
        "error": max(errors),
        "launches": len(plan.steps),
        "kernels": len(plan.codes),
        "first_ms": first,
        "ms": statistics.median(ours),
        "onnxruntime_ms": statistics.median(theirs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--models", default=",".join(NAMES))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    quieten_vulkan()
    rows = [measure(name, provider, arguments.runs) for name in arguments.models.split(",") for provider in PROVIDERS]
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    print("| model | provider | error | launches | kernels | start to first result, ms | run, ms | onnxruntime, ms |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['model']} | {row['provider']} | {row['error']:.0e} | {row['launches']} | {row['kernels']} | "
            f"{row['first_ms']:.0f} | {row['ms']:.2f} | {row['onnxruntime_ms']:.2f} |"
        )


if __name__ == "__main__":
    main()
