"""Transformers of numbers, categories and labels, decompositions and selections."""

from __future__ import annotations

from sklearn import decomposition, feature_selection, impute, linear_model, preprocessing, random_projection

from .data import categories, codes, gaps, known_categories, labels, line, named_labels, positive
from .entry import Table, transformer

TABLE: Table = {
    "standard": transformer(lambda: preprocessing.StandardScaler()),
    "standard-no-mean": transformer(lambda: preprocessing.StandardScaler(with_mean=False)),
    "min-max": transformer(lambda: preprocessing.MinMaxScaler((-1, 2), clip=True)),
    "max-abs": transformer(lambda: preprocessing.MaxAbsScaler()),
    "robust": transformer(lambda: preprocessing.RobustScaler()),
    "normalizer-l1": transformer(lambda: preprocessing.Normalizer("l1")),
    "normalizer-l2": transformer(lambda: preprocessing.Normalizer("l2")),
    "normalizer-max": transformer(
        lambda: preprocessing.Normalizer("max"),
        wrong="it divides by the largest number, not the largest magnitude",
        float64=False,
    ),
    "binarizer": transformer(lambda: preprocessing.Binarizer(threshold=0.5), float64=False),
    "power-johnson": transformer(lambda: preprocessing.PowerTransformer(), float64=False),
    "power-box-cox": transformer(lambda: preprocessing.PowerTransformer("box-cox"), positive, float64=False),
    "quantile": transformer(lambda: preprocessing.QuantileTransformer(n_quantiles=20)),
    "bins-ordinal": transformer(lambda: preprocessing.KBinsDiscretizer(4, encode="ordinal", strategy="uniform")),
    "bins-onehot": transformer(
        lambda: preprocessing.KBinsDiscretizer(3, encode="onehot-dense", quantile_method="averaged_inverted_cdf")
    ),
    "polynomial": transformer(lambda: preprocessing.PolynomialFeatures(2), float64=False),
    "polynomial-interactions": transformer(
        lambda: preprocessing.PolynomialFeatures(3, interaction_only=True, include_bias=False)
    ),
    "one-hot-strings": transformer(lambda: preprocessing.OneHotEncoder(handle_unknown="ignore"), categories),
    "one-hot-integers": transformer(
        lambda: preprocessing.OneHotEncoder(handle_unknown="ignore", sparse_output=False), codes
    ),
    "one-hot-drop": transformer(lambda: preprocessing.OneHotEncoder(drop="first"), known_categories),
    "ordinal-strings": transformer(lambda: preprocessing.OrdinalEncoder(), known_categories),
    "ordinal-unknown": transformer(
        lambda: preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), categories
    ),
    "ordinal-integers": transformer(lambda: preprocessing.OrdinalEncoder(), codes),
    "target-encoder": transformer(lambda: preprocessing.TargetEncoder(random_state=0), categories),
    "label-encoder": transformer(lambda: preprocessing.LabelEncoder(), labels),
    "label-encoder-strings": transformer(lambda: preprocessing.LabelEncoder(), named_labels),
    "label-binarizer": transformer(lambda: preprocessing.LabelBinarizer(), labels),
    "label-binarizer-strings": transformer(lambda: preprocessing.LabelBinarizer(), named_labels),
    "imputer-mean": transformer(lambda: impute.SimpleImputer(), gaps),
    "imputer-median": transformer(lambda: impute.SimpleImputer(strategy="median"), gaps),
    "imputer-frequent-strings": transformer(
        lambda: impute.SimpleImputer(strategy="most_frequent", missing_values="never seen"), categories
    ),
    "imputer-neighbours": transformer(lambda: impute.KNNImputer(n_neighbors=3), gaps, float64=False),
    "pca": transformer(lambda: decomposition.PCA(3)),
    "pca-whitened": transformer(lambda: decomposition.PCA(3, whiten=True)),
    "incremental-pca": transformer(lambda: decomposition.IncrementalPCA(2)),
    "truncated-svd": transformer(lambda: decomposition.TruncatedSVD(2, random_state=0)),
    "kernel-pca": transformer(lambda: decomposition.KernelPCA(3, kernel="rbf", gamma=0.1)),
    "kernel-pca-poly": transformer(lambda: decomposition.KernelPCA(2, kernel="poly", degree=2)),
    "random-projection": transformer(lambda: random_projection.GaussianRandomProjection(3, random_state=0)),
    "select-best": transformer(lambda: feature_selection.SelectKBest(k=2)),
    "select-percentile": transformer(lambda: feature_selection.SelectPercentile(percentile=50)),
    "select-from-model": transformer(lambda: feature_selection.SelectFromModel(linear_model.Lasso(0.1)), line),
    "variance-threshold": transformer(lambda: feature_selection.VarianceThreshold(0.5)),
    "recursive-elimination": transformer(
        lambda: feature_selection.RFE(linear_model.LogisticRegression(max_iter=500), n_features_to_select=3)
    ),
}
