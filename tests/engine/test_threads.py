"""Any number of threads may run one session: the results are the same bits, and nothing grows."""

from __future__ import annotations

import gc
import threading
import tracemalloc

import numpy as np
import pytest

import sardonyx
from tests.engine.graphs import CHAIN, model
from tests.engine.providers import PROVIDERS

THREADS, RUNS = 8, 200


@pytest.mark.parametrize("provider", PROVIDERS)
def test_threads_share_a_session(provider: str) -> None:
    session = sardonyx.InferenceSession(model(CHAIN), providers=[provider])
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(rows, 4)).astype(np.float32) for rows in (1 + np.arange(THREADS)) * 3]
    expected = [session.run(None, {"x": x})[0] for x in inputs]
    failures: list[str] = []

    def work(number: int) -> None:
        try:
            for k in range(RUNS):
                which = (number + k) % THREADS
                (found,) = session.run(None, {"x": inputs[which]})
                if not np.array_equal(found, expected[which]):
                    failures.append(f"thread {number}, run {k}: other bits")
        except Exception as error:
            failures.append(f"thread {number}: {error!r}")

    def round_of_threads() -> None:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    round_of_threads()
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        round_of_threads()
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert not failures
    assert session.compiled == 1
    assert grown < 200_000, f"{grown} bytes are held after {THREADS * RUNS} runs more"
