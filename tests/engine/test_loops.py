"""Loops on every provider, which may take them whole: against float64 NumPy, and onnxruntime."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import sardonyx
from sardonyx.errors import Fail, RuntimeException
from tests.engine.graphs import model
from tests.engine.loops import CASES, DECLARED, FORMS, Case, check, form
from tests.engine.providers import PROVIDERS, require_provider


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_loops(case: Case, provider: str) -> None:
    session = sardonyx.InferenceSession(model(case.text), providers=[provider])
    for feeds in case.feeds:
        check(case, feeds, session.run(None, feeds))
    assert bool(session.plans[0].functions) == (case.name != "apart")


FEWER_THAN_NONE = """
g (float[K] x) => (float[K] y, float[T, K] rows) {
  n = Constant <value_int = -3> ()
  y, rows = Loop (n, , x) <body = step (int64 i, bool going, float[K] a) => (bool on, float[K] b, float[K] row) {
    on = Identity (going)
    b = %s (a)
    row = Neg (x)
  }>
}
"""


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("function", ["Identity", "Exp"])
def test_a_negative_number_of_turns_is_none(function: str, provider: str) -> None:
    session = sardonyx.InferenceSession(model(FEWER_THAN_NONE % function), providers=[provider])
    x = np.arange(2, dtype=np.float32)
    y, rows = session.run(None, {"x": x})
    np.testing.assert_array_equal(y, x)
    assert rows.shape == (0, 2)


def compare(text: str, provider: str, *calls: dict[str, np.ndarray]) -> sardonyx.InferenceSession:
    """The session; fails where the outputs differ from onnxruntime's: in type, rank, shape or elements."""
    require_provider(provider)
    data = model(text)
    session = sardonyx.InferenceSession(data, providers=[provider])
    reference = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    for feeds in calls:
        for ours, theirs in zip(session.run(None, feeds), reference.run(None, feeds), strict=True):
            _same(ours, theirs)
    return session


def _same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            _same(one, other)
    elif theirs.size or ours.size:  # of no slices onnxruntime tells no more than the rank
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, strict=True)
    else:
        assert (ours.dtype, ours.ndim) == (theirs.dtype, theirs.ndim)


X = np.arange(12, dtype=np.float32).reshape(6, 2)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(("number", "going"), DECLARED)
@pytest.mark.parametrize("name", FORMS)
def test_what_the_body_declares(name: str, number: str, going: str, provider: str) -> None:
    """Of the number of the turn and the condition: scalars, or tensors of one element."""
    session = compare(form(name, number, going), provider, *({"n": np.array(n), "x": X} for n in (3, 1, 6)))
    assert bool(session.plans[0].functions) == (name in ("together", "turn by turn"))


KNOWN = """
g (float[6, 2] x) => (float[T, 2] rows) {
  four = Constant <value_int = 4> ()
  flag = Constant <value = bool {%s}> ()
  rows = Loop (four, flag) <body = step (int64 i, bool going) => (bool on, float[2] row) {
    yes = Constant <value = bool[1] {1}> ()
    on = %s
    row = Gather (x, i)
  }>
}
"""


@pytest.mark.parametrize(
    ("flag", "on"), [("1", "Identity (going)"), ("1", "And (going, yes)"), ("0", "Identity (going)")]
)
def test_conditions_that_are_known(flag: str, on: str) -> None:
    """A loop of which it is known that it goes on is none."""
    session = compare(KNOWN % (flag, on), "NumpyExecutionProvider", {"x": X})
    assert not session.plans[0].functions or (flag, on) != ("1", "Identity (going)")


EXAMPLES = """
g (int64 n, bool c, float[3, 2, 2] x)
    => (float[T, 1] numbers, float[T, 1, 2, 2] rows, int64[T, 2] pairs, float[T, 4] slices) {
  numbers, rows, pairs, slices = Loop (n, c) <body = step (int64[1] i, bool going)
      => (bool on, float[1] number, float[1, 2, 2] row, int64[2] pair, float[4] slice) {
    on = Identity (going)
    number = Cast <to = 1> (i)
    row = Gather (x, i)
    pair = Concat <axis = 0> (i, i)
    one = Constant <value_ints = [1]> ()
    next = Add (i, one)
    part = Slice (x, i, next)
    four = Constant <value_ints = [4]> ()
    slice = Reshape (part, four)
  }>
}
"""


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_number_with_an_axis_is_an_index(provider: str) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    compare(EXAMPLES, provider, *({"n": np.array(n), "c": np.array(True), "x": x} for n in (3, 2)))


