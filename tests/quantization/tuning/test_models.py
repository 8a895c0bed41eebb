"""Models that people use, within a budget: what onnxruntime finds in the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from sardonyx.quantization.tuning import Scheme, tune
from tests import models


def session(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # its kernels saturate
    return onnxruntime.InferenceSession(path, options)


@pytest.mark.nightly
@pytest.mark.parametrize(("id", "share"), [("minilm-l3", 0.6), ("ppocr4-det", 0.6)])
def test_a_budget_is_met(id: str, share: float, tmp_path: Path) -> None:
    feeds = [models.inputs(id, seed) for seed in range(8)]
    path = models.path(id)
    outcome = tune(path, tmp_path / "small.onnx", feeds, Scheme(), budgets=["cosine>=0.99"], memory=False)
    assert outcome.facts["status"] in ("ok", "slower")
    assert outcome.path is not None
    assert outcome.path.stat().st_size < share * path.stat().st_size
    before, after = session(path), session(outcome.path)
    for each in feeds[3::4]:
        for expected, found in zip(before.run(None, each), after.run(None, each), strict=True):
            if expected.dtype.kind == "f":
                one, other = expected.astype(np.float64).ravel(), found.astype(np.float64).ravel()
                assert one @ other / np.linalg.norm(one) / np.linalg.norm(other) > 0.985
            else:
                np.testing.assert_array_equal(found, expected)
    for output in outcome.facts["outputs"]:
        assert output["cosine"] is None or output["cosine"] >= 0.99
    if id == "ppocr4-det":
        assert outcome.facts["score"]["agreement"] >= 0.99
