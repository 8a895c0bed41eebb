"""A step of training in Chromium, beside TensorFlow.js: forward, gradients and Adam of one network.

    python -m tests.benchmarks.training_page [--batch 8] [--rounds 7] [--targets wasm,webgpu] [--write]

The network is two convolutions with ReLU and pooling, and a layer: digits of 28 x 28 (8 and 16 filters of 5 x 5) and
pictures of 32 x 32 in colours (32 and 64 of 3 x 3). TensorFlow.js has its backend `cpu` beside our WASM, since its WASM
has no gradients of convolutions, and `webgpu` beside ours, both on SwiftShader. Both sides have the same parameters,
batch and losses; one thread, in turns, medians. Peaks are of a page for one side alone: what the browser's processes
held at most while the page was opened and made so many steps, beyond what they held before.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from sardonyx.plans.plan_cache import Source
from sardonyx.training.bundling import training_bundle
from tests.benchmarks.report import processor, publish, table
from tests.benchmarks.table import number
from tests.support.browser import Chromium, open_chromium
from tests.support.npm import PACKAGES, package
from tests.support.processes import watched
from tests.web.pages import RUNTIME

NETWORKS = {"digits, 28 x 28": ((1, 28, 28), 5, (8, 16)), "pictures, 32 x 32": ((3, 32, 32), 3, (32, 64))}
"""Sizes of the input, side of the filters, and how many there are."""
THEIRS = {"wasm": "cpu", "webgpu": "webgpu"}
CLASSES = 10
RATE = 0.001
FIRST, LATER = 1e-4, 0.02
"""How far losses may be apart: of the first step, and of the last, since epsilon stands elsewhere in their Adam."""


def shapes(dims: tuple[int, int, int], side: int, filters: tuple[int, int]) -> dict[str, tuple[int, ...]]:
    channels, height, width = dims
    first, second = filters
    return {
        "c1": (first, channels, side, side),
        "d1": (first,),
        "c2": (second, first, side, side),
        "d2": (second,),
        "w": (second * (height // 4) * (width // 4), CLASSES),
        "b": (CLASSES,),
    }


def network(parameters: dict[str, np.ndarray], dims: tuple[int, int, int], side: int) -> bytes:
    pads = [side // 2] * 4
    pool: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("Conv", ["image", "c1", "d1"], ["1"], pads=pads),
        helper.make_node("Relu", ["1"], ["2"]),
        helper.make_node("MaxPool", ["2"], ["3"], **pool),
        helper.make_node("Conv", ["3", "c2", "d2"], ["4"], pads=pads),
        helper.make_node("Relu", ["4"], ["5"]),
        helper.make_node("MaxPool", ["5"], ["6"], **pool),
        helper.make_node("Flatten", ["6"], ["7"]),
        helper.make_node("Gemm", ["7", "w", "b"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", *dims])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", CLASSES])],
        [numpy_helper.from_array(array, name) for name, array in parameters.items()],
    )
    return bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )


def measure(chromium: Chromium, name: str, target: str, batch: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Of each side milliseconds of a step and bytes at most. Raises AssertionError where they do not do the same."""
    dims, side, filters = NETWORKS[name]
    random = np.random.default_rng(0)
    sizes = shapes(dims, side, filters)
    parameters = {
        name: (random.uniform(-1, 1, shape) / np.sqrt(np.prod(shape[1:]) if len(shape) > 2 else shape[0])).astype("f4")
        for name, shape in sizes.items()
    }
    images = random.uniform(size=(batch, *dims)).astype("f4")
    bundle = b"".join(training_bundle(Source(network(parameters, dims, side)), [target], compress=True))
    arrays = {"images": images, "labels": random.integers(0, CLASSES, batch), **parameters}
    chromium.site.data.update({name: array.tobytes() for name, array in arrays.items()}, **{"model.sdx": bundle})
    asked: dict[str, Any] = {"target": target, "batch": batch, "rounds": rounds, "rate": RATE, "dims": list(dims)}
    asked["shapes"] = {name: [*shape] for name, shape in sizes.items()}

    def steps(*sides: str) -> Any:
        return chromium.call("/benchmarks/training_page.mjs", {**asked, "sides": sides}, 600)

    told = steps("ours", "theirs")
    ours, theirs = told["losses"]["ours"], told["losses"]["theirs"]
    np.testing.assert_allclose(ours[0], theirs[0], FIRST)
    np.testing.assert_allclose(ours[-1], theirs[-1], LATER)
    assert ours[-1] < ours[0]
    found = {}
    for side, times in told["times"].items():
        with watched() as looks:
            steps(side)
        found[side] = statistics.median(times), float(max(looks) - looks[0])
    return found


def rendered(rows: dict[tuple[str, str], dict[str, tuple[float, float]]]) -> list[str]:
    lines = []
    for (name, target), row in rows.items():
        cells = [f"{name}, {target} against {THEIRS[target]}"]
        for theirs, ours, scale in zip(row["theirs"], row["ours"], (1, 1 << 20), strict=True):
            cells += [number(theirs / scale), number(ours / scale), number(ours / theirs)]
        lines.append(cells)
    head = ["a step"]
    for figure, unit in (("", "ms"), ("peak: ", "MiB")):
        head += [f"{figure}TensorFlow.js, {unit}", f"Sardonyx, {unit}", "ratio"]
    return table(head, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=8, help="examples in a step (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each (default %(default)s)")
    parser.add_argument("--targets", default="wasm,webgpu", help="where it runs (default %(default)s)")
    parser.add_argument("--write", action="store_true", help="write the table into README.md")
    arguments = parser.parse_args()
    folders = {
        "benchmarks": Path(__file__).parent,
        "sardonyx": RUNTIME,
        "tfjs": package("@tensorflow/tfjs") / "dist",
        "webgpu": package("@tensorflow/tfjs-backend-webgpu") / "dist",
    }
    with open_chromium(folders) as chromium:
        rows = {
            (name, target): measure(chromium, name, target, arguments.batch, arguments.rounds)
            for target in arguments.targets.split(",")
            for name in NETWORKS
        }
        versions = f"Chromium {chromium.version}, TensorFlow.js {PACKAGES['@tensorflow/tfjs'][0]}"
    publish(
        "training-page",
        [*rendered(rows), "", f"Batches of {arguments.batch}. {processor()}; {versions}."],
        arguments.write,
    )


if __name__ == "__main__":
    main()
