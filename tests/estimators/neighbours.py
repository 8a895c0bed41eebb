"""Neighbours, Bayes, Gaussian processes, mixtures and clusters."""

from __future__ import annotations

from sklearn import cluster, gaussian_process, linear_model, mixture, naive_bayes, neighbors, svm
from sklearn.gaussian_process import kernels

from .data import codes, counts, line, lines, names, three, two
from .entry import Entry, Table, classifier, regressor, transformer

CLUSTERS = ("predict", "transform")
MIXTURE = ("predict", "predict_proba")
NEGATED = "it negates the distances, and then all are alike"
DETECTOR = ("predict", "decision_function")

TABLE: Table = {
    "knn": classifier(lambda: neighbors.KNeighborsClassifier(5)),
    "knn-names-distance": classifier(
        lambda: neighbors.KNeighborsClassifier(4, weights="distance"), names, wrong=NEGATED
    ),
    "knn-manhattan": classifier(lambda: neighbors.KNeighborsClassifier(3, metric="manhattan")),
    "knn-cosine": classifier(lambda: neighbors.KNeighborsClassifier(3, metric="cosine", algorithm="brute")),
    "knn-regressor": regressor(lambda: neighbors.KNeighborsRegressor(3)),
    "knn-regressor-two": regressor(
        lambda: neighbors.KNeighborsRegressor(3, weights="distance"), lines, wrong=NEGATED, float64=False
    ),
    "radius": classifier(lambda: neighbors.RadiusNeighborsClassifier(9.0)),
    "radius-regressor": regressor(lambda: neighbors.RadiusNeighborsRegressor(9.0)),
    "nearest": Entry(
        lambda: neighbors.NearestNeighbors(n_neighbors=3, radius=None),
        three,
        (
            lambda model, rows: model.kneighbors(rows)[1],
            lambda model, rows: model.kneighbors(rows)[0],
        ),
    ),
    "knn-cdist": classifier(lambda: neighbors.KNeighborsClassifier(3), options={"zipmap": False, "optim": "cdist"}),
    "neighbours-transformer": transformer(lambda: neighbors.KNeighborsTransformer(n_neighbors=3)),
    "nca": transformer(lambda: neighbors.NeighborhoodComponentsAnalysis(2, max_iter=10, random_state=0)),
    "local-outlier-factor": Entry(lambda: neighbors.LocalOutlierFactor(10, novelty=True), two, DETECTOR),
    "one-class-svm": Entry(lambda: svm.OneClassSVM(nu=0.2), two, DETECTOR),
    "sgd-one-class-svm": Entry(lambda: linear_model.SGDOneClassSVM(random_state=0), two, DETECTOR),
    "gaussian-nb": classifier(lambda: naive_bayes.GaussianNB()),
    "multinomial-nb": classifier(lambda: naive_bayes.MultinomialNB(), counts),
    "bernoulli-nb": classifier(lambda: naive_bayes.BernoulliNB(binarize=0.5), counts),
    "complement-nb": classifier(lambda: naive_bayes.ComplementNB(), counts),
    "categorical-nb": classifier(lambda: naive_bayes.CategoricalNB(), codes),
    "gp-regressor": regressor(
        lambda: gaussian_process.GaussianProcessRegressor(kernels.RBF(2.0) + kernels.WhiteKernel(0.5), optimizer=None)
    ),
    "gp-regressor-matern": regressor(
        lambda: gaussian_process.GaussianProcessRegressor(kernels.RationalQuadratic(2.0), alpha=0.5, optimizer=None)
    ),
    "gp-deviation": Entry(
        lambda: gaussian_process.GaussianProcessRegressor(kernels.RBF(2.0), alpha=0.5, optimizer=None),
        line,
        ("predict", lambda model, rows: model.predict(rows, return_std=True)[1]),
        options={"return_std": True},
    ),
    "mixture-full": Entry(lambda: mixture.GaussianMixture(3, random_state=0), three, MIXTURE, float64=False),
    "mixture-tied": Entry(
        lambda: mixture.GaussianMixture(3, covariance_type="tied", random_state=0), three, MIXTURE, float64=False
    ),
    "mixture-diagonal": Entry(
        lambda: mixture.GaussianMixture(3, covariance_type="diag", random_state=0), three, MIXTURE, float64=False
    ),
    "mixture-spherical": Entry(
        lambda: mixture.GaussianMixture(3, covariance_type="spherical", random_state=0), three, MIXTURE, float64=False
    ),
    "mixture-bayesian": Entry(
        lambda: mixture.BayesianGaussianMixture(n_components=3, random_state=0), three, MIXTURE, float64=False
    ),
    "k-means": Entry(lambda: cluster.KMeans(4, random_state=0), three, CLUSTERS),
    "k-means-batches": Entry(lambda: cluster.MiniBatchKMeans(4, random_state=0), three, CLUSTERS),
}
