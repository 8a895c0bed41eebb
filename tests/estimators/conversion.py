"""Estimators of the table, fitted, and their models."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import onnxmltools
from lightgbm import LGBMClassifier
from onnx import helper
from onnxmltools.convert.common import data_types
from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm
from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost
from skl2onnx import to_onnx, update_registered_converter
from skl2onnx.common.shape_calculator import (
    calculate_linear_classifier_output_shapes,
    calculate_linear_regressor_output_shapes,
)
from sklearn.preprocessing import LabelBinarizer, LabelEncoder
from threadpoolctl import threadpool_limits
from xgboost import XGBClassifier, XGBRanker

from .table import ESTIMATORS

OPSETS = {"": 18, "ai.onnx.ml": 3}

for _kind, _convert in ((LGBMClassifier, convert_lightgbm), (XGBClassifier, convert_xgboost)):
    update_registered_converter(
        _kind,
        _kind.__name__,
        calculate_linear_classifier_output_shapes,
        _convert,
        options={"nocl": [True, False], "zipmap": [True, False, "columns"]},
    )
update_registered_converter(XGBRanker, "XGBRanker", calculate_linear_regressor_output_shapes, convert_xgboost)


@cache
def fitted(name: str) -> Any:
    """The estimator after training."""
    entry = ESTIMATORS[name]
    data, estimator = entry.data(), entry.make()
    with _quiet(), threadpool_limits(1):
        if isinstance(estimator, LabelEncoder | LabelBinarizer):
            return estimator.fit(data.target)
        return estimator.fit(data.rows, data.target, **entry.fit)


@cache
def model(name: str, dtype: str = "float32") -> bytes:
    """The bytes of the model that the converter makes of the fitted estimator, for inputs of this dtype."""
    entry, estimator = ESTIMATORS[name], fitted(name)
    types = entry.data().types(dtype)
    with _quiet(), _plain_attributes():
        if entry.library == "skl2onnx":
            options: dict[Any, Any] = {**entry.inner, id(estimator): entry.options}
            made = to_onnx(estimator, initial_types=types, options=options, target_opset=OPSETS)
        else:
            types = [(label, getattr(data_types, type(kind).__name__)(kind.shape)) for label, kind in types]
            convert = getattr(onnxmltools, f"convert_{entry.library}")
            made = convert(estimator, initial_types=types, target_opset=15, **entry.options)
    return bytes(made.SerializeToString())


def wanted(name: str) -> list[Any]:
    """What the estimator's own methods make of the unseen rows."""
    estimator, rows = fitted(name), ESTIMATORS[name].data().unseen
    with _quiet():
        return [
            getattr(estimator, method)(rows) if isinstance(method, str) else method(estimator, rows)
            for method in ESTIMATORS[name].methods
        ]


@contextmanager
def _quiet() -> Iterator[None]:
    """No warnings of options that are deprecated, and of training that is ended early."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _plain_attributes() -> Iterator[None]:
    """onnx refuses NumPy's integers and bools among attributes; the converter of HistGradientBoosting gives them."""

    make = helper.make_attribute

    def plain(key: str, value: Any) -> onnx.AttributeProto:
        if isinstance(value, list):
            value = [int(item) if isinstance(item, np.integer | np.bool_ | bool) else item for item in value]
        return make(key, value)

    with patch.object(helper, "make_attribute", plain):
        yield
