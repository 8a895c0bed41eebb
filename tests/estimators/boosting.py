"""LightGBM and XGBoost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
import xgboost
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

from .data import Data, codes, gaps, line, line_with_gaps, names, three, two
from .entry import Entry, Table, classifier, regressor

SIZE: dict[str, Any] = {"n_estimators": 20, "n_jobs": 1, "random_state": 0}


def light(
    data: Callable[[], Data], zipmap: bool = False, fit: dict[str, Any] | None = None, wrong: str = "", **options: Any
) -> Entry:
    """A classifier of LightGBM."""
    return classifier(
        lambda: lightgbm.LGBMClassifier(min_child_samples=5, verbose=-1, **SIZE | options),
        data,
        options={"zipmap": zipmap},
        float64=False,
        wrong=wrong,
        fit=fit or {},
        library="lightgbm",
    )


def light_regressor(data: Callable[[], Data], fit: dict[str, Any] | None = None, **options: Any) -> Entry:
    return regressor(
        lambda: lightgbm.LGBMRegressor(min_child_samples=5, verbose=-1, **SIZE | options),
        data,
        fit=fit or {},
        library="lightgbm",
    )


def extreme(data: Callable[[], Data], **options: Any) -> Entry:
    """A classifier of XGBoost."""
    return classifier(
        lambda: xgboost.XGBClassifier(**SIZE | options), data, options={}, library="xgboost", float64=False
    )


def extreme_regressor(data: Callable[[], Data], **options: Any) -> Entry:
    return regressor(lambda: xgboost.XGBRegressor(**SIZE | options), data, library="xgboost")


TABLE: Table = {
    "lightgbm-two": light(two),
    "lightgbm-three": light(three),
    "lightgbm-names": light(names),
    "lightgbm-zipmap": light(three, zipmap=True),
    "lightgbm-gaps": light(gaps),
    "lightgbm-categories": light(codes, fit={"categorical_feature": [0, 2]}, min_data_per_group=5, cat_smooth=1.0),
    "lightgbm-dart": light(two, boosting_type="dart"),
    "lightgbm-forest": light(
        two,
        wrong="it sums trees where LightGBM averages them",
        boosting_type="rf",
        bagging_freq=1,
        bagging_fraction=0.7,
    ),
    "lightgbm-regressor": light_regressor(line),
    "lightgbm-regressor-gaps": light_regressor(line_with_gaps),
    "lightgbm-poisson": light_regressor(codes, objective="poisson"),
    "xgboost-two": extreme(two),
    "xgboost-three": extreme(three),
    "xgboost-gaps": extreme(gaps),
    "xgboost-exact": extreme(two, tree_method="exact", max_depth=4),
    "xgboost-base": extreme(two, base_score=0.3),
    "xgboost-regressor": extreme_regressor(line),
    "xgboost-regressor-gaps": extreme_regressor(line_with_gaps),
    "xgboost-parallel": extreme_regressor(line, num_parallel_tree=3, subsample=0.8),
    "xgboost-poisson": extreme_regressor(codes, objective="count:poisson"),
    "xgboost-forest": classifier(
        lambda: xgboost.XGBRFClassifier(**SIZE),
        three,
        options={},
        library="xgboost",
        wrong="it deals trees to classes in turn, but those of one class are side by side",
        float64=False,
    ),
    "xgboost-ranker": regressor(lambda: xgboost.XGBRanker(**SIZE), three, fit={"qid": np.repeat(np.arange(12), 10)}),
    "lightgbm-pipeline": classifier(
        lambda: make_pipeline(
            SimpleImputer(strategy="median"), lightgbm.LGBMClassifier(min_child_samples=5, verbose=-1, **SIZE)
        ),
        gaps,
    ),
    "xgboost-pipeline": classifier(
        lambda: make_pipeline(SimpleImputer(strategy="median"), xgboost.XGBClassifier(**SIZE)), gaps
    ),
}
