"""python -m tests.fuzz: run mutated models, and print those that break something."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from tests.fuzz import pages
from tests.fuzz.runner import case, run_all
from tests.fuzz.seeds import SEEDS

parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Run mutated models and print what breaks.")
parser.add_argument("--kind", choices=SEEDS, default="node")
parser.add_argument("--first", type=int, default=0)
parser.add_argument("--count", type=int, default=2000)
parser.add_argument("--provider", default="NumpyExecutionProvider", help="or `page`, for bundles in Node")
parser.add_argument("--save", metavar="FILE", help="write the mutated model of case --first, and run nothing")
arguments = parser.parse_args()
if arguments.save:
    Path(arguments.save).write_bytes(case(arguments.first, arguments.kind)[2])
else:
    counts: Counter[str] = Counter()
    unsound = 0
    started = time.perf_counter()
    first, count = arguments.first, arguments.count
    kind, provider = arguments.kind, arguments.provider
    outcomes = pages.run_all(first, count, kind) if provider == "page" else run_all(first, count, kind, provider)
    for outcome in outcomes:
        counts[outcome.status] += 1
        if not outcome.is_sound:
            unsound += 1
            print(outcome, flush=True)
    seconds = time.perf_counter() - started
    print(dict(counts), f"{arguments.count / seconds:.0f} a second")
    sys.exit(unsound > 0)
