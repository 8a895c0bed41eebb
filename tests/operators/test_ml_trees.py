"""Tree ensembles: random trees against onnxruntime, and trees that are none."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import sardonyx
from sardonyx.ops.ml import tally
from sardonyx.primitives import ensemble, rows
from tests.engine.providers import NUMPY, PROVIDERS, require_provider
from tests.operators.tree_models import ALL_MODES, ORDERED, assert_like_onnxruntime, model, nodes, numbered, votes

LEQ_EQ = ("BRANCH_LEQ", "BRANCH_EQ")


def table(dtype: str, seed: int = 4, count: int = 70, gaps: bool = True) -> np.ndarray:
    """Features [count, 4]: small integers, so that comparisons meet equal numbers, and noise, NaN and infinities."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, size=(count, 4)).astype(dtype)
    if gaps and np.dtype(dtype).kind == "f":
        x = np.where(rng.random(x.shape) < 0.3, rng.normal(size=x.shape), x).astype(dtype)
        x[rng.random(x.shape) < 0.15] = np.nan
        x[0], x[1] = np.inf, -np.inf
    return x


def regressor(lists: dict[str, list[Any]], targets: int, dtype: str = "f4", chance: float = 0.6, **more: Any) -> bytes:
    given = votes(np.random.default_rng(1), lists, "target", list(range(targets)), chance)
    return model("TreeEnsembleRegressor", 1, dtype, n_targets=targets, **lists, **given, **more)


def classifier(lists: dict[str, list[Any]], classes: list[int], sign: int, chance: float, **more: Any) -> bytes:
    """Weights of any sign, or all of one, in which case they are small."""
    given = votes(np.random.default_rng(1), lists, "class", classes, chance)
    if sign:
        given["class_weights"] = [sign * abs(weight) * 0.1 for weight in given["class_weights"]]
    return model("TreeEnsembleClassifier", 2, "f4", **lists, **given, **more)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("missing", [False, True], ids=["plain", "missing"])
@pytest.mark.parametrize("modes", [ORDERED, ALL_MODES, ("BRANCH_GT",), ("BRANCH_LT",), LEQ_EQ], ids=str)
def test_modes(modes: tuple[str, ...], missing: bool, dtype: str, provider: str) -> None:
    require_provider(provider)
    lists = nodes(np.random.default_rng(3), 8, 5, 4, modes, missing, whole=True)
    assert_like_onnxruntime(regressor(lists, 3, dtype), table(dtype), provider)


@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("based", [False, True], ids=["plain", "based"])
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_aggregates(aggregate: str, based: bool, targets: int) -> None:
    lists = nodes(np.random.default_rng(3), 8, 5)
    base = [0.1, 0.2, 0.3][:targets] if based else []
    for chance in (0.0, 0.6, 1.0):
        data = regressor(lists, targets, chance=chance, base_values=base, aggregate_function=aggregate)
        assert_like_onnxruntime(data, table("f4"), NUMPY)


@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("transform", ["LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"])
def test_regressor_transforms(transform: str, targets: int) -> None:
    lists = nodes(np.random.default_rng(3), 8, 5)
    # What remains of onnxruntime's probit near one half is rounding.
    assert_like_onnxruntime(
        regressor(lists, targets, post_transform=transform), table("f4"), NUMPY, 2e-3 if transform == "PROBIT" else 2e-5
    )


TRANSFORMS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("base", [[], [0.25], [0.25, -0.5]], ids=len)
@pytest.mark.parametrize("sign", [0, 1])
@pytest.mark.parametrize("classes", [[0], [1], [0, 1]], ids=str)
def test_two_classes(classes: list[int], sign: int, base: list[float], transform: str) -> None:
    lists = nodes(np.random.default_rng(0))
    # Of rows without votes for the second class, one base value leaves it undefined what its score is.
    for chance in (1.0, 0.5) if len(classes) == 1 or len(base) != 1 else (1.0,):
        data = classifier(
            lists, classes, sign, chance, classlabels_int64s=[5, 7], base_values=base, post_transform=transform
        )
        assert_like_onnxruntime(data, table("f4"), NUMPY)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("base", [[], [0.1, 0.2, -0.3, 0.4]], ids=len)
