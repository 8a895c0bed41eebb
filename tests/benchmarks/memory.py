"""Memory of a session beside the size of its weights: a perceptron of 300 MB, created and run once on every side.

    python -m tests.benchmarks.memory [--write] [--layers 18]
    python -m tests.benchmarks.memory --models all [--write]
    python -m tests.benchmarks.memory --models board [--write]

Each side is a fresh process. Counted is the most memory that it ever had resident, without what it had after its
imports. The file is made on the fly; its weights begin at addresses that are no multiples of four. With --models
(IDs, or all) it is models of the list, on WASM beside onnxruntime, the library with them: the first time, when they are
compiled, and later. Those of `board` are four that fit a small board, on NumPy, too.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from tests import models
from tests.benchmarks import fresh, peak
from tests.benchmarks.fresh import ONNXRUNTIME, SIDES
from tests.benchmarks.peak import resident
from tests.benchmarks.report import machine, publish, table

WIDTH, ROWS = 2048, 16
MIB = 1 << 20
BOARD = ("silero-vad", "ppocr5-cls", "minilm-l3", "light-squeezenet")


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


def row(id: str, sides: Sequence[str]) -> list[str]:
    """Return a line of the table of models; what does not run here leaves its places empty."""
    file = models.path(id)
    with tempfile.TemporaryDirectory() as folder:
        feeds = Path(folder) / "feeds.npz"
        np.savez(feeds, allow_pickle=True, **models.inputs(id))
        theirs, *ours = [_peak(side, file, feeds) for side in (ONNXRUNTIME, *(side for side in sides for _ in "ab"))]
    ratios = [size / theirs if size and theirs else None for size in ours]
    sizes = ["" if size is None else f"{size:.0f}" for size in (theirs, *ours)]
    return [id, *sizes, *("" if ratio is None else f"{ratio:.2f}" for ratio in ratios)]


def head(sides: Sequence[str]) -> list[str]:
    """Return the titles of the table of models."""
    sizes = [title for side in sides for title in (f"{side}, MiB, first time", "later")]
    return ["model", "onnxruntime, MiB", *sizes, *(title.replace(", MiB", " ratio") for title in sizes)]


def _peak(side: str, file: Path, feeds: Path) -> float | None:
    """MiB on one side, whose cache lies beside the feeds; None where its library is not installed."""
    if side == ONNXRUNTIME and find_spec(ONNXRUNTIME) is None:
        return None
    cache = {"XDG_CACHE_HOME": str(feeds.parent / side)}
    found: float = fresh.call(peak.__name__, "measure", side, str(file), str(feeds), environment=cache)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table into README.md")
    parser.add_argument("--layers", type=int, default=18, help="of 16 MiB each (default %(default)s)")
    parser.add_argument("--models", metavar="ID,...", help="measure these of the list instead, all, or board")
    arguments = parser.parse_args()
    fresh.quiet()
    if arguments.models:
        board = arguments.models == "board"
        sets = {"all": models.SHORT, "board": list(BOARD)}
        ids, sides = sets.get(arguments.models) or arguments.models.split(","), ["NumPy"] * board + ["WASM"]
        lines = table(head(sides), [row(id, sides) for id in ids])
        publish("memory-board" if board else "memory-models", lines, arguments.write)
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
