"""Loading and running large tree ensembles against onnxruntime, interleaved: `python -m tests.benchmarks.trees`.

A classifier of random trees is written to a folder: --megabytes says how large the file that is loaded is, --trees,
--depth and --rows what is run. Printed are medians of --rounds, in seconds of one
thread's processor time, and their ratio.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

import sardonyx
from tests.benchmarks.turns import turns

FEATURES = 30
CLASSES = 3


def attributes(trees: int, depth: int, seed: int = 0) -> dict[str, Any]:
    """The attributes of a TreeEnsembleClassifier with full trees, each of which votes for one class."""
    rng = np.random.default_rng(seed)
    inner, leaves = (1 << depth) - 1, 1 << depth
    size = inner + leaves
    numbers = np.arange(size)
    is_leaf = numbers >= inner
    count = trees * size
    tree = np.repeat(np.arange(trees), size)
    voters = np.tile(is_leaf, trees)
    return {
        "nodes_treeids": tree.tolist(),
        "nodes_nodeids": np.tile(numbers, trees).tolist(),
        "nodes_featureids": np.where(voters, 0, rng.integers(0, FEATURES, count)).tolist(),
        "nodes_values": np.where(voters, 0, rng.normal(size=count) * 0.7).astype(np.float32).tolist(),
        "nodes_hitrates": [1.0] * count,
        "nodes_modes": ["LEAF" if leaf else "BRANCH_LEQ" for leaf in is_leaf.tolist()] * trees,
        "nodes_truenodeids": np.tile(np.where(is_leaf, 0, 2 * numbers + 1), trees).tolist(),
        "nodes_falsenodeids": np.tile(np.where(is_leaf, 0, 2 * numbers + 2), trees).tolist(),
        "nodes_missing_value_tracks_true": [0] * count,
        "class_treeids": tree[voters].tolist(),
        "class_nodeids": np.tile(numbers[is_leaf], trees).tolist(),
        "class_ids": (tree[voters] % CLASSES).tolist(),
        "class_weights": rng.normal(size=trees * leaves).astype(np.float32).tolist(),
        "classlabels_int64s": list(range(CLASSES)),
        "post_transform": "SOFTMAX",
    }


def write(path: Path, trees: int, depth: int) -> None:
    node = helper.make_node(
        "TreeEnsembleClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml", **attributes(trees, depth)
    )
    given = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["rows", FEATURES])]
    made = [
        helper.make_tensor_value_info("label", onnx.TensorProto.INT64, ["rows"]),
        helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, ["rows", CLASSES]),
    ]
    graph = helper.make_graph([node], "trees", given, made)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
    path.write_bytes(helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString())


def theirs(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def ours(path: Path, provider: str) -> Any:
    options = sardonyx.SessionOptions()
    options.intra_op_num_threads = 1
    return sardonyx.InferenceSession(str(path), options, providers=[provider])


def compare(name: str, rounds: int, one: Callable[[], Any], other: Callable[[], Any]) -> None:
    """Print the medians of both, measured in turns, and their ratio."""
    times: list[list[float]] = [[], []]
    for k in range(rounds):
        for call, known in turns(zip((one, other), times, strict=True), k):
            start = time.process_time()
            result = call()
            known.append(time.process_time() - start)
            del result
    sardonyx_time, onnxruntime_time = map(statistics.median, times)
    ratio = sardonyx_time / onnxruntime_time
    print(f"{name:40} sardonyx {sardonyx_time:8.3f} s   onnxruntime {onnxruntime_time:8.3f} s   ratio {ratio:5.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--provider", default="NumpyExecutionProvider")
    parser.add_argument("--megabytes", type=int, default=190)
    parser.add_argument("--trees", type=int, default=1000)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["load", "run"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trees.onnx"
        if options.only != "run":
            write(path, 10, 12)
            write(path, max(1, round(10e6 * options.megabytes / path.stat().st_size)), 12)
            name = f"load {path.stat().st_size / 1e6:.0f} MB"
            compare(name, options.rounds, lambda: ours(path, options.provider), lambda: theirs(path))
        if options.only != "load":
            write(path, options.trees, options.depth)
            x = np.random.default_rng(1).normal(size=(options.rows, FEATURES)).astype(np.float32)
            one, other = ours(path, options.provider), theirs(path)
            (label, scores), wanted = one.run(None, {"x": x}), other.run(None, {"x": x})
            np.testing.assert_allclose(scores, wanted[1], rtol=1e-4, atol=1e-5)
            assert np.mean(label == wanted[0]) > 0.999
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            name = f"{options.rows} rows, {options.trees} trees of depth {options.depth}"
            compare(name, options.rounds, lambda: one.run(None, {"x": x}), lambda: other.run(None, {"x": x}))
            print(f"most memory of the process: {before / 1024:.0f} MB")


if __name__ == "__main__":
    main()
