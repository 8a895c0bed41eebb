"""Where the time of a run goes on the WASM provider, natively, beside onnxruntime.

    python -m tests.benchmarks.parts [--write] [--models ID,...] [--runs 15]
    python -m tests.benchmarks.parts --threads 2 [--models ID,...] [--runs 15] [--steps 5] [--trace FILE]

Each model is a process of one thread. What launches take comes from the profile of a second session, less what
profiling itself adds to each of them; what is left of a run is Python's.

With --threads, what each thread does in a run of medium length, beside one thread: when it wakes, calls of the module
(with the waits inside of them), products between these (NumPy's and Python's), and how long before the end it was done.
Steps follow that lose most: a step ends with a product of the host. --trace writes the run of the last model, for
chrome://tracing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks import fresh, tracks
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


def tracked(id: str, threads: int, runs: int) -> list[tracks.Call]:
    """Return the calls of the module in a run of medium length that so many threads share."""
    from sardonyx_wasm import provider

    recorder = tracks.Recorder()
    with recorder.on(provider.device({"intra_op_num_threads": str(threads)})):
        session, feeds = fresh.session(SIDE, path(id), threads), inputs(id)
        found = []
        for _ in range(8 * runs):
            calls = recorder.run(lambda: session.run(None, feeds))
            if calls and all(call.threads == threads for call in calls):
                found.append(calls)
            if len(found) == runs + 2:
                break
    if not found:
        raise RuntimeError(f"no run was shared by {threads} threads")
    return sorted(found[2:] or found, key=_length)[len(found[2:] or found) // 2]


def _length(calls: Sequence[tracks.Call]) -> float:
    return max(call.ended for call in calls) - min(call.begun for call in calls)


def threads_of(id: str, threads: int, runs: int) -> dict[str, Any]:
    """Return the calls of a run by one thread and of one by so many, and the names of products."""
    from sardonyx.plans.epochs import code_of
    from sardonyx_wasm.device import blas

    calls = {str(count): tracked(id, count, runs) for count in (1, threads)}
    session = fresh.session(SIDE, path(id))
    session.run(None, inputs(id))
    (plan, *_) = session.plans
    codes = [code_of(plan.codes[step.code]) for step in plan.steps if step.do == "launch"]
    return {"calls": calls, "names": [code.name for code in codes if blas.takes(code)]}


def track_lines(id: str, found: Mapping[int, Sequence[tracks.Span]]) -> list[list[str]]:
    """Return a line for each thread of each number of threads."""
    lines = []
    for count, spans in found.items():
        end = max(span.ended for span in spans)
        for thread in range(count):
            own = [span for span in spans if span.thread == thread]
            module, products = (
                sum(span.ended - span.begun for span in own if span.is_product is kind) for kind in (False, True)
            )
            wakes, done = (own[0].begun, own[-1].ended) if own else (end, end)
            figures = [1e3 * end, 1e3 * wakes, 1e3 * module, 1e3 * products, 1e3 * (end - done)]
            lines.append([id, str(count), str(thread), *(number(figure) for figure in figures)])
    return lines


def step_lines(found: Mapping[int, Sequence[tracks.Span]], names: Sequence[str], most: int) -> list[list[str]]:
    """Return the steps that lose most: what they take one thread, and each of several."""
    alone, (threads, shared) = tracks.by_step(found[1]), max(found.items())
    lost = {
        step: max(times.values()) - sum(alone.get(step, {}).values()) / threads
        for step, times in tracks.by_step(shared).items()
    }
    together = tracks.by_step(shared)
    lines = []
    for step in sorted(lost, key=lambda step: -lost[step])[:most]:
        name = f"{step} {names[step]}" if step < len(names) else f"{step} (the end)"
        times = [sum(alone.get(step, {}).values()), *(together[step].get(thread, 0.0) for thread in range(threads))]
        lines.append([name, *(f"{1e6 * seconds:.0f}" for seconds in [*times, lost[step]])])
    return lines


def show_threads(models: Sequence[str], threads: int, runs: int, most: int, trace: Path | None) -> None:
    """Print what the threads of a run do."""
    for id in models:
        path(id)
        told = fresh.call(__spec__.name, "threads_of", id, threads, runs, limit=300, environment={})
        calls = {int(count): [tracks.Call(*call) for call in some] for count, some in told["calls"].items()}
        found = {count: tracks.spans(some) for count, some in calls.items()}
        head = ["model", "threads", "thread", "run, ms", "wakes, ms", "module, ms", "products, ms", "done before, ms"]
        print("\n".join([*table(head, track_lines(id, found)), ""]))
        head = ["step", "one thread, us", *(f"thread {thread}, us" for thread in range(threads)), "lost, us"]
        print("\n".join([*table(head, step_lines(found, told["names"], most)), ""]), flush=True)
        if trace:
            tracks.write(trace, found[threads], dict(enumerate(told["names"])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table into README.md")
    parser.add_argument("--models", type=lambda text: text.split(","), default=SHORT, metavar="ID,...")
    parser.add_argument("--runs", type=int, default=15, help="runs of each side (default %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="more than one: what each of them does")
    parser.add_argument("--steps", type=int, default=5, help="those that lose most (default %(default)s)")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write a run of the threads as a Chrome trace")
    arguments = parser.parse_args()
    if arguments.threads > 1:
        show_threads(arguments.models, arguments.threads, arguments.runs, arguments.steps, arguments.trace)
        return
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
