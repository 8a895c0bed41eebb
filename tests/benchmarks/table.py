"""Every model of the list on every provider beside onnxruntime: how long a run takes, and how long the start.

    python -m tests.benchmarks.table [--write] [--models ID,...] [--sides NumPy,WASM,WebGPU] [--runs 9] [--limit 120]
                                     [--again]

A model meets a provider in processes of its own, in half of which onnxruntime goes first. Sides run in turns on one
thread each, which again take it in turns to go first; figures are medians, and onnxruntime's are those beside the same
provider. What is measured is kept, so that an interrupted measurement goes on where it was; --again and another machine
start anew.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks import fresh
from tests.benchmarks.fresh import ONNXRUNTIME, PROVIDERS
from tests.benchmarks.report import machine, publish, published, table
from tests.benchmarks.turns import turns
from tests.models import MODELS, assert_close, inputs, path, reference
from tests.support.cache import CACHE

RESULTS = CACHE / "benchmarks" / "table.json"
SECONDS = 20
"""Runs of one process end after this time, though not before three of them."""
PROCESSES = 2
"""One in which onnxruntime goes first, and one in which it does not."""

Row = dict[str, Any]


def measure(id: str, side: str, runs: int, number: int) -> Row:
    """Return milliseconds of both sides: `start` (session and first run) and `runs`; and whether the outputs agree."""
    file, feeds = path(id), inputs(id)
    file.read_bytes()
    sessions, outputs = {}, {}
    row: Row = {}
    order = turns((ONNXRUNTIME, side), number)
    for one in order:
        fresh.load(one)
    for one in order:
        begun = time.perf_counter()
        sessions[one] = fresh.session(one, file)
        outputs[one] = sessions[one].run(None, feeds)
        row[one] = {"start": 1e3 * (time.perf_counter() - begun), "runs": []}
    times = row[side]["runs"]
    end = time.perf_counter() + SECONDS
    while len(times) < runs and (len(times) < 3 or time.perf_counter() < end):
        for one in turns(order, len(times)):
            begun = time.perf_counter()
            sessions[one].run(None, feeds)
            row[one]["runs"].append(1e3 * (time.perf_counter() - begun))
    sessions.clear()
    try:
        assert_close(id, outputs[side], reference(id))
    except AssertionError as error:
        row["wrong"] = str(error).strip().splitlines()[0]
    return row


def measured(id: str, side: str, runs: int, limit: float) -> Row:
    """Measure in fresh processes; a failure is a result as well."""
    path(id)
    try:
        rows: list[Row] = [
            fresh.call(__spec__.name, "measure", id, side, runs, number, limit=limit) for number in range(PROCESSES)
        ]
    except TimeoutError:
        return {"slow": limit}
    except RuntimeError as error:
        return {"failed": str(error)}
    return joined(rows, side)


def joined(rows: list[Row], side: str) -> Row:
    """Return medians over the processes of one model and side."""
    together: Row = {
        one: {
            "start": statistics.median(row[one]["start"] for row in rows),
            "run": statistics.median(taken for row in rows for taken in row[one]["runs"]),
        }
        for one in (ONNXRUNTIME, side)
    }
    wrong = [row["wrong"] for row in rows if "wrong" in row]
    return together | ({"wrong": wrong[0]} if wrong else {})


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


def rendered(rows: dict[str, dict[str, Row]], moment: str, dynamic: Collection[str] = ()) -> list[str]:
    """Return the table of `run` or `start`: a line for each model, ratios to onnxruntime, and what they say together.

    `dynamic` names the models that quantize as they run; they have a mean of their own. A side that was not measured
    has no column.
    """
    shown = [side for side in PROVIDERS if any(side in sides for sides in rows.values())]
    lines = [
        [id, *(text for side in shown for text in cells(side, sides.get(side, {}), moment))]
        for id, sides in rows.items()
    ]
    known = [ratios(rows, side, moment) for side in shown]
    quantized = [{id: ratio for id, ratio in found.items() if id in dynamic} for found in known]
    lines += [
        summary("geometric mean", known, mean, f" of {len(rows)}"),
        summary("median", known, lambda found: f"{statistics.median(found):.2f}"),
        summary("slower than onnxruntime", known, lambda found: str(sum(ratio > 1 for ratio in found))),
        summary("geometric mean, dynamic int8", quantized, mean, f" of {len(dynamic)}"),
    ]
    head = ["model", *(text for side in shown for text in ("onnxruntime, ms", f"{side}, ms", "ratio"))]
    return table(head, lines)


def ratios(rows: dict[str, dict[str, Row]], side: str, moment: str) -> dict[str, float]:
    """Return the ratio of each model that has figures on `side`, and the right results."""
    return {
        id: sides[side][side][moment] / sides[side][ONNXRUNTIME][moment]
        for id, sides in rows.items()
        if side in sides.get(side, {}) and "wrong" not in sides[side]
    }


def summary(
    name: str, known: Iterable[dict[str, float]], tell: Callable[[Collection[float]], str], total: str = ""
) -> list[str]:
    """Return a line with what `tell` says of each side's ratios, and of how many models out of how many it does."""
    line = [name]
    for found in known:
        line += ["", f"{len(found)}{total}" if total else "", tell(found.values()) if found else ""]
    return line


