"""A language model in a page: transformers.js, unmodified, on Sardonyx and on onnxruntime-web.

    python -m tests.benchmarks.generation [--device wasm,webgpu] [--threads 1,2] [--tokens N] [--rounds 3] [--write]

SmolLM2-135M with weights of 4 bits answers a prompt of 20 tokens in Chromium, its cache going through JavaScript on
WASM and staying on the GPU on WebGPU, which SwiftShader plays. Each round has pages of its own, the sides in turns, and
figures are medians; 24 tokens are generated, or 4 on WebGPU, where onnxruntime-web takes 8 s for each. Both sides must
give the same text. The model's dimensions have the names that transformers.js knows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from sardonyx.api.bundling import bundle_of
from sardonyx.plans.plan_cache import Source
from tests.benchmarks.report import processor, publish, table
from tests.benchmarks.turns import turns
from tests.models import path
from tests.support.browser import Chromium, open_chromium
from tests.support.npm import PACKAGES, package
from tests.support.smollm2 import FILES, WORDS
from tests.web.pages import RUNTIME

OURS, THEIRS = "Sardonyx", "onnxruntime-web"
NAMES = {"B": "batch_size", "S": "sequence_length", "P": "past_sequence_length", "T": "total_sequence_length"}
SIZES: dict[str, int | str] = {
    "batch_size": 1,
    "sequence_length": "?16",
    "past_sequence_length": "?16",
    "total_sequence_length": "past_sequence_length+sequence_length",
}
TOKENS = {"wasm": 24, "webgpu": 4}
PROMPT = " ".join(WORDS[500 + 37 * k] for k in range(20))
PAGE = """<!doctype html><script type="importmap">{"imports": %s}</script>
<script type="module">globalThis.bench = await import("/benchmarks/generation.mjs");</script>"""
WEB = "/onnxruntime-web/dist/"
IMPORTS = {
    OURS: {"onnxruntime-common": "/common/dist/esm/index.js", "onnxruntime-web/webgpu": "/sardonyx/ort/index.js"},
    THEIRS: dict.fromkeys(("onnxruntime-common", "onnxruntime-web/webgpu"), f"{WEB}ort.webgpu.bundle.min.mjs"),
}


def renamed(device: str) -> bytes:
    """Return the model with dimensions that transformers.js knows by their names.

    On WebGPU its table of tokens has float32: onnxruntime-web reads half of it by code that SwiftShader cannot run.
    """
    model = onnx.load(path("smollm2-int4-contrib-decode"))
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in NAMES:
                dim.dim_param = NAMES[dim.dim_param]
    for tensor in model.graph.initializer:
        if device == "webgpu" and tensor.data_type == onnx.TensorProto.FLOAT16:
            array = onnx.numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    return bytes(model.SerializeToString())


@contextmanager
def opened() -> Iterator[tuple[Chromium, dict[tuple[str, str], bytes | Path]]]:
    """Give a browser, and what each side loads as the model on each device."""
    with tempfile.TemporaryDirectory() as scratch:
        files: dict[tuple[str, str], bytes | Path] = {}
        for device in ("wasm", "webgpu"):
            files[THEIRS, device] = model = Path(scratch, f"{device}.onnx")
            model.write_bytes(renamed(device))
            bundle = Path(scratch, f"{device}.sdx")
            bundle.write_bytes(b"".join(bundle_of(Source(model), [device], sizes=SIZES, compress=True)))
            files[OURS, device] = bundle
        folders = {
            "sardonyx": RUNTIME,
            "benchmarks": Path(__file__).parent,
            "common": package("onnxruntime-common"),
            "transformers": package("@huggingface/transformers"),
            "onnxruntime-web": package("onnxruntime-web"),
        }
        with open_chromium(folders) as chromium:
            for side, imports in IMPORTS.items():
                known = {**imports, "@huggingface/transformers": "/transformers/dist/transformers.web.js"}
                chromium.site.data[f"{side}.html"] = (PAGE % json.dumps(known)).encode()
            yield chromium, files


def measure(chromium: Chromium, side: str, model: bytes | Path, *given: Any) -> dict[str, Any]:
    site = chromium.site
    site.data["smollm2/onnx/model_q4.onnx"] = model
    for name, told in FILES.items():
        site.data[f"smollm2/{name}"] = json.dumps(told).encode()
    page = chromium.browser.new_page()
    page.set_default_timeout(600_000)
    try:
        page.goto(f"{site.address}/data/{side}.html")
        page.wait_for_function("globalThis.bench")
        paths = WEB if side == THEIRS else None
        found: dict[str, Any] = page.evaluate("(given) => bench.generate(...given)", [PROMPT, *given, paths])
        return found
    finally:
        page.close()


def rows(devices: list[str], threads: list[int], tokens: int | None, rounds: int) -> Iterator[list[str]]:
    """Rows of the table."""
    with opened() as (chromium, files):
        for device in devices:
            for count in threads if device == "wasm" else [1]:
                found: dict[str, list[dict[str, Any]]] = {OURS: [], THEIRS: []}
                for k in range(rounds):
                    for side in turns(found, k):
                        found[side].append(
                            measure(chromium, side, files[side, device], tokens or TOKENS[device], device, count)
                        )
                texts = {each["text"] for known in found.values() for each in known}
                label = f"{device}, {count} threads" if device == "wasm" else device
                cells = [label if len(texts) == 1 else f"{label}: the texts differ"]
                for figure in ("first", "next"):
                    ours, theirs = (statistics.median(each[figure] for each in found[side]) for side in (OURS, THEIRS))
                    cells += [f"{theirs:.0f}", f"{ours:.1f}", f"{ours / theirs:.2f}"]
                print(" | ".join(cells), flush=True)
                yield cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="wasm", metavar="NAME,...", help="wasm, webgpu or both")
    parser.add_argument("--threads", default="1,2", metavar="N,...")
    parser.add_argument("--tokens", type=int, help="how many are generated (default 24, or 4 on WebGPU)")
    parser.add_argument("--rounds", type=int, default=3, help="pages of each side (default %(default)s)")
    parser.add_argument("--write", action="store_true", help="write the table into README.md")
    arguments = parser.parse_args()
    head = ["device"]
    for figure in ("first token", "a token more"):
        head += [f"{figure}: {THEIRS}, ms", f"{OURS}, ms", "ratio"]
    threads = [int(count) for count in arguments.threads.split(",")]
    found = [*rows(arguments.device.split(","), threads, arguments.tokens, arguments.rounds)]
    told = ", ".join(f"{name} {PACKAGES[name][0]}" for name in ("@huggingface/transformers", "onnxruntime-web"))
    publish("generation", [*table(head, found), "", f"{processor()}; {told}."], arguments.write)


if __name__ == "__main__":
    main()
