"""Bundles on WebGPU beside onnxruntime-web's WebGPU, in one page of Chromium.

    python -m tests.benchmarks.gpu_page [--models ID,...] [--runs 3] [--core 0] [--write] [--json]

Where there is no GPU, SwiftShader plays it on the processor; then Chromium gets one core, `--core`, so that threads do
not blur the times. Sides run in turns, and who goes first alternates. A run takes arrays and returns arrays.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx.web.folder import write
from tests.benchmarks.browser import GPU_FILES, MISDECLARED, THEIRS, VERSION, onnxruntime_web, without_shapes
from tests.benchmarks.report import collected, processor, publish, table
from tests.benchmarks.table import number as digits
from tests.benchmarks.turns import turns
from tests.models import assert_close, inputs, path, reference
from tests.support.browser import Chromium, open_chromium
from tests.web.pages import bundled

MODELS = ("light-resnet50", "ppocr5-cls", "light-squeezenet", "minilm-l3", "ppocr4-rec")
OURS = "bundle"
SIDES = (THEIRS, OURS)

Figures = dict[str, Any]


def measure(chromium: Chromium, id: str, runs: int, number: int) -> Figures:
    """Milliseconds of a first and of later runs of each side, and what is wrong with its outputs.

    `number` says who goes first.
    """
    feeds = inputs(id)
    bundle = bundled(path(id), feeds, ["webgpu"])
    site = chromium.site
    site.data.clear()
    site.posted.clear()
    site.data.update({"model.onnx": without_shapes(path(id)) if id in MISDECLARED else path(id), "model.sdx": bundle})
    site.data.update({f"input{k}": array.tobytes() for k, array in enumerate(feeds.values())})
    kinds = [[name, array.dtype.name, list(array.shape)] for name, array in feeds.items()]
    found: Figures = {}
    context = chromium.browser.new_context()
    try:
        page = context.new_page()
        page.set_default_timeout(0)
        page.goto(f"{site.address}/support/page.html")
        page.evaluate("async () => { globalThis.bench = await import('/benchmarks/page.mjs'); bench.aim('webgpu'); }")
        page.evaluate("(kinds) => bench.feed(kinds)", kinds)
        for side in turns(SIDES, number):
            found[side] = {"first": page.evaluate("(side) => bench.cold(side)", side)}
            _judge(chromium, id, found[side], side)
        times = page.evaluate("([sides, runs]) => bench.steady(sides, runs, 1)", [list(SIDES), runs])
    finally:
        context.close()
    for side in SIDES:
        found[side]["first"] = found[side]["first"]["time"]
        found[side]["run"] = statistics.median(times[side])
    return found


def _judge(chromium: Chromium, id: str, figures: Figures, side: str) -> None:
    outputs = [
        np.frombuffer(chromium.site.posted[f"{side}/{k}"], dtype).reshape(shape)
        for k, (dtype, shape) in enumerate(figures["first"]["outputs"])
    ]
    try:
        assert_close(id, outputs, reference(id))
    except AssertionError as error:
        figures["wrong"] = str(error).strip().splitlines()[0]


def rendered(rows: Mapping[str, Figures]) -> list[str]:
    """The table, with ratios to onnxruntime-web."""
    lines, ratios = [], []
    for id, row in rows.items():
        ratios.append(row[OURS]["run"] / row[THEIRS]["run"])
        times = [digits(row[side][what]) for what in ("first", "run") for side in SIDES]
        lines.append([id, *times, f"{ratios[-1]:.2f}"])
    lines.append(["geometric mean", "", "", "", "", f"**{statistics.geometric_mean(ratios):.2f}**"])
    return table(["model", f"{THEIRS}, first, ms", "ours, ms", "run, ms", "ours, ms", "ratio"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=lambda text: text.split(","), default=[*MODELS], metavar="ID,...")
    parser.add_argument("--runs", type=int, default=3, help="timed runs of each side (default %(default)s)")
    parser.add_argument("--core", type=int, default=0, help="the processor's core for everything; -1 for all")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", action="store_true", help="write the table into README.md")
    arguments = parser.parse_args()
    if arguments.core >= 0 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {arguments.core})
    with tempfile.TemporaryDirectory() as site:
        write(Path(site), compiler=False)
        folders = {"benchmarks": Path(__file__).parent, "onnxruntime": onnxruntime_web(GPU_FILES), "site": Path(site)}
        with open_chromium(folders) as chromium:
            turn = count()
            rows = collected(
                arguments.models, lambda id: measure(chromium, id, arguments.runs, next(turn)), not arguments.json
            )
            about = f"{processor()}; Chromium {chromium.version}, {THEIRS} {VERSION}."
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    wrong = [
        f"* {id}, {side}: {row[side]['wrong']}" for id, row in rows.items() for side in SIDES if "wrong" in row[side]
    ]
    publish("page-webgpu", [*rendered(rows), "", about, *wrong], arguments.write)


if __name__ == "__main__":
    main()
