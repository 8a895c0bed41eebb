"""Memory of a session beside the size of its weights: a perceptron of 300 MB, created and run once on every side.

    python -m tests.benchmarks.memory [--write] [--layers 18]
    python -m tests.benchmarks.memory --models all [--write]

Each side is a fresh process. Counted is the most memory that it ever had resident, without what it had after its
imports. The file is made on the fly; its weights begin at addresses that are no multiples of four. With --models
(IDs, or all) it is models of the list, on WASM beside onnxruntime, the library with them: the first time, when they are
compiled, and later.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from tests import models
from tests.benchmarks import fresh, peak
from tests.benchmarks.fresh import ONNXRUNTIME, SIDES
from tests.benchmarks.peak import resident
from tests.benchmarks.report import machine, publish, table

WIDTH, ROWS = 2048, 16
MIB = 1 << 20


def write(path: Path, layers: int) -> int:
    """Write a model of `layers` times MatMul, Add and Relu, and return the bytes of its weights."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    nodes, weights, x = [], [], "x"
    for layer in range(layers):
        names = [f"{part}{layer}" for part in ("weight", "bias", "product", "sum", "result")]
        deviation = (2 / WIDTH) ** 0.5
        weights.append(numpy_helper.from_array(rng.normal(0, deviation, (WIDTH, WIDTH)).astype(np.float32), names[0]))
        weights.append(numpy_helper.from_array(rng.normal(0, 0.1, WIDTH).astype(np.float32), names[1]))
        nodes.append(helper.make_node("MatMul", [x, names[0]], [names[2]]))
        nodes.append(helper.make_node("Add", [names[2], names[1]], [names[3]]))
        nodes.append(helper.make_node("Relu", [names[3]], [x := names[4]]))
    given, made = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", WIDTH]) for name in ("x", x))
    graph = helper.make_graph(nodes, "perceptron", [given], [made], weights)
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
    assert {data.index(weight.raw_data[:64]) % 4 for weight in weights} - {0}, "all weights are aligned"
    path.write_bytes(data)
    return sum(len(weight.raw_data) for weight in weights)


def measure(path: str, side: str) -> dict[str, float]:
    """Return MiB that creating a session added to the process at most, and that running it once did."""
    fresh.load(side)
    before = resident("VmRSS")
    session = fresh.session(side, path)
    created = resident("VmHWM")
    session.run(None, {"x": np.ones((ROWS, WIDTH), np.float32)})
    return {"create": created - before, "run": resident("VmHWM") - before}


def row(id: str) -> list[str]:
    """Return a line of the table of models."""
    file = models.path(id)
    with tempfile.TemporaryDirectory() as folder:
        feeds = Path(folder) / "feeds.npz"
        np.savez(feeds, allow_pickle=True, **models.inputs(id))
        first = {"XDG_CACHE_HOME": folder}
        theirs = fresh.call(peak.__name__, "measure", ONNXRUNTIME, str(file), str(feeds), environment=first)
        ours = [fresh.call(peak.__name__, "measure", "WASM", str(file), str(feeds), environment=first) for _ in "ab"]
    return [id, f"{theirs:.0f}", *(f"{size:.0f}" for size in ours), *(f"{size / theirs:.2f}" for size in ours)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table into README.md")
    parser.add_argument("--layers", type=int, default=18, help="of 16 MiB each (default %(default)s)")
    parser.add_argument("--models", metavar="ID,...", help="measure these of the list instead, or all")
    arguments = parser.parse_args()
    fresh.quiet()
    if arguments.models:
        ids = [*models.MODELS] if arguments.models == "all" else arguments.models.split(",")
        head = ["model", "onnxruntime, MiB", "WASM, MiB, first time", "later", "ratio, first time", "later"]
        publish("memory-models", table(head, [row(id) for id in ids]), arguments.write)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "perceptron.onnx"
        weights = write(path, arguments.layers) / MIB
        found = {side: fresh.call(__spec__.name, "measure", str(path), side) for side in SIDES}
    rows = [
        [side, *(f"{part[key]:.0f}" for key in ("create", "run")), f"{part['run'] / weights:.2f}"]
        for side, part in found.items()
    ]
    lines = table([f"weights of {weights:.0f} MiB", "created, MiB", "run, MiB", "of the weights"], rows)
    publish("memory", [*lines, "", f"{machine()}."], arguments.write)


if __name__ == "__main__":
    main()
