"""What a page waits for before it can compile: Pyodide, NumPy and Sardonyx, with bytecode in their archives or without.

    python -m tests.benchmarks.loading [--rounds 5] [--mbit 0,20] [--folder NAME=DIR] [--write]

Each measurement has a browser without a past. `compile.js` is a page that compiles in its worker: from the call to the
moment that compiling can begin, and to the bundle of the digits model. `Python in the page` loads Pyodide and
`sardonyx` itself, as PyScript does, until `sardonyx.web.page` is imported. Everything is gzipped that is not packed in
itself, and comes over so many Mbit/s (0: as fast as the machine is). A folder that another release's `sardonyx web`
made can stand beside. Sides run in turns, and who goes first alternates.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sardonyx.demo import MODEL, assets
from sardonyx.web.folder import write
from tests.benchmarks.report import processor, publish, table
from tests.benchmarks.table import number
from tests.benchmarks.turns import turns
from tests.pyodide.assemble import VERSION, assemble
from tests.support.browser import Chromium, open_chromium

SOURCES, BYTECODE = "sources", "bytecode"
WAYS = {"compiling": "`compile.js`", "importing": "Python in the page"}
VISIT = "([way, side]) => import('/benchmarks/loading.mjs').then(({ ways }) => ways[way](side))"


@contextmanager
def folders() -> Iterator[dict[str, Path]]:
    """What `sardonyx web` makes, without bytecode and with it."""
    with tempfile.TemporaryDirectory() as scratch:
        found = {side: Path(scratch) / side for side in (SOURCES, BYTECODE)}
        for side, folder in found.items():
            write(folder, assemble(), bytecode=side == BYTECODE)
        yield found


def visit(chromium: Chromium, way: str, side: str, mbit: float) -> tuple[float, float, float]:
    """Milliseconds until compiling can begin and until it is over, and the bytes that were sent."""
    site = chromium.site
    with chromium.visitor() as context:
        page = context.new_page()
        page.goto("/support/page.html")
        site.rate = mbit * 1e6 / 8
        site.sent.clear()
        try:
            ready, done = page.evaluate(VISIT, [way, side])
        finally:
            site.rate = 0
    return ready, done, sum(count for path, count in site.sent.items() if path.startswith(f"/{side}/"))


def measure(chromium: Chromium, sides: Mapping[str, Path], rounds: int, mbits: list[float]) -> Iterator[list[str]]:
    """Rows of the table."""
    for way, title in WAYS.items():
        for mbit in mbits:
            found: dict[str, list[tuple[float, float, float]]] = {side: [] for side in sides}
            for k in range(rounds):
                for side in turns(sides, k):
                    found[side].append(visit(chromium, way, side, mbit))
            medians = {side: [statistics.median(each) for each in zip(*rows)] for side, rows in found.items()}
            first = medians[next(iter(sides))]
            for side, (ready, done, size) in medians.items():
                ratios = (f"{ready / first[0]:.2f}", f"{done / first[1]:.2f}")
                speed = f"{mbit:g} Mbit/s" if mbit else "no limit"
                yield [title, speed, side, number(size / 1e6), number(ready), ratios[0], number(done), ratios[1]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="visits of each side (default %(default)s)")
    parser.add_argument("--mbit", default="0,20", help="of the network, a second (default %(default)s)")
    parser.add_argument("--folder", metavar="NAME=DIR", help="a folder to compare with")
    parser.add_argument("--write", action="store_true", help="write the table into README.md")
    arguments = parser.parse_args()
    mbits = [float(text) for text in arguments.mbit.split(",")]
    with folders() as made:
        name, _, folder = (arguments.folder or "").partition("=")
        sides = {**({name: Path(folder)} if name else {}), **made}
        with open_chromium({"benchmarks": Path(__file__).parent, **sides}) as chromium:
            chromium.site.data["model.onnx"] = (assets() / MODEL).read_bytes()
            chromium.site.gzip = True
            chromium.site.pack()
            rows = [*measure(chromium, sides, arguments.rounds, mbits)]
            about = (
                f"{processor()}; Chromium {chromium.version}, Pyodide {VERSION}; medians of {arguments.rounds} visits."
            )
    head = ["what", "network", "folder", ">sent, MB", "ready, ms", "ratio", "compiled, ms", "ratio"]
    publish("loading", [*table(head, rows), "", about], arguments.write)


if __name__ == "__main__":
    main()
