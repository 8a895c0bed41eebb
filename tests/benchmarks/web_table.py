"""Sardonyx in onnxruntime-web's place, and onnxruntime-web: what pages load, wait for, and take, model by model.

    python -m tests.benchmarks.web_table [--models ID,...] [--gpu ID,...] [--rounds 3] [--mbit 20] [--write] [--json]

Both sides have the same interface, in the same page of Chromium, which has each as one module, as its package has it;
sides run in turns, and who goes first alternates.
Bytes and the cold time, to the first answer over `--mbit` Mbit/s, are of pages that have been nowhere: everything is
gzipped at its best level, models too, but for bundles, which are compressed in themselves. Runs are on WASM on one
thread and on two, after a pause in which the other side's threads fall asleep, and warm; for the models of `--gpu` on
WebGPU, which SwiftShader plays where there is no GPU. Memory is WebAssembly's. The last line is what the interface adds
to a run: the same session with it and without.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.benchmarks.browser import GPU_FILES, MISDECLARED, MODELS, VERSION, onnxruntime_web, without_shapes
from tests.benchmarks.gpu_page import MODELS as GPU_MODELS
from tests.benchmarks.kernels import Kernel
from tests.benchmarks.report import collected, processor, publish, table
from tests.benchmarks.table import number
from tests.benchmarks.turns import turns
from tests.models import MODELS as KNOWN
from tests.models import assert_close, inputs, path, reference
from tests.support.browser import Chromium, open_chromium
from tests.support.npm import unpacked_runtime
from tests.web.pages import bundled

if TYPE_CHECKING:
    from playwright.sync_api import Page

THEIRS, OURS = "onnxruntime-web", "Sardonyx"
SIDES = (THEIRS, OURS)
RUNS = {"1 thread": ("wasm", 1), "2 threads": ("wasm", 2), "WebGPU": ("webgpu", 1)}
ENGINES = ("/onnxruntime/", "/sardonyx/", "/data/model.onnx", "/data/wasm.sdx")
"""Where all lies that a side loads."""
PAGE = "<!doctype html>"
UNITS = {"bytes": ("loaded, MB", 1e6), "cold": ("cold, s", 1e3), "memory": ("memory, MiB", 1 << 20)}

Figures = dict[str, Any]
Feeds = Mapping[str, np.ndarray]


@contextmanager
def visit(chromium: Chromium, feeds: Feeds, script: str = "") -> Iterator[Page]:
    """A page of a browser without a past, which has the inputs; `script` runs in it before any other."""
    with chromium.visitor() as context:
        context.add_init_script(script)
        page = context.new_page()
        page.goto("/data/web_table.html")
        page.evaluate("async () => { globalThis.bench = await import('/benchmarks/web_table.mjs'); }")
        kinds = [[name, array.dtype.name, list(array.shape)] for name, array in feeds.items()]
        page.evaluate("(kinds) => bench.feed(kinds)", kinds)
        yield page


def offer(chromium: Chromium, model: bytes | Path, feeds: Feeds, targets: list[str]) -> None:
    """Lay a model, its bundles and its inputs where pages find them."""
    data = chromium.site.data
    data.clear()
    data.update({"web_table.html": PAGE.encode(), "model.onnx": model})
    data.update({f"input{k}": array.tobytes() for k, array in enumerate(feeds.values())})
    for target in targets:
        data[f"{target}.sdx"] = bundled(model, feeds, [target], compress=True)
    chromium.site.pack()


def start(chromium: Chromium, page: Page, side: str, how: tuple[str, int], id: str) -> Figures:
    """The first answer of a side in a page; `wrong` says what is wrong with it."""
    chromium.site.posted.clear()
    told: Figures = page.evaluate("(given) => bench.start(...given)", [side, *how])
    outputs = [
        np.frombuffer(chromium.site.posted[f"{side}/{k}"], dtype).reshape(shape)
        for k, (dtype, shape) in enumerate(told.pop("outputs"))
    ]
    try:
        assert_close(id, outputs, reference(id))
    except AssertionError as error:
        told["wrong"] = str(error).strip().splitlines()[0]
    return told


def measure(chromium: Chromium, id: str, gpu: bool, arguments: argparse.Namespace) -> Figures:
    """Figures of each side by name, or what failed."""
    from playwright.sync_api import Error

    feeds = inputs(id)
    found: Figures = {side: {"cold": []} for side in SIDES}
    try:
        model = without_shapes(path(id)) if id in MISDECLARED else path(id)
        offer(chromium, model, feeds, ["wasm", *["webgpu"] * gpu])
        for k in range(arguments.rounds):
            for side in turns(SIDES, k):
                with visit(chromium, feeds) as page:
                    found[side] |= cold(chromium, page, side, id, arguments.mbit, found[side]["cold"])
    except Error as error:
        return {"failed": error.message.splitlines()[0]}
    for name, how in RUNS.items():
        if how[0] == "webgpu" and not gpu:
            continue
        try:
            with visit(chromium, feeds) as page:
                told = {side: start(chromium, page, side, how, id) for side in SIDES}
                times = page.evaluate("(given) => bench.steady(...given)", [arguments.runs, arguments.seconds])
        except Error as error:
            found[name] = {"failed": error.message.splitlines()[0]}
            continue
        found[name] = {side: statistics.median(times[side]) for side in SIDES}
        found[name] |= {f"{side} is wrong": told[side]["wrong"] for side in SIDES if "wrong" in told[side]}
    return found


def cold(chromium: Chromium, page: Page, side: str, id: str, mbit: float, before: list[float]) -> Figures:
    site = chromium.site
    site.rate = mbit * 1e6 / 8
    site.sent.clear()
    try:
        told = start(chromium, page, side, ("wasm", 1), id)
    finally:
        site.rate = 0
    sent = sum(count for path, count in site.sent.items() if path.startswith(ENGINES))
    return {"cold": [*before, told["time"]], "bytes": sent, **{k: told[k] for k in ("memory", "wrong") if k in told}}


def interface(chromium: Chromium) -> tuple[float, float]:
    """Microseconds of a run of a model that does next to nothing, with the interface and without it."""
    kernel = Kernel("Neg", (1,))
    offer(chromium, kernel.model().SerializeToString(), kernel.feeds(), ["wasm"])
    with visit(chromium, kernel.feeds(), "delete globalThis.Worker;") as page:  # so that no thread is waited for
        page.evaluate("bench.start('Sardonyx', 'wasm', 1)")
        times = page.evaluate("bench.adapter(21, 500)")
    return statistics.median(times["interface"]), statistics.median(times["session"])


def figure(row: Figures, side: str, name: str) -> float:
    """A figure of a side; KeyError where it was not measured."""
    if name in RUNS:
        return float(row[name][side])
    told = row[side][name]
    return float(statistics.median(told) if name == "cold" else told) / UNITS[name][1]


def rendered(rows: Mapping[str, Figures]) -> list[str]:
    """The table: for each figure both sides, and ours as a part of theirs; geometric means of those."""
    names = ["bytes", "cold", *RUNS, "memory"]
    ratios: dict[str, list[float]] = {name: [] for name in names}
    lines = []
    for id, row in rows.items():
        line = [id]
        for name in names:
            try:
                theirs, ours = (figure(row, side, name) for side in SIDES)
            except KeyError:
                failed = "failed" in row or "failed" in row.get(name, {})
                line += ["failed" if failed else "", "", ""]
                continue
            ratios[name].append(ours / theirs)
            line += [number(theirs), number(ours), f"{ours / theirs:.2f}"]
        lines.append(line)
    means = [f"**{statistics.geometric_mean(known):.2f}**" if known else "" for known in ratios.values()]
    lines.append(["geometric mean", *(cell for mean in means for cell in ("", "", mean))])
    titles = [(f"{name}, ms", "ms") if name in RUNS else (UNITS[name][0], UNITS[name][0].split()[-1]) for name in names]
    head = [text for title, unit in titles for text in (title, f"{OURS}, {unit}", "ratio")]
    return table(["model", *head], lines)


def complaints(rows: Mapping[str, Figures]) -> list[str]:
    lines = [f"* {id}: {row['failed']}" for id, row in rows.items() if "failed" in row]
    for id, row in rows.items():
        for part, told in row.items():
            if isinstance(told, dict):
                lines += [f"* {id}, {part}: {key}: {why}" for key, why in told.items() if isinstance(why, str)]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)

    def listed(text: str) -> list[str]:
        return [id for id in text.split(",") if id]

    parser.add_argument("--models", type=listed, default=[*MODELS], metavar="ID,...")
    parser.add_argument("--gpu", type=listed, default=[*GPU_MODELS], metavar="ID,...", help="those on WebGPU, too")
    parser.add_argument("--rounds", type=int, default=3, help="cold starts of each side (default %(default)s)")
    parser.add_argument("--runs", type=int, default=31, help="runs of each side (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=10, help="for them, three at least (default %(default)s)")
    parser.add_argument("--mbit", type=float, default=20, help="of the network, a second (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", action="store_true", help="write the table into README.md")
    arguments = parser.parse_args()
    if unknown := {*arguments.models, *arguments.gpu} - KNOWN.keys():
        parser.error(f"no model {', '.join(unknown)}; python -m tests.models lists them")
    folders = {
        "benchmarks": Path(__file__).parent,
        "onnxruntime": onnxruntime_web(),
        "onnxruntime-gpu": onnxruntime_web(GPU_FILES),
    }
    with unpacked_runtime() as runtime, open_chromium({**folders, "sardonyx": runtime}) as chromium:
        chromium.site.gzip = True
        rows = collected(
            arguments.models, lambda id: measure(chromium, id, id in arguments.gpu, arguments), not arguments.json
        )
        with_, without = interface(chromium)
        about = f"{processor()}; Chromium {chromium.version}, {THEIRS} {VERSION}; {arguments.mbit:g} Mbit/s, "
        about += f"{arguments.rounds} cold starts of each side."
    if arguments.json:
        print(json.dumps({"models": rows, "interface": [with_, without]}, indent=1))
        return
    cost = f"The interface adds {with_ - without:.0f} us to a run: {with_:.0f} us with it, {without:.0f} without."
    publish("web-table", [*rendered(rows), "", cost, "", about, *complaints(rows)], arguments.write)


if __name__ == "__main__":
    main()
