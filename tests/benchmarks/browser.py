"""Sardonyx in Pyodide beside onnxruntime-web, in one page of Chromium: how long a run takes, and how long the start.

    python -m tests.benchmarks.browser [--models ID,...] [--runs 15] [--numpy] [--write] [--json]
    python -m tests.benchmarks.browser --kernels [TEXT]     models of one node, those with TEXT in their names

Both sides run in turns on the one thread of a worker, which is new for each model; who goes first alternates, and both
warm up by as many runs. A run takes arrays of JavaScript and returns such arrays on both sides: ours cross into Python
and back. onnxruntime-web is as it comes: all graph optimizations, its build for SIMD, one thread.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from tests.benchmarks.kernels import KERNELS, Kernel
from tests.benchmarks.report import processor, publish, table
from tests.benchmarks.table import number
from tests.models import MODELS as KNOWN
from tests.models import assert_close, inputs, path, reference
from tests.pyodide import assemble as pyodide
from tests.support.browser import Chromium, open_chromium
from tests.support.cache import CACHE, cached, downloaded, verified

VERSION = "1.30.0"
FILES = {
    "ort.wasm.min.mjs": "219e6a1fc8a9938268d18efca3c91d310bd2f4a59bbd13744df5b2b7fc6cee3b",
    "ort-wasm-simd-threaded.mjs": "e13f7f94fc51b4ca72b12faeb1ee95f4ace6dfbc8939bc718aabdc0a27c4299b",
    "ort-wasm-simd-threaded.wasm": "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
}
"""What of onnxruntime-web runs on processors, with SHA-256s."""
GPU_FILES = {
    "ort.webgpu.min.mjs": "3dffff71811bc13a3a3d9591c57ca5ee5735b8f5f3eaf789510b02bb040ae3a0",
    "ort-wasm-simd-threaded.asyncify.mjs": "3d1c85995364bb643302fc6fd877a0c3ba5ae72401815e0f24828a53d9191e28",
    "ort-wasm-simd-threaded.asyncify.wasm": "39f9f0894d478800487ed9f7dbe92618498db320cf55c8e3d89adff8dce658da",
}
"""What of it runs on GPUs."""

MODELS = (
    *("opennsfw-resnet", "light-resnet50", "light-densenet121", "light-squeezenet"),
    *("ppocr4-det", "ppocr4-rec", "ppocr2-cls", "ppocr5-cls", "ppocr5-cls-qdq-int8", "ppocr5-cls-qop-int8"),
    *("silero-vad", "silero-vad-seq", "basic-pitch", "asr-feat-nemo80", "asr-feat-kaldi", "asr-feat-wespeaker"),
    *(
        "eeg-spindle-unet",
        "eeg-seizure-lstm",
        "tashkeel-bilstm-int8",
        "pyfrspell-int8",
        "minilm-l3",
        "minilm-l6-int8",
        "minilm-l3-fp16",
        "smollm2-int4-contrib-decode",
    ),
    *("smollm2-int4-std-decode", "romanizer-enc", "romanizer-dec", "magika", "slovorez-fp16", "caustic-painn"),
)
"""Vision, text in pictures, audio and signals, transformers, and others."""

MISDECLARED = ("ppocr5-cls", "ppocr5-cls-qdq-int8", "ppocr5-cls-qop-int8")
"""Models whose outputs have other shapes than they say, which onnxruntime-web does not forgive."""

THEIRS, OURS = "onnxruntime-web", "WASM"
PROVIDERS = {OURS: "WasmExecutionProvider", "NumPy": "NumpyExecutionProvider"}
BAD = {"failed", "wrong"}
MIB = 1 << 20

Arrays = list[npt.NDArray[Any]]
Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A model and its feeds; `judge` raises AssertionError for wrong outputs. `operations` are those of a run."""

    model: bytes | Path
    feeds: Mapping[str, npt.NDArray[Any]]
    judge: Callable[[Arrays], None]
    operations: float = 0


def of_model(id: str) -> Case:
    expected = reference(id)
    model = without_shapes(path(id)) if id in MISDECLARED else path(id)
    return Case(model, inputs(id), lambda found: assert_close(id, found, expected))


