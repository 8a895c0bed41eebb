"""Every model of the list on every provider beside onnxruntime: how long a run takes, and how long the start.

    python -m tests.benchmarks.table [--write] [--models ID,...] [--sides NumPy,WASM,WebGPU] [--runs 15] [--limit 120]
                                     [--again]

A model meets a provider in a process of its own. Sides run in turns on one thread each; figures are medians. What is
measured is kept, so that an interrupted measurement goes on where it was; --again and another machine start anew.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.benchmarks import fresh
from tests.benchmarks.fresh import ONNXRUNTIME, PROVIDERS
from tests.benchmarks.report import machine, publish, table
from tests.models import MODELS, assert_close, inputs, path, reference
from tests.support.cache import CACHE

RESULTS = CACHE / "benchmarks" / "table.json"
SECONDS = 20
"""Runs of one process end after this time, though not before three of them."""

Row = dict[str, Any]


def measure(id: str, side: str, runs: int) -> Row:
    """Return milliseconds of both sides: `start` (session and first run) and `run`; and whether the outputs agree."""
    file, feeds = path(id), inputs(id)
    file.read_bytes()
    sessions, starts, outputs = {}, {}, []
    for one in (ONNXRUNTIME, side):
        fresh.load(one)
        begun = time.perf_counter()
        sessions[one] = fresh.session(one, file)
        outputs = sessions[one].run(None, feeds)
        starts[one] = 1e3 * (time.perf_counter() - begun)
    times: dict[str, list[float]] = {one: [] for one in sessions}
    end = time.perf_counter() + SECONDS
    while len(times[side]) < runs and (len(times[side]) < 3 or time.perf_counter() < end):
        for one, known in times.items():
            begun = time.perf_counter()
            sessions[one].run(None, feeds)
            known.append(1e3 * (time.perf_counter() - begun))
    row: Row = {one: {"start": starts[one], "run": statistics.median(times[one])} for one in sessions}
    sessions.clear()
    try:
        assert_close(id, outputs, reference(id))
    except AssertionError as error:
        row["wrong"] = str(error).strip().splitlines()[0]
    return row


def measured(id: str, side: str, runs: int, limit: float) -> Row:
    """Measure in a fresh process; a failure is a result as well."""
    path(id)
    try:
        row: Row = fresh.call("tests.benchmarks.table", "measure", id, side, runs, limit=limit)
    except TimeoutError:
        return {"slow": limit}
    except RuntimeError as error:
        return {"failed": str(error)}
    return row


class Results:
    """What was measured on this machine, in a file."""

    def __init__(self, file: Path, again: bool) -> None:
        self.file = file
        self.machine = machine()
        kept = json.loads(file.read_text()) if file.exists() and not again else {}
        self.rows: dict[str, dict[str, Row]] = kept["rows"] if kept.get("machine") == self.machine else {}

    def has(self, id: str, side: str, limit: float) -> bool:
        """Say whether a figure is known, or that there is none within `limit` seconds."""
        row = self.rows.get(id, {}).get(side)
        return row is not None and row.get("slow", limit) >= limit

    def add(self, id: str, side: str, row: Row) -> None:
        self.rows.setdefault(id, {})[side] = row
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps({"machine": self.machine, "rows": self.rows}, indent=1))


def rendered(rows: dict[str, dict[str, Row]], moment: str) -> list[str]:
    """Return the table of `run` or `start`: a line for each model, ratios to onnxruntime, their geometric means."""
    lines = []
    for id, sides in rows.items():
        theirs = [row[ONNXRUNTIME][moment] for row in sides.values() if ONNXRUNTIME in row]
        cells = [number(statistics.median(theirs)) if theirs else ""]
        for side in PROVIDERS:
            cells += cell(side, sides.get(side, {}), moment)
        lines.append([id, *cells])
    means = ["geometric mean", ""]
    for side in PROVIDERS:
        ratios = [row[side][moment] / row[ONNXRUNTIME][moment] for row in column(rows, side)]
        means += [f"{len(ratios)} of {len(rows)}", f"**{statistics.geometric_mean(ratios):.2f}**" if ratios else ""]
    head = ["model", "onnxruntime, ms", *(text for side in PROVIDERS for text in (f"{side}, ms", "ratio"))]
    return table(head, [*lines, means])


def column(rows: dict[str, dict[str, Row]], side: str) -> Iterable[Row]:
    """The rows of `side` that have figures, and the right results."""
    return (sides[side] for sides in rows.values() if side in sides.get(side, {}) and "wrong" not in sides[side])


def cell(side: str, row: Row, moment: str) -> list[str]:
    if side not in row:
        return [f"> {row['slow']:g} s" if "slow" in row else "failed" if row else "", ""]
    wrong = " (wrong)" if "wrong" in row else ""
    return [number(row[side][moment]) + wrong, f"{row[side][moment] / row[ONNXRUNTIME][moment]:.2f}"]


def number(milliseconds: float) -> str:
    """Three digits of it.

    >>> number(0.01234), number(1.234), number(12.34), number(1234.5)
    ('0.0123', '1.23', '12.3', '1234')
    """
    places = 4 if milliseconds < 0.1 else 3 if milliseconds < 1 else 2 if milliseconds < 10 else milliseconds < 100
    return f"{milliseconds:.{int(places)}f}"


def complaints(rows: dict[str, dict[str, Row]]) -> list[str]:
    """A line for each result that is wrong or missing for another reason than time."""
    return [
        f"* {id} on {side}: {row.get('wrong') or row['failed']}"
        for id, sides in rows.items()
        for side, row in sides.items()
        if "wrong" in row or "failed" in row
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the tables into README.md")
    parser.add_argument("--models", type=lambda text: text.split(","), default=[*MODELS], metavar="ID,...")
    parser.add_argument("--sides", type=lambda text: text.split(","), default=[*PROVIDERS], metavar="NAME,...")
    parser.add_argument("--runs", type=int, default=15, help="runs of each side (default %(default)s)")
    parser.add_argument("--limit", type=float, default=120, help="seconds of a process (default %(default)s)")
    parser.add_argument("--again", action="store_true", help="forget what was measured before")
    arguments = parser.parse_args()
    fresh.quiet()
    results = Results(RESULTS, arguments.again)
    for id in arguments.models:
        for side in arguments.sides:
            if not results.has(id, side, arguments.limit):
                row = measured(id, side, arguments.runs, arguments.limit)
                results.add(id, side, row)
                print(f"{id} on {side}: {json.dumps(row)}", flush=True)
    rows = {id: results.rows[id] for id in arguments.models}
    for moment in ("run", "start"):
        publish(moment, [*rendered(rows, moment), ""], arguments.write)
    publish("machine", [f"{results.machine}.", *complaints(rows)], arguments.write)


if __name__ == "__main__":
    main()