@pytest.mark.parametrize("sign", [-1, 0, 1])
@pytest.mark.parametrize("classes", [[0, 1, 2, 3], [0, 2]], ids=str)
def test_four_classes(classes: list[int], sign: int, base: list[float], transform: str) -> None:
    lists = nodes(np.random.default_rng(0))
    for chance in (1.0, 0.3):
        data = classifier(
            lists, classes, sign, chance, classlabels_int64s=[5, 7, 8, 2], base_values=base, post_transform=transform
        )
        assert_like_onnxruntime(data, table("f4"), NUMPY)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
def test_classifier_inputs(dtype: str, provider: str) -> None:
    require_provider(provider)
    lists = nodes(np.random.default_rng(3), 8, 5, 4, ALL_MODES, missing=True)
    given = votes(np.random.default_rng(1), lists, "class", [0, 1, 2], 0.4)
    data = model("TreeEnsembleClassifier", 2, dtype, classlabels_int64s=[3, 1, 2], **lists, **given)
    assert_like_onnxruntime(data, table(dtype), provider)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("classes", [[0], [0, 1], [0, 1, 2]], ids=len)
def test_text_labels(classes: list[int], provider: str) -> None:
    require_provider(provider)
    names = ["no", "yes"] if len(classes) < 3 else ["red", "", "grün"]
    data = classifier(nodes(np.random.default_rng(0)), classes, 0, 1.0, classlabels_strings=names)
    assert_like_onnxruntime(data, table("f4"), provider)


def test_one_row() -> None:
    lists = nodes(np.random.default_rng(0))
    data = regressor(lists, 2)
    session = sardonyx.InferenceSession(data, providers=[NUMPY])
    for count in (0, 1, 3):
        x = table("f4", count=max(count, 2))[:count]
        assert session.run(None, {"x": x})[0].shape == (count, 2)


def test_numbers_of_other_precision() -> None:
    """Thresholds that float32 lacks, next to features that it has."""
    lists = nodes(np.random.default_rng(3), 8, 5, 4, ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"))
    rng = np.random.default_rng(2)
    values = np.nextafter(rng.integers(-3, 4, len(lists["nodes_values"])), rng.choice([-9.0, 9.0]))
    given = votes(rng, lists, "target", [0], 1.0)
    weights = np.array(given.pop("target_weights"), np.float64)
    del lists["nodes_values"]
    data = model(
        "TreeEnsembleRegressor",
        1,
        "f8",
        n_targets=1,
        nodes_values_as_tensor=values,
        target_weights_as_tensor=weights,
        base_values_as_tensor=np.array([0.5]),
        **lists,
        **given,
    )
    x = table("f8")
    assert_like_onnxruntime(data, x, NUMPY)
    narrow = data.replace(b"\x08\x0b\x12", b"\x08\x01\x12", 1)  # the type of the input
    (wanted,) = sardonyx.InferenceSession(data, providers=[NUMPY]).run(None, {"x": x.astype("f4").astype("f8")})
    (found,) = sardonyx.InferenceSession(narrow, providers=[NUMPY]).run(None, {"x": x.astype("f4")})
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("modes", "members"),
    [(ORDERED, 0), (ALL_MODES, 0), (LEQ_EQ, 3), (("BRANCH_EQ",), 12), (("BRANCH_GT", "BRANCH_EQ"), 60)],
)
def test_numbered_trees(modes: tuple[str, ...], members: int, provider: str) -> None:
    require_provider(provider)
    for dtype, missing, targets, aggregate in [("f4", False, 1, 1), ("f4", True, 3, 0), ("f8", True, 3, 2)]:
        rng = np.random.default_rng(5)
        lists = nodes(rng, 6, 4, 4, modes, missing, whole=True)
        given = votes(rng, lists, "target", list(range(targets)), 0.0)
        attributes = numbered(rng, lists, given, dtype, members)
        x = rng.integers(-4, max(9, members), size=(70, 4)).astype(dtype)
        x[rng.random(x.shape) < 0.1] = np.nan
        data = model("TreeEnsemble", 1, dtype, 5, aggregate_function=aggregate, n_targets=targets, **attributes)
        assert_like_onnxruntime(data, x, provider)


