"""Memory that runs out in the page runtime: after a run that failed the next one is right, and nothing is lost."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sardonyx.common import dtypes
from sardonyx.demo import assets
from tests.engine.graphs import CHAIN, CONTROL_FLOW, model
from tests.support import require
from tests.web.pages import HERE, RUNTIME, bundled


def grid(rows: int) -> np.ndarray:
    return np.linspace(-2, 2, 4 * rows, dtype=np.float32).reshape(rows, 4)


def flow(rows: int) -> dict[str, Any]:
    return {"x": grid(rows), "n": np.array(3), "c": np.array(rows > 2)}


CASES = {
    "sizes that grow": (CHAIN, [{"x": grid(rows)} for rows in (300, 2, 400)]),
    "control flow": (CONTROL_FLOW, [flow(rows) for rows in (40, 2, 50)]),
}


def told(array: np.ndarray) -> list[Any]:
    return [dtypes.of(array.dtype).name, array.ravel().tolist(), list(array.shape)]


@pytest.mark.parametrize("name", CASES)
def test_every_allocation_fails_once(name: str, tmp_path: Path) -> None:
    require("node")
    text, runs = CASES[name]
    file = tmp_path / "model.sdx"
    open_ = {key: array for key, array in runs[0].items() if not array.ndim}
    file.write_bytes(bundled(model(text), open_, ["wasm"]))
    feeds = [{key: told(array) for key, array in feed.items()} for feed in runs]
    message = json.dumps({"file": str(file), "runs": feeds})
    command = ["node", str(HERE / "memory.mjs"), str(RUNTIME), message]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["wrong"] == []
    assert found["refused"] > 1
    assert found["count"] > 1


def test_many_sessions_share_memories(tmp_path: Path) -> None:
    """Browsers have room for about a hundred memories; sessions that are released or dropped give theirs back."""
    require("node")
    file = tmp_path / "digits.sdx"
    file.write_bytes(bundled(assets() / "digits.onnx", {}, ["wasm"]))
    command = ["node", "--expose-gc", str(HERE / "crowd.mjs"), str(RUNTIME), json.dumps({"file": str(file)})]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["memories"] == told["again"] == 16
    assert told["alike"] > 1
    assert told["answers"] == [True] * 5
    assert told["released"] == told["before"] / 2
    assert told["dropped"] == told["before"] / 4
    assert told["refusal"].startswith("there is no room for a memory: release sessions")
    assert told["trap"] == "broken.sdx fails (unreachable): compile it anew"
    assert told["end"] == 0
