"""Static int8 beside the float32 that it was made of: how much faster a run is on each provider, and in onnxruntime.

    python -m tests.benchmarks.static_int8 [--models ID,...] [--sides "NumPy;WASM;..."] [--activations int8,uint8]
                                           [--runs 15] [--seconds 10] [--write] [--json]

Twins are what `quantize_static` of onnxruntime.quantization writes: QDQ, weights of int8 per channel, activations of
one type, calibrated with four of the list's inputs. A model meets a side in a process, or a page, of its own, where
four sessions run in turns on one thread each: the model and its twin, by onnxruntime and by Sardonyx. "WASM, no BLAS"
is what pages run, in wasmtime. In Chromium onnxruntime is onnxruntime-web, and Sardonyx runs bundles.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.benchmarks import fresh
from tests.benchmarks.fresh import ONNXRUNTIME
from tests.benchmarks.report import collected, machine, publish, table
from tests.benchmarks.table import number
from tests.benchmarks.turns import turns
from tests.models import inputs, path
from tests.support.cache import CACHE, cached

if TYPE_CHECKING:
    import onnx

MODELS = (
    *("light-resnet50", "light-densenet121", "light-squeezenet", "opennsfw-resnet"),
    *("ppocr2-cls", "ppocr5-cls", "ppocr4-det", "ppocr4-rec", "eeg-spindle-unet"),
    *("minilm-l3", "silero-vad-seq"),
)
"""Networks of convolutions, a transformer, and an LSTM."""
ACTIVATIONS = ("int8", "uint8")
FLOAT, INTEGER = "float32", "int8"
OURS = "Sardonyx"
PLAIN, CHROMIUM = "WASM, no BLAS", "Chromium"
SIDES = {"NumPy": "NumPy", "WASM": "WASM", PLAIN: "WASM", "WebGPU": "WebGPU", CHROMIUM: ""}
SAMPLES = 4
"""Inputs from which the range of each tensor is learned."""
OPSET = 13
"""The first that has scales per channel."""

Row = dict[str, Any]


def twin(id: str, activation: str) -> Path:
    """Return the file of a model in static int8, made the first time."""
    target = CACHE / "static-int8" / f"{id}-{activation}.onnx"
    return cached(target, partial(_quantized, id, activation, target.name))


def _quantized(id: str, activation: str, name: str, scratch: Path) -> None:
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Samples(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no types
        feeds = iter([inputs(id, seed) for seed in range(SAMPLES)])

        def get_next(self) -> dict[str, Any] | None:
            return next(self.feeds, None)

    kinds = {"int8": QuantType.QInt8, "uint8": QuantType.QUInt8}
    logging.disable(logging.WARNING)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")  # the tools' own
        source, prepared = Path(folder) / "source.onnx", Path(folder) / "prepared.onnx"
        onnx.save(_upgraded(onnx.load(path(id))), source)
        quant_pre_process(source, prepared, skip_symbolic_shape=True)
        quantize_static(
            prepared,
            scratch / name,
            Samples(),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=kinds[activation],
            weight_type=QuantType.QInt8,
        )
    logging.disable(logging.NOTSET)


def _upgraded(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model of an opset that quantizes channels, whose initializers are no inputs."""
    import onnx.version_converter

    constants = {array.name for array in model.graph.initializer}
    rest = [value for value in model.graph.input if value.name not in constants]
    del model.graph.input[:]
    model.graph.input.extend(rest)
    model.ir_version = max(model.ir_version, 8)
    version = next(entry.version for entry in model.opset_import if not entry.domain)
    return model if version >= OPSET else onnx.version_converter.convert_version(model, 17)


def measure(id: str, activation: str, side: str, runs: int, seconds: float) -> Row:
    """Return milliseconds of a run of both models, by onnxruntime and by us."""
    if side == PLAIN:
        from sardonyx_wasm.hosts.wasmtime import WasmtimeHost

        WasmtimeHost.target = "v8"
    feeds = inputs(id)
    files = {FLOAT: path(id), INTEGER: twin(id, activation)}
    libraries = {ONNXRUNTIME: ONNXRUNTIME, OURS: SIDES[side]}
    sessions = {
        f"{library}, {kind}": fresh.session(name, file)
        for library, name in libraries.items()
        for kind, file in files.items()
    }
    for session in sessions.values():
        for _ in range(2):
            session.run(None, feeds)
    times: dict[str, list[float]] = {name: [] for name in sessions}
    end = time.perf_counter() + seconds
    for k in range(runs):
        if k >= 3 and time.perf_counter() > end:
            break
        for name in turns(sessions, k):
            begun = time.perf_counter()
            sessions[name].run(None, feeds)
            times[name].append(1e3 * (time.perf_counter() - begun))
    return {name: statistics.median(taken) for name, taken in times.items()}


