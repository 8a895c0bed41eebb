"""Threads that share a call: equal results whatever their number, runs ended from outside."""

from __future__ import annotations

import itertools
import threading
import time

import numpy as np
import onnx
import onnx.numpy_helper
import onnxruntime
import pytest

import sardonyx
from sardonyx.common import crew
from sardonyx.common.trial import Trial
from sardonyx.errors import EPFail, Fail
from sardonyx_wasm import provider
from sardonyx_wasm.abi import COUNTERS, RECORD, SLEEPY
from sardonyx_wasm.device import blas, calls
from sardonyx_wasm.device.words import Launch, Words
from tests.engine.providers import WASM
from tests.support import require

require("wasm")


def session(threads: int, steps: int = 6, size: int = 256, entry: str = "") -> sardonyx.InferenceSession:
    """Products, reductions and chains on [size, size]."""
    lines = "\n".join(
        f"a{k} = MatMul (x{k}, w)  b{k} = Softmax (a{k})  x{k + 1} = Add (b{k}, x{k})" for k in range(steps)
    )
    text = f"""<ir_version: 8, opset_import: ["": 18]>
    g (float[N, {size}] x0, float[{size}, {size}] w) => (float[N, {size}] x{steps}) {{ {lines} }}"""
    options = sardonyx.SessionOptions()
    options.intra_op_num_threads = threads
    if entry:
        options.add_session_config_entry("session.intra_op.allow_spinning", entry)
    model = onnx.parser.parse_model(text).SerializeToString()
    return sardonyx.InferenceSession(model, options, providers=[WASM])


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    rng = np.random.default_rng(0)
    feeds = {"x0": rng.random((700, 256), np.float32), "w": rng.random((256, 256), np.float32)}
    one, two, five = (session(threads).run(None, feeds)[0] for threads in (1, 2, 5))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, five)