def mean(ratios: Collection[float]) -> str:
    return f"**{statistics.geometric_mean(ratios):.2f}**"


def cells(side: str, row: Row, moment: str) -> list[str]:
    """Return milliseconds of onnxruntime and of `side`, and their ratio; or why there are none."""
    if side not in row:
        return ["", f"> {row['slow']:g} s" if "slow" in row else "failed" if row else "", ""]
    theirs, ours = row[ONNXRUNTIME][moment], row[side][moment]
    return [number(theirs), number(ours) + " (wrong)" * ("wrong" in row), f"{ours / theirs:.2f}"]


def number(milliseconds: float) -> str:
    """Three digits of it.

    >>> number(0.01234), number(1.234), number(12.34), number(1234.5)
    ('0.0123', '1.23', '12.3', '1234')
    """
    places = 4 if milliseconds < 0.1 else 3 if milliseconds < 1 else 2 if milliseconds < 10 else milliseconds < 100
    return f"{milliseconds:.{int(places)}f}"


def is_dynamic(id: str) -> bool:
    """Whether a model quantizes its activations as it runs."""
    return b"DynamicQuantize" in path(id).read_bytes()


def complaints(rows: dict[str, dict[str, Row]]) -> list[str]:
    """A line for each result that is wrong or missing for another reason than time."""
    return [
        f"* {id} on {side}: {row.get('wrong') or row['failed']}"
        for id, sides in rows.items()
        for side, row in sides.items()
        if "wrong" in row or "failed" in row
    ]


def figures(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Return the models and sides of which a table has figures.

    >>> figures(table(["model", "onnxruntime, ms", "WASM, ms", "ratio"], [["minilm-l3", "1", "2", "2.0"], ["mean"]]))
    [('minilm-l3', 'WASM')]
    """
    head, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line)
    columns = [(head.index(f"{side}, ms"), side) for side in PROVIDERS if f"{side}, ms" in head]
    return [(row[0], side) for row in rows if row[0] in MODELS for place, side in columns if row[place]]


def forgotten(
    kept: Iterable[tuple[str, str]], results: Results, models: Collection[str], sides: Collection[str]
) -> list[str]:
    """Return which of the published figures are neither known nor about to be measured."""
    return [
        f"{id} on {side}"
        for id, side in kept
        if not ((id in models and side in sides) or side in results.rows.get(id, {}))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the tables into README.md")
    parser.add_argument("--models", type=lambda text: text.split(","), default=[*MODELS], metavar="ID,...")
    parser.add_argument("--sides", type=lambda text: text.split(","), default=[*PROVIDERS], metavar="NAME,...")
    parser.add_argument("--runs", type=int, default=9, help="runs of each side in a process (default %(default)s)")
    parser.add_argument("--limit", type=float, default=120, help="seconds of a process (default %(default)s)")
    parser.add_argument("--again", action="store_true", help="forget what was measured before")
    arguments = parser.parse_args()
    fresh.quiet()
    results = Results(RESULTS, arguments.again)
    kept = figures(published("run")) if arguments.write else []
    if lost := forgotten(kept, results, arguments.models, arguments.sides):
        parser.error(f"--write would drop {len(lost)} figures that are not known here, such as that of {lost[0]}")
    for id in arguments.models:
        for side in arguments.sides:
            if not results.has(id, side, arguments.limit):
                row = measured(id, side, arguments.runs, arguments.limit)
                results.add(id, side, row)
                print(f"{id} on {side}: {json.dumps(row)}", flush=True)
    ids = {*arguments.models, *(id for id, _ in kept)}
    rows = {id: results.rows[id] for id in MODELS if id in ids}
    dynamic = [id for id in rows if is_dynamic(id)]
    for moment in ("run", "start"):
        publish(moment, [*rendered(rows, moment, dynamic), ""], arguments.write)
    compiler = "wasmtime compiles beside Python, on all cores"
    publish("machine", [f"{results.machine}; {compiler}.", *complaints(rows)], arguments.write)


if __name__ == "__main__":
    main()
