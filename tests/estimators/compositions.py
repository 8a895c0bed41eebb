"""Estimators that are made of others."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import compose, ensemble, linear_model, model_selection, multiclass, multioutput, naive_bayes, svm, tree
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, PolynomialFeatures, StandardScaler

from . import text
from .data import answers, categories, gaps, goods, lines, two
from .entry import Table, classifier, regressor, scorer, transformer

WORDS = {TfidfVectorizer: text.WORDS}


def _logistic() -> Any:
    return linear_model.LogisticRegression(max_iter=500)


def _members() -> list[tuple[str, Any]]:
    return [
        ("linear", _logistic()),
        ("tree", tree.DecisionTreeClassifier(max_depth=4, random_state=0)),
        ("bayes", naive_bayes.GaussianNB()),
    ]


def _regressors() -> list[tuple[str, Any]]:
    return [("ridge", linear_model.Ridge()), ("tree", tree.DecisionTreeRegressor(max_depth=4, random_state=0))]


def _votes(model: Any, rows: Any) -> Any:
    """The share of the members that are for each class, as converters have it."""
    return np.stack([(model.transform(rows) == label).mean(axis=1) for label in model.classes_], axis=1)


def _columns() -> Any:
    return compose.ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), [0, 1]),
            ("colour", OneHotEncoder(handle_unknown="ignore"), [2]),
            ("text", TfidfVectorizer(), 3),
        ]
    )


TABLE: Table = {
    "pipeline": classifier(lambda: make_pipeline(SimpleImputer(), StandardScaler(), PCA(3), _logistic()), gaps),
    "pipeline-svc": classifier(lambda: make_pipeline(MinMaxScaler(), svm.SVC(probability=True, random_state=0)), two),
    "columns-and-text": classifier(lambda: make_pipeline(_columns(), _logistic()), goods, inner=WORDS),
    "columns-and-forest": classifier(
        lambda: make_pipeline(_columns(), ensemble.RandomForestClassifier(10, random_state=0)), goods, inner=WORDS
    ),
    "columns-alone": transformer(_columns, goods, inner=WORDS),
    "columns-passed-on": transformer(
        lambda: compose.ColumnTransformer([("scaled", StandardScaler(), [0, 2])], remainder="passthrough")
    ),
    "categories-and-boosting": classifier(
        lambda: make_pipeline(
            OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
            ensemble.HistGradientBoostingClassifier(max_iter=10, random_state=0),
        ),
        categories,
    ),
    "union": transformer(lambda: make_union(StandardScaler(), PCA(2), PolynomialFeatures(2)), float64=False),
    "voting-soft": classifier(
        lambda: ensemble.VotingClassifier(
            _members(), voting="soft", weights=np.array([2, 1, 1]), flatten_transform=False
        ),
        float64=False,
    ),
    "voting-hard": classifier(
        lambda: ensemble.VotingClassifier(_members(), flatten_transform=False), methods=("predict", _votes)
    ),
    "voting-regressor": regressor(lambda: ensemble.VotingRegressor(_regressors()), float64=False),
    "stacking": classifier(lambda: ensemble.StackingClassifier(_members(), _logistic(), cv=2)),
    "stacking-passed-on": classifier(
        lambda: ensemble.StackingClassifier(_members(), _logistic(), cv=2, passthrough=True)
    ),
    "stacking-regressor": regressor(lambda: ensemble.StackingRegressor(_regressors(), linear_model.Ridge(), cv=2)),
    "one-vs-rest": classifier(lambda: multiclass.OneVsRestClassifier(_logistic())),
    "one-vs-rest-answers": classifier(lambda: multiclass.OneVsRestClassifier(_logistic()), answers),
    "one-vs-one": scorer(lambda: multiclass.OneVsOneClassifier(_logistic()), options={"zipmap": False}),
    "multi-output": classifier(
        lambda: multioutput.MultiOutputClassifier(tree.DecisionTreeClassifier(max_depth=3, random_state=0)), answers
    ),
    "multi-output-regressor": regressor(lambda: multioutput.MultiOutputRegressor(linear_model.Ridge()), lines),
    "grid-search": classifier(lambda: model_selection.GridSearchCV(_logistic(), {"C": [0.1, 1.0]}, cv=2)),
    "tuned-threshold": classifier(
        lambda: model_selection.TunedThresholdClassifierCV(_logistic(), cv=2, random_state=0), two
    ),
    "nested": classifier(
        lambda: Pipeline(
            [
                ("first", make_pipeline(StandardScaler())),
                (
                    "then",
                    ensemble.VotingClassifier(
                        [("one", make_pipeline(PCA(2), _logistic()))], voting="soft", flatten_transform=False
                    ),
                ),
            ]
        )
    ),
}
