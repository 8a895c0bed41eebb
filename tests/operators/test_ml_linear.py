"""Linear models: labels that are texts, and what does not fit."""

from __future__ import annotations

import numpy as np
import pytest

import sardonyx
from tests.engine.providers import NUMPY, PROVIDERS, require_provider
from tests.operators.tree_models import assert_like_onnxruntime, model

X = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("classes", [1, 3])
def test_text_labels(classes: int, provider: str) -> None:
    require_provider(provider)
    names = ["no", "yes"] if classes == 1 else ["red", "green", "blue"]
    data = model(
        "LinearClassifier",
        2,
        "f4",
        1,
        coefficients=np.linspace(-1, 2, 4 * classes).tolist(),
        intercepts=[0.1] * classes,
        classlabels_strings=names,
        post_transform="LOGISTIC",
    )
    assert_like_onnxruntime(data, X, provider)


@pytest.mark.parametrize(
    ("op_type", "attributes", "message"),
    [
        ("LinearRegressor", {"coefficients": [1.0] * 3}, "3 coefficients do not fit"),
        ("Scaler", {"scale": [1.0, 2.0], "offset": [0.0, 0.0]}, "scale has 2 numbers"),
        ("Scaler", {"scale": [1.0], "offset": [0.0, 0.0]}, "they need as many"),
        ("Normalizer", {"norm": "L3"}, "norm 'L3' is not one of"),
        ("Imputer", {"imputed_value_int64s": [1]}, "imputed_value_floats is missing"),
    ],
)
def test_errors(op_type: str, attributes: dict[str, object], message: str) -> None:
    with pytest.raises(sardonyx.errors.SardonyxError, match=message):
        sardonyx.InferenceSession(model(op_type, 1, "f4", 1, **attributes), providers=[NUMPY]).run(None, {"x": X})
