"""Profiles are Chrome traces; runs end when they are told to."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sardonyx import InferenceSession, RunOptions, SessionOptions
from sardonyx.errors import Fail
from sardonyx.model.ir.text import parse_model
from sardonyx.model.serde.writer import write
from tests.engine.graphs import model
from tests.engine.providers import NUMPY, PROVIDERS

DIGITS = "examples/digits/digits.onnx"


def profiled(path: Path, provider: str) -> tuple[list[np.ndarray], list[dict[str, Any]]]:
    options = SessionOptions(enable_profiling=True, profile_file_prefix=str(path / "trace"))
    session = InferenceSession(DIGITS, options, providers=[provider])
    results = session.run(None, {"image": np.zeros((2, 1, 28, 28), np.float32)})
    name = session.end_profiling()
    assert Path(name).parent == path
    assert session.end_profiling() == name
    return results, json.loads(Path(name).read_text())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_each_kernel_is_in_the_trace(provider: str, tmp_path: Path) -> None:
    results, events = profiled(tmp_path, provider)
    plain = InferenceSession(DIGITS, providers=[provider])
    (expected,) = plain.run(None, {"image": np.zeros((2, 1, 28, 28), np.float32)})
    np.testing.assert_array_equal(results[0], expected)
    spans = [event for event in events if event["ph"] == "X"]
    assert [event["name"] for event in spans if event["cat"] == "Session"][:2] == ["read", "optimize"]
    kernels = [event for event in spans if event["cat"] == "Node"]
    assert len(kernels) == sum(step.do == "launch" for step in plain.plans[0].steps)
    for event in kernels:
        assert event["dur"] >= 0
        assert event["args"]["provider"] == provider
        assert event["args"]["operators"]
        assert event["args"]["op_name"]
        assert event["name"].endswith("_kernel_time")
        assert event["args"]["bytes"] > 0
    assert kernels[0]["args"]["input_type_shape"][0] == {"float": [2, 1, 28, 28]}
    (run,) = (event for event in spans if event["name"] == "model_run")
    assert all(run["ts"] <= event["ts"] <= run["ts"] + run["dur"] for event in kernels)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_sizes_that_the_run_finds(provider: str, tmp_path: Path) -> None:
    """What is written before its size is known has the room that there is."""
    options = SessionOptions(enable_profiling=True, profile_file_prefix=str(tmp_path / "trace"))
    session = InferenceSession(model("g (float[N] x) => (int64[1, M] y) { y = NonZero(x) }"), options, [provider])
    (found,) = session.run(None, {"x": np.array([0, 1, 0, 2, 0], np.float32)})
    assert found.tolist() == [[1, 3]]
    events = json.loads(Path(session.end_profiling()).read_text())
    outputs = [event["args"]["output_type_shape"] for event in events if event.get("cat") == "Node"]
    assert {"int64": [5]} in outputs[-1]


def test_without_profiling_nothing_is_written() -> None:
    session = InferenceSession(DIGITS, providers=[NUMPY])
    assert session.end_profiling() == ""
    assert session.get_profiling_start_time_ns() == 0


def test_a_profile_is_written_with_its_session(tmp_path: Path) -> None:
    options = SessionOptions(enable_profiling=True, profile_file_prefix=str(tmp_path / "trace"))
    InferenceSession(DIGITS, options, providers=[NUMPY])
    (found,) = tmp_path.iterdir()
    assert "read" in found.read_text()


ENDLESS = """<ir_version: 10, opset_import: ["" : 21]>
main (float32[2] x) => (float32[2] y) {
  trips = Constant <value = int64 {4000000000}> ()
  y = Loop <body = step (int64 i, bool going, float32[2] a) => (bool on, float32[2] b) {
    on = Identity (going)
    b = Sin (a)
  }> (trips, , x)
}"""


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_run_ends_when_it_is_told_to(provider: str) -> None:
    session = InferenceSession(write(parse_model(ENDLESS)), providers=[provider])
    options = RunOptions()
    timer = threading.Timer(0.5, setattr, (options, "terminate", True))
    timer.start()
    started = time.monotonic()
    with pytest.raises(Fail, match="terminate"):
        session.run(None, {"x": np.ones(2, np.float32)}, options)
    assert time.monotonic() - started < 30
    with pytest.raises(Fail, match="terminate"):
        session.run(None, {"x": np.ones(2, np.float32)}, options)


def test_a_session_runs_on_after_a_run_was_ended() -> None:
    session = InferenceSession(DIGITS, providers=[NUMPY])
    feeds = {"image": np.zeros((1, 1, 28, 28), np.float32)}
    (expected,) = session.run(None, feeds)
    options = RunOptions(terminate=True)
    with pytest.raises(Fail):
        session.run(None, feeds, options)
    options.terminate = False
    np.testing.assert_array_equal(session.run(None, feeds, options)[0], expected)
