"""Any number of threads may run one session: the results are the same bits, and nothing grows."""

from __future__ import annotations

import gc
import threading
import tracemalloc

import numpy as np
import pytest

import sardonyx
from sardonyx.common.trial import Trial
from tests.engine.graphs import CHAIN, model
from tests.engine.providers import PROVIDERS
from tests.engine.test_models import DIGITS

THREADS, RUNS = 8, 200


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", ["chain", pytest.param("digits", marks=pytest.mark.nightly)])
def test_threads_share_a_session(name: str, provider: str) -> None:
    rng = np.random.default_rng(0)
    if name == "digits":
        session = sardonyx.InferenceSession(DIGITS, providers=[provider])
        inputs = [rng.random((rows, 1, 28, 28), np.float32) for rows in [2, 2, 2, 2, 3, 3, 3, 3]]
    else:
        session = sardonyx.InferenceSession(model(CHAIN), providers=[provider])
        inputs = [rng.normal(size=(rows, 4)).astype(np.float32) for rows in range(3, 3 * THREADS + 3, 3)]
    key = session.get_inputs()[0].name
    expected = [session.run(None, {key: x})[0] for x in inputs]
    failures: list[str] = []

    def work(number: int) -> None:
        try:
            for k in range(RUNS):
                which = (number + k) % THREADS
                (found,) = session.run(None, {key: inputs[which]})
                if not np.array_equal(found, expected[which]):
                    failures.append(f"thread {number}, run {k}: other bits")
        except Exception as error:
            failures.append(f"thread {number}: {error!r}")

    def round_of_threads() -> None:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
            assert not thread.is_alive()

    round_of_threads()
    tracemalloc.start()
    try:
        held = [_held()]
        for _ in range(2):
            round_of_threads()
            held.append(_held())
    finally:
        tracemalloc.stop()
    assert not failures
    assert session.compiled == 1
    # A round may make a frame that no earlier one needed, but not every round does.
    assert min(held[1] - held[0], held[2] - held[1]) < 50_000, f"bytes held after each round: {held}"


def _held() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.parametrize("provider", ["NumpyExecutionProvider", "WasmExecutionProvider"])
def test_sessions_take_turns(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the threads of one write is never another's, though their memory lies side by side."""
    monkeypatch.setattr(Trial, "next", lambda trial: 1)  # threads help wherever they may
    options = sardonyx.SessionOptions()
    options.intra_op_num_threads = 2
    sessions = [sardonyx.InferenceSession(DIGITS, options, providers=[provider]) for _ in range(3)]
    feeds = {"image": np.random.default_rng(0).random((1, 1, 28, 28), np.float32)}
    expected = sardonyx.InferenceSession(DIGITS, providers=["NumpyExecutionProvider"]).run(None, feeds)[0]
    for _ in range(RUNS):
        for session in sessions:
            np.testing.assert_allclose(session.run(None, feeds)[0], expected, rtol=1e-3, atol=1e-4)
