"""Where the time of a run goes on the WASM provider, natively, beside onnxruntime.

    python -m tests.benchmarks.parts [--write] [--models ID,...] [--runs 15]

Each model is a process of one thread. What launches take comes from the profile of a second session, less what
profiling itself adds to each of them; what is left of a run is Python's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.benchmarks import fresh
from tests.benchmarks.fresh import ONNXRUNTIME
from tests.benchmarks.report import publish, table
from tests.benchmarks.table import number
from tests.benchmarks.turns import turns
from tests.models import SHORT, inputs, path

SIDE = "WASM"
PARTS = ("BLAS", "products", "recurrent", "other routines", "kernels", "programs", "host")
"""Products that NumPy's BLAS does; those (and convolutions) that are WebAssembly; what is fused; scalar code."""
_PRODUCTS = ("conv", "matmul", "depthwise", "winograd", "im2col", "dot", "gemv")


def measure(id: str, runs: int) -> dict[str, Any]:
    """Return milliseconds of a run on both sides, and of the parts of ours."""
    file, feeds = path(id), inputs(id)
    sessions = {side: fresh.session(side, file) for side in (ONNXRUNTIME, SIDE)}
    times: dict[str, list[float]] = {side: [] for side in sessions}
    for session in sessions.values():
        session.run(None, feeds)
    for k in range(runs):
        for side in turns(sessions, k):
            session = sessions[side]
            begun = time.perf_counter()
            session.run(None, feeds)
            times[side].append(1e3 * (time.perf_counter() - begun))
    medians = {side: statistics.median(known) for side, known in times.items()}
    return {**medians, "parts": parts(id, runs)}


def parts(id: str, runs: int) -> dict[str, float]:
    """Return milliseconds of each part in a run, as a profile has them."""
    import sardonyx

    options = sardonyx.SessionOptions()
    options.intra_op_num_threads, options.enable_profiling = 1, True
    with tempfile.TemporaryDirectory() as folder:
        options.profile_file_prefix = os.path.join(folder, "profile")
        session = sardonyx.InferenceSession(str(path(id)), options, providers=["WasmExecutionProvider"])
        feeds = inputs(id)
        for _ in range(runs + 1):
            session.run(None, feeds)
        with open(session.end_profiling(), encoding="utf-8") as text:
            events = json.load(text)
    kinds = {str(code["name"]): kind(code) for plan in session.plans for code in all_codes(plan)}
    spans = [event for event in events if event.get("cat") == "Node"]
    begun = [event["ts"] for event in events if event.get("name") == "model_run"]
    spans = [event for event in spans if event["ts"] >= min(begun[1:])]  # the first run is another matter
    added = min((event["dur"] for event in spans), default=0)
    found: Counter[str] = Counter()
    for event in spans:
        part = kinds.get(event["name"].partition(" (")[0], "host")
        found[part] += (event["dur"] - added) / 1e3 / runs
    return dict(found)


def all_codes(plan: Any) -> list[Mapping[str, Any]]:
    """Return the codes of a plan and of the plans inside it."""
    return [*plan.codes, *(code for plans in plan.functions for inner in plans for code in all_codes(inner))]


def kind(code: Mapping[str, Any]) -> str:
    """Return the part that a code belongs to."""
    from sardonyx.plans.epochs import code_of
    from sardonyx_wasm.device import blas

    name = code.get("kind", "program")
    if name != "routine":
        return f"{name}s"
    if blas.takes(code_of(dict(code))):
        return "BLAS"
    name = str(code["primitive"])
    if any(name.startswith(word) for word in _PRODUCTS):
        return "products"
    return "recurrent" if name.startswith("recurrent") else "other routines"


def line(id: str, row: Mapping[str, Any]) -> list[str]:
    """Return a line of the table: parts in percent of a run."""
    ours, theirs = row[SIDE], row[ONNXRUNTIME]
    rest = max(0.0, ours - sum(row["parts"].values()))
    shares = [row["parts"].get(part, 0.0) / ours for part in PARTS] + [rest / ours]
    return [
        id,
        number(ours),
        f"{ours / theirs:.2f}",
        *(f"{100 * share:.0f}" if share >= 0.005 else "" for share in shares),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table into README.md")
    parser.add_argument("--models", type=lambda text: text.split(","), default=SHORT, metavar="ID,...")
    parser.add_argument("--runs", type=int, default=15, help="runs of each side (default %(default)s)")
    arguments = parser.parse_args()
    rows = {}
    for id in arguments.models:
        path(id)
        try:
            rows[id] = fresh.call(__spec__.name, "measure", id, arguments.runs, limit=300, environment={})
        except (RuntimeError, TimeoutError) as error:
            print(f"{id}: {error}", flush=True)
    head = ["model", "ms", "ratio", *(f"{part}, %" for part in PARTS), "Python, %"]
    publish("parts", table(head, [line(id, row) for id, row in rows.items()]), arguments.write)


if __name__ == "__main__":
    main()
