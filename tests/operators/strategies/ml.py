"""The operators of ai.onnx.ml."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.operators.tree_models import ALL_MODES, ORDERED, nodes, numbered, votes

from .draw import Draw, draws
from .text import strings

ML = "ai.onnx.ml"
NAMES = ["cat", "dog", "", "fish", "ünï"]
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")


def table(d: Draw, features: int, variable: str = "T") -> np.ndarray:
    """[N, features]"""
    return d.noise(d.of(3, 1, 2, 5), features, dtype=d.dtype(variable))


def floats(d: Draw, count: int) -> list[float]:
    return np.asarray(d.rng.normal(size=count), np.float32).tolist()


@draws("ArrayFeatureExtractor", domain=ML)
def extractor(d: Draw) -> dict[str, Any]:
    shape = (*d.shape(0, 2, (2, 1, 3)), d.of(3, 1, 5))
    dtype = d.dtype("T")
    x = strings(d, shape, NAMES) if dtype.kind == "O" else d.noise(*shape, dtype=dtype)
    places = d.rng.integers(0, shape[-1], size=d.of(2, 1, 4))
    return {"inputs": [x, places if d.flag() else places[None]]}


@draws("Binarizer", domain=ML)
def binarizer(d: Draw) -> dict[str, Any]:
    x = d.values(d.shape(1, 3), d.dtype("T"), edges=False)
    return {"inputs": [x], "attributes": d.attributes(threshold=(0.0, 1.0, -0.5))}


@draws("CategoryMapper", domain=ML)
def category_mapper(d: Draw) -> dict[str, Any]:
    attributes = {"cats_strings": ["cat", "dog", ""], "cats_int64s": [3, -1, 1000]}
    attributes |= d.attributes(default_int64=(7, -1), default_string=("none", ""))
    shape = d.shape(1, 2)
    x = strings(d, shape, NAMES) if d.flag() else np.array([3, -1, 1000, 5])[d.rng.integers(4, size=shape)]
    return {"inputs": [x], "attributes": attributes}


LISTS = {"strings": NAMES[:3], "int64s": [3, -1, 1000], "floats": [0.5, -2.0, 3.0]}


@draws("LabelEncoder", domain=ML)
def label_encoder(d: Draw) -> dict[str, Any]:
    key, value = d.of(*LISTS), d.of(*LISTS)
    attributes = {f"keys_{key}": LISTS[key], f"values_{value}": LISTS[value][::-1]}
    attributes |= d.attributes(default_int64=(7,), default_string=("none",), default_float=(1.5,))
    shape = d.shape(1, 2)
    if key == "strings":
        return {"inputs": [strings(d, shape, NAMES)], "attributes": attributes}
    known = np.array([*LISTS[key], 77], np.float32 if key == "floats" else np.int64)
    return {"inputs": [known[d.rng.integers(4, size=shape)]], "attributes": attributes}


@draws("OneHotEncoder", domain=ML)
def one_hot_encoder(d: Draw) -> dict[str, Any]:
    dtype, shape = d.dtype("T"), d.shape(1, 2)
    zeros = d.of(1, 0)
    if dtype.kind == "O":
        known = NAMES if zeros else NAMES[:3]
        return {
            "inputs": [strings(d, shape, known)],
            "attributes": {"cats_strings": NAMES[:3], "zeros": zeros},
        }
    known = np.array([1, 5, 3, 9 if zeros else 1])
    x = known[d.rng.integers(4, size=shape)].astype(dtype)
    return {"inputs": [x], "attributes": {"cats_int64s": [1, 3, 5], "zeros": zeros}}


@draws("FeatureVectorizer", domain=ML)
def feature_vectorizer(d: Draw) -> dict[str, Any]:
    count, dtype = d.of(2, 1, 3), d.dtype("T1")
    widths = [d.of(2, 1, 3) for _ in range(d.between(1, 3))]
    inputs = [d.noise(count, width, dtype=dtype) for width in widths]
    return {"inputs": inputs, "attributes": {"inputdimensions": widths}}


@draws("Imputer", domain=ML)
def imputer(d: Draw) -> dict[str, Any]:
    whole, features = d.flag(), d.of(3, 1, 2)
    count = d.of(1, features)
    if whole:
        x = d.rng.integers(-2, 3, size=(d.of(2, 1, 4), features))
        attributes = {"imputed_value_int64s": list(range(50, 50 + count)), "replaced_value_int64": d.of(0, 1)}
        return {"inputs": [x], "attributes": attributes}
    gap = d.of(float("nan"), 0.0)
    x = d.noise(d.of(2, 1, 4), features)
    x[d.rng.random(x.shape) < 0.4] = gap
    return {"inputs": [x], "attributes": {"imputed_value_floats": floats(d, count), "replaced_value_float": gap}}


@draws("Normalizer", domain=ML)
def normalizer(d: Draw) -> dict[str, Any]:
    x = d.noise(*d.of((2, 3), (3,), (1, 1), (4, 5)), dtype=d.dtype("T"))
    return {"inputs": [x], "attributes": d.attributes(norm=("MAX", "L1", "L2"))}


@draws("Scaler", domain=ML)
def scaler(d: Draw) -> dict[str, Any]:
    features = d.of(3, 1, 2)
    count = d.of(features, 1)
    x = table(d, features)
    return {"inputs": [x], "attributes": {"scale": floats(d, count), "offset": floats(d, count)}, "magnitude": 4.0}


def labels(d: Draw, count: int, name: str = "classlabels_ints") -> dict[str, Any]:
    if d.flag():
        return {"classlabels_strings": ["a", "", "ünï", "d", "e"][:count]}
    return {name: [5, -3, 100, 7, 0][:count]}


@draws("LinearClassifier", domain=ML)
def linear_classifier(d: Draw) -> dict[str, Any]:
    features, classes = d.of(3, 1, 2), d.of(3, 2, 4)
    x = table(d, features, "T1")
    attributes = {
        "coefficients": floats(d, features * classes),
        "intercepts": floats(d, classes),
        "post_transform": d.of(*TRANSFORMS),
        **d.attributes(multi_class=(0, 1)),
        **labels(d, classes),
    }
    return {"inputs": [x], "attributes": attributes, "outputs": 2, "magnitude": 4.0}


@draws("LinearRegressor", domain=ML)
def linear_regressor(d: Draw) -> dict[str, Any]:
    features, targets = d.of(3, 1, 2), d.of(1, 2, 3)
    attributes: dict[str, Any] = {"coefficients": floats(d, features * targets), "targets": targets}
    if d.flag():
        attributes["intercepts"] = floats(d, targets)
    attributes |= d.attributes(post_transform=TRANSFORMS[:1])
    x = table(d, features)
    return {
        "inputs": [x if x.dtype == np.float64 else x.astype(np.float32)],
        "attributes": attributes,
        "magnitude": 4.0,
    }


KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


@draws("SVMClassifier", domain=ML)
def svm_classifier(d: Draw) -> dict[str, Any]:
    features, classes = d.of(3, 1, 2), d.of(3, 2, 4)
    per_class = [d.between(1, 3) for _ in range(classes)]
    count, pairs = sum(per_class), classes * (classes - 1) // 2
    attributes: dict[str, Any] = {
        "kernel_type": d.of(*KERNELS),
        "kernel_params": [0.3, 0.1, 2.0],
        "coefficients": floats(d, count * (classes - 1)),
        "support_vectors": floats(d, count * features),
        "vectors_per_class": per_class,
        "rho": floats(d, pairs),
        **labels(d, classes),
    }
    if d.flag():
        attributes |= {"prob_a": [-1.0] * pairs, "prob_b": floats(d, pairs)}
    x = table(d, features, "T1")
    return {"inputs": [x], "attributes": attributes, "outputs": 2, "magnitude": 4.0, "tolerance": 1e-4}


@draws("SVMRegressor", domain=ML)
def svm_regressor(d: Draw) -> dict[str, Any]:
    features, count = d.of(3, 1, 2), d.of(3, 1, 5)
    attributes: dict[str, Any] = {
        "kernel_type": d.of(*KERNELS),
        "kernel_params": [0.3, 0.1, 2.0],
        "coefficients": floats(d, count),
        "support_vectors": floats(d, count * features),
        "n_supports": count,
        "rho": floats(d, 1),
        **d.attributes(one_class=(0, 1)),
    }
    return {
        "inputs": [table(d, features).astype(np.float32)],
        "attributes": attributes,
        "magnitude": 8.0,
        "tolerance": 1e-4,
    }


def gapped(d: Draw, features: int, variable: str, missing: bool) -> np.ndarray:
    """Small integers, so that comparisons meet equal numbers, and missing values."""
    x = d.rng.integers(-3, 4, size=(d.of(3, 1, 9), features)).astype(d.dtype(variable))
    if missing and x.dtype.kind == "f":
        x[d.rng.random(x.shape) < 0.2] = np.nan
    return x


@draws("TreeEnsembleClassifier", "TreeEnsembleRegressor", domain=ML)
def trees(d: Draw) -> dict[str, Any]:
    missing, features = d.flag(), d.of(3, 1, 4)
    lists = nodes(d.rng, d.of(2, 1, 4), d.of(2, 1, 3), features, d.of(ORDERED, ALL_MODES), missing, whole=True)
    classifies = d.name == "TreeEnsembleClassifier"
    count = d.of(3, 2) if classifies else d.of(1, 2, 3)
    given = votes(d.rng, lists, "class" if classifies else "target", list(range(count)), d.of(0.6, 1.0))
    attributes: dict[str, Any] = {**lists, **given, "post_transform": d.of("NONE", *TRANSFORMS[1:])}
    if classifies:
        attributes |= labels(d, count, "classlabels_int64s")
    else:
        attributes |= {"n_targets": count, **d.attributes(aggregate_function=("SUM", "AVERAGE", "MIN", "MAX"))}
    if d.flag():
        attributes["base_values"] = floats(d, count)
    x = gapped(d, features, "T1" if classifies else "T", missing)
    return {"inputs": [x], "attributes": attributes, "outputs": 1 + classifies, "magnitude": 1.0}


@draws("TreeEnsemble", domain=ML)
def ensemble(d: Draw) -> dict[str, Any]:
    missing, features, targets = d.flag(), d.of(3, 1, 4), d.of(1, 2, 3)
    dtype = d.of(np.float32, np.float64)
    lists = nodes(d.rng, d.of(2, 1, 4), d.of(2, 1, 3), features, d.of(ORDERED, ALL_MODES), missing, whole=True)
    given = votes(d.rng, lists, "target", list(range(targets)), 0.0)
    members = d.of(0, 2) if "BRANCH_EQ" in lists["nodes_modes"] else 0
    attributes = numbered(d.rng, lists, given, dtype, members)
    attributes |= {"n_targets": targets, **d.attributes(aggregate_function=(0, 1, 2, 3), post_transform=(0, 1, 2, 3))}
    x = gapped(d, features, "T", missing).astype(dtype)
    return {"inputs": [x], "attributes": attributes, "magnitude": 1.0}


@draws("ZipMap", domain=ML)
def zip_map(d: Draw) -> dict[str, Any]:
    count = d.of(2, 1, 3)
    names = labels(d, count, "classlabels_int64s")
    return {"inputs": [d.noise(d.of(2, 1, 3), count)], "attributes": names}


@draws("DictVectorizer", domain=ML)
def dict_vectorizer(d: Draw) -> dict[str, Any]:
    named = d.flag()
    words: Any = ["a", "b", "c", "d"] if named else [1, 5, 7, 9]
    value = d.of(float, int) if named else float
    chosen = d.permuted(words)[: d.between(1, 4)]
    given = {word: value(k + 1) for k, word in enumerate(chosen)}
    vocabulary = {"string_vocabulary" if named else "int64_vocabulary": words[: d.of(3, 4)]}
    return {"inputs": [given], "attributes": vocabulary}


@draws("CastMap", domain=ML)
def cast_map(d: Draw) -> dict[str, Any]:
    value = d.of(float, str)
    given = {k: value(k + 1) for k in sorted(d.permuted(range(5))[: d.between(1, 4)])}
    attributes: dict[str, Any] = {"cast_to": d.of("TO_FLOAT", "TO_INT64", "TO_STRING")}
    if d.flag():
        attributes |= {"map_form": "SPARSE", "max_map": 6}
    return {"inputs": [given], "attributes": attributes}
