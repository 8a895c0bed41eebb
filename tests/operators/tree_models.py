"""Random tree ensembles for tests, in the forms of all operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import sardonyx

ORDERED = ("BRANCH_LEQ",)
ALL_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def nodes(
    rng: np.random.Generator,
    trees: int = 5,
    depth: int = 4,
    features: int = 4,
    modes: Sequence[str] = ORDERED,
    missing: bool = False,
    whole: bool = False,
) -> dict[str, list[Any]]:
    """The lists `nodes_*` of trees that branch at random, numbered in the order of a walk in depth."""
    lists: dict[str, list[Any]] = {
        name: []
        for name in (
            *("treeids", "nodeids", "featureids", "values", "modes"),
            *("truenodeids", "falsenodeids", "missing_value_tracks_true"),
        )
    }

    def grow(tree: int, number: int, level: int) -> int:
        """Adds a subtree whose root has this number; gives the next free number."""
        place = len(lists["modes"])
        leaf = level == depth or (level > 0 and rng.random() < 0.2)
        split = float(rng.integers(-2, 3)) if whole or rng.random() < 0.2 else float(np.float32(rng.normal()))
        for name, value in (
            ("treeids", tree),
            ("nodeids", number),
            ("featureids", 0 if leaf else int(rng.integers(features))),
            ("values", 0.0 if leaf else split),
            ("modes", "LEAF" if leaf else str(rng.choice(modes))),
            ("missing_value_tracks_true", int(missing and not leaf and rng.random() < 0.5)),
            ("truenodeids", 0),
            ("falsenodeids", 0),
        ):
            lists[name].append(value)
        if leaf:
            return number + 1
        lists["truenodeids"][place] = number + 1
        lists["falsenodeids"][place] = between = grow(tree, number + 1, level + 1)
        return grow(tree, between, level + 1)

    for tree in range(trees):
        grow(tree, 0, 0)
    if not missing:
        del lists["missing_value_tracks_true"]
    return {f"nodes_{name}": values for name, values in lists.items()}


def votes(
    rng: np.random.Generator, lists: dict[str, list[Any]], prefix: str, targets: Sequence[int], chance: float = 1.0
) -> dict[str, list[Any]]:
    """The lists of votes: each leaf votes for each target with a chance, and for one at least."""
    found: dict[str, list[Any]] = {f"{prefix}_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree, node, mode in zip(lists["nodes_treeids"], lists["nodes_nodeids"], lists["nodes_modes"], strict=True):
        if mode != "LEAF":
            continue
        chosen = [target for target in targets if rng.random() < chance] or [int(rng.choice(targets))]
        for target in chosen:
            for name, value in (
                ("treeids", tree),
                ("nodeids", node),
                ("ids", target),
                ("weights", float(np.float32(rng.normal()))),
            ):
                found[f"{prefix}_{name}"].append(value)
    return found


def onnxruntime_outputs(model: bytes, x: np.ndarray) -> list[Any]:
    """What onnxruntime makes of x."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return list(session.run(None, {"x": x}))


def assert_like_onnxruntime(model: bytes, x: np.ndarray, provider: str, tolerance: float = 2e-5) -> None:
    """Assert types, shapes and labels, and scores within a tolerance."""
    wanted = onnxruntime_outputs(model, x)
    found = sardonyx.InferenceSession(model, providers=[provider]).run(None, {"x": x})
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(one, other)


def model(op_type: str, outputs: int, dtype: Any, version: int = 3, opset: int = 21, **attributes: Any) -> bytes:
    """A model of one node of ai.onnx.ml with one input of unknown sizes."""
    names = [f"y{k}" for k in range(outputs)]
    plain = {
        name: numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for name, value in attributes.items()
        if not isinstance(value, list) or value
    }
    node = helper.make_node(op_type, ["x"], names, domain="ai.onnx.ml", **plain)
    given = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [None, None])
    graph = helper.make_graph([node], "trees", [given], [onnx.ValueInfoProto(name=name) for name in names])
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()


def numbered(
    rng: np.random.Generator, lists: dict[str, list[Any]], given: dict[str, list[Any]], dtype: Any, members: int = 0
) -> dict[str, Any]:
    """The attributes of TreeEnsemble for such trees, with one vote for each leaf.

    With `members` comparisons for equality become sets of up to so many members.
    """
    codes = {name: number for number, name in enumerate((*ALL_MODES, "BRANCH_MEMBER"))}
    modes = lists["nodes_modes"]
    inner = [k for k, mode in enumerate(modes) if mode != "LEAF"]
    leaves = [k for k, mode in enumerate(modes) if mode == "LEAF"]
    at = {k: place for group in (inner, leaves) for place, k in enumerate(group)}
    names = list(zip(lists["nodes_treeids"], lists["nodes_nodeids"], strict=True))
    where = {name: k for k, name in enumerate(names)}
    voters = zip(given["target_treeids"], given["target_nodeids"], strict=True)
    cast = dict(zip(voters, zip(given["target_ids"], given["target_weights"], strict=True), strict=True))
    attributes: dict[str, Any] = {
        "tree_roots": [at[where[tree, 0]] for tree in sorted(set(lists["nodes_treeids"]))],
        "nodes_featureids": [lists["nodes_featureids"][k] for k in inner],
        "nodes_splits": np.array([lists["nodes_values"][k] for k in inner], dtype),
        "leaf_targetids": [cast[names[k]][0] for k in leaves],
        "leaf_weights": np.array([cast[names[k]][1] for k in leaves], dtype),
    }
    if "nodes_missing_value_tracks_true" in lists:
        attributes["nodes_missing_value_tracks_true"] = [lists["nodes_missing_value_tracks_true"][k] for k in inner]
    for way in ("true", "false"):
        to = [where[names[k][0], lists[f"nodes_{way}nodeids"][k]] for k in inner]
        attributes[f"nodes_{way}nodeids"] = [at[k] for k in to]
        attributes[f"nodes_{way}leafs"] = [int(modes[k] == "LEAF") for k in to]
    chosen = [codes[modes[k]] for k in inner]
    if members:
        chosen = [codes["BRANCH_MEMBER"] if mode == codes["BRANCH_EQ"] else mode for mode in chosen]
        sets = [rng.permutation(members * 2)[: rng.integers(1, members + 1)] - 2 for mode in chosen if mode == 6]
        attributes["membership_values"] = np.concatenate([np.append(one, np.nan) for one in sets]).astype(dtype)
    attributes["nodes_modes"] = np.array(chosen, np.uint8)
    return attributes
