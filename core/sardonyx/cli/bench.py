"""time a model on several providers, and against onnxruntime

Each --provider is a side of its own, so is --against onnxruntime. All sides run in one process by turns, so that what
else the machine does hits them alike. The first run, which compiles, and the next ones, which warm up, are not in the
median. The sides are given the same values, and what they make of them is compared. BLAS has one thread, and so has
onnxruntime, unless --threads gives them more. With --board it also shows what the machine tells of itself: the most
memory that the process had, temperature, clock, and why it is slower than it could be. --export FILE writes what was
measured, with machine and model, but without names of hosts, users and folders.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from sardonyx.cli.screen import Screen, progress, show
from sardonyx.cli.text import count
from sardonyx.common.record import field, record
from sardonyx.common.units import duration

WARM_UP = 2
"""Runs of each side after the first that are not counted."""
AGREE = 1e-3
"""The largest relative error at which outputs are called the same."""
THEIRS = "onnxruntime"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from sardonyx.cli.devices import add_provider
    from sardonyx.cli.feeds import add_input, add_shape

    parser.add_argument("model", metavar="MODEL", help="an .onnx file")
    add_provider(parser, "execution provider to time; each is a side of its own")
    parser.add_argument("--against", choices=[THEIRS], help="another runtime to time beside them")
    parser.add_argument("--runs", type=int, default=20, metavar="N", help="runs of each side, 20 if not given")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of BLAS and onnxruntime, 1 if not given")
    parser.add_argument("--board", action="store_true", help="show memory, temperature, clock and throttling, too")
    parser.add_argument("--export", type=Path, metavar="FILE", help="write all that was measured as JSON, to send in")
    add_input(parser)
    add_shape(parser)


def run(args: argparse.Namespace) -> None:
    from sardonyx.cli.measurement import measurement
    from sardonyx.cli.writing import refuse_unwritable, writing

    if args.export:
        refuse_unwritable("--export", args.export)
    data = collect(args)
    if args.export:
        with writing("--export", args.export):
            args.export.write_text(json.dumps(measurement(data, Path(args.model)), indent=2) + "\n", "utf-8")
    show(args, data, render)


@record
class Side:
    """A session to be timed: a function that runs the model, and seconds."""

    name: str
    call: Callable[[], list[Any]]
    creation: float
    first: float = 0.0
    results: list[Any] = field(default_factory=list)
    times: list[float] = field(default_factory=list)


def collect(args: argparse.Namespace) -> dict[str, Any]:
    """Time all sides; the facts, as `--json` prints them, times in seconds."""
    from sardonyx.cli import comparison
    from sardonyx.cli.board import Board
    from sardonyx.cli.devices import chosen
    from sardonyx.cli.feeds import feeds
    from sardonyx.errors import InvalidArgument
    from sardonyx.model.serde.reader import read

    for option, number in (("--runs", args.runs), ("--threads", args.threads)):
        if number < 1:
            raise InvalidArgument(f"{option} {number}: take at least 1")
    providers = list(dict.fromkeys(chosen(args.provider) or chosen(["cpu"]) or []))
    fed = feeds(read(args.model), args.input, args.shape, args.seed)
    values = fed.present
    sides = [_ours(args.model, provider, values, args.threads) for provider in providers]
    if args.against:
        sides.append(against(args.model, values, args.threads))
    board = Board() if args.board else None
    with progress("Running", (args.runs + WARM_UP + 1) * len(sides), hidden=args.json) as step:
        for number in range(args.runs + WARM_UP + 1):
            for side in sides[::-1] if number % 2 else sides:  # the first finds colder caches
                start = time.perf_counter()
                with fed.blamed():
                    results = side.call()
                seconds = time.perf_counter() - start
                step()
                if number == 0:
                    side.first, side.results = seconds, results
                elif number > WARM_UP:
                    side.times.append(seconds)
            if board:
                board.read()
    base = sides[-1] if args.against else sides[0]
    return {
        "model": str(args.model),
        "runs": args.runs,
        "threads": args.threads,
        "assumed": fed.assumed,
        "notes": fed.notes,
        "base": base.name,
        "sides": [
            {
                "name": side.name,
                "creation": side.creation,
                "first": side.first,
                "median": median(side.times),
                "least": min(side.times),
                "ratio": median(side.times) / median(base.times),
                "error": _finite(comparison.worst(side.results, base.results)),
                "same": comparison.worst(side.results, base.results) <= AGREE,
            }
            for side in sides
        ],
        "board": board.facts() if board else None,
    }


def _finite(error: float) -> float | None:
    """For JSON: None where outputs cannot be compared by how far they are apart."""
    return error if error < float("inf") else None


def _ours(model: str, provider: str, values: dict[str, Any], threads: int) -> Side:
    from sardonyx import InferenceSession, SessionOptions

    options = SessionOptions(intra_op_num_threads=threads)
    start = time.perf_counter()
    session = InferenceSession(model, options, [provider])
    seconds = time.perf_counter() - start
    return Side(provider, lambda: session.run(None, values), seconds)


def against(model: str, values: dict[str, Any], threads: int) -> Side:
    """onnxruntime on the CPU."""
    from sardonyx.common import extras
    from sardonyx.errors import Fail

    try:
        import onnxruntime
    except ImportError:
        raise Fail(f"--against onnxruntime: {extras.missing('onnxruntime')}") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    start = time.perf_counter()
    try:
        session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no base of their own
        raise Fail(f"onnxruntime does not take the model: {error}") from error
    seconds = time.perf_counter() - start
    return Side(THEIRS, lambda: list(session.run(None, values)), seconds)


def render(screen: Screen, data: dict[str, Any]) -> None:
    from sardonyx.cli import board
    from sardonyx.cli.devices import short_name

    screen.heading(f"{Path(data['model']).name}: {count(data['runs'], 'run')}, {count(data['threads'], 'thread')}")
    rows = [
        [
            short_name(side["name"]),
            duration(side["creation"]),
            duration(side["first"]),
            duration(side["median"]),
            duration(side["least"]),
            f"{side['ratio']:.2f}",
            "" if side["name"] == data["base"] else _difference(side),
        ]
        for side in data["sides"]
    ]
    fastest = min(range(len(rows)), key=lambda k: data["sides"][k]["median"])
    titles = ["Side", ">Session", ">First run", ">Median", ">Least", ">Ratio", "Outputs" if len(rows) > 1 else ""]
    screen.table(titles, rows, bold=[fastest] if len(rows) > 1 else [])
    screen.line("")
    if len(rows) > 1:
        base = short_name(data["base"])
        screen.line(f"Ratio: the median over that of {base}; outputs: compared with those of {base}.", quiet=True)
    if data["assumed"]:
        screen.line(
            f"Taking {', '.join(f'{name} = 1' for name in data['assumed'])}; --shape says otherwise.", quiet=True
        )
    for note in data["notes"]:
        screen.line(f"Note: {note}")
    different = [short_name(side["name"]) for side in data["sides"] if not side["same"]]
    if different:
        screen.line("")
        screen.line(
            f"The outputs of {' and '.join(different)} differ from those of {short_name(data['base'])}: these "
            "times are not of the same work. `sardonyx verify` tells which nodes are wrong."
        )
    if data["board"]:
        board.render(screen, data["board"])


def _difference(side: dict[str, Any]) -> str:
    if side["error"] is None:
        return "DIFFERENT"
    if not side["error"]:
        return "equal"
    return f"within {side['error']:.0e}" if side["same"] else f"DIFFERENT, {side['error']:.0e}"
