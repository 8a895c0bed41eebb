"""Tree ensembles, a thread for each row and tree, against walks from node to node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.webgpu.nodes import Array, on_device, run

__all__ = ["on_device"]

FEATURES = 5


def forest(trees: int, depth: int, targets: int, rng: np.random.Generator) -> dict[str, Any]:
    """The attributes of TreeEnsembleRegressor for trees of uneven depth."""
    made: dict[str, list[Any]] = {}

    def add(**values: Any) -> None:
        for name, value in values.items():
            made.setdefault(name, []).append(value)

    def grow(tree: int, numbers: list[int], left: int) -> int:
        number = numbers[0]
        numbers[0] += 1
        leaf = left == 0 or (left < depth and rng.random() < 0.2)
        place = len(made.get("nodes_modes", ()))
        add(nodes_treeids=tree, nodes_nodeids=number, nodes_modes="LEAF" if leaf else "BRANCH_LEQ")
        add(nodes_featureids=int(rng.integers(FEATURES)), nodes_values=float(np.float32(rng.normal())))
        add(nodes_truenodeids=0, nodes_falsenodeids=0, nodes_missing_value_tracks_true=int(rng.integers(2)))
        if leaf:
            add(target_treeids=tree, target_nodeids=number, target_ids=int(rng.integers(targets)))
            add(target_weights=float(np.float32(rng.normal())))
        else:
            made["nodes_truenodeids"][place] = grow(tree, numbers, left - 1)
            made["nodes_falsenodeids"][place] = grow(tree, numbers, left - 1)
        return number

    for tree in range(trees):
        grow(tree, [0], depth)
    return made


def walked(x: Array, made: dict[str, Any], targets: int) -> Array:
    places = {key: k for k, key in enumerate(zip(made["nodes_treeids"], made["nodes_nodeids"], strict=True))}
    votes = {
        key: (target, weight)
        for *key_, target, weight in zip(
            made["target_treeids"], made["target_nodeids"], made["target_ids"], made["target_weights"], strict=True
        )
        for key in [tuple(key_)]
    }
    found = np.zeros((len(x), targets))
    for row, line in zip(x, found, strict=True):
        for tree in sorted(set(made["nodes_treeids"])):
            key = tree, 0
            while key not in votes:
                k = places[key]
                value = row[made["nodes_featureids"][k]]
                yes = (
                    bool(made["nodes_missing_value_tracks_true"][k])
                    if np.isnan(value)
                    else value <= made["nodes_values"][k]
                )
                key = tree, made["nodes_truenodeids" if yes else "nodes_falsenodeids"][k]
            line[votes[key][0]] += votes[key][1]
    return found


@pytest.mark.parametrize(("trees", "depth", "targets"), [(1, 1, 1), (30, 6, 1), (30, 6, 3), (5, 12, 2)])
@pytest.mark.parametrize("rows", [0, 1, 65, 500])
def test_trees(trees: int, depth: int, targets: int, rows: int, rng: np.random.Generator) -> None:
    made = forest(trees, depth, targets, rng)
    x = rng.normal(size=(rows, FEATURES)).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    wanted = walked(x, made, targets)
    for open_sizes in (False, True):
        (found,) = run(
            "TreeEnsembleRegressor", x, domain="ai.onnx.ml", open_sizes=open_sizes, n_targets=targets, **made
        )
        assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
