"""One thread beside several, ours and onnxruntime's: how long a run takes, and how much of the processors.

    python -m tests.benchmarks.threads [--write] [--models ID,...] [--sides WASM,NumPy] [--threads 2] [--rounds 3]
                                       [--seconds 1] [--again]

Each side with each number of threads is a process of its own, since onnxruntime's threads spin while they wait, which
is left as it is, and would take the processors from others. The processes take turns, round by round; in every other
round those go first that went last. Figures are medians of a process, and of these. One thread, and threads that spin,
have all of their processors' time: a process that had less was disturbed, and is measured again. Models are those of
the list whose published run takes onnxruntime a millisecond or more. What is measured is kept, so that an interrupted
measurement goes on where it was; --again and another machine start anew.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from sardonyx.common.trial import ROW, ROWS
from tests.benchmarks import fresh
from tests.benchmarks.fresh import ONNXRUNTIME
from tests.benchmarks.report import processor, publish, published, table
from tests.benchmarks.table import Results, mean, number
from tests.benchmarks.turns import turns
from tests.models import MODELS, SHORT, inputs, path
from tests.support.cache import CACHE

RESULTS = CACHE / "benchmarks" / "threads.json"
WARM = ROW * ROWS
"""Runs that do not count: a session tries both ways in the first of them, see `sardonyx.common.trial`."""
FEWEST = 5
"""Runs that count at least."""
LEAST = 1.0
"""Milliseconds that a run takes onnxruntime at least."""
BUSY, TRIES = 0.8, 3
"""The part of its processors' time that an undisturbed process has, and how often one is measured at most."""
GAIN = 0.98
"""Several threads that gain less than this lose."""

Row: TypeAlias = dict[str, dict[str, float]]
"""By "ours 1", "ours N", "theirs 1" and "theirs N": milliseconds of a `run`, and of its `cpu` time."""


def measure(id: str, side: str, threads: int, seconds: float) -> dict[str, float]:
    """Return the milliseconds of a run, and those of all processors in a run."""
    session, feeds = fresh.session(side, path(id), threads), inputs(id)
    begun = time.perf_counter()
    for _ in range(WARM):
        session.run(None, feeds)
        if time.perf_counter() - begun > 3 * seconds:
            break
    times: list[float] = []
    cpu, end = time.process_time(), time.perf_counter() + seconds
    while len(times) < FEWEST or time.perf_counter() < end:
        begun = time.perf_counter()
        session.run(None, feeds)
        times.append(time.perf_counter() - begun)
    return {"run": 1e3 * statistics.median(times), "cpu": 1e3 * (time.process_time() - cpu) / len(times)}


def measured(id: str, side: str, threads: int, rounds: int, seconds: float) -> Row:
    """Measure a model in processes of their own, which take turns."""
    path(id)
    cases = {
        f"{who} {name}": (one, count)
        for who, one in (("ours", side), ("theirs", ONNXRUNTIME))
        for name, count in (("1", 1), ("N", threads))
    }
    found: dict[str, list[dict[str, float]]] = {name: [] for name in cases}
    for k in range(rounds):
        for name in turns(cases, k):
            one, count = cases[name]
            busy = count if one == ONNXRUNTIME else 1
            for _ in range(TRIES):
                told = fresh.call(__spec__.name, "measure", id, one, count, seconds, limit=300, environment={})
                if told["cpu"] >= BUSY * busy * told["run"]:
                    break
            found[name].append(told)
    return {
        name: {what: statistics.median(one[what] for one in some) for what in ("run", "cpu")}
        for name, some in found.items()
    }