def test_what_is_saved_declares_it_too(tmp_path: Path) -> None:
    """onnxruntime asks for the rank of both."""
    options = sardonyx.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    data = model(form("together", "int64[1]", "bool"))
    found = sardonyx.InferenceSession(data, options, providers=["NumpyExecutionProvider"]).run(
        None, {"n": np.array(3), "x": X}
    )
    saved = onnxruntime.InferenceSession(options.optimized_model_filepath, providers=["CPUExecutionProvider"])
    for ours, theirs in zip(found, saved.run(None, {"n": np.array(3), "x": X}), strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)


ENDING = """
g (int64 n, bool c, %(carried)s) => (%(result)s, int64[T] turns, bool[T] flags) {
  %(before)s
  last, turns, flags = Loop (%(most)s, %(going)s, %(given)s) <body = step (int64 i, bool going, %(taken)s)
      => (bool on, %(made)s, int64 turn, bool flag) {
    four = Constant <value_int = 4> ()
    on = Less (i, four)
    %(step)s
    turn = Identity (i)
    flag = Identity (going)
  }>
}
"""
TENSOR = {
    "carried": "float[2] x",
    "result": "float[2] last",
    "before": "",
    "given": "x",
    "taken": "float[2] a",
    "made": "float[2] b",
    "step": "b = Add (a, x)",
}
SEQUENCE = TENSOR | {
    "result": "seq(float[2]) last",
    "before": "list = SequenceConstruct (x)",
    "given": "list",
    "taken": "seq(float[2]) a",
    "made": "seq(float[2]) b",
    "step": "b = SequenceInsert (a, x)",
}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("kind", [TENSOR, SEQUENCE], ids=["repeated", "unrolled"])
@pytest.mark.parametrize(("most", "going"), [("", ""), ("n", ""), ("", "c"), ("n", "c")])
def test_the_condition_of_the_body_ends_the_loop(most: str, going: str, kind: dict[str, str], provider: str) -> None:
    text = ENDING % (kind | {"most": most, "going": going})
    x = np.array([1, 2], np.float32)
    calls = [(9, True), (2, True)] if most else [(0, True)]
    calls += [(9, False)] if going else []
    compare(text, provider, *({"n": np.array(n), "c": np.array(c), "x": x} for n, c in calls))


WHILE = """
g (int64[K] x, int64 most) => (int64 turns, int64[] rest) {
  none = Constant <value_int = 0> ()
  yes = Constant <value = bool {1}> ()
  rest, turns = Loop (%s, yes, x, none) <body = step (int64 i, bool going, int64[A] a, int64 k)
      => (bool on, int64[B] b, int64 l) {
    zero = Constant <value_int = 0> ()
    one = Constant <value_int = 1> ()
    eight = Constant <value_int = 8> ()
    first = Constant <value_ints = [0]> ()
    second = Constant <value_ints = [1]> ()
    end = Constant <value_ints = [99]> ()
    l = Add (k, one)
    %s
  }>
}
"""
DROPPED = "b = Slice (a, second, end)\n size = Size (b)\n on = Greater (size, zero)"
JOINED = """
    m = Unsqueeze (k, first)
    b = Concat <axis = 0> (a, m)
    shape = Shape (b)
    size = Squeeze (shape)
    on = Less (size, eight)
"""
KEPT = """
    largest = ReduceMax <keepdims = 0> (a)
    others = Less (a, largest)
    b = Compress <axis = 0> (a, others)
    size = Size (b)
    on = Cast <to = 9> (size)
"""
ENTERED = "b = Slice (a, second, end)\n size = Size (a)\n on = Greater (size, one)"
COUNTED = "b = Identity (a)\n r = Range (l, eight, one)\n size = Size (r)\n on = Greater (size, one)"
STEPS = pytest.mark.parametrize(
    "step", [DROPPED, JOINED, KEPT, ENTERED, COUNTED], ids=["drop", "join", "keep", "enter", "count"]
)
"""Of `while len(x) > 0`, as exporters write it: what turns change decides by its size."""


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("most", ["most", ""])
@STEPS
def test_sizes_end_a_loop(step: str, most: str, provider: str) -> None:
    feeds = [([3, 5, 4, 8, 7, 9, 1], 2**63 - 1), ([4, 2], 20), ([5, 5, 6], 2)]
    compare(WHILE % (most, step), provider, *({"x": np.array(x), "most": np.array(n)} for x, n in feeds))


