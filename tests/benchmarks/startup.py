"""What stands between a new process and the first result: session creation and first run, beside onnxruntime.

    python -m tests.benchmarks.startup [--write] [--runs 9] [--models ID,...]

Each measurement is a fresh process of one thread, the sides in turns, medians; imports are left out. The first time,
nothing compiled by an earlier process is used; later, what sardonyx and the GPU's driver keep is.
"""

from __future__ import annotations

import argparse
import statistics
import time

from tests.benchmarks import fresh
from tests.benchmarks.fresh import COLD, ONNXRUNTIME, SIDES
from tests.benchmarks.report import machine, publish, table
from tests.benchmarks.turns import turns
from tests.models import inputs, path

MODELS = ("ppocr4-det", "minilm-l3")
TIMES = {"first time": COLD, "later": {}}


def measure(id: str, side: str) -> float:
    """Return milliseconds."""
    file, feeds = path(id), inputs(id)
    fresh.load(side)
    begun = time.perf_counter()
    fresh.session(side, file).run(None, feeds)
    return 1e3 * (time.perf_counter() - begun)


def rows(id: str, runs: int) -> list[list[str]]:
    """Return the lines of the table for one model."""
    times: dict[tuple[str, str], list[float]] = {(side, when): [] for when in TIMES for side in SIDES}
    for k in range(runs + 1):
        for side, when in turns(times, k):
            times[side, when].append(fresh.call(__spec__.name, "measure", id, side, environment=TIMES[when]))
    medians = {key: statistics.median(known[1:]) for key, known in times.items()}  # the first fills the caches
    return [
        [f"{id}, {when}", *(f"{medians[side, when]:.0f}" for side in SIDES)]
        + [f"{medians[side, when] / medians[ONNXRUNTIME, when]:.2f}" for side in SIDES if side != ONNXRUNTIME]
        for when in TIMES
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table into README.md")
    parser.add_argument("--models", type=lambda text: text.split(","), default=[*MODELS], metavar="ID,...")
    parser.add_argument("--runs", type=int, default=9, help="processes of each side (default %(default)s)")
    arguments = parser.parse_args()
    fresh.quiet()
    head = ["model", *(f"{side}, ms" for side in SIDES), *(f"{side}, ratio" for side in SIDES if side != ONNXRUNTIME)]
    lines = table(head, [row for id in arguments.models for row in rows(id, arguments.runs)])
    publish("startup", [*lines, "", f"{machine()}."], arguments.write)


if __name__ == "__main__":
    main()
