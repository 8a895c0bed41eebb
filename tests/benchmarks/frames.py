"""From a frame to boxes in a page: a bundle beside onnxruntime-web with JavaScript around it.

    python -m tests.benchmarks.frames [--models shapes,nudenet,letters] [--runs 30] [--frames 10000] [--write]

Frames are canvases, whose pixels both sides read; on the other side a canvas letterboxes, and JavaScript makes planes
of floats, decodes and suppresses. Both have the page's one thread. `--frames` counts those after which the page's
memory is compared with what it was after a hundred; 0 leaves that out. Sardonyx looks at frames as `watch` does, which
has the canvas reduce large ones to what is enough for the network; the last times are those where it reads all pixels.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sardonyx.api.bundling import bundle_of
from sardonyx.model.serde.writer import write
from sardonyx.passes.picture import Picture
from sardonyx.passes.vision.detection import Detection, with_detection
from sardonyx.plans.plan_cache import Source
from tests.benchmarks.browser import VERSION, onnxruntime_web
from tests.benchmarks.report import processor, publish, table
from tests.benchmarks.vision import FRAMES, OVERLAP, PAD, THRESHOLD
from tests.packages.installed import modules, sample
from tests.packages.programs import drawn
from tests.support.browser import Chromium, open_chromium
from tests.support.wheel import ROOT
from tests.web.pages import RUNTIME

if TYPE_CHECKING:
    from playwright.sync_api import Page

SHAPES = ROOT / "examples" / "detector" / "shapes.onnx"
LETTERS = ("A", "   B", "      Z"), (320, 240), 48


@dataclass(frozen=True)
class Model:
    """Where a detector is, the side of its input, what its output means, and a picture with something that it finds."""

    find: Callable[[], Path]
    side: int
    head: str
    picture: Callable[[], Path | bytes]


def portrait() -> Path:
    return sample("portrait.jpg")


MODELS = {
    "shapes": Model(lambda: SHAPES, 160, "yolov8", portrait),
    "nudenet": Model(lambda: modules("nudenet") / "nudenet" / "320n.onnx", 320, "yolov8", portrait),
    "letters": Model(lambda: modules("ddddocr") / "ddddocr" / "common_det.onnx", 416, "yolox", lambda: drawn(*LETTERS)),
}
PICTURES: dict[str, dict[str, Any]] = {
    "yolov8": {"fit": "contain"},
    "yolox": {"fit": "corner", "std": (1.0,), "order": "bgr"},
}
"""How pictures become the input, by heads."""
SIDES = THEIRS, OURS, _ = ("onnxruntime-web", "Sardonyx", "whole")
EARLY = 100
"""Frames after which a page has all that it needs."""
MIB = 1 << 20


def measure(chromium: Chromium, name: str, runs: int, frames: int) -> tuple[list[list[str]], list[list[float]], str]:
    """Rows of the table, one for each size of frame, their ratios, and what the page holds."""
    model = MODELS[name]
    path = model.find()
    image = Picture("images", size=(model.side, model.side), pad=PAD, **PICTURES[model.head])
    detection = Detection(model.head, threshold=THRESHOLD, overlap=OVERLAP)
    whole = write(with_detection(Source(path).read(), detection, image))
    bundle = b"".join(bundle_of(Source(whole), ["wasm"], compress=True))
    chromium.site.data.update({"model.onnx": path, "model.sdx": bundle, "picture": model.picture()})
    page = chromium.browser.new_page()
    page.set_default_timeout(3e6)
    page.goto(f"{chromium.site.address}/support/page.html")
    page.evaluate("async () => { globalThis.bench = await import('/benchmarks/frames.mjs'); }")
    rows, ratios = [], []
    held = ""
    for size, (height, width) in FRAMES.items():
        page.evaluate("([width, height]) => bench.show(width, height)", [width, height])
        about = {"side": model.side, "head": model.head, "threshold": THRESHOLD, "overlap": OVERLAP}
        page.evaluate("(about) => bench.start(about)", about)
        told = page.evaluate("(runs) => bench.steady(runs)", runs)
        theirs, ours, all_ = (statistics.median(told["times"][each]) for each in SIDES)
        counts = ", ".join(str(told["counts"][each]) for each in SIDES)
        ratios.append([ours / theirs, all_ / theirs])
        figures = [f"{theirs:.1f}", f"{ours:.1f}", f"{ours / theirs:.2f}", f"{all_:.1f}", f"{all_ / theirs:.2f}"]
        rows.append([f"{name}, {size}", *figures, counts])
        if frames and not held:
            held = holding(page, name, frames)
    page.close()
    return rows, ratios, held


def holding(page: Page, name: str, frames: int) -> str:
    """What a page holds after a few frames and after many, garbage collected."""
    inspector = page.context.new_cdp_session(page)
    inspector.send("HeapProfiler.enable")
    told = []
    for count in (EARLY, frames - EARLY):
        memory = page.evaluate("(count) => bench.hold(count)", count)
        inspector.send("HeapProfiler.collectGarbage")
        heap = inspector.send("Runtime.getHeapUsage")["usedSize"]
        told.append(f"{memory / MIB:.2f} MiB of WebAssembly's memory and {heap / MIB:.2f} MiB of JavaScript's heap")
    return f"* {name}, after {EARLY} frames: {told[0]}; after {frames:,}: {told[1]}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=lambda text: text.split(","), default=[*MODELS], metavar="NAME,...")
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--frames", type=int, default=10_000)
    parser.add_argument("--write", action="store_true", help="into README.md")
    arguments = parser.parse_args()
    folders = {"benchmarks": Path(__file__).parent, "onnxruntime": onnxruntime_web(), "sardonyx": RUNTIME}
    rows, ratios, lines = [], [], []
    with open_chromium(folders) as chromium:
        for name in arguments.models:
            try:
                more, those, held = measure(chromium, name, arguments.runs, arguments.frames if name == "shapes" else 0)
            except subprocess.CalledProcessError as error:
                lines.append(f"* {name}: {error.stderr}")
                continue
            rows += more
            ratios += those
            lines += [held] if held else []
        if ratios:
            ours, whole = (f"**{statistics.geometric_mean(each):.2f}**" for each in zip(*ratios, strict=True))
            rows.append(["geometric mean", "", "", ours, "", whole, ""])
        about = f"{processor()}; Chromium {chromium.version}, {THEIRS} {VERSION}."
    head = ["model, frame", f"{THEIRS} and JavaScript, ms", f"{OURS}, ms", "ratio", "all pixels, ms", "ratio", "boxes"]
    publish("frames", [*table(head, rows), "", *lines, "", about], arguments.write)


if __name__ == "__main__":
    main()
