"""What stands between a new process and the first answer, beside onnxruntime; and where that time goes.

    python -m tests.benchmarks.startup [--models all|ID,...] [--sides NumPy,WASM] [--runs 5] [--stages] [--write]

Each measurement is a fresh process of one thread that has imported NumPy; it counts from before the import of the
library to the first output. The sides take turns, figures are medians, and what the first output took from there is
told as `import + session + run`. The first time the cache is empty, and later it has what one process has left there.
With `--stages`, the time of the first answer is split by what was at work (`stages`), onnxruntime left out.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from math import exp, log
from pathlib import Path
from typing import Any

from tests.benchmarks import fresh
from tests.benchmarks.fresh import ONE_THREAD, ONNXRUNTIME, ROOT, SIDES
from tests.benchmarks.report import machine, publish, table
from tests.benchmarks.stages import STAGES
from tests.benchmarks.turns import turns
from tests.models import MODELS, inputs, path

LISTED = ("ppocr4-det", "ppocr5-cls", "minilm-l3", "silero-vad", "light-resnet50", "skl-gbr-mlp")
FIRST, LATER = "first", "later"


def measure(id: str, side: str, cache: Path, feeds: Path, stages: bool = False) -> Any:
    """Return what `first` prints of a model, with this folder as the cache.

    Raises RuntimeError, with the last line of its complaint, where the process fails.
    """
    command = [sys.executable, str(Path(__file__).with_name("first.py")), *SIDES[side], str(path(id)), str(feeds)]
    environment = {**os.environ, **ONE_THREAD, "XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    done = subprocess.run(
        [*command, *(["--stages"] if stages else [])], capture_output=True, text=True, env=environment, cwd=ROOT
    )
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
    return json.loads(done.stdout.splitlines()[-1])


def times(id: str, sides: Sequence[str], runs: int) -> dict[tuple[str, str], list[float]]:
    """Return the medians of the moments, by side and by whether it is the first time or later."""
    found: dict[tuple[str, str], list[list[float]]] = {(side, when): [] for side in sides for when in (FIRST, LATER)}
    with tempfile.TemporaryDirectory() as folder:
        feeds = Path(folder, "feeds")
        feeds.write_bytes(pickle.dumps(inputs(id)))
        for k in range(runs + 1):  # the first one writes bytecode, and has the system read the files
            for side in turns(sides, k):
                cache = Path(folder, f"{side} {k}")
                for when in (FIRST, LATER):
                    moments = measure(id, side, cache, feeds)
                    if k:
                        found[side, when].append(moments)
    return {key: [statistics.median(each) for each in zip(*known, strict=True)] for key, known in found.items()}


def row(id: str, sides: Sequence[str], runs: int) -> tuple[list[str], list[float]]:
    """Return the line of a model and its ratios, the first time's before the later one's."""
    found = times(id, [ONNXRUNTIME, *sides], runs)
    cells, ratios = [id], []
    for when in (FIRST, LATER):
        theirs = found[ONNXRUNTIME, when][-1]
        cells.append(f"{theirs:.0f}")
        for side in sides:
            imported, made, answered = found[side, when]
            split = f" ({imported:.0f} + {made - imported:.0f} + {answered - made:.0f})" if when == FIRST else ""
            cells.append(f"{answered:.0f}{split}")
            ratios.append(answered / theirs)
            cells.append(f"{ratios[-1]:.2f}")
    return cells, ratios


def compare(models: Sequence[str], sides: Sequence[str], runs: int) -> list[str]:
    """Return the table of these models, with geometric means."""
    head = ["model"]
    for when in (FIRST, LATER):
        head += [f"onnxruntime, {when}, ms", *(text for side in sides for text in (f"{side}, {when}, ms", "ratio"))]
    lines, ratios = [], []
    for id in models:
        cells, mine = row(id, sides, runs)
        lines.append(cells)
        ratios.append(mine)
        print(" | ".join(cells), flush=True)
    means = [f"{exp(statistics.mean(map(log, each))):.2f}" for each in zip(*ratios, strict=True)]
    last = ["geometric mean"]
    for k in range(2):
        last += ["", *(text for mean in means[k * len(sides) : (k + 1) * len(sides)] for text in ("", mean))]
    return table(head, [*lines, last])


def split(models: Sequence[str], sides: Sequence[str], runs: int) -> list[str]:
    """Return the table of stages."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for id in models:
            feeds = Path(folder, id)
            feeds.write_bytes(pickle.dumps(inputs(id)))
            for side in sides:
                samples = [
                    measure(id, side, Path(folder, f"{id} {side} {k}"), feeds, stages=True) for k in range(runs + 1)
                ][1:]
                of = [statistics.median(sample.get(stage, 0) for sample in samples) for stage in (*STAGES, "rest")]
                lines.append([f"{id}, {side}", f"{sum(of):.0f}", *(f"{each:.0f}" for each in of)])
                print(" | ".join(lines[-1]), flush=True)
    return table(["model", "sum, ms", *STAGES, "rest"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(LISTED), metavar="all|ID,...")
    parser.add_argument("--sides", default="NumPy,WASM", metavar="SIDE,...", help="of NumPy, WASM and WebGPU")
    parser.add_argument("--runs", type=int, default=5, help="processes of each side (default %(default)s)")
    parser.add_argument("--stages", action="store_true", help="split the first answer by what is at work")
    parser.add_argument("--write", action="store_true", help="write the table into README.md")
    arguments = parser.parse_args()
    fresh.quiet()
    models = [*MODELS] if arguments.models == "all" else arguments.models.split(",")
    make, section = (split, "stages") if arguments.stages else (compare, "startup")
    lines = make(models, arguments.sides.split(","), arguments.runs)
    publish(section, [*lines, "", f"{machine()}."], arguments.write)


if __name__ == "__main__":
    main()