def in_chromium(id: str, activation: str, runs: int, seconds: float) -> Row:
    """Return the same of a page."""
    from tests.benchmarks.browser import onnxruntime_web, without_shapes
    from tests.support.browser import open_chromium
    from tests.support.npm import package
    from tests.web.pages import RUNTIME, bundled

    feeds = inputs(id)
    folders = {
        "benchmarks": Path(__file__).parent,
        "common": package("onnxruntime-common"),
        "onnxruntime": onnxruntime_web(),
        "sardonyx": RUNTIME,
    }
    sides = []
    with open_chromium(folders) as chromium:
        data = chromium.site.data
        data["page.html"] = PAGE.encode()
        data.update({f"input{k}": array.tobytes() for k, array in enumerate(feeds.values())})
        for kind, file in {FLOAT: path(id), INTEGER: twin(id, activation)}.items():
            model = without_shapes(file)
            data[f"{kind}.onnx"], data[f"{kind}.sdx"] = model, bundled(model, feeds, ["wasm"])
            sides += [(f"{ONNXRUNTIME}, {kind}", ONNXRUNTIME, f"/data/{kind}.onnx")]
            sides += [(f"{OURS}, {kind}", OURS, f"/data/{kind}.sdx")]
        kinds = [[name, array.dtype.name, list(array.shape)] for name, array in feeds.items()]
        with chromium.visitor() as context:
            page = context.new_page()
            page.goto("/data/page.html")
            times = page.evaluate(
                "async (given) => (await import('/benchmarks/static_int8.mjs')).measure(...given)",
                [sides, kinds, runs, seconds],
            )
    return {name: statistics.median(taken) for name, taken in times.items()}


PAGE = """<!doctype html><script type="importmap">
{ "imports": { "onnxruntime-common": "/common/dist/esm/index.js" } }
</script>"""


def measured(id: str, arguments: argparse.Namespace) -> dict[str, Row]:
    """Return the figures of each side and type of activations, or why there are none."""
    found = {}
    for activation in arguments.activations:
        twin(id, activation)
        for side in arguments.sides:
            given = (id, activation, *([] if side == CHROMIUM else [side]), arguments.runs, arguments.seconds)
            try:
                row = fresh.call(__spec__.name, "in_chromium" if side == CHROMIUM else "measure", *given)
            except RuntimeError as error:
                row = {"failed": str(error)}
            found[f"{side}, {activation}"] = row
    return found


def against_floats(row: Row) -> float:
    """Our int8 as a part of our float32."""
    return float(row[f"{OURS}, {INTEGER}"] / row[f"{OURS}, {FLOAT}"])


def against_theirs(row: Row) -> float:
    """Our int8 as a part of onnxruntime's."""
    return float(row[f"{OURS}, {INTEGER}"] / row[f"{ONNXRUNTIME}, {INTEGER}"])


def theirs_against_floats(row: Row) -> float:
    """onnxruntime's int8 as a part of its float32."""
    return float(row[f"{ONNXRUNTIME}, {INTEGER}"] / row[f"{ONNXRUNTIME}, {FLOAT}"])


RATIOS: Mapping[str, Callable[[Row], float]] = {
    "int8 / float32": against_floats,
    "int8 / onnxruntime's": against_theirs,
    "onnxruntime's int8 / float32": theirs_against_floats,
}


def rendered(rows: Mapping[str, Mapping[str, Row]], side: str) -> list[str]:
    """The table of a side: milliseconds of our runs, and ratios, for each type of activations."""
    lines = []
    known: dict[str, list[list[float]]] = {}
    for id, sides in rows.items():
        for name, row in sides.items():
            place, _, activation = name.rpartition(", ")
            if place != side:
                continue
            if "failed" in row:
                lines.append([id, activation, "failed", "", *[""] * len(RATIOS)])
                continue
            ratios = [tell(row) for tell in RATIOS.values()]
            known.setdefault(activation, []).append(ratios)
            times = [number(row[f"{OURS}, {kind}"]) for kind in (FLOAT, INTEGER)]
            lines.append([id, activation, *times, *(f"{ratio:.2f}" for ratio in ratios)])
    for activation, ratios_of in known.items():
        means = [f"**{statistics.geometric_mean(column):.2f}**" for column in zip(*ratios_of, strict=True)]
        lines.append(["geometric mean", activation, "", "", *means])
    return table(["model", "activations", "float32, ms", "int8, ms", *RATIOS], lines)


def sections(rows: Mapping[str, Mapping[str, Row]], sides: Sequence[str]) -> list[str]:
    """The tables of all sides, each with its name."""
    text = []
    for side in sides:
        text += [f"**{side}**", "", *rendered(rows, side), ""]
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)

    def listed(text: str) -> list[str]:
        return [part for part in text.split(",") if part]

    parser.add_argument("--models", type=listed, default=[*MODELS], metavar="ID,...")
    parser.add_argument(
        "--sides", type=lambda text: [*map(str.strip, text.split(";"))], default=[*SIDES], metavar="NAME;..."
    )
    parser.add_argument("--activations", type=listed, default=[*ACTIVATIONS], metavar="TYPE,...")
    parser.add_argument("--runs", type=int, default=31, help="runs of each session (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=10, help="for them, three at least (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", action="store_true", help="write the tables into README.md")
    arguments = parser.parse_args()
    fresh.quiet()
    rows = collected(arguments.models, lambda id: measured(id, arguments), told=not arguments.json)
    if arguments.json:
        print(json.dumps(rows))
        return
    publish("static-int8", [*sections(rows, arguments.sides), f"{machine()}."], arguments.write)


if __name__ == "__main__":
    main()