def figures(row: Row) -> dict[str, float]:
    """Return what a row says: gains of both sides, ours to theirs, and the processors' time of ours.

    >>> row = {name: {"run": 2.0, "cpu": 2.0} for name in ("ours 1", "theirs 1", "theirs N")}
    >>> figures(row | {"ours N": {"run": 1.0, "cpu": 3.0}})
    {'ours': 2.0, 'theirs': 1.0, 'ratio': 0.5, 'cpu': 1.5}
    """
    return {
        "ours": row["ours 1"]["run"] / row["ours N"]["run"],
        "theirs": row["theirs 1"]["run"] / row["theirs N"]["run"],
        "ratio": row["ours N"]["run"] / row["theirs N"]["run"],
        "cpu": row["ours N"]["cpu"] / row["ours 1"]["cpu"],
    }


def rendered(rows: Mapping[str, Row], side: str, threads: int) -> list[str]:
    """Return the table of a side, with what its figures say together."""
    known = {id: figures(row) for id, row in rows.items()}
    lines = [line(id, row, known[id]) for id, row in rows.items()]

    def together(name: str, tell: Callable[[list[float]], str], columns: Iterable[str]) -> list[str]:
        told = {column: tell([found[column] for found in known.values()]) for column in columns}
        others = [told.get(column, "") for column in ("theirs", "ratio", "cpu")]
        return [name, "", "", told.get("ours", ""), "", "", *others]

    if known:
        lines += [
            together("geometric mean", mean, ("ours", "theirs", "ratio", "cpu")),
            together(f"gain below {GAIN}", lambda all_: str(sum(x < GAIN for x in all_)), ("ours", "theirs")),
            together("slower than onnxruntime", lambda all_: str(sum(x > 1 for x in all_)), ("ratio",)),
        ]
    columns = [f"{who}, {count}, ms" for who in (side, ONNXRUNTIME) for count in (1, threads)]
    head = ["model", *columns[:2], "gain", *columns[2:], "gain", "ratio", "CPU"]
    return table(head, lines)


def line(id: str, row: Row, found: Mapping[str, float]) -> list[str]:
    """Return the line of a model."""
    ours, theirs = ([number(row[f"{who} {count}"]["run"]) for count in "1N"] for who in ("ours", "theirs"))
    gains = [f"{found[who]:.2f}" for who in ("ours", "theirs")]
    return [id, *ours, gains[0], *theirs, gains[1], f"{found['ratio']:.2f}", f"{found['cpu']:.2f}"]


def long_enough(lines: Sequence[str]) -> list[str]:
    """Return the models that take onnxruntime long enough in a table of runs.

    >>> long_enough(table(["model", "onnxruntime, ms"], [["minilm-l3", "7.8"], ["silero-vad", "0.2"]]))
    ['minilm-l3']
    """
    cells = ([cell.strip() for cell in text.split("|")[1:3]] for text in lines if text.startswith("| "))
    return [id for id, milliseconds in cells if id in SHORT and float(milliseconds) >= LEAST]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the tables into README.md")
    parser.add_argument("--models", type=lambda text: text.split(","), metavar="ID,...")
    parser.add_argument("--sides", type=lambda text: text.split(","), default=["WASM"], metavar="NAME,...")
    parser.add_argument("--threads", type=int, default=2, help="of the several (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each kind (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=1, help="of a process's runs (default %(default)s)")
    parser.add_argument("--again", action="store_true", help="forget what was measured before")
    arguments = parser.parse_args()
    models = arguments.models or long_enough(published("run"))
    results = Results(RESULTS, arguments.again)
    text: list[str] = []
    for side in arguments.sides:
        key = f"{side}, {arguments.threads}"
        for id in models:
            if not results.has(id, key, 0):
                row = measured(id, side, arguments.threads, arguments.rounds, arguments.seconds)
                results.add(id, key, row)
                print(f"{id} on {side}: {json.dumps(row)}", flush=True)
        rows = {id: results.rows[id][key] for id in MODELS if key in results.rows.get(id, {})}
        text += [*rendered(rows, side, arguments.threads), ""]
    publish("threads", [*text, f"{processor()}."], arguments.write)


if __name__ == "__main__":
    main()
