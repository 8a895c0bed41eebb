"""Losses against float64 NumPy: large scores, labels to be ignored, weights, every rank and reduction."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

import sardonyx
from sardonyx.errors import RuntimeException
from tests.engine.providers import NUMPY, PROVIDERS, require_provider


def expected(
    scores: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    softmax: bool = True,
) -> tuple[Any, np.ndarray]:
    """The loss and the log-probabilities, as ONNX defines them."""
    x = np.moveaxis(scores.astype(np.float64), 1, -1)
    if softmax:
        top = x.max(-1, keepdims=True)
        x = x - top - np.log(np.exp(x - top).sum(-1, keepdims=True))
    counted = labels != ignore_index if ignore_index is not None else np.ones(labels.shape, bool)
    known = np.where(counted, labels, 0)
    weight = np.where(counted, 1.0 if weights is None else weights.astype(np.float64)[known], 0.0)
    losses = -np.take_along_axis(x, known[..., None], -1)[..., 0] * weight
    total = {"none": losses, "sum": losses.sum(), "mean": losses.sum() / weight.sum()}[reduction]
    return total, np.moveaxis(x, -1, 1)


def run(provider: str, name: str, feeds: list[np.ndarray], opset: int = 13, **attributes: Any) -> list[np.ndarray]:
    names = [f"x{number}" for number in range(len(feeds))]
    outputs = ["loss", "logs"] if name.startswith("Softmax") else ["loss"]
    types = [helper.np_dtype_to_tensor_dtype(array.dtype) for array in feeds]
    inputs = [helper.make_tensor_value_info(*item, [None] * x.ndim) for *item, x in zip(names, types, feeds)]
    results = [onnx.ValueInfoProto(name=output) for output in outputs]
    graph = helper.make_graph([helper.make_node(name, names, outputs, **attributes)], "loss", inputs, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return sardonyx.InferenceSession(model.SerializeToString(), providers=[provider]).run(
        None, dict(zip(names, feeds, strict=True))
    )


RNG = np.random.default_rng(0)
SCORES = (RNG.normal(size=(3, 5, 2, 4)) * 3).astype(np.float32)
LABELS = RNG.integers(0, 5, (3, 2, 4))
WEIGHTS = RNG.random(5).astype(np.float32)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("ignore_index", [None, 2, -100])
def test_softmax_cross_entropy(provider: str, reduction: str, ignore_index: int | None) -> None:
    require_provider(provider)
    labels = np.where(RNG.random(LABELS.shape) < 0.3, -100, LABELS) if ignore_index == -100 else LABELS
    attributes = {} if ignore_index is None else {"ignore_index": ignore_index}
    for weights in (None, WEIGHTS):
        feeds = [SCORES, labels] + ([] if weights is None else [weights])
        found = run(provider, "SoftmaxCrossEntropyLoss", feeds, reduction=reduction, **attributes)
        for ours, theirs in zip(found, expected(SCORES, labels, weights, reduction, ignore_index), strict=True):
            assert ours.dtype == np.float32
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_large_scores_do_not_overflow(provider: str) -> None:
    require_provider(provider)
    scores, labels = np.array([[1000, 0], [-1000, 1000]], np.float32), np.array([0, 0], np.int32)
    loss, logs = run(provider, "SoftmaxCrossEntropyLoss", [scores, labels], opset=12, reduction="none")
    np.testing.assert_array_equal(loss, [0, 2000])
    np.testing.assert_array_equal(logs, [[0, -1000], [-2000, 0]])


@pytest.mark.parametrize("opset", [12, 13, 22])
def test_negative_log_likelihood_of_any_rank(opset: int) -> None:
    for shape in [(4, 3), (4, 3, 2), (2, 3, 2, 1, 2)]:
        scores = RNG.normal(size=shape).astype(np.float32)
        labels = RNG.integers(0, 3, (shape[0], *shape[2:]))
        (found,) = run(NUMPY, "NegativeLogLikelihoodLoss", [scores, labels, WEIGHTS[:3]], opset)
        np.testing.assert_allclose(found, expected(scores, labels, WEIGHTS, softmax=False)[0], rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats_are_summed_in_float32(dtype: Any) -> None:
    scores = np.zeros((3000, 4), dtype)
    labels = np.zeros(3000, np.int64)
    loss, _ = run(NUMPY, "SoftmaxCrossEntropyLoss", [scores, labels])
    assert loss.dtype == dtype
    assert float(loss) == pytest.approx(np.log(4), rel=1e-2)


def test_nothing_counted() -> None:
    scores, labels = np.zeros((2, 3), np.float32), np.full(2, 1)
    assert np.isnan(run(NUMPY, "NegativeLogLikelihoodLoss", [scores, labels], ignore_index=1)[0])
    assert run(NUMPY, "NegativeLogLikelihoodLoss", [scores, labels], ignore_index=1, reduction="sum")[0] == 0


def test_unknown_reduction() -> None:
    with pytest.raises(RuntimeException, match="reduction 'median' is unknown; use none, sum or mean"):
        run(NUMPY, "NegativeLogLikelihoodLoss", [SCORES[:, :, 0, 0], LABELS[:, 0, 0]], reduction="median")
