"""Models that people use, within a budget: what onnxruntime finds in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from sardonyx.quantization.tuning import Scheme, tune
from tests import models

LEVELS = onnxruntime.GraphOptimizationLevel


def answers(path: Path, feeds: list[dict[str, Any]], level: LEVELS = LEVELS.ORT_DISABLE_ALL) -> list[list[Any]]:
    """What onnxruntime answers to each of the feeds."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    session = onnxruntime.InferenceSession(path, options)
    return [session.run(None, each) for each in feeds]


def cosine(x: Any, y: Any) -> float:
    one, other = x.astype(np.float64).ravel(), y.astype(np.float64).ravel()
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


@pytest.mark.nightly
@pytest.mark.parametrize(("id", "share"), [("minilm-l3", 0.6), ("ppocr4-det", 0.6)])
def test_a_budget_is_met(id: str, share: float, tmp_path: Path) -> None:
    feeds = [models.inputs(id, seed) for seed in range(8)]
    path = models.path(id)
    outcome = tune(path, tmp_path / "small.onnx", feeds, Scheme(), budgets=["cosine>=0.99"], memory=False)
    assert outcome.facts["status"] in ("ok", "slower")
    assert outcome.path is not None
    assert outcome.path.stat().st_size < share * path.stat().st_size
    # Kernels of integers saturate on some processors; what is computed in floats rounds once more at each step.
    judged = feeds[3::4]
    levels = LEVELS.ORT_DISABLE_ALL, LEVELS.ORT_ENABLE_ALL
    results = [answers(outcome.path, judged, level) for level in levels]
    for expected, *found in zip(answers(path, judged), *results, strict=True):
        for one, *others in zip(expected, *found, strict=True):
            if one.dtype.kind == "f":
                assert max(cosine(one, other) for other in others) > 0.985
            else:
                np.testing.assert_array_equal(others[0], one)
    for output in outcome.facts["outputs"]:
        assert output["cosine"] is None or output["cosine"] >= 0.99
    if id == "ppocr4-det":
        assert outcome.facts["score"]["agreement"] >= 0.99
