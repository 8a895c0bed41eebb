"""A run of a model whose sizes are open, beside one that was made for the sizes of the run: what open sizes cost.

    python -m tests.benchmarks.fixed [--models ID,...] [--rounds 15] [--json]

Bundles, and sessions whose open sizes are free dimensions that were overridden, each pair in a process of its own, on
WASM with one thread, with the sizes of the list. What is open has run at other sizes before. Milliseconds of a run are
medians, of batches in turns; `ratio` is the median of open by fixed, round by round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx import InferenceSession, SessionOptions
from sardonyx.api.bundling import bundle_of
from sardonyx.plans.plan_cache import Source
from tests.benchmarks import fresh
from tests.benchmarks.turns import turns
from tests.models import inputs, path
from tests.models.open_sizes import draw, feeds_of
from tests.web.pages import bundled

MODELS = ("minilm-l3", "ppocr4-rec", "minilm-l6-int8")
KINDS = ("bundle", "session")
SIDES = ("open", "fixed")
BATCH_MS = 60
"""How long the runs take that are timed as one."""
OTHERS = 4
"""How many other sizes come first."""

Figures = dict[str, Any]


def measure(id: str, kind: str, rounds: int) -> Figures:
    """Medians of both sides, and of their ratio."""
    feeds = inputs(id)
    with tempfile.TemporaryDirectory() as folder:
        make = _bundles if kind == "bundle" else _sessions
        made = make(id, feeds, Path(folder))
        rng = np.random.default_rng(0)
        other = 0
        while other < OTHERS:
            sizes = draw(id, rng, 0.1)
            if min(sizes.values()) > 1:
                made["open"].run(None, feeds_of(id, sizes, rng))
                other += 1
        for side in SIDES:
            for _ in range(3):
                _timed(made[side], feeds, 1)
        count = max(1, round(BATCH_MS / _timed(made["fixed"], feeds, 3)))
        times: dict[str, list[float]] = {side: [] for side in SIDES}
        for number in range(rounds):
            for side in turns(SIDES, number):
                times[side].append(_timed(made[side], feeds, count))
    ratio = statistics.median(a / b for a, b in zip(*times.values(), strict=True))
    return {**{f"{side}_ms": statistics.median(times[side]) for side in SIDES}, "ratio": ratio}


def _timed(session: InferenceSession, feeds: Mapping[str, np.ndarray], count: int) -> float:
    """Milliseconds of processor time of a run."""
    start = time.process_time()
    for _ in range(count):
        session.run(None, feeds)
    return 1e3 * (time.process_time() - start) / count


def _bundles(id: str, feeds: Mapping[str, np.ndarray], folder: Path) -> dict[str, InferenceSession]:
    data = {
        "open": b"".join(bundle_of(Source(path(id)), ["wasm"])),
        "fixed": bundled(path(id), feeds, ["wasm"]),
    }
    for side, content in data.items():
        (folder / f"{side}.sdx").write_bytes(content)
    return {side: _session(folder / f"{side}.sdx", SessionOptions()) for side in SIDES}


def _sessions(id: str, feeds: Mapping[str, np.ndarray], folder: Path) -> dict[str, InferenceSession]:
    made = {"open": _session(path(id), SessionOptions())}
    fixed = SessionOptions()
    for told in made["open"].get_inputs():
        for name, size in zip(told.shape, feeds[told.name].shape, strict=True):
            if isinstance(name, str):
                fixed.add_free_dimension_override_by_name(name, size)
    return {**made, "fixed": _session(path(id), fixed)}


def _session(file: Path, options: SessionOptions) -> InferenceSession:
    options.intra_op_num_threads = 1
    return InferenceSession(file, options, providers=["WasmExecutionProvider"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=lambda text: text.split(","), default=[*MODELS], metavar="ID,...")
    parser.add_argument("--rounds", type=int, default=15, help="batches of each side (default %(default)s)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    for id in arguments.models:
        for kind in KINDS:
            row = {"model": id, "kind": kind}
            row |= fresh.call(__spec__.name, "measure", id, kind, arguments.rounds, environment={})
            rows.append(row)
            if not arguments.json:
                print(
                    "{model}, {kind}: {open_ms:.2f} ms, fixed {fixed_ms:.2f} ms: {ratio:.3f}".format(**row), flush=True
                )
    if arguments.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