@pytest.mark.parametrize("transform", range(5))
def test_numbered_transforms(transform: int) -> None:
    rng = np.random.default_rng(5)
    lists = nodes(rng, 6, 4)
    attributes = numbered(rng, lists, votes(rng, lists, "target", [0, 1, 2], 0.0), "f4")
    data = model("TreeEnsemble", 1, "f4", 5, post_transform=transform, n_targets=3, **attributes)
    assert_like_onnxruntime(data, table("f4"), NUMPY, 2e-3 if transform == 4 else 2e-5)


def test_float16() -> None:
    rng = np.random.default_rng(5)
    lists = nodes(rng, 6, 4, whole=True)
    attributes = numbered(rng, lists, votes(rng, lists, "target", [0, 1], 0.0), "f2")
    wide = attributes | {name: attributes[name].astype("f4") for name in ("nodes_splits", "leaf_weights")}
    x = table("f2", gaps=False)
    narrow = model("TreeEnsemble", 1, "f2", 5, n_targets=2, **attributes)
    (found,) = sardonyx.InferenceSession(narrow, providers=[NUMPY]).run(None, {"x": x})
    data = model("TreeEnsemble", 1, "f4", 5, n_targets=2, **wide)
    (wanted,) = sardonyx.InferenceSession(data, providers=[NUMPY]).run(None, {"x": x.astype("f4")})
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("chance", [0.0, 0.6])
def test_layouts_of_votes(chance: float, provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of votes where a table would be too large."""
    require_provider(provider)
    monkeypatch.setattr(tally, "MOST_CELLS", 0)
    lists = nodes(np.random.default_rng(3), 8, 5)
    for aggregate in ("SUM", "MAX"):
        assert_like_onnxruntime(regressor(lists, 3, chance=chance, aggregate_function=aggregate), table("f4"), provider)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_one_target_for_each_tree(provider: str) -> None:
    require_provider(provider)
    lists = nodes(np.random.default_rng(3), 7, 5)
    given = votes(np.random.default_rng(1), lists, "class", [0], 1.0)
    given["class_ids"] = [(3 - tree) % 3 for tree in given["class_treeids"]]
    data = model("TreeEnsembleClassifier", 2, "f4", classlabels_int64s=[3, 1, 2], **lists, **given)
    assert_like_onnxruntime(data, table("f4"), provider)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_blocks_of_rows(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require_provider(provider)
    monkeypatch.setattr(rows, "MOST_ELEMENTS", 100)
    data = classifier(nodes(np.random.default_rng(3), 8, 5), [0, 1, 2], 0, 0.5, classlabels_int64s=[3, 1, 2])
    session = sardonyx.InferenceSession(data, providers=[provider])
    for count in (70, 3, 13, 65):
        x = table("f4", count=count)
        wanted = sardonyx.InferenceSession(data, providers=[NUMPY]).run(None, {"x": x})
        for one, other in zip(session.run(None, {"x": x}), wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)
    assert_like_onnxruntime(data, table("f4"), provider)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_deep_trees(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require_provider(provider)
    monkeypatch.setattr(ensemble, "UNROLLED", 2)
    assert_like_onnxruntime(regressor(nodes(np.random.default_rng(3), 4, 6), 2), table("f4"), provider)


def chain(length: int) -> dict[str, list[Any]]:
    """A tree that goes down on one side only."""
    inner = list(range(length))
    return {
        "nodes_treeids": [0] * (2 * length + 1),
        "nodes_nodeids": list(range(2 * length + 1)),
        "nodes_featureids": [k % 4 for k in inner] + [0] * (length + 1),
        "nodes_values": [float(k) for k in inner] + [0.0] * (length + 1),
        "nodes_modes": ["BRANCH_LEQ"] * length + ["LEAF"] * (length + 1),
        "nodes_truenodeids": [length + k for k in inner] + [0] * (length + 1),
        "nodes_falsenodeids": [k + 1 for k in inner[:-1]] + [2 * length] + [0] * (length + 1),
    }


def test_a_chain() -> None:
    x = np.random.default_rng(0).integers(0, 120, (50, 4)).astype("f4")
    assert_like_onnxruntime(regressor(chain(100), 1), x, NUMPY)


def test_nodes_in_any_order() -> None:
    """Roots come first, as onnxruntime takes what it meets first for one; else ids and order are free."""
    lists = nodes(np.random.default_rng(3), 5, 4)
    names = list(zip(lists["nodes_treeids"], lists["nodes_nodeids"], strict=True))
    order = sorted(range(len(names)), key=lambda k: (names[k][0], names[k][1] > 0, hash((7, *names[k]))))
    shuffled = {name: [values[k] for k in order] for name, values in lists.items()}
    given = votes(np.random.default_rng(1), lists, "target", [0, 1], 0.5)
    turned = {name: values[::-1] for name, values in given.items()}
    plain = model("TreeEnsembleRegressor", 1, "f4", n_targets=2, **lists, **given)
    other = model("TreeEnsembleRegressor", 1, "f4", n_targets=2, **shuffled, **turned)
    x = table("f4")
    (wanted,) = sardonyx.InferenceSession(plain, providers=[NUMPY]).run(None, {"x": x})
    (found,) = sardonyx.InferenceSession(other, providers=[NUMPY]).run(None, {"x": x})
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert_like_onnxruntime(other, x, NUMPY)


def test_shared_nodes() -> None:
    """Chains of comparisons for equality that lead to one node, as LightGBM's converter writes sets."""
    lists = {
        "nodes_treeids": [0] * 5,
        "nodes_nodeids": [0, 1, 2, 3, 4],
        "nodes_featureids": [1, 1, 1, 0, 0],
        "nodes_values": [1.0, 2.0, 3.0, 0.0, 0.0],
        "nodes_modes": ["BRANCH_EQ"] * 3 + ["LEAF"] * 2,
        "nodes_truenodeids": [3, 3, 3, 0, 0],
        "nodes_falsenodeids": [1, 2, 4, 0, 0],
    }
    (found,) = sardonyx.InferenceSession(regressor(lists, 1), providers=[NUMPY]).run(
        None, {"x": np.array([[9, k, 9, 9] for k in range(5)], np.float32)}
    )
    weights = votes(np.random.default_rng(1), lists, "target", [0])["target_weights"]
    np.testing.assert_allclose(found[:, 0], np.array(weights, np.float32)[[1, 0, 0, 0, 1]])


def changed(name: str, place: int, value: Any) -> bytes:
    """Trees with one entry of a list changed."""
    lists = nodes(np.random.default_rng(3), 3, 4)
    lists[name][place] = value
    return regressor(lists, 2)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (changed("nodes_truenodeids", 0, 99), "nodes_truenodeids names node 99 of tree 0, which is not there"),
        (changed("nodes_falsenodeids", 0, -1), "nodes_falsenodeids names node -1 of tree 0, which is not there"),
        (changed("nodes_truenodeids", 0, 0), "leads back to the root"),
        (changed("nodes_truenodeids", 2, 1), "in a circle"),
        (changed("nodes_nodeids", 1, 0), "node 0 of tree 0 is there twice"),
        (changed("nodes_modes", 0, "BRANCH_LIKE"), "mode 'BRANCH_LIKE' is not one of BRANCH_LEQ"),
        (changed("nodes_featureids", 0, -2), "asks for feature -2"),
        (changed("nodes_featureids", 0, 4), "the trees ask for feature 4, and x"),
        (regressor(nodes(np.random.default_rng(3)), 2, nodes_hitrates=[], base_values=[1.0]), "base_values has 1"),
        (regressor(nodes(np.random.default_rng(3)), 2, aggregate_function="MEDIAN"), "MEDIAN"),
    ],
    ids=str,
)
def test_errors(data: bytes, message: str) -> None:
    with pytest.raises(Exception, match="TreeEnsembleRegressor") as caught:
        sardonyx.InferenceSession(data, providers=[NUMPY]).run(None, {"x": table("f4")})
    assert message in str(caught.value)


def test_trees_in_bad_faith_fail_quickly() -> None:
    start = time.perf_counter()
    with pytest.raises(sardonyx.errors.SardonyxError, match="more than 10000 levels"):
        sardonyx.InferenceSession(regressor(chain(30_000), 1), providers=[NUMPY]).run(None, {"x": table("f4")})
    assert time.perf_counter() - start < 60
