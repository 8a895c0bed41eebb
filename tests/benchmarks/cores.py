"""Threads in pages: a bundle beside onnxruntime-web, on one thread and on several, in workers and asked by the page.

    python -m tests.benchmarks.cores [--models ID,...] [--threads 2] [--rounds 5] [--write] [--json]

Each side is a session in a worker of its own; `page` is a bundle's session that the page's own thread asks, which has a
worker run it. Sides run in turns: a pause, since onnxruntime-web's threads stay awake for some milliseconds after a run
and would keep a core from the next side; runs to warm up; then runs that count, whose median is a sample. `blocked` is
the longest time in which the page's thread did nothing else during runs that it asked for. Results of all bundles are
compared bit for bit.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from tests.benchmarks.browser import MISDECLARED, THEIRS, VERSION, onnxruntime_web, without_shapes
from tests.benchmarks.report import collected, processor, publish, table
from tests.benchmarks.table import number
from tests.models import assert_close, inputs, path, reference
from tests.support.browser import Chromium, open_chromium
from tests.web.pages import RUNTIME, bundled

MODELS = (
    *("ppocr4-det", "light-squeezenet", "ppocr5-cls", "silero-vad-seq", "light-resnet50", "opennsfw-resnet"),
    *("basic-pitch", "light-densenet121", "minilm-l3", "magika", "ppocr2-cls"),
)
OURS, PAGE = "bundle", "page"
SHORT = 1.0
"""Milliseconds of onnxruntime-web on one thread, below which a model does not count: what threads gain is in runs."""

Figures = dict[str, Any]


def measure(chromium: Chromium, id: str, threads: int, rounds: int, span: float) -> Figures:
    """Milliseconds of each side, how long the page was blocked, and what is wrong with outputs."""
    feeds = inputs(id)
    site = chromium.site
    site.data.clear()
    site.posted.clear()
    site.data["model.onnx"] = without_shapes(path(id)) if id in MISDECLARED else path(id)
    site.data["model.sdx"] = bundled(path(id), feeds, ["wasm"])
    site.data.update({f"input{k}": array.tobytes() for k, array in enumerate(feeds.values())})
    given = {"inputs": [[name, array.dtype.name, list(array.shape)] for name, array in feeds.items()]}
    sides = {
        f"{kind} {count}": {"kind": kind, "threads": count, "where": "worker", **given}
        for kind in (THEIRS, OURS)
        for count in (1, threads)
    }
    sides[PAGE] = {"kind": OURS, "threads": threads, "where": "page", **given}
    page = chromium.browser.new_page()
    page.set_default_timeout(0)
    try:
        page.goto(f"{site.address}/support/page.html")
        page.evaluate("async () => { globalThis.bench = await import('/benchmarks/cores.mjs'); }")
        told = page.evaluate("(sides) => bench.open(sides)", sides)
        page.evaluate("(spans) => bench.measure(1, spans)", {"pause": 0, "warm": 3 * span, "span": 0})
        times = page.evaluate(
            "(given) => bench.measure(...given)", [rounds, {"pause": 100, "warm": 1.5 * span, "span": span}]
        )
        blocked = page.evaluate("(side) => bench.blocked(side, 5)", PAGE)
    finally:
        page.close()
    found: Figures = {side: statistics.median(map(statistics.median, samples)) for side, samples in times.items()}
    outputs = {side: [site.posted[quote(f"{side}/{k}")] for k in range(len(kinds))] for side, kinds in told.items()}
    found["blocked"] = blocked
    found["wrong"] = _wrong(id, told[PAGE], outputs)
    return found


def _wrong(id: str, kinds: list[Any], outputs: Mapping[str, list[bytes]]) -> str:
    ours = [each for side, each in outputs.items() if not side.startswith(THEIRS)]
    if any(each != ours[0] for each in ours):
        return "results depend on the number of threads"
    arrays = [np.frombuffer(data, dtype).reshape(dims) for data, (dtype, dims) in zip(ours[0], kinds, strict=True)]
    try:
        assert_close(id, arrays, reference(id))
    except AssertionError as error:
        return str(error).strip().splitlines()[0]
    return ""


def rendered(rows: Mapping[str, Figures], threads: int) -> list[str]:
    """The table, and the geometric means of models that are not short."""
    one, many = f"{OURS} 1", f"{OURS} {threads}"
    their_one, their_many = f"{THEIRS} 1", f"{THEIRS} {threads}"
    ratios = [(one, their_one), (their_many, their_one), (many, one), (many, their_many), (PAGE, many)]
    lines = []
    for id, row in rows.items():
        times = [number(row[side]) for side in (their_one, their_many, one, many, PAGE)]
        lines.append([id, *times, *(f"{row[a] / row[b]:.2f}" for a, b in ratios), f"{row['blocked']:.0f}"])
    counted = [row for row in rows.values() if row[their_one] >= SHORT]
    means = [f"**{_mean(counted, a, b)}**" if counted else "" for a, b in ratios]
    head = ["model", *(f"{side}, ms" for side in (their_one, their_many, one, many, PAGE))]
    head += [f"{a} / {b}" for a, b in ratios] + ["blocked, ms"]
    return table(head, [*lines, [f"geometric mean of {len(counted)}", *[""] * 5, *means, ""]])


def _mean(rows: list[Figures], a: str, b: str) -> str:
    return f"{statistics.geometric_mean(row[a] / row[b] for row in rows):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=lambda text: text.split(","), default=[*MODELS], metavar="ID,...")
    parser.add_argument("--threads", type=int, default=2, help="of the sides with several (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="samples of each side (default %(default)s)")
    parser.add_argument("--span", type=float, default=100, help="milliseconds of a sample (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", action="store_true", help="write the table into README.md")
    arguments = parser.parse_args()
    folders = {"benchmarks": Path(__file__).parent, "onnxruntime": onnxruntime_web(), "sardonyx": RUNTIME}
    with open_chromium(folders) as chromium:
        how = arguments.threads, arguments.rounds, arguments.span
        rows = collected(arguments.models, lambda id: measure(chromium, id, *how), not arguments.json)
        about = f"{processor()}; Chromium {chromium.version}, {THEIRS} {VERSION}."
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    wrong = [f"* {id}: {row['wrong']}" for id, row in rows.items() if row["wrong"]]
    publish("cores", [*rendered(rows, arguments.threads), "", about, *wrong], arguments.write)


if __name__ == "__main__":
    main()
