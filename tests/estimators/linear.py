"""Linear models, support vector machines and networks."""

from __future__ import annotations

from sklearn import linear_model, neural_network, svm
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cross_decomposition import PLSRegression
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

from .data import amounts, lines, names, two, two_names
from .entry import Table, classifier, regressor, scorer

TABLE: Table = {
    "logistic-two": classifier(lambda: linear_model.LogisticRegression(), two),
    "logistic-two-names": classifier(lambda: linear_model.LogisticRegression(), two_names),
    "logistic-three": classifier(lambda: linear_model.LogisticRegression(max_iter=500)),
    "logistic-names": classifier(lambda: linear_model.LogisticRegression(max_iter=500), names),
    "logistic-scores": scorer(lambda: linear_model.LogisticRegression(max_iter=500)),
    "logistic-zipmap": classifier(lambda: linear_model.LogisticRegression(max_iter=500), options={"zipmap": True}),
    "logistic-zipmap-names": classifier(
        lambda: linear_model.LogisticRegression(max_iter=500), names, options={"zipmap": True}
    ),
    "logistic-columns": classifier(
        lambda: linear_model.LogisticRegression(max_iter=500),
        options={"zipmap": "columns"},
        methods=("predict", *(lambda model, rows, k=k: model.predict_proba(rows)[:, k] for k in range(3))),
    ),
    "ridge-classifier-two": scorer(lambda: linear_model.RidgeClassifier(), two),
    "ridge-classifier-three": scorer(lambda: linear_model.RidgeClassifier()),
    "sgd-log": classifier(lambda: linear_model.SGDClassifier(loss="log_loss", random_state=0)),
    "sgd-huber": classifier(
        lambda: linear_model.SGDClassifier(loss="modified_huber", random_state=0),
        wrong="of classes with the same probability it takes the first, the estimator the one with the best score",
    ),
    "sgd-hinge": scorer(lambda: linear_model.SGDClassifier(random_state=0), two),
    "perceptron": scorer(lambda: linear_model.Perceptron(random_state=0)),
    "linear-svc-two": scorer(lambda: svm.LinearSVC(random_state=0), two, options={"raw_scores": True}),
    "linear-svc-three": scorer(lambda: svm.LinearSVC(random_state=0), options={"raw_scores": True}),
    "calibrated-sigmoid": classifier(lambda: CalibratedClassifierCV(svm.LinearSVC(random_state=0), cv=2)),
    "calibrated-isotonic": classifier(
        lambda: CalibratedClassifierCV(linear_model.LogisticRegression(max_iter=500), method="isotonic", cv=2),
        two,
        wrong="it takes the step below where the estimator interpolates",
    ),
    "lda": classifier(lambda: LinearDiscriminantAnalysis()),
    "qda": classifier(lambda: QuadraticDiscriminantAnalysis()),
    "linear": regressor(lambda: linear_model.LinearRegression()),
    "linear-two": regressor(lambda: linear_model.LinearRegression(), lines),
    "ridge": regressor(lambda: linear_model.Ridge()),
    "lasso": regressor(lambda: linear_model.Lasso(0.1)),
    "elastic-net": regressor(lambda: linear_model.ElasticNet(0.1)),
    "bayesian-ridge": regressor(lambda: linear_model.BayesianRidge()),
    "huber": regressor(lambda: linear_model.HuberRegressor()),
    "poisson": regressor(lambda: linear_model.PoissonRegressor(), amounts),
    "tweedie": regressor(lambda: linear_model.TweedieRegressor(power=1.5), amounts),
    "gamma": regressor(lambda: linear_model.GammaRegressor(), amounts),
    "ransac": regressor(lambda: linear_model.RANSACRegressor(random_state=0)),
    "pls": regressor(lambda: PLSRegression(2)),
    "svc-rbf": classifier(lambda: svm.SVC(probability=True, random_state=0)),
    "svc-rbf-two": classifier(lambda: svm.SVC(probability=True, random_state=0), two),
    "svc-poly": classifier(lambda: svm.SVC(kernel="poly", probability=True, random_state=0)),
    "svc-sigmoid": classifier(lambda: svm.SVC(kernel="sigmoid", probability=True, random_state=0)),
    "svc-linear-names": classifier(lambda: svm.SVC(kernel="linear", probability=True, random_state=0), names),
    "svc-scores-one-vs-rest": scorer(lambda: svm.SVC()),
    "svc-scores-two": scorer(lambda: svm.SVC(), two),
    "nu-svc": classifier(lambda: svm.NuSVC(nu=0.3, probability=True, random_state=0)),
    "svr-rbf": regressor(lambda: svm.SVR()),
    "svr-poly": regressor(lambda: svm.SVR(kernel="poly", degree=2)),
    "svr-linear": regressor(lambda: svm.SVR(kernel="linear")),
    "nu-svr": regressor(lambda: svm.NuSVR()),
    "linear-svr": regressor(lambda: svm.LinearSVR(random_state=0)),
    "mlp-relu": classifier(lambda: neural_network.MLPClassifier((16, 8), max_iter=60, random_state=0)),
    "mlp-tanh-two": classifier(
        lambda: neural_network.MLPClassifier((16,), activation="tanh", max_iter=60, random_state=0), two_names
    ),
    "mlp-regressor": regressor(
        lambda: neural_network.MLPRegressor(
            hidden_layer_sizes=(16,), activation="logistic", max_iter=60, random_state=0
        )
    ),
}
