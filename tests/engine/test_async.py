"""Runs that go on beside their caller, as onnxruntime has them, and awaited."""

from __future__ import annotations

import asyncio
import queue
import threading
import time

import numpy as np
import onnxruntime
import pytest

from sardonyx import InferenceSession, RunOptions
from sardonyx.errors import Fail, InvalidArgument
from sardonyx.model.ir.text import parse_model
from sardonyx.model.serde.writer import write
from tests.engine.graphs import CHAIN, model
from tests.engine.providers import NUMPY, PROVIDERS
from tests.engine.test_profile import ENDLESS

X = np.arange(8, dtype=np.float32).reshape(2, 4) - 3


def told(session, feeds, *arguments):
    """What the callback of a run is called with, and whether that was in another thread."""
    answers = queue.Queue()
    given = session.run_async(
        None, feeds, lambda *answer: answers.put((*answer, threading.current_thread())), *arguments
    )
    assert given is None
    *answer, thread = answers.get(timeout=60)
    return answer, thread is not threading.current_thread()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_callback_is_called_as_by_onnxruntime(provider: str) -> None:
    data = model(CHAIN)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    (wanted, *others), _ = told(onnxruntime.InferenceSession(data, options), {"x": X}, "mine")
    (found, *mine), in_thread = told(InferenceSession(data, providers=[provider]), {"x": X}, "mine")
    assert in_thread
    assert mine == others == ["mine", ""]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_what_goes_wrong_is_told() -> None:
    session = InferenceSession(model(CHAIN), providers=[NUMPY])
    (results, data, error), _ = told(session, {"x": X}, None, RunOptions(terminate=True))
    assert (results, data) == ([], None)
    assert "terminate" in error
    with pytest.raises(InvalidArgument, match="'x'"):
        session.run_async(None, {}, print)
    with pytest.raises(InvalidArgument, match="no output 'z'"):
        session.run_async(["z"], {"x": X})


def test_a_callback_that_fails_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = queue.Queue()
    monkeypatch.setattr(threading, "excepthook", lambda told: heard.put(told.exc_type))
    InferenceSession(model(CHAIN), providers=[NUMPY]).run_async(None, {"x": X}, lambda results, data, error: 1 / 0)
    assert heard.get(timeout=60) is ZeroDivisionError


@pytest.mark.parametrize("provider", PROVIDERS)
def test_many_runs_are_awaited(provider: str) -> None:
    session = InferenceSession(model(CHAIN), providers=[provider])
    feeds = [{"x": X * k} for k in range(20)]

    async def main():
        return await asyncio.gather(*(session.run_async(["y"], each) for each in feeds))

    for (found,), each in zip(asyncio.run(main()), feeds, strict=True):
        np.testing.assert_array_equal(found, session.run(None, each)[0])


def test_awaiting_raises() -> None:
    session = InferenceSession(model(CHAIN), providers=[NUMPY])

    async def main():
        await session.run_async(None, {"x": X}, run_options=RunOptions(terminate=True))

    with pytest.raises(Fail, match="terminate"):
        asyncio.run(main())


def test_to_cancel_ends_the_run() -> None:
    session = InferenceSession(write(parse_model(ENDLESS)), providers=[NUMPY])

    async def main():
        await asyncio.wait_for(session.run_async(None, {"x": np.ones(2, np.float32)}), 0.5)

    started = time.monotonic()
    with pytest.raises(TimeoutError):
        asyncio.run(main())
    while any(executor._free == [] for executor in session._runner.variants.main.executors):
        assert time.monotonic() - started < 60
        time.sleep(0.01)
