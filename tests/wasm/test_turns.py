"""Loops that the module takes turn by turn itself: on hosts with few features, with threads, ended from outside."""

from __future__ import annotations

import threading
import time

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from numpy.testing import assert_array_equal

import sardonyx
from sardonyx.errors import Fail
from sardonyx_wasm import device
from tests.engine.graphs import model
from tests.engine.loops import CASES, Case, check
from tests.engine.providers import WASM
from tests.support import require, run_in_pyodide

require("wasm")


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of turns that the module took in each call."""
    counts: list[int] = []
    repeat = device._Body.repeat

    def watched(self: device._Body, *arguments: object) -> tuple[int, bool]:
        count, going = repeat(self, *arguments)
        counts.append(count)
        return count, going

    monkeypatch.setattr(device._Body, "repeat", watched)
    return counts


def session(text: str, threads: int = 1) -> sardonyx.InferenceSession:
    options = sardonyx.SessionOptions()
    options.intra_op_num_threads = threads
    return sardonyx.InferenceSession(model(text), options, providers=[WASM])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_all_hosts(case: Case, features: frozenset[str], taken: list[int]) -> None:
    made = session(case.text)
    for feeds in case.feeds * 2:
        check(case, feeds, made.run(None, feeds))
    assert (sum(taken) > 2) == (case.name not in ("triangle", "apart"))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_threads_make_no_difference(case: Case) -> None:
    alone, together = session(case.text, 1), session(case.text, 2)
    for feeds in case.feeds:
        for a, b in zip(alone.run(None, feeds), together.run(None, feeds), strict=True):
            assert_array_equal(a, b)


COUNT = """
g (int64 n, float[K] x) => (float[K] y) {
  y = Loop (n, , x) <body = step (int64 i, bool going, float[K] a) => (bool on, float[K] b) {
    on = Identity (going)
    one = Constant <value_float = 1.0> ()
    b = Add (a, one)
  }>
}
"""


POWER = """
g (int64 n, float[B, K] h) => (float[B, K] y) {
  y = Loop (n, , h) <body = step (int64 i, bool going, float[B, K] a) => (bool on, float[B, K] b) {
    on = Identity (going)
    p = MatMul (a, w)
    b = Add (a, p)
  }>
}
"""


def test_a_long_loop_is_one_call_in_the_end(taken: list[int]) -> None:
    made = session(COUNT)
    x = np.zeros(2, np.float32)
    for _ in range(6):
        taken.clear()
        (y,) = made.run(None, {"n": np.array(1000), "x": x})
        assert_array_equal(y, x + 1000)
        assert sum(taken) == 1000
    assert len(taken) == 1


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [8, 1 << 18], ids=["small", "large"])
def test_a_loop_without_end_is_ended(threads: int, size: int) -> None:
    made = session(COUNT, threads)
    x = np.zeros(size, np.float32)
    assert_array_equal(made.run(None, {"n": np.array(3), "x": x})[0], x + 3)
    options = sardonyx.RunOptions()
    timer = threading.Timer(0.2, lambda: setattr(options, "terminate", True))
    timer.start()
    start = time.perf_counter()
    with pytest.raises(Fail, match="terminate"):
        made.run(None, {"n": np.array(1 << 62), "x": x}, options)
    assert time.perf_counter() - start < 5
    assert_array_equal(made.run(None, {"n": np.array(3), "x": x})[0], x + 3)


def test_what_is_large_is_shared_by_threads(taken: list[int]) -> None:
    x = np.zeros(1 << 18, np.float32)
    assert_array_equal(session(COUNT, 2).run(None, {"n": np.array(3), "x": x})[0], x + 3)
    assert not taken


@pytest.mark.parametrize("size", [16, 256, 1100])
def test_products_with_constants(size: int, taken: list[int]) -> None:
    """The module does them itself, unless they are so large that BLAS is worth leaving the loop."""
    rng = np.random.default_rng(size)
    w, h = rng.normal(size=(size, size)).astype(np.float32) / size, rng.random((1, size), np.float32)
    proto = onnx.load_from_string(model(POWER.replace("K", str(size))))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    made = sardonyx.InferenceSession(proto.SerializeToString(), providers=[WASM])
    (found,) = made.run(None, {"n": np.array(7), "h": h})
    exact = h.astype(np.float64)
    for _ in range(7):
        exact = exact + exact @ w.astype(np.float64)
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)
    assert bool(taken) == (size < 1000)


def test_many_runs_at_once() -> None:
    made, found = session(COUNT), {}

    def run(n: int) -> None:
        found[n] = made.run(None, {"n": np.array(n), "x": np.full(3, n, np.float32)})[0]

    threads = [threading.Thread(target=run, args=(n,)) for n in range(0, 4000, 500)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    for n in range(0, 4000, 500):
        assert_array_equal(found[n], np.full(3, 2 * n, np.float32))


def test_in_pyodide() -> None:
    require("pyodide")
    printed = run_in_pyodide(
        """
        import numpy as np, sardonyx
        session = sardonyx.InferenceSession("count.onnx", providers=["WasmExecutionProvider"])
        for n in (0, 3, 1000):
            print(*session.run(None, {"n": np.int64(n), "x": np.arange(2, dtype="f4")})[0])
        """,
        {"count.onnx": model(COUNT)},
    )
    assert printed.splitlines() == ["0.0 1.0", "3.0 4.0", "1000.0 1001.0"]
