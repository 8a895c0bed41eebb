"""A page with a model: a bundle without Python, and a model compiled in the page, beside onnxruntime-web.

    python -m tests.benchmarks.page [--models ID,...] [--rounds 3] [--mbit 20] [--write] [--json]

Everything runs on the page's one thread in Chromium. A cold time counts from an empty page to the first answer, over a
network of `--mbit` Mbit/s; onnxruntime-web has its build for SIMD without a GPU, the smaller one. Everything is sent as
small as a server can make it: gzipped at its best level, models too, but for bundles, which are compressed in
themselves. Engine bytes are all that is sent for it but weights, or the model. Two more bundles have rounded weights,
`--weights float16` and `int8`, and results that differ a little. The second visit finds what the first compiled in
Cache Storage. Sides run in turns, and who goes first alternates.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sardonyx.plans.bundle import Bundle
from sardonyx.web.folder import write
from tests.benchmarks.browser import MISDECLARED, VERSION, onnxruntime_web, without_shapes
from tests.benchmarks.report import collected, processor, publish, table
from tests.benchmarks.table import number
from tests.benchmarks.turns import turns
from tests.models import assert_close, inputs, path, reference
from tests.pyodide.assemble import assemble
from tests.support.browser import Chromium, open_chromium
from tests.web.pages import bundled

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

MODELS = ("ppocr2-cls", "silero-vad", "ppocr4-det", "light-squeezenet", "ppocr5-cls", "magika", "light-resnet50")
THEIRS, BUNDLE, FIRST, SECOND = "onnxruntime-web", "bundle", "first visit", "second visit"
SMALLER = {"bundle, float16": "float16", "bundle, int8": "int8"}
SIDES = (THEIRS, BUNDLE, *SMALLER, FIRST, SECOND)
ENGINES = ("/onnxruntime/", "/site/")
MIB = 1 << 20

Figures = dict[str, Any]


class Visit:
    """A browser without a past, and one page in it."""

    def __init__(self, chromium: Chromium, mbit: float) -> None:
        self.address = f"{chromium.site.address}/support/page.html"
        self.context: BrowserContext = chromium.browser.new_context()
        self.site = chromium.site
        self.mbit = mbit
        self.page = self.open()

    def open(self) -> Page:
        page = self.context.new_page()
        page.goto(self.address)
        page.evaluate("async () => { globalThis.bench = await import('/benchmarks/page.mjs'); }")
        return page

    def again(self) -> None:
        self.page.close()
        self.page = self.open()

    def feed(self, feeds: Mapping[str, np.ndarray]) -> None:
        kinds = [[name, array.dtype.name, list(array.shape)] for name, array in feeds.items()]
        self.page.evaluate("(kinds) => bench.feed(kinds)", kinds)

    def cold(self, side: str) -> Figures:
        """The figures of a side that starts here, with the network as slow as it is said to be, for workers too."""
        self.site.rate = self.mbit * 1e6 / 8
        self.site.sent.clear()
        try:
            figures: Figures = self.page.evaluate("(side) => bench.cold(side)", side)
        finally:
            self.site.rate = 0
        return figures


def measure(chromium: Chromium, id: str, rounds: int, mbit: float) -> Figures:
    """Figures of each side: milliseconds, bytes, and what is wrong with its outputs."""
    feeds = inputs(id)
    site = chromium.site
    model = without_shapes(path(id)) if id in MISDECLARED else path(id)
    kinds = {BUNDLE: "float32", **SMALLER}
    bundles = {side: bundled(path(id), feeds, ["wasm"], compress=True, weights=kind) for side, kind in kinds.items()}
    site.data.clear()
    site.data["model.onnx"] = model
    site.data.update({f"input{k}": array.tobytes() for k, array in enumerate(feeds.values())})
    site.pack()
    found: Figures = {side: {"cold": [], "memory": []} for side in SIDES}
    for k in range(rounds):
        for side in turns((THEIRS, *bundles, FIRST), k):
            visit = Visit(chromium, mbit)
            bundle = site.data["model.sdx"] = bundles.get(side, b"")
            start = BUNDLE if bundle else "compile" if side == FIRST else side
            _note(chromium, id, found[side], visit, start, feeds, bundle, exact=side not in SMALLER)
            if side == FIRST:
                visit.again()
                _note(chromium, id, found[SECOND], visit, start, feeds)
            visit.context.close()
    site.data["model.sdx"] = bundles[BUNDLE]
    visit = Visit(chromium, mbit)
    visit.feed(feeds)
    for side in (THEIRS, BUNDLE):
        visit.page.evaluate("(side) => bench.cold(side)", side)
    slow = statistics.median(found[BUNDLE]["cold"]) > 20_000
    times = visit.page.evaluate("(given) => bench.steady(...given)", [[THEIRS, BUNDLE], 7 if slow else 15])
    visit.context.close()
    for side in SIDES:
        found[side]["cold"] = statistics.median(found[side]["cold"]) if found[side]["cold"] else None
        found[side]["memory"] = max(found[side]["memory"], default=0)
    for side in (THEIRS, BUNDLE):
        found[side]["run"] = statistics.median(times[side])
    return found


def _note(
    chromium: Chromium,
    id: str,
    figures: Figures,
    visit: Visit,
    side: str,
    feeds: Mapping[str, np.ndarray],
    bundle: bytes = b"",
    exact: bool = True,
) -> None:
    from playwright.sync_api import Error

    visit.feed(feeds)
    chromium.site.posted.clear()
    try:
        told = visit.cold(side)
    except Error as error:
        figures["failed"] = error.message.splitlines()[0]
        return
    figures["cold"].append(told["time"])
    figures["memory"].append(told["memory"])
    sizes = {path: count for path, count in chromium.site.sent.items() if path.startswith(ENGINES)}
    figures["model"] = chromium.site.sent["/data/model.onnx"]
    figures["engine"] = sum(sizes.values())
    if bundle:  # where more is sent than is read, as the end is not wanted
        content = Bundle(bundle)
        weights = [content.sections[name] for name in content.manifest["weights"]]
        figures["model"] = sum(section.nbytes for section in weights)
        figures["engine"] += max(section.offset + section.nbytes for section in weights) - figures["model"]
    outputs = [
        np.frombuffer(chromium.site.posted[f"{side}/{k}"], dtype).reshape(shape)
        for k, (dtype, shape) in enumerate(told["outputs"])
    ]
    if not exact:
        return
    try:
        assert_close(id, outputs, reference(id))
    except AssertionError as error:
        figures["wrong"] = str(error).strip().splitlines()[0]


def rendered(rows: Mapping[str, Figures]) -> list[str]:
    """The table: cold times, engine bytes, runs and memory, with ratios to onnxruntime-web."""
    lines = []
    for id, row in rows.items():
        line = [id, number(row[THEIRS].get("model", 0) / 1e6)]
        for side in SIDES:
            line.append(number(row[side]["cold"] / 1e3) if row[side]["cold"] else "failed")
            if side != THEIRS:
                line.append(_ratio(row, side, "cold"))
        line += [number(row[side].get("engine", 0) / 1e3) for side in (THEIRS, BUNDLE)]
        line += [number(row[side]["run"]) for side in (THEIRS, BUNDLE)] + [_ratio(row, BUNDLE, "run")]
        line += [number(row[side]["memory"] / MIB) for side in (THEIRS, BUNDLE)]
        lines.append(line)
    head = ["model", "model, MB", f"{THEIRS}, cold, s"]
    head += [text for side in SIDES[1:] for text in (f"{side}, s", "ratio")]
    head += ["engine, kB", "ours, kB", "run, ms", "ours, ms", "ratio", "memory, MiB", "ours, MiB"]
    return table(head, [*lines, _means(rows)])


def _ratio(row: Figures, side: str, what: str) -> str:
    a, b = row[side].get(what), row[THEIRS].get(what)
    return f"{a / b:.2f}" if a and b else ""


def _means(rows: Mapping[str, Figures]) -> list[str]:
    def mean(side: str, what: str) -> str:
        found = [float(text) for row in rows.values() if (text := _ratio(row, side, what))]
        return f"**{statistics.geometric_mean(found):.2f}**" if found else ""

    colds = [text for side in SIDES[1:] for text in ("", mean(side, "cold"))]
    return ["geometric mean", "", "", *colds, "", "", "", "", mean(BUNDLE, "run"), "", ""]


def complaints(rows: Mapping[str, Figures]) -> list[str]:
    return [
        f"* {id}, {side}: {figures[bad]}"
        for id, row in rows.items()
        for side, figures in row.items()
        for bad in ("failed", "wrong")
        if bad in figures
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=lambda text: text.split(","), default=[*MODELS], metavar="ID,...")
    parser.add_argument("--rounds", type=int, default=3, help="cold starts of each side (default %(default)s)")
    parser.add_argument("--mbit", type=float, default=20, help="of the network, a second (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", action="store_true", help="write the table into README.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as site:
        write(Path(site), assemble())
        rows, about = _rows(arguments, Path(site))
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    publish("page", [*rendered(rows), "", about, *complaints(rows)], arguments.write)


def _rows(arguments: argparse.Namespace, site: Path) -> tuple[dict[str, Figures], str]:
    folders = {"benchmarks": Path(__file__).parent, "onnxruntime": onnxruntime_web(), "site": site}
    with open_chromium(folders) as chromium:
        chromium.site.gzip = True
        how = arguments.rounds, arguments.mbit
        rows = collected(arguments.models, lambda id: measure(chromium, id, *how), not arguments.json)
        about = f"{processor()}; Chromium {chromium.version}, {THEIRS} {VERSION}; {arguments.mbit:g} Mbit/s."
    return rows, about


if __name__ == "__main__":
    main()