def without_shapes(file: Path) -> bytes:
    """Return a model that does not say which shapes its outputs have."""
    model = onnx.load(file)
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return bytes(model.SerializeToString())


def of_kernel(kernel: Kernel) -> Case:
    model = kernel.model().SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, kernel.feeds())

    def judge(found: Arrays) -> None:
        error = np.abs(found[0] - expected).max() / np.abs(expected).max()
        assert error <= 1e-4, f"off by {error:.2e} of the largest value"

    return Case(model, kernel.feeds(), judge, kernel.operations)


def onnxruntime_web(files: Mapping[str, str] = FILES) -> Path:
    """Return a folder with these files of onnxruntime-web, downloading it the first time (33 MB)."""
    name = f"onnxruntime-web-{VERSION}{'-gpu' if files is GPU_FILES else ''}"
    return cached(CACHE / name, partial(_download, name, files))


def _download(name: str, files: Mapping[str, str], scratch: Path) -> None:
    folder = scratch / name
    folder.mkdir()
    with downloaded("npm", "onnxruntime-web", VERSION) as archive, tarfile.open(archive) as tar:
        for name, sha256 in files.items():
            file = tar.extractfile(f"package/dist/{name}")
            assert file is not None
            (folder / name).write_bytes(verified(file.read(), sha256, name))


def measure(chromium: Chromium, case: Case, sides: Sequence[str], runs: int, seconds: float, limit: float) -> Row:
    """Return figures of each side, in milliseconds and bytes, and what is wrong with its outputs; or what failed."""
    site = chromium.site
    site.posted.clear()
    site.data.update(model=case.model, trivial=Kernel("Neg", (1,)).model().SerializeToString())
    site.data.update({f"input{k}": array.tobytes() for k, array in enumerate(case.feeds.values())})
    message = {
        "inputs": [[name, array.dtype.name, list(array.shape)] for name, array in case.feeds.items()],
        "providers": {side: PROVIDERS[side] for side in sides},
        "runs": runs,
        "seconds": seconds,
    }
    try:
        found: Row = chromium.call("/benchmarks/browser.mjs", message, limit)
    except (TimeoutError, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or ["no reason given"])[-1]
        return {side: {"failed": reason} for side in (THEIRS, *sides)}
    for side, figures in found.items():
        if "failed" in figures:
            continue
        figures["run"] = statistics.median(figures.pop("times"))
        figures["start"] = figures["create"] + figures["first"]
        outputs = [
            np.frombuffer(site.posted[f"{side}/{k}"], dtype).reshape(shape)
            for k, (dtype, shape) in enumerate(figures.pop("outputs"))
        ]
        try:
            case.judge(outputs)
        except AssertionError as error:
            figures["wrong"] = str(error).strip().splitlines()[0]
    if case.operations and "run" in found[OURS]:
        found[OURS]["gflops"] = case.operations / found[OURS]["run"] / 1e6
    return found


def rendered(rows: Mapping[str, Row], sides: Sequence[str]) -> list[str]:
    """Return the table of runs: a line for each model, ratios to onnxruntime-web, their geometric means."""
    rates = any("gflops" in row[OURS] for row in rows.values())
    lines = []
    for id, row in rows.items():
        cells = [text for side in (THEIRS, *sides) for text in (cell(row, side, "run"), ratio_cell(row, side, "run"))]
        rate = row[OURS].get("gflops")
        lines.append([id, cells[0], *cells[2:], *[f"{rate:.1f}" if rate else ""] * rates])
    means = [text for side in sides for text in mean(rows, side, "run")]
    head = [THEIRS + ", ms", *(text for side in sides for text in (f"{side}, ms", "ratio")), *["GFLOP/s"] * rates]
    return table(["model", *head], [*lines, ["geometric mean", "", *means, *[""] * rates]])


def starts(rows: Mapping[str, Row]) -> list[str]:
    """Return the table of session creation and first run, and of sizes."""
    lines = []
    for id, row in rows.items():
        times = [cell(row, side, moment) for moment in ("create", "first") for side in (THEIRS, OURS)]
        code = number(row[OURS]["code"] / 1e3) if "code" in row[OURS] else ""
        memory = [f"{row[side]['memory'] / MIB:.0f}" if "memory" in row[side] else "" for side in (THEIRS, OURS)]
        lines.append([id, *times, ratio_cell(row, OURS, "start"), code, *memory])
    lines.append(["geometric mean", "", "", *mean(rows, OURS, "start"), "", "", ""])
    times = [f"{moment}, {side}, ms" for moment in ("session", "first run") for side in (THEIRS, OURS)]
    return table(["model", *times, "ratio", "code, kB", *(f"memory, {side}, MiB" for side in (THEIRS, OURS))], lines)


