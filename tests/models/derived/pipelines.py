"""Pipelines of scikit-learn, trained on the data sets that it brings and converted by skl2onnx."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn import datasets
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC

TABLES: dict[str, Callable[[], Any]] = {
    "logreg-digits": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
    # probability=True is deprecated, and most support vector machines in use have it
    "svc-iris": lambda: make_pipeline(StandardScaler(), SVC(probability=True, random_state=0)),
    "rf-digits": lambda: RandomForestClassifier(30, max_depth=10, random_state=0),
    "knn-wine": lambda: make_pipeline(SimpleImputer(), Normalizer(), KNeighborsClassifier()),
}
SENTENCES = {
    "the cat sat on the mat": 0,
    "dogs chase the cat": 0,
    "the dog sat": 0,
    "stocks fell on monday": 1,
    "markets and stocks rallied": 1,
    "bonds fell as markets closed": 1,
}


def models() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Train and convert all."""
    for name, pipeline in TABLES.items():
        rows, labels = getattr(datasets, f"load_{name.split('-')[1]}")(return_X_y=True)
        yield (
            name,
            _converted(pipeline(), rows.astype(np.float32), labels, [("X", FloatTensorType([None, rows.shape[1]]))]),
        )
    yield "columns-strings", _columns()
    yield "tfidf-text", _text()


def _converted(pipeline: Any, rows: Any, labels: Any, types: list[tuple[str, Any]]) -> onnx.ModelProto:
    pipeline.fit(rows, labels)
    opsets, options = {"": 18, "ai.onnx.ml": 3}, {id(pipeline): {"zipmap": False}}
    model: onnx.ModelProto = to_onnx(pipeline, initial_types=types, target_opset=opsets, options=options)
    model.opset_import.sort(key=lambda one: one.domain)  # skl2onnx takes them from a set
    return model


def _columns() -> onnx.ModelProto:
    """Small red things: one column of strings, one of numbers."""
    rng = np.random.default_rng(0)
    colour, size = rng.choice(["red", "green", "blue"], 300), rng.normal(size=300)
    columns = [("colour", OneHotEncoder(handle_unknown="ignore"), [0]), ("size", StandardScaler(), [1])]
    pipeline = make_pipeline(ColumnTransformer(columns), LogisticRegression())
    rows = np.stack([colour.astype(object), size], axis=1)
    types = [("colour", StringTensorType([None, 1])), ("size", FloatTensorType([None, 1]))]
    return _converted(pipeline, rows, ((colour == "red") & (size < 0)).astype(int), types)


def _text() -> onnx.ModelProto:
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression())
    model = _converted(pipeline, [*SENTENCES], [*SENTENCES.values()], [("text", StringTensorType([None, 1]))])
    for node in model.graph.node:
        if node.op_type == "StringNormalizer":
            node.attribute.append(helper.make_attribute("locale", "C"))  # the default, en_US, is not on every machine
    return model
