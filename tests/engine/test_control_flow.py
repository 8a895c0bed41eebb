"""NonZero, Loop, If and Scan, on every provider, against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import sardonyx
from sardonyx.errors import RuntimeException
from tests.engine.graphs import CONTROL_FLOW, model
from tests.engine.providers import PROVIDERS, require_provider
from tests.engine.test_replay import feeds_of_control_flow

SCAN = """
g (float[B, 3] start, float[T, B, 3] xs) => (float[B, 3] last, float[B, T, 3] sums) {
  last, sums = Scan (start, xs) <num_scan_inputs = 1, scan_output_axes = [1], scan_input_directions = [1],
    body = step (float[B, 3] state, float[B, 3] x) => (float[B, 3] next, float[B, 3] out) {
      next = Add (state, x)
      out = Identity (next)
    }>
}
"""

NESTED = """
g (int64 n, float[K] x) => (float[K] y) {
  yes = Constant <value = bool {1}> ()
  y = Loop (n, yes, x) <body = outer (int64 i, bool going, float[K] a) => (bool on, float[K] b) {
    on = Identity (going)
    two = Constant <value_int = 2> ()
    odd = Mod (i, two)
    flag = Cast <to = 9> (odd)
    b = If (flag) <
      then_branch = then () => (float[K] t) {
        t = Loop (i, on, a) <body = inner (int64 j, bool c, float[K] v) => (bool d, float[K] w) {
          d = Identity (c)
          w = Add (v, x)
        }>
      },
      else_branch = other () => (float[K] e) { e = Neg (a) }
    >
  }>
}
"""


NARROW = """
g (int64 n, float[K] x) => (bool[T, K] flags, float[T, K] rows) {
  yes = Constant <value = bool {1}> ()
  flags, rows = Loop (n, yes) <body = step (int64 i, bool going) => (bool on, bool[K] flag, float[K] row) {
    on = Identity (going)
    k = Cast <to = 1> (i)
    row = Mul (x, k)
    one = Constant <value_float = 1.0> ()
    flag = Greater (row, one)
  }>
}
"""
"""Slices of three bytes, which devices cannot put one behind the other, and of whole words."""


UNLIKELY = """
g (float[K] x) => (float[M] y) {
  two = Constant <value_ints = [2]> ()
  best, at = TopK (x, two)
  places = NonZero (best)
  number = Size (places)
  zero = Constant <value_int = 0> ()
  some = Greater (number, zero)
  z = If (some) <
    then_branch = then () => (float[1, K] t) { axes = Constant <value_ints = [0]> () t = Unsqueeze (x, axes) },
    else_branch = other () => (float[K] e) { e = Neg (x) }
  >
  y = Concat <axis = 0> (z, x)
}
"""
"""Only the branch makes sense that is taken where nothing is found."""


BROADCAST = """
g (bool c, float[A] x, float[B] y) => (float[M] z) {
  z0 = If (c) <
    then_branch = then () => (float[M] t) { t = Add (x, y) },
    else_branch = other () => (float[M] e) { e = Sub (x, y) }
  >
  z = Neg (z0)
}
"""


def _compare(provider: str, text: str, calls: list[dict[str, np.ndarray]]) -> sardonyx.InferenceSession:
    data = model(text)
    session = sardonyx.InferenceSession(data, providers=[provider])
    reference = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    for feeds in calls:
        for ours, theirs in zip(session.run(None, feeds), reference.run(None, feeds), strict=True):
            assert ours.dtype == theirs.dtype
            if not theirs.size:
                # Of a scan output without slices onnxruntime tells no more than the rank.
                assert not ours.size
                continue
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5, strict=True)
    return session


@pytest.mark.parametrize("provider", PROVIDERS)
def test_nonzero_loop_if(provider: str) -> None:
    calls = [(3, 4, True), (5, 2, False), (3, 6, True), (2, 0, True), (4, 3, True), (6, 1, False)]
    session = _compare(provider, CONTROL_FLOW, [feeds_of_control_flow(*call) for call in calls])
    assert session.compiled == 1
    assert set(session.plans[0].placement) <= {0, -1}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_scan_backwards(provider: str) -> None:
    rng = np.random.default_rng(0)
    calls = [
        {"start": rng.normal(size=(b, 3)).astype("f4"), "xs": rng.normal(size=(t, b, 3)).astype("f4")}
        for b, t in [(2, 5), (4, 1), (2, 3)]
    ]
    _compare(provider, SCAN, calls)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_loop_in_if_in_loop(provider: str) -> None:
    x = np.arange(3, dtype=np.float32)
    _compare(provider, NESTED, [{"n": np.array(n), "x": x} for n in (0, 1, 4)])


@pytest.mark.parametrize("provider", PROVIDERS)
def test_sizes_decide_what_a_branch_gives(provider: str) -> None:
    calls = [(3, 3, True), (1, 4, True), (4, 1, False), (5, 5, False)]
    _compare(
        provider,
        BROADCAST,
        [{"c": np.array(c), "x": np.ones(a, np.float32), "y": np.arange(b, dtype="f4")} for a, b, c in calls],
    )


FILLED = """
g (bool c, float[N] x) => (float[N] y) {
  y = If (c) <
    then_branch = then () => (float[N] t) {
      s = Shape (x)
      t = ConstantOfShape <value = float[1] {2}> (s)
    },
    else_branch = other () => (float[N] e) { e = Neg (x) }
  >
}
"""
"""A branch is fed nothing, and gives as much as there is around it."""


@pytest.mark.parametrize("provider", PROVIDERS)
def test_sizes_around_a_branch_are_those_of_the_run(provider: str) -> None:
    session = _compare(provider, FILLED, [{"c": np.array(True), "x": np.ones(n, np.float32)} for n in (3, 5, 2, 3)])
    assert session.compiled == 1


@pytest.mark.parametrize("provider", PROVIDERS)
def test_scan_outputs_of_any_width(provider: str) -> None:
    x = np.array([0.5, -1, 2], np.float32)
    _compare(provider, NARROW, [{"n": np.array(n), "x": x} for n in (1, 5, 0, 700)])


CHOICE = """
g (int64 rate, float[N] x) => (float[2, K] y) {
  high = Constant <value_int = 16> ()
  wide = Equal (rate, high)
  y = If (wide) <
    then_branch = then () => (float[2, A] t) {
      six = Constant <value_ints = [2, 6]> ()
      t = Reshape (x, six)
    },
    else_branch = other () => (float[2, B] e) {
      four = Constant <value_ints = [2, 4]> ()
      e = Reshape (x, four)
    }
  >
}
"""


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_branch_that_is_not_taken_may_be_impossible(provider: str) -> None:
    """Models for two sample rates have a branch for each, and each is for inputs of one length."""
    calls = [{"rate": np.array(rate), "x": np.arange(size, dtype=np.float32)} for rate, size in ((16, 12), (8, 8))]
    _compare(provider, CHOICE, calls * 2)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_guess_that_makes_no_sense_is_no_error(provider: str) -> None:
    require_provider(provider)
    session = sardonyx.InferenceSession(model(UNLIKELY), providers=[provider])
    for count in (3, 5):
        assert session.run(None, {"x": np.zeros(count, np.float32)})[0].tolist() == [0.0] * (2 * count)
    with pytest.raises(RuntimeException, match="Concat"):
        session.run(None, {"x": np.ones(3, np.float32)})


CHOSEN = """
g (int64 n, float[%(rows)s, 8] x, float[8, 8] w) => (float[A, B] y) {
  yes = Constant <value = bool {1}> ()
  y = Loop (n, yes, x) <body = step (int64 i, bool going, float[C, D] a) => (bool on, float[E, F] b) {
    on = Identity (going)
    sum = ReduceSum <keepdims = 0> (a)
    zero = Constant <value_float = 0.0> ()
    is_up = Greater (sum, zero)
    b = If (is_up) <
      then_branch = down () => (float[G, H] c) { m = MatMul (a, w) t = Tanh (m) c = Sub (t, sum) },
      else_branch = up () => (float[I, J] d) { %(up)s }
    >
  }>
}
"""
SAME = "l = Log (a) q = MatMul (l, w) d = Abs (q)"
OTHER_SIZES = "d = Concat <axis = 0> (a, x)"
RANDOM = "r = RandomUniformLike (a) k = Mul (r, zero) d = Sub (k, sum)"


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("rows", "up", "is_chosen"),
    [(3, SAME, False), ("R", SAME, False), (30_000, SAME, True), (3, OTHER_SIZES, True), (3, RANDOM, True)],
    ids=["brief", "open", "long", "sizes", "random"],
)
def test_a_loop_computes_both_of_two_brief_branches(rows: int | str, up: str, is_chosen: bool, provider: str) -> None:
    """Also where the one that is not taken makes NaN."""
    rng = np.random.default_rng(0)
    shape = (rows if isinstance(rows, int) else 3, 8)
    x, w = rng.normal(size=shape).astype("f4"), rng.normal(size=(8, 8)).astype("f4")
    calls = [{"n": np.array(n), "x": x, "w": w} for n in (0, 1, 5)]
    session = _compare(provider, CHOSEN % {"rows": rows, "up": up}, calls)
    (body, *_), *_ = session.plans[0].functions
    assert bool(body.functions) == is_chosen
