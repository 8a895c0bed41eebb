"""Real models from the same expansions on every provider, against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import sardonyx
from sardonyx.plans import plan as plans
from sardonyx.plans.plan import Plan
from sardonyx.runtime.replay import replay
from tests import models
from tests.engine.providers import NUMPY, PROVIDERS, WASM, WEBGPU

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


def model(name: str) -> tuple[Path, dict[str, np.ndarray]]:
    """A model's file and feeds."""
    if name == "digits":
        return DIGITS, {"image": np.random.default_rng(0).random((3, 1, 28, 28), np.float32)}
    return models.path(name), models.inputs(name)


HEAVY = {
    WASM: {"smollm2-int4-std-prefill", "smollm2-fp16-op23-prefill"},
    WEBGPU: {
        "eeg-spindle-unet",
        "light-densenet121",
        "light-resnet50",
        "ppocr4-det",
        "smollm2-int4-std-prefill",
        "smollm2-int4-contrib-prefill",
        "smollm2-fp16-op23-prefill",
    },
}
"""What takes a processor more than eight seconds."""


def combination(id: str, provider: str) -> Any:
    is_long = models.MODELS[id].long or id in HEAVY.get(provider, ())
    mark = pytest.mark.nightly if is_long else pytest.mark.slow
    return pytest.param(id, provider, id=f"{id}-{provider.removesuffix('ExecutionProvider').lower()}", marks=mark)


@pytest.mark.parametrize(
    ("id", "provider"), [combination(id, provider) for id in models.MODELS for provider in (NUMPY, WASM, WEBGPU)]
)
def test_every_model(id: str, provider: str) -> None:
    expected = models.reference(id)  # first, so that onnxruntime's copy of the weights has gone
    session = sardonyx.InferenceSession(models.path(id), providers=[provider])
    models.assert_close(id, session.run(None, models.inputs(id)), expected)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", ["digits", "ppocr2-cls", "minilm-l3"])
def test_nothing_is_left_to_the_host(name: str, provider: str) -> None:
    path, feeds = model(name)
    session = sardonyx.InferenceSession(path, providers=[provider])
    found = session.run(None, feeds)
    reference = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for ours, theirs in zip(found, reference.run(None, feeds), strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        assert np.abs(ours.astype("f8") - theirs).max() <= 1e-4 * max(1e-30, np.abs(theirs).max())
    (plan,) = session.plans
    assert set(plan.placement) <= {0, -1}, "a node fell to another provider"
    assert not any(isinstance(step, plans.Copy) for step in plan.steps)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_plan_of_a_real_model_is_replayed(provider: str) -> None:
    path, feeds = model("minilm-l3")
    session = sardonyx.InferenceSession(path, providers=[provider])
    expected = session.run(None, feeds)
    plan = Plan.from_json(session.plans[0].to_json())
    for ours, theirs in zip(replay(plan, feeds), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


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
