"""A signal's handler may raise anywhere in a run: its exception comes out as it is, and the next runs are right."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import numpy as np
import onnx.parser
import pytest

import sardonyx
from sardonyx.common import crew, threads
from sardonyx.common.garbage import paused
from sardonyx.errors import Fail
from tests.engine.providers import NUMPY, PROVIDERS, WASM

FILES = tuple(
    os.path.join(*place.split("/"))
    for place in (
        *("common/crew.py", "common/forks.py", "common/garbage.py", "common/threads.py"),
        *("runtime/executor.py", "runtime/frames.py"),
        *("sardonyx_wasm/device/__init__.py", "sardonyx_wasm/device/steps.py", "sardonyx_wasm/device/words.py"),
    )
)
"""Where what the next run finds is written."""
GRAPHS = {
    "products": """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[m,64] x, float[64,64] w) => (float[m,64] y) {
            a = MatMul(x, w)  b = Tanh(a)  c = MatMul(b, w)  y = Add(b, c)
        }""",
    "bodies": """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[m,64] x, float[64,64] w) => (float[m,64] y) {
            zero = Constant<value = float {0.0}>()  sum = ReduceSum<keepdims = 0>(x)  is_more = Greater(sum, zero)
            a = If(is_more) <
                then_branch = t () => (float[m,64] p) { p = MatMul(x, w) },
                else_branch = e () => (float[m,64] n) { n = Neg(x) }
            >
            y = Exp(a)
        }""",
}


class ToldError(Exception):
    """What the handler raises; no error of arrays or of the runtime."""


def feeds(rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(rows)
    x = rng.uniform(-1, 1, (rows, 64)).astype(np.float32)
    return {"x": np.abs(x) * (-1) ** rows, "w": rng.uniform(-0.1, 0.1, (64, 64)).astype(np.float32)}


def is_deleting(frame: FrameType | None) -> bool:
    """Whether Python would print an exception of that frame, and go on as if none were."""
    while frame:
        if frame.f_code.co_name in ("__del__", "_lose"):
            return True
        frame = frame.f_back
    return False


@contextmanager
def told(number: int) -> Iterator[list[str]]:
    """Raise where Python looks for signals: as calls begin, and behind those of C. Gives the place of that number."""
    places: list[str] = []
    left = number

    def look(frame: FrameType, event: str, _: Any) -> None:
        nonlocal left
        is_there = frame.f_code.co_filename.endswith(FILES) and event in ("call", "c_return")
        if is_there and not is_deleting(frame):
            left -= 1
            if left == 0:
                sys.setprofile(None)
                places.append(f"{event} {frame.f_code.co_filename}:{frame.f_lineno}")
                raise ToldError

    sys.setprofile(look)
    try:
        yield places
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", GRAPHS)
def test_the_next_run_is_right_wherever_one_is_told(name: str, provider: str, is_new: bool) -> None:
    """It is for sizes that the session has seen, or new ones, which are bound then, now and again elsewhere."""
    options = sardonyx.SessionOptions()
    options.intra_op_num_threads = 2
    model = onnx.parser.parse_model(GRAPHS[name]).SerializeToString()
    expected = {rows: sardonyx.InferenceSession(model).run(None, feeds(rows))[0] for rows in (2, 3, 5)}
    session = sardonyx.InferenceSession(model, options, providers=[provider])
    for rows in expected:
        session.run(None, feeds(rows))
    blas = [setting.get() for setting in threads.blas()]
    number = 0
    is_over = False
    while not is_over:
        number += 1
        session.run(None, feeds(2))
        is_heard = False
        try:
            with told(number) as places:
                session.run(None, feeds(6 + number if is_new else 3))
        except ToldError:
            is_heard = True
        is_over = not places
        assert is_heard != is_over, places
        for rows in (3, 2, 5):
            found = session.run(None, feeds(rows))[0]
            np.testing.assert_allclose(found, expected[rows], rtol=1e-4, atol=1e-5, err_msg=str(places))
        assert [setting.get() for setting in threads.blas()] == blas, places
    assert number > (30 if is_new else 20)


def test_no_thread_is_at_work_when_the_caller_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would write to the memory of the run that comes next."""
    monkeypatch.setattr(crew, "LATE", 60.0)
    team, begun, at_work = crew.Crew(2), threading.Event(), list[int]()

    def work(share: int, _: int) -> None:
        if share == 0:
            begun.wait(0.1)
        else:
            at_work.append(share)
            begun.set()
            time.sleep(0.005)
            at_work.pop()

    number = 0
    is_over = False
    while not is_over:
        number += 1
        begun.clear()
        with told(number) as places, suppress(ToldError):
            team.join(work)
        assert not at_work, places
        assert team.run(lambda share, count: count) == 2, places
        is_over = not places
    assert number > 20
    team.dismiss()


def test_the_collector_runs_again_wherever_a_pause_is_told() -> None:
    frozen = gc.get_freeze_count()
    number = 0
    is_over = False
    while not is_over:
        number += 1
        with told(number) as places, suppress(ToldError), paused():
            assert not gc.isenabled()
        is_over = not places
        with paused():
            assert not gc.isenabled()
        assert gc.isenabled(), places
        assert gc.get_freeze_count() == frozen, places
    assert number > 5


@pytest.mark.parametrize("provider", [NUMPY, WASM])
def test_a_handler_may_set_terminate_at_any_point(provider: str) -> None:
    model = onnx.parser.parse_model(GRAPHS["products"]).SerializeToString()
    session = sardonyx.InferenceSession(model, providers=[provider])
    (expected,) = session.run(None, feeds(3))
    number = 0
    is_over = False
    while not is_over:
        number += 1
        left, options = number, sardonyx.RunOptions()

        def look(frame: FrameType, event: str, _: Any) -> None:
            nonlocal left
            is_there = os.path.basename(frame.f_code.co_filename) in ("options.py", "termination.py")
            left -= is_there and event in ("call", "c_return")
            if is_there and left == 0:
                sys.setprofile(None)
                options.terminate = True  # noqa: B023  # as a handler does

        sys.setprofile(look)
        with suppress(Fail):  # unless it came too late
            session.run(None, feeds(3), options)
        sys.setprofile(None)
        is_over = not options.terminate
        np.testing.assert_array_equal(session.run(None, feeds(3))[0], expected)
    assert number > 5


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has no timers that send signals")
@pytest.mark.parametrize("provider", [NUMPY, WASM])
def test_a_timer_may_end_any_run(provider: str) -> None:
    options = sardonyx.SessionOptions()
    options.intra_op_num_threads = 3
    model = onnx.parser.parse_model(GRAPHS["products"]).SerializeToString()
    session = sardonyx.InferenceSession(model, options, providers=[provider])
    fed = [feeds(rows) for rows in (640, 1000, 320)]
    expected = [session.run(None, each)[0] for each in fed]
    rng = np.random.default_rng(0)

    is_running = False

    def handle(_: int, frame: FrameType | None) -> None:
        if is_running and not is_deleting(frame):  # another thread may have been given the signal, and tell it late
            raise ToldError

    before = signal.signal(signal.SIGALRM, handle)
    heard = 0
    try:
        for k in range(150):
            try:
                try:
                    is_running = True
                    signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, 2e-3))
                    session.run(None, fed[k % 3])
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except ToldError:
                heard += 1
            is_running = False
            np.testing.assert_array_equal(session.run(None, fed[k % 3])[0], expected[k % 3])
    finally:
        signal.signal(signal.SIGALRM, before)
    assert heard
