"""Real models from the same expansions on every provider, against onnxruntime, with nothing left to the host."""

from __future__ import annotations

import numpy as np
import pytest

import sardonyx
from sardonyx import plan as plans
from tests import models
from tests.engine.providers import NUMPY, PROVIDERS

NAMES = ["ppocr2-cls", "minilm-l3"]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", NAMES)
def test_model(name: str, provider: str) -> None:
    session = sardonyx.InferenceSession(models.path(name), providers=[provider])
    found = session.run(None, models.inputs(name))
    for ours, theirs in zip(found, models.reference(name), strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        assert np.abs(ours.astype("f8") - theirs).max() <= 1e-4 * max(1e-30, np.abs(theirs).max())
    (plan,) = session.plans
    assert set(plan.placement) <= {0, -1}, "a node fell to another provider"
    assert not any(isinstance(step, plans.Copy) for step in plan.steps)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_new_sequence_length_compiles_nothing(provider: str) -> None:
    session = sardonyx.InferenceSession(models.path("minilm-l3"), providers=[provider])
    reference = sardonyx.InferenceSession(models.path("minilm-l3"), providers=[NUMPY])
    rng = np.random.default_rng(0)
    for length in (16, 9, 31):
        feeds = {"input_ids": rng.integers(1000, 30000, (1, length)), "attention_mask": np.ones((1, length), np.int64)}
        for ours, theirs in zip(session.run(None, feeds), reference.run(None, feeds), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4 * np.abs(theirs).max())
    assert session.compiled == 1
