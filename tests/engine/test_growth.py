"""Sizes that grow from call to call: memory and bound launches stay, and only what sizes decide is told anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

import sardonyx
from sardonyx.common.recent import Recent
from sardonyx.errors import UnsoundError
from sardonyx.plans import reach
from sardonyx.plans.epochs import Layout
from sardonyx.providers.contract import Address
from sardonyx.runtime import frames
from sardonyx.runtime.executor import Executor
from sardonyx.runtime.frames import Frame
from sardonyx_wasm import device
from sardonyx_wasm.device import WasmDevice, WasmExecutable
from sardonyx_wasm.device.steps import Step
from tests.engine.graphs import model
from tests.engine.providers import PROVIDERS, WASM
from tests.support import require

CACHE = """
g (float[1, 8] x, float[P, 8] past) => (float[T, 8] present, float[1, 8] y) {
  present = Concat <axis = 0> (past, x)
  keys = Transpose <perm = [1, 0]> (present)
  scores = MatMul (x, keys)
  weights = Softmax (scores)
  y = MatMul (weights, present)
}
"""
CONVOLUTION = """
g (float[N, 32, H, W] x, float[64, 32, 3, 3] w) => (float[N, 64, H, W] y) {
  z = Conv <pads = [1, 1, 1, 1]> (x, w)
  y = Relu (z)
}
"""
PRODUCT = """
g (float[N, 300] x, float[300, 400] w, float[400, 130] v) => (float[N, 130] y) {
  z = MatMul (x, w)
  y = MatMul (z, v)
}
"""


def attention(x: np.ndarray, past: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    present = np.concatenate([past, x]).astype(np.float64)
    scores = np.exp(x @ present.T)
    return present, scores / scores.sum() @ present


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often memory was allocated and launches were bound."""
    counts = {"allocate": 0, "bind": 0}

    def counted(owner: Any, name: str) -> None:
        made: Callable[..., Any] = getattr(owner, name)

        def call(*arguments: Any) -> Any:
            counts[name] += 1
            return made(*arguments)

        monkeypatch.setattr(owner, name, call)

    counted(WasmDevice, "allocate")
    counted(WasmExecutable, "bind")
    return counts


def test_a_cache_that_grows_is_bound_once(calls: dict[str, int], rng: np.random.Generator) -> None:
    require("wasm")
    session = sardonyx.InferenceSession(model(CACHE), providers=[WASM])
    past = rng.normal(size=(100, 8)).astype("f4")
    for step in range(66):
        if step == 2:
            calls.update(allocate=0, bind=0)
        x = rng.normal(size=(1, 8)).astype("f4")
        present, y = session.run(None, {"x": x, "past": past})
        expected = attention(x, past)
        np.testing.assert_array_equal(present, np.concatenate([past, x]))
        np.testing.assert_allclose(y, expected[1], 1e-4, 1e-5)
        past = present
    assert session.compiled == 1
    assert calls == {"allocate": 0, "bind": 0}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (
            CONVOLUTION,
            [
                *[(1, 32, 30, 20), (1, 32, 12, 9), (2, 32, 9, 12), (1, 32, 31, 19), (1, 32, 12, 9), (3, 32, 1, 2)],
                *[(1, 32, 40, 30), (1, 32, 12, 9), (2, 32, 9, 12), (1, 32, 12, 9), (2, 32, 9, 12), (1, 32, 30, 20)],
            ],
        ),
        (
            PRODUCT,
            [(rows, 300) for rows in (200, 41, 7, 1, 199, 0, 101, 41, 7, 41, 260, 41, 7, 200, 41, 1, 7, 260, 0, 41)],
        ),
    ],
)
def test_products_of_other_sizes(
    provider: str, text: str, shapes: list[tuple[int, ...]], threads: int, rng: np.random.Generator
) -> None:
    """Large ones, which natively BLAS does, in an order in which sizes shrink, grow and come again."""
    options = sardonyx.SessionOptions()
    options.intra_op_num_threads = threads
    made = model(text)
    reference = ReferenceEvaluator(made)
    session = sardonyx.InferenceSession(made, options, providers=[provider])
    fixed = {
        port.name: rng.normal(size=port.shape).astype("f4") / 8 for port in session.get_inputs() if port.name != "x"
    }
    for shape in shapes:
        feeds = {"x": rng.normal(size=shape).astype("f4"), **fixed}
        (y,) = session.run(None, feeds)
        (expected,) = reference.run(None, {name: array.astype("f8") for name, array in feeds.items()})
        np.testing.assert_allclose(y, expected, 1e-3, 1e-3)


FOUND = """
g (float[N, 4] x) => (float[N, 4] y, int64[2, K] places, float[K] positive) {
  y = Tanh (x)
  places = NonZero (y)
  pairs = Transpose <perm = [1, 0]> (places)
  kept = GatherND (x, pairs)
  positive = Abs (kept)
}
"""


@pytest.mark.parametrize("provider", PROVIDERS)
def test_sizes_that_recur_where_a_run_finds_others(provider: str, rng: np.random.Generator) -> None:
    """Both the sizes of feeds and those that are found in them come again, not together."""
    session = sardonyx.InferenceSession(model(FOUND), providers=[provider])
    for rows, count in [(6, 9), (3, 9), (6, 2), (6, 9), (3, 2), (6, 2), (9, 30), (3, 9), (6, 9), (6, 0), (3, 9)]:
        x = np.zeros((rows, 4), "f4")
        x.reshape(-1)[rng.permutation(4 * rows)[:count]] = rng.normal(size=count) + 3
        y, places, positive = session.run(None, {"x": x})
        np.testing.assert_allclose(y, np.tanh(x.astype("f8")), 1e-5, 1e-6)
        np.testing.assert_array_equal(places, x.nonzero())
        np.testing.assert_array_equal(positive, np.abs(x[x.nonzero()]))