@STEPS
def test_sizes_end_a_loop_of_a_bundle(step: str) -> None:
    """Nothing there makes a plan for the last turn alone."""
    text = WHILE % ("most", step)
    bundle = sardonyx.InferenceSession(sardonyx.compile(model(text)))
    session = onnxruntime.InferenceSession(model(text), providers=["CPUExecutionProvider"])
    for x, n in [([3, 5, 4, 8, 7, 9, 1], 2**63 - 1), ([4, 2], 20), ([5, 7, 6], 2)]:
        feeds = {"x": np.array(x), "most": np.array(n)}
        for found, wanted in zip(bundle.run(None, feeds), session.run(None, feeds), strict=True):
            np.testing.assert_array_equal(found, wanted)


RANKS = """
g (int64 n, bool c, float[K] x) => (float[] y, int64[T] sizes) {
  y, sizes = Loop (%s) <body = step (int64 i, bool going, float[] a) => (bool on, float[] b, int64 size) {
    three = Constant <value_int = 3> ()
    on = Less (i, three)
    size = Size (a)
    %s
  }>
}
"""
SETTLED = """
    sum = ReduceSum <keepdims = 0> (a)
    cube = Constant <value_ints = [2, 2, 2]> ()
    b = Expand (sum, cube)
"""
RISING = """
    first = Constant <value_ints = [0]> ()
    b = Unsqueeze (a, first)
"""


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("step", [SETTLED, RISING], ids=["settled", "rising"])
@pytest.mark.parametrize("given", ["n, , x", ", c, x", "n, c, x", ", , x"])
def test_ranks_may_change(given: str, step: str, provider: str) -> None:
    calls = [{"n": np.array(n), "c": np.array(c), "x": np.ones(1, "f4")} for n, c in [(3, True), (0, False), (9, True)]]
    compare(RANKS % (given, step), provider, *calls)


BY_DATA = """
g (float[K] x) => (float[] y) {
  y = Loop (, , x) <body = step (int64 i, bool going, float[] a) => (bool on, float[] b) {
    total = ReduceSum <keepdims = 0> (a)
    limit = Constant <value_float = 1000.0> ()
    on = Less (total, limit)
    first = Constant <value_ints = [0]> ()
    higher = Unsqueeze (a, first)
    b = Add (higher, total)
  }>
}
"""


@pytest.mark.parametrize("provider", PROVIDERS)
def test_ranks_may_follow_data(provider: str) -> None:
    compare(BY_DATA, provider, *({"x": np.full(2, x, np.float32)} for x in (1, 900, 30)))


RISING_FOR_EVER = (RANKS % (", , x", RISING)).replace("Less (i, three)", "Identity (going)")


def test_a_rank_that_rises_for_ever_is_an_error() -> None:
    session = sardonyx.InferenceSession(model(RISING_FOR_EVER), providers=["NumpyExecutionProvider"])
    with pytest.raises(RuntimeException, match="Loop 'y': a carried value still changes its rank after 62 turns"):
        session.run(None, {"n": np.array(0), "c": np.array(True), "x": np.ones(1, np.float32)})


ENDLESS = """
g (float[K] x) => (float[M] y) {
  y = Loop (, , x) <body = step (int64 i, bool going, float[A] a) => (bool on, float[B] b) {
    on = Identity (going)
    %s
  }>
}
"""
FLAT = "b = Add (a, x)"
FOUND = """
    places = NonZero (a)
    axes = Constant <value_ints = [0]> ()
    flat = Squeeze (places, axes)
    b = Gather (a, flat)
"""


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("step", [FLAT, FOUND], ids=["repeated", "turn by turn"])
def test_what_never_ends_is_ended(step: str, provider: str) -> None:
    require_provider(provider)
    session = sardonyx.InferenceSession(model(ENDLESS % step), providers=[provider])
    options = sardonyx.RunOptions()
    timer = threading.Timer(0.5, lambda: setattr(options, "terminate", True))
    timer.start()
    start = time.monotonic()
    with pytest.raises(Fail, match="terminate"):
        session.run(None, {"x": np.ones(3, np.float32)}, options)
    assert time.monotonic() - start < 30
