"""What a sequence length that a session has not seen costs: nothing is compiled, memory is laid out and bound anew.

    python -m tests.benchmarks.new_length [--provider NAME] [--rounds 3] [--json]
    python -m tests.benchmarks.new_length --growth [--provider NAME] [--steps 64] [--json]

minilm-l3 at lengths in random order, on one thread, beside onnxruntime: milliseconds of processor time of the whole
process, and medians by ranges of lengths. Each length runs twice, which makes it new and then known, always after a run
of the other side, which leaves the caches to nobody; afterwards all of them recur in another order, twice again. Each
round has new sessions. `added` is the median difference between a run and the second one of the same length, `ratio`
the median of ours by theirs, length by length.

`--growth` is about a chat, whose memory grows with every token ([growth.py](growth.py)).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests import models
from tests.benchmarks import fresh, growth
from tests.benchmarks.fresh import ONNXRUNTIME, SIDES, session
from tests.benchmarks.turns import turns

MODEL = "minilm-l3"
RANGES = {"10-39": range(10, 40), "40-69": range(40, 70), "70-109": range(70, 110)}
KINDS = ("new", "recurring", "known")
UNCOUNTED = (5, 6, 5, 7)
"""Lengths that come first, and warm up."""

Times = dict[str, list[float]]


class Run:
    """Sessions of both sides, and the milliseconds of their runs."""

    def __init__(self, sides: Sequence[str], rng: np.random.Generator) -> None:
        self._sessions = {side: session(side, models.path(MODEL)) for side in sides}
        self._rng = rng
        self._number = 0

    def times(self, length: int, repeats: int = 1) -> Times:
        """Processor time of runs of each side, in turns."""
        ids = self._rng.integers(1000, 30000, (1, length))
        feeds = {"input_ids": ids, "attention_mask": np.ones((1, length), np.int64)}
        found: Times = {side: [] for side in self._sessions}
        self._number += 1
        for _ in range(repeats):
            for side in turns(self._sessions, self._number):
                start = time.process_time()
                self._sessions[side].run(None, feeds)
                found[side].append(1e3 * (time.process_time() - start))
        return found


def measure(side: str, rounds: int) -> list[dict[str, Any]]:
    """A row for each range and kind of run: medians of both sides."""
    pairs: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    added: dict[tuple[str, str], list[float]] = defaultdict(list)
    rng = np.random.default_rng(0)
    where = {length: name for name, lengths in RANGES.items() for length in lengths}
    for _ in range(rounds):
        run = Run((ONNXRUNTIME, side), rng)
        for length in UNCOUNTED:
            run.times(length, 2)
        for kind in ("new", "recurring"):
            for length in rng.permutation([*where]).tolist():
                found = run.times(length, 2)
                for number, which in enumerate((kind, "known")):
                    pairs[where[length], which].append((found[side][number], found[ONNXRUNTIME][number]))
                added[where[length], kind].append(found[side][0] - found[side][1])
    return [
        {
            "lengths": name,
            "kind": kind,
            "ours_ms": statistics.median(ours for ours, _ in pairs[name, kind]),
            "theirs_ms": statistics.median(theirs for _, theirs in pairs[name, kind]),
            "ratio": statistics.median(ours / theirs for ours, theirs in pairs[name, kind]),
            "added_ms": statistics.median(added[name, kind]) if kind != "known" else None,
        }
        for name in RANGES
        for kind in KINDS
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ours = {provider: side for side, (_, provider) in SIDES.items() if side != ONNXRUNTIME}
    parser.add_argument("--provider", choices=ours, default="WasmExecutionProvider")
    parser.add_argument("--rounds", type=int, default=3, help="sessions of each side (default %(default)s)")
    parser.add_argument("--growth", action="store_true", help="tokens of a chat instead")
    parser.add_argument("--steps", type=int, default=64, help="tokens of the chat (default %(default)s)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    fresh.quiet()
    side = ours[arguments.provider]
    if arguments.growth:
        told = fresh.call(growth.__name__, "measure", arguments.provider, side, arguments.steps, environment={})
        print(json.dumps(told, indent=1) if arguments.json else growth.rendered(told))
        return
    rows = fresh.call(__spec__.name, "measure", side, arguments.rounds, environment={})
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        more = "" if row["added_ms"] is None else f", {row['added_ms']:.2f} ms added"
        print("{lengths}, {kind}: {ours_ms:.2f} ms, onnxruntime {theirs_ms:.2f} ms: {ratio:.2f}".format(**row) + more)


if __name__ == "__main__":
    main()
