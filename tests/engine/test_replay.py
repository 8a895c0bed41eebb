"""A plan is all that a run needs: it goes through JSON and runs where the compiler cannot be imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sardonyx
from sardonyx.errors import InvalidArgument, InvalidGuard
from sardonyx.plans.plan import Plan
from sardonyx.runtime.replay import replay
from tests.engine.graphs import CHAIN, CONTROL_FLOW, model
from tests.engine.providers import PROVIDERS

BLOCKED = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("sardonyx.ops", "sardonyx.passes", "sardonyx.model.serde", "onnx")):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Block())
import numpy as np
from sardonyx.runtime.replay import replay
from sardonyx.plans.plan import Plan

plan = Plan.from_json(open(sys.argv[1]).read())
feeds = dict(np.load(sys.argv[2]))
np.savez(sys.argv[3], *replay(plan, feeds))
"""


def feeds_of_control_flow(rows: int = 3, trips: int = 4, condition: bool = True) -> dict[str, np.ndarray]:
    x = np.random.default_rng(rows).normal(size=(rows, 4)).astype(np.float32)
    return {"x": x, "n": np.array(trips), "c": np.array(condition)}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("text", [CHAIN, CONTROL_FLOW], ids=["chain", "control-flow"])
def test_replays_without_the_compiler(provider: str, text: str, tmp_path: Path) -> None:
    session = sardonyx.InferenceSession(model(text), providers=[provider])
    feeds = feeds_of_control_flow()
    if text is CHAIN:
        feeds = {"x": feeds["x"]}
    expected = session.run(None, feeds)
    (tmp_path / "plan.json").write_text(session.plans[0].to_json())
    np.savez(tmp_path / "feeds.npz", **feeds)  # type: ignore[arg-type]
    paths = [str(tmp_path / name) for name in ("plan.json", "feeds.npz", "results.npz")]
    subprocess.run([sys.executable, "-c", BLOCKED, *paths], check=True, timeout=500)
    with np.load(tmp_path / "results.npz") as results:
        for array, name in zip(expected, results.files, strict=True):
            np.testing.assert_array_equal(results[name], array)


def test_json_is_stable() -> None:
    session = sardonyx.InferenceSession(model(CONTROL_FLOW), providers=["NumpyExecutionProvider"])
    session.run(None, feeds_of_control_flow())
    text = session.plans[0].to_json()
    assert Plan.from_json(text).to_json() == text


def test_other_sizes_are_replayed_too() -> None:
    session = sardonyx.InferenceSession(model(CHAIN), providers=["NumpyExecutionProvider"])
    session.run(None, {"x": np.ones((3, 4), np.float32)})
    plan = Plan.from_json(session.plans[0].to_json())
    x = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
    np.testing.assert_array_equal(replay(plan, {"x": x})[0], session.run(None, {"x": x})[0])


def test_broken_guard_without_compiler_is_named() -> None:
    text = "g (float[N, 4] x, float[M, 4] y) => (float[K, 4] z) { z = Add (x, y) }"
    session = sardonyx.InferenceSession(model(text), providers=["NumpyExecutionProvider"])
    ones = np.ones((3, 4), np.float32)
    session.run(None, {"x": ones, "y": ones})
    plan = Plan.from_json(session.plans[0].to_json())
    with pytest.raises(InvalidGuard, match="no compiler here"):
        replay(plan, {"x": ones, "y": ones[:1]})


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"version": 99})])
def test_foreign_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="plan"):
        Plan.from_json(text)