@pytest.mark.parametrize("text", [CONVOLUTION, PRODUCT])
def test_sizes_that_recur_are_not_laid_out_again(
    text: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("wasm")
    made = model(text)
    session = sardonyx.InferenceSession(made, providers=[WASM])
    reference = ReferenceEvaluator(made)
    tail = (32, 10, 9) if text == CONVOLUTION else (300,)
    fixed = {
        port.name: rng.normal(size=port.shape).astype("f4") / 8 for port in session.get_inputs() if port.name != "x"
    }
    for number, rows in enumerate((30, 20, 10, 30, 20, 10, 20, 30, 10, 20)):
        if number == 6:
            monkeypatch.delattr(Layout, "rooms_by_kind")
            monkeypatch.delattr(Step, "bound")
        feeds = {"x": rng.normal(size=(rows, *tail)).astype("f4"), **fixed}
        (y,) = session.run(None, feeds)
        (expected,) = reference.run(None, {name: array.astype("f8") for name, array in feeds.items()})
        np.testing.assert_allclose(y, expected, 1e-3, 1e-3)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("text", [CONVOLUTION, PRODUCT])
def test_sizes_that_were_forgotten(
    text: str, threads: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest of three is, each time."""
    require("wasm")
    monkeypatch.setattr(frames, "MOST_SIZES", 2)
    monkeypatch.setattr(device, "MOST_SIZES", 2)
    bounds: list[int] = []
    bound = Recent.keep

    def noted(recent: Recent[Any, Any], key: Any, value: Any) -> Any:
        kept = bound(recent, key, value)
        bounds.append(len(recent))
        return kept

    monkeypatch.setattr(Recent, "keep", noted)
    options = sardonyx.SessionOptions()
    options.intra_op_num_threads = threads
    made = model(text)
    session = sardonyx.InferenceSession(made, options, providers=[WASM])
    reference = ReferenceEvaluator(made)
    tail = (32, 10, 9) if text == CONVOLUTION else (300,)
    fixed = {
        port.name: rng.normal(size=port.shape).astype("f4") / 8 for port in session.get_inputs() if port.name != "x"
    }
    for rows in (30, 20, 10, 30, 20, 10, 30, 10, 20, 30):
        feeds = {"x": rng.normal(size=(rows, *tail)).astype("f4"), **fixed}
        (y,) = session.run(None, feeds)
        (expected,) = reference.run(None, {name: array.astype("f8") for name, array in feeds.items()})
        np.testing.assert_allclose(y, expected, 1e-3, 1e-3)
    assert max(bounds) == 2


def test_only_the_plan_that_fits_has_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """What plans are not for is known before anything is laid out for them."""
    text = "g (float[N, 4] x, float[M, 4] y) => (float[K, 4] z) { z = Add (x, y) }"
    session = sardonyx.InferenceSession(model(text), providers=["NumpyExecutionProvider"])
    sizes = [(3, 3), (5, 1), (1, 4)]
    for n, m in sizes * 2:
        session.run(None, {"x": np.ones((n, 4), np.float32), "y": np.ones((m, 4), np.float32)})
    asked: list[Executor] = []
    frame = Executor.frame

    def noted(executor: Executor) -> Frame:
        asked.append(executor)
        return frame(executor)

    monkeypatch.setattr(Executor, "frame", noted)
    for n, m in [(7, 7), (8, 1), (1, 9), (6, 6)]:
        session._runner.variants.main.executors[0].release(frame(session._runner.variants.main.executors[0]))
        asked.clear()
        session.run(None, {"x": np.ones((n, 4), np.float32), "y": np.ones((m, 4), np.float32)})
        held = session._runner.variants.main.executors[0]
        assert [each for each in asked[1:] if each is not held] == [], "the first is the rerun of the last plan"
    assert session.compiled == len(session.plans) <= 5


NAMES = st.sampled_from([0, 1, 5, "p0", "p1", "p2"])
CODES = st.lists(
    st.tuples(st.lists(st.lists(NAMES, max_size=3), max_size=3), st.lists(st.sampled_from(["p0", "p2"]), max_size=2)),
    max_size=4,
)


@settings(derandomize=True, database=None, deadline=None, max_examples=300)
@given(CODES, st.lists(st.sampled_from([-70_000, -1, 0, 1, 3, 300, 70_000, 1 << 40]), min_size=12, max_size=12))
def test_limits_of_many_launches(codes: Any, numbers: list[int]) -> None:
    """Asked of all at once, they are what is asked of one after another; what lacks parameters is not allowed."""
    named = [{"name": "code", "reach": [*extents, steps]} for extents, steps in codes] + [{"name": "without"}]
    params = [numbers[3 * k : 3 * k + (3 if k < 3 else 2)] for k in range(len(named))]
    buffers = [[Address(None, 0, 100 * k)] for k in range(len(named))]
    limits = reach.Limits(named, [len(values) for values in params])
    flat = np.array([number for values in params for number in values], np.int64)
    try:
        for code, line, values in zip(named, buffers, params, strict=True):
            reach.check(code, line, values)
    except UnsoundError:
        assert not limits.allow(limits.most(buffers), flat)
    else:
        lacks = any("p2" in (*(size for row in each for size in row), *steps) for each, steps in codes[3:])
        assert limits.allow(limits.most(buffers), flat) != lacks