def cell(row: Row, side: str, moment: str) -> str:
    figures = row[side]
    return number(figures[moment]) + " (wrong)" * ("wrong" in figures) if moment in figures else "failed"


def ratio_cell(row: Row, side: str, moment: str) -> str:
    return f"{ratio(row, side, moment):.2f}" if all(moment in row[one] for one in (THEIRS, side)) else ""


def ratio(row: Row, side: str, moment: str) -> float:
    return float(row[side][moment] / row[THEIRS][moment])


def mean(rows: Mapping[str, Row], side: str, moment: str) -> list[str]:
    """How many rows have right results on both sides, and the geometric mean of their ratios."""
    right = [row for row in rows.values() if all(row[one].keys().isdisjoint(BAD) for one in (THEIRS, side))]
    ratios = [ratio(row, side, moment) for row in right]
    return [f"{len(ratios)} of {len(rows)}", f"**{statistics.geometric_mean(ratios):.2f}**" if ratios else ""]


def complaints(rows: Mapping[str, Row]) -> list[str]:
    """A line for each result that is wrong or missing."""
    return [
        f"* {id}, {side}: {figures[bad]}"
        for id, row in rows.items()
        for side, figures in row.items()
        for bad in BAD & figures.keys()
    ]


def conditions(rows: Mapping[str, Row], version: str) -> list[str]:
    """What was measured, where, and what loading both took before."""
    loads = [
        f"{statistics.median(times) / 1e3:.1f} s for {what}"
        for what, side in (("Pyodide, NumPy and Sardonyx", OURS), (THEIRS, THEIRS))
        if (times := [row[side]["load"] for row in rows.values() if "load" in row[side]])
    ]
    versions = f"Chromium {version}, Pyodide {pyodide.VERSION}, {THEIRS} {VERSION}"
    loading = f" Loading took {' and '.join(loads)}." if loads else ""
    return [f"{processor()}; {versions}.{loading}", *complaints(rows)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=lambda text: text.split(","), default=[*MODELS], metavar="ID,...")
    parser.add_argument("--kernels", nargs="?", const="", metavar="TEXT", help="single nodes instead of models")
    parser.add_argument("--numpy", action="store_true", help="measure NumPy in Pyodide as well")
    parser.add_argument("--runs", type=int, default=15, help="samples of each side (default %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=20, help="for samples, of which there are 3 at least (default %(default)s)"
    )
    parser.add_argument("--limit", type=float, default=180, help="seconds for a model (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", action="store_true", help="write the tables into README.md")
    arguments = parser.parse_args()
    if unknown := set(arguments.models) - KNOWN.keys():
        parser.error(f"no model {', '.join(unknown)}; python -m tests.models lists them")
    sides = [OURS, "NumPy"] if arguments.numpy else [OURS]
    cases: dict[str, Callable[[], Case]]
    if arguments.kernels is None:
        cases = {id: partial(of_model, id) for id in arguments.models}
    else:
        wanted = {name: kernel for name, kernel in KERNELS.items() if arguments.kernels.lower() in name.lower()}
        cases = {name: partial(of_kernel, kernel) for name, kernel in wanted.items()}
    rows: dict[str, Row] = {}
    with open_chromium({"benchmarks": Path(__file__).parent, "onnxruntime": onnxruntime_web()}) as chromium:
        for name, case in cases.items():
            rows[name] = measure(chromium, case(), sides, arguments.runs, arguments.seconds, arguments.limit)
            if not arguments.json:
                print(f"{name}: {json.dumps(rows[name])}", flush=True)
        version = chromium.version
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    section = "browser" if arguments.kernels is None else "browser-kernels"
    lines = [*rendered(rows, sides), "", *starts(rows), "", *conditions(rows, version)]
    publish(section, lines, arguments.write)


if __name__ == "__main__":
    main()
