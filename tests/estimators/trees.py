"""Trees and ensembles of them.

Forests have 16 trees: where as many vote for one class as for another, sums of sixteenths are equal on both sides.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import ensemble, linear_model, tree

from .data import gaps, line_with_gaps, lines, names, two, two_names
from .entry import Entry, Table, classifier, regressor, scorer, transformer

DETECTOR = ("predict", "decision_function")


def _path(model: Any, rows: Any) -> Any:
    """The nodes on the way of each row, a digit for each, as converters write them."""
    return np.array(["".join(map(str, row)) for row in model.decision_path(rows).toarray()], object).reshape(-1, 1)


TABLE: Table = {
    "tree-two": classifier(lambda: tree.DecisionTreeClassifier(max_depth=5, random_state=0), two),
    "tree-names": classifier(lambda: tree.DecisionTreeClassifier(random_state=0), names),
    "tree-path": classifier(
        lambda: tree.DecisionTreeClassifier(max_depth=4, random_state=0),
        options={"zipmap": False, "decision_path": True},
        methods=("predict", "predict_proba", _path),
    ),
    "tree-leaf": regressor(lambda: tree.DecisionTreeRegressor(max_depth=4, random_state=0)),
    "tree-regressor-two": regressor(lambda: tree.DecisionTreeRegressor(max_depth=4, random_state=0), lines),
    "extra-tree": classifier(lambda: tree.ExtraTreeClassifier(max_depth=6, random_state=0)),
    "forest-two": classifier(lambda: ensemble.RandomForestClassifier(16, max_depth=6, random_state=0), two),
    "forest-three": classifier(lambda: ensemble.RandomForestClassifier(16, random_state=0)),
    "forest-gaps": classifier(
        lambda: ensemble.RandomForestClassifier(16, random_state=0),
        gaps,
        wrong="it forgets where missing numbers go",
        float64=False,
    ),
    "forest-regressor": regressor(lambda: ensemble.RandomForestRegressor(16, random_state=0)),
    "forest-regressor-two": regressor(lambda: ensemble.RandomForestRegressor(16, random_state=0), lines),
    "extra-trees": classifier(lambda: ensemble.ExtraTreesClassifier(16, random_state=0)),
    "extra-trees-regressor": regressor(lambda: ensemble.ExtraTreesRegressor(16, random_state=0)),
    "gradient-boosting-two": classifier(
        lambda: ensemble.GradientBoostingClassifier(n_estimators=20, random_state=0), two
    ),
    "gradient-boosting-three": classifier(lambda: ensemble.GradientBoostingClassifier(n_estimators=20, random_state=0)),
    "gradient-boosting-scores": scorer(lambda: ensemble.GradientBoostingClassifier(n_estimators=20, random_state=0)),
    "gradient-boosting-exponential": classifier(
        lambda: ensemble.GradientBoostingClassifier(loss="exponential", n_estimators=20, random_state=0), two
    ),
    "gradient-boosting-regressor": regressor(
        lambda: ensemble.GradientBoostingRegressor(n_estimators=20, random_state=0)
    ),
    "hist-boosting-two": classifier(
        lambda: ensemble.HistGradientBoostingClassifier(max_iter=20, random_state=0), two_names
    ),
    "hist-boosting-gaps": classifier(
        lambda: ensemble.HistGradientBoostingClassifier(max_iter=20, random_state=0), gaps
    ),
    "hist-boosting-regressor": regressor(
        lambda: ensemble.HistGradientBoostingRegressor(max_iter=20, random_state=0), line_with_gaps
    ),
    "hist-boosting-quantile": regressor(
        lambda: ensemble.HistGradientBoostingRegressor(loss="quantile", quantile=0.8, max_iter=20, random_state=0)
    ),
    "isolation-forest": Entry(
        lambda: ensemble.IsolationForest(n_estimators=20, random_state=0), two, DETECTOR, float64=False
    ),
    "adaboost": classifier(lambda: ensemble.AdaBoostClassifier(n_estimators=10, random_state=0), float64=False),
    "adaboost-two": classifier(
        lambda: ensemble.AdaBoostClassifier(tree.DecisionTreeClassifier(max_depth=2), n_estimators=10, random_state=0),
        two,
        float64=False,
    ),
    "adaboost-regressor": regressor(lambda: ensemble.AdaBoostRegressor(n_estimators=10, random_state=0), float64=False),
    "bagging-trees": classifier(lambda: ensemble.BaggingClassifier(n_estimators=5, random_state=0)),
    "bagging-logistic": classifier(
        lambda: ensemble.BaggingClassifier(
            linear_model.LogisticRegression(max_iter=500), n_estimators=5, max_features=0.6, random_state=0
        ),
        two,
    ),
    "bagging-regressor": regressor(lambda: ensemble.BaggingRegressor(n_estimators=5, random_state=0)),
    "tree-embedding": transformer(
        lambda: ensemble.RandomTreesEmbedding(5, max_depth=3, sparse_output=False, random_state=0)
    ),
}
