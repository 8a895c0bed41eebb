"""Support vector machines against onnxruntime: kernels, votes, and probabilities that are coupled."""

from __future__ import annotations

import numpy as np
import pytest

from sardonyx.primitives import rows
from tests.engine.providers import NUMPY, PROVIDERS, require_provider
from tests.operators.tree_models import assert_like_onnxruntime, model

KERNELS = ["LINEAR", "POLY", "RBF", "SIGMOID"]


def classifier(
    kernel: str, classes: int, chances: bool, transform: str, dtype: str = "f4", vectors: bool = True, seed: int = 0
) -> bytes:
    """A machine with random support vectors, or linear, and weights of one sign for odd seeds."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 5, size=classes)
    count, pairs = int(counts.sum()), classes * (classes - 1) // 2
    weights = rng.normal(size=count * (classes - 1) if vectors else classes * 4)
    attributes = {
        "kernel_type": kernel,
        "kernel_params": [0.3, 0.1, 3.0],
        "coefficients": (np.abs(weights) if seed % 2 else weights).tolist(),
        "rho": rng.normal(size=pairs).tolist(),
        "post_transform": transform,
    }
    if vectors:
        attributes |= {"support_vectors": rng.normal(size=count * 4).tolist(), "vectors_per_class": counts.tolist()}
    if chances:
        attributes |= {"prob_a": rng.uniform(-3, -1, pairs).tolist(), "prob_b": rng.normal(size=pairs).tolist()}
    labels = {"classlabels_ints": list(range(5, 5 + classes))}
    return model("SVMClassifier", 2, dtype, 1, **attributes, **labels)


def features(dtype: str = "f4", count: int = 40) -> np.ndarray:
    return (np.random.default_rng(9).normal(size=(count, 4)) * 2).astype(dtype)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_probabilities(classes: int, kernel: str, provider: str) -> None:
    require_provider(provider)
    assert_like_onnxruntime(classifier(kernel, classes, True, "NONE"), features(), provider, 1e-4)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("chances", [False, True], ids=["scores", "chances"])
@pytest.mark.parametrize("vectors", [False, True], ids=["linear", "vectors"])
@pytest.mark.parametrize("classes", [2, 4])
def test_classifier(classes: int, vectors: bool, chances: bool, transform: str) -> None:
    for kernel in KERNELS if vectors else KERNELS[:1]:
        for seed in (0, 1):
            data = classifier(kernel, classes, chances, transform, vectors=vectors, seed=seed)
            assert_like_onnxruntime(data, features(), NUMPY, 1e-4)


@pytest.mark.parametrize("dtype", ["f8", "i4", "i8"])
def test_inputs(dtype: str) -> None:
    assert_like_onnxruntime(classifier("RBF", 3, True, "NONE", dtype), features(dtype), NUMPY, 1e-4)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_blocks_of_rows(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require_provider(provider)
    monkeypatch.setattr(rows, "MOST_ELEMENTS", 200)
    assert_like_onnxruntime(classifier("RBF", 3, False, "NONE"), features(), provider, 1e-4)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_text_labels(provider: str) -> None:
    require_provider(provider)
    data = model(
        "SVMClassifier",
        2,
        "f4",
        1,
        coefficients=np.linspace(-1, 1, 12).tolist(),
        kernel_params=[0.0, 0.0, 3.0],
        rho=[0.1],
        classlabels_strings=["x", "y", "zz"],
    )
    assert_like_onnxruntime(data, features(), provider)
