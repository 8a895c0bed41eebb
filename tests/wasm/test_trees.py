"""Tree ensembles as a routine, by NumPy and spelled in gathers, against walks from node to node in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sardonyx.primitives.binding import constant
from sardonyx.primitives.ensemble import COMBINE, TREE_ENSEMBLE
from sardonyx_wasm.routines.trees import RECORD, SIDE_BY_SIDE
from tests.support import require
from tests.wasm.compiled import run

Array = np.ndarray[Any, Any]
FEATURES = 5

require("wasm")


def forest(trees: int, depth: int, stride: int, dtype: str) -> dict[str, Any]:
    """Trees of uneven depth, one behind the other, then the leaf of no tree."""
    rng = np.random.default_rng(trees + depth)
    feature, split, following = [], [], []

    def grow(left: int) -> int:
        number = len(feature)
        feature.append(int(rng.integers(FEATURES)))
        split.append(float(rng.normal()))
        following.append([number] * stride)
        if left and (left == depth or rng.random() < 0.8):
            branches = [grow(left - 1), grow(left - 1)]
            following[number] = [*branches, branches[int(rng.integers(2))]][:stride]
        return number

    roots = [grow(depth) for _ in range(trees)]
    grow(0)
    tables = np.array(feature, "i4"), np.array(split, dtype), np.array(following, "i4").reshape(-1)
    return {"roots": np.array(roots, "i4"), "tables": tables, "depth": depth, "stride": stride}


def walked(x: Array, made: dict[str, Any], votes: Array, targets: int, function: str) -> Array:
    feature, split, following = made["tables"]
    found = []
    for row in x:
        ends = []
        for node in made["roots"].tolist():
            for _ in range(made["depth"]):
                value = row[feature[node]]
                answer = 2 if made["stride"] == 3 and value != value else int(value <= split[node])
                node = following[node * made["stride"] + answer]
            ends.append(votes[node].astype(np.float64))
        given = np.array(ends) if votes.ndim > 1 else np.array(ends).reshape(targets, -1).T
        found.append(COMBINE[function].reduce(given, 0))
    return np.array(found).reshape(-1, targets)


def by_routine(
    x: Array, made: dict[str, Any], votes: Array, targets: int, function: str, pieces: int, open_sizes: bool
) -> Array:
    feature, split, following = made["tables"]
    stride = made["stride"]
    columns = [feature[:, None] * x.itemsize, following.reshape(-1, stride) * RECORD]
    inside = x.dtype == np.float32 and stride == 2
    columns = [split.view("i4")[:, None], *columns] if inside else [*columns, np.zeros((len(split), 3 - stride), "i4")]
    roots = np.append(made["roots"] * RECORD, np.zeros(SIDE_BY_SIDE, "i4")).astype("i4")
    arrays = [x, roots, np.concatenate(columns, 1).astype("i4"), split[:0] if inside else split, votes]
    params = {"targets": targets, "function": function, "depth": made["depth"], "absent": stride == 3}
    return run("walk_trees", arrays, [(str(x.dtype), (len(x), targets))], params, pieces, open_sizes)[0]


@pytest.mark.parametrize("function", ["sum", "min", "max"])
@pytest.mark.parametrize("stride", [2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_walks(dtype: str, stride: int, function: str) -> None:
    rng = np.random.default_rng(0)
    cases = [(1, 0, 1, False), (1, 3, 1, False), (9, 6, 1, False), (12, 4, 3, False), (7, 9, 2, True), (5, 5, 6, True)]
    for rows in (0, 1, 3, SIDE_BY_SIDE, 2 * SIDE_BY_SIDE + 3):
        x = rng.normal(size=(rows, FEATURES)).astype(dtype)
        x[rng.random(x.shape) < 0.2] = np.nan
        for trees, depth, targets, dense in cases:
            made = forest(trees, depth, stride, dtype)
            nodes = len(made["tables"][0])
            votes = rng.normal(size=(nodes, targets) if dense else nodes).astype(dtype)
            wanted = walked(x, made, votes, targets, function)
            params = {"depth": depth, "targets": targets, "function": function}
            operands = [x, made["roots"], *made["tables"], votes]
            assert_allclose(TREE_ENSEMBLE.numpy(*operands, **params)[0], wanted, 1e-5, 1e-5)
            (spelled,) = TREE_ENSEMBLE.expand(*map(constant, operands), **params)
            assert_allclose(spelled.value, wanted, 1e-5, 1e-5)
            found = by_routine(x, made, votes, targets, function, 1, False)
            assert_allclose(found, wanted, 1e-5, 1e-5)
            if rows:
                assert_array_equal(by_routine(x, made, votes, targets, function, 3, False), found)


def test_blocks_of_rows() -> None:
    """More rows than follow a tree together."""
    made = forest(3, 4, 2, "float32")
    x = np.random.default_rng(1).normal(size=(4000, FEATURES)).astype("f4")
    votes = np.random.default_rng(2).normal(size=len(made["tables"][0])).astype("f4")
    found = by_routine(x, made, votes, 1, "sum", 1, False)
    assert_allclose(found, walked(x, made, votes, 1, "sum"), 1e-5, 1e-5)
    assert_array_equal(by_routine(x, made, votes, 1, "sum", 7, False), found)