def test_threads_sleep_where_they_may_not_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same results, and a word in the state of each run: which the default leaves 0."""
    monkeypatch.setattr(Trial, "next", lambda self: 1)
    told: list[int] = []
    begin = Words.begin
    monkeypatch.setattr(Words, "begin", lambda self: (told.append(int(self._memory[SLEEPY // 4])), begin(self)))
    rng = np.random.default_rng(0)
    feeds = {"x0": rng.random((700, 256), np.float32), "w": rng.random((256, 256), np.float32)}
    found = [session(2, entry=entry).run(None, feeds)[0] for entry in ("1", "0", "")]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    assert [word for word, _ in itertools.groupby(told)] == [0, 1, 0]


@pytest.mark.parametrize(
    ("kernel", "shape", "made", "groups"),
    [
        (3, (1, 48, 13, 13), 192, 1),
        (3, (2, 40, 9, 9), 60, 1),
        (5, (1, 264, 9, 84), 264, 264),
        (3, (1, 70, 4, 40), 70, 70),
    ],
)
def test_images_of_few_lines_are_convolved_by_any_number_of_threads(
    kernel: int, shape: tuple[int, ...], made: int, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blas, "SHARED", 1)
    rng = np.random.default_rng(0)
    w = rng.standard_normal((made, shape[1] // groups, kernel, kernel)).astype(np.float32)
    text = f"""<ir_version: 8, opset_import: ["": 18]>
    g (float[N, C, H, W] x) => (float[N, M, H, W] y) {{
      y = Conv <group = {groups}, pads = [{", ".join(4 * [str(kernel // 2)])}]> (x, w)
    }}"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    x = rng.standard_normal(shape).astype(np.float32)

    def convolved(threads: int) -> np.ndarray:
        options = sardonyx.SessionOptions()
        options.intra_op_num_threads = threads
        return np.asarray(sardonyx.InferenceSession(model.SerializeToString(), options, [WASM]).run(None, {"x": x})[0])

    one, *others = map(convolved, (1, 2, 4, 5))
    for other in others:
        np.testing.assert_array_equal(one, other)
    reference = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(one, reference.run(None, {"x": x})[0], rtol=1e-3, atol=1e-3)


def test_the_number_of_threads_is_an_option_of_the_provider() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 18]> g (float[3] x) => (float[3] y) { y = Abs (x) }'
    )
    given = {"x": np.float32([-1, 0, 2])}
    for threads in (1, "2", "0"):
        options = [{"intra_op_num_threads": threads}]
        made = sardonyx.InferenceSession(model.SerializeToString(), providers=[WASM], provider_options=options)
        np.testing.assert_array_equal(made.run(None, given)[0], [1, 0, 2])


@pytest.mark.parametrize("threads", ["two", "-1", "1.5", ""])
def test_what_is_no_number_of_threads(threads: str) -> None:
    with pytest.raises(EPFail, match=f"WasmExecutionProvider: intra_op_num_threads='{threads}' .*; use 1, 2, ... or 0"):
        provider.device({"intra_op_num_threads": threads})


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> None:
    """All threads take part in each run, however long one of them is waited for."""
    monkeypatch.setattr(Trial, "next", lambda self: 1)
    monkeypatch.setattr(crew, "LATE", 60.0)


@pytest.mark.usefixtures("together")
@pytest.mark.parametrize("failing", [0, 1])
def test_who_fails_lets_the_others_go(failing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = session(3)
    rng = np.random.default_rng(0)
    feeds = {"x0": rng.random((700, 256), np.float32), "w": rng.random((256, 256), np.float32)}
    expected = steps.run(None, feeds)[0]
    do, failed = calls.Call.do, threading.Event()

    def fail(self: calls.Call, number: int, thread: int) -> None:
        if failing != (thread > 0):
            failed.wait(0.01)  # so that the other has some, too
        elif not failed.is_set():
            failed.set()
            raise ArithmeticError("no more")
        do(self, number, thread)

    for _ in range(10):
        failed.clear()
        with monkeypatch.context() as patch:
            patch.setattr(calls.Call, "do", fail)
            made = session(3)
            with pytest.raises(ArithmeticError, match="no more"):
                made.run(None, feeds)
        np.testing.assert_array_equal(made.run(None, feeds)[0], expected)
        np.testing.assert_array_equal(steps.run(None, feeds)[0], expected)


def test_who_is_let_go_keeps_what_it_has() -> None:
    """A thread that is in the middle of a part knows which one, when others give up."""
    entries = [Launch(0, [64, 128], [5], 0), Launch(0, [64, 128], [-1], 1)]
    words = Words(provider.device({}).host, entries, threads=3)
    words.begin()
    records = words._memory[-(2 * COUNTERS + 3 * RECORD) // 4 : -2 * COUNTERS // 4]
    records[:] = range(len(records))
    words.release()
    assert records.tolist() == [*range(len(records))]
    assert words._memory[-2 * COUNTERS // 4 :].tolist() == 2 * [2**32 - 1, 2**31 - 1]


@pytest.mark.parametrize("threads", [1, 3])
def test_products_without_rows(threads: int) -> None:
    feeds = {"x0": np.zeros((0, 256), np.float32), "w": np.zeros((256, 256), np.float32)}
    assert session(threads).run(None, feeds)[0].shape == (0, 256)


@pytest.mark.usefixtures("together")
def test_nobody_waits_for_who_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that takes no part delays none."""
    rng = np.random.default_rng(0)
    feeds = {"x0": rng.random((700, 256), np.float32), "w": rng.random((256, 256), np.float32)}
    (expected,) = session(1).run(None, feeds)
    monkeypatch.setattr(crew.Crew, "_serve", lambda self, queue: None)
    np.testing.assert_array_equal(session(4).run(None, feeds)[0], expected)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_is_ended_in_the_middle(threads: int) -> None:
    steps = session(threads, 300, 64)
    feeds = {"x0": np.ones((20_000, 64), np.float32), "w": np.ones((64, 64), np.float32)}
    options = sardonyx.RunOptions()
    timer = threading.Timer(0.5, setattr, (options, "terminate", True))
    timer.start()
    end = time.monotonic() + 60

    def run_on() -> None:
        while time.monotonic() < end:
            steps.run(None, feeds, options)

    with pytest.raises(Fail, match="terminate"):
        run_on()
    timer.join(60)
    small = {**feeds, "x0": feeds["x0"][:3]}
    assert np.isfinite(steps.run(None, small)[0]).all()
