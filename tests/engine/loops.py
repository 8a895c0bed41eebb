"""Loops that a device may take whole, in ONNX's text form: each with feeds, and what NumPy makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Feeds = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """A graph, the feeds of some runs, and a function that gives the expected outputs for feeds in float64."""

    name: str
    text: str
    feeds: list[Feeds]
    expected: Callable[..., list[np.ndarray]]

    def __str__(self) -> str:
        return self.name


def _array(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


# Carried values take each other's places, so that none may be overwritten too early.
EXCHANGE = """
g (int64 n, float[K] x, float[K] y) => (float[K] a, float[K] b, float[K] c, float[T, K] all) {
  a, b, c, all = Loop (n, , x, y, x) <body = step (int64 i, bool going, float[K] p, float[K] q, float[K] r)
      => (bool on, float[K] s, float[K] t, float[K] u, float[K] row) {
    on = Identity (going)
    s = Identity (q)
    t = Identity (r)
    half = Constant <value_float = 0.5> ()
    sum = Add (p, q)
    u = Mul (sum, half)
    row = Sub (u, x)
  }>
}
"""


def _exchange(n: np.ndarray, x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    p, q, r, rows = x, y, x, np.empty((0, *x.shape))
    for _ in range(int(n)):
        p, q, r = q, r, (p + q) / 2
        rows = np.vstack([rows, [r - x]])
    return [p, q, r, rows]


# Carried values of a few bytes, which devices copy as whole words.
FLAGS = """
g (int64 n, bool[K] x, bool y) => (bool[K] a, bool b, bool[K] c, int8[1] d) {
  one = Constant <value = int8[1] {1}> ()
  a, b, c, d = Loop (n, , x, y, x, one) <body = step (int64 i, bool going, bool[K] p, bool q, bool[K] r, int8[1] z)
      => (bool on, bool[K] s, bool t, bool[K] u, int8[1] v) {
    on = Identity (going)
    s = Identity (r)
    t = Not (q)
    u = Xor (p, q)
    k = Cast <to = 3> (i)
    axis = Constant <value_ints = [0]> ()
    v = Unsqueeze (k, axis)
  }>
}
"""


def _flags(n: np.ndarray, x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    p, q, r = x, y, x
    for _ in range(int(n)):
        p, q, r = r, ~q, p ^ q
    return [p, q, r, np.array([int(n) - 1 if n else 1])]


# Newton's iteration ends by its condition, after numbers of turns that are not known before.
ROOT = """
g (int64 n, bool c, float[K] x) => (float[K] y, int64 last, int64[T] turns, float[T, K] steps) {
  zero = Constant <value_int = 0> ()
  y, last, turns, steps = Loop (n, c, x, zero) <body = step (int64 i, bool going, float[K] a, int64 z)
      => (bool on, float[K] b, int64 j, int64 turn, float[K] d) {
    half = Constant <value_float = 0.5> ()
    quotient = Div (x, a)
    sum = Add (a, quotient)
    b = Mul (sum, half)
    d = Sub (b, a)
    size = Abs (d)
    most = ReduceMax <keepdims = 0> (size)
    limit = Constant <value_float = 0.001> ()
    on = Greater (most, limit)
    j = Identity (i)
    turn = Identity (i)
  }>
}
"""


def _root(n: np.ndarray, c: np.ndarray, x: np.ndarray) -> list[np.ndarray]:
    y, steps = x, np.empty((0, *x.shape))
    while c and len(steps) < n:
        before, y = y, (y + x / y) / 2
        steps = np.vstack([steps, [y - before]])
        c = np.abs(steps[-1]).max() > 0.001
    return [y, np.array(max(len(steps) - 1, 0)), np.arange(len(steps)), steps]


# Slices of three bytes and of whole words; nothing is carried.
NARROW = """
g (int64 n, float[3] x) => (bool[T, 3] flags, bool[T] on, float[T, 3] rows, int64[T, 2] same) {
  flags, on, rows, same = Loop (n) <body = step (int64 i, bool going)
      => (bool goes, bool[3] flag, bool on, float[3] row, int64[2] always) {
    goes = Identity (going)
    on = Identity (going)
    k = Cast <to = 1> (i)
    row = Mul (x, k)
    one = Constant <value_float = 1.0> ()
    flag = Greater (row, one)
    always = Constant <value_ints = [4, 2]> ()
  }>
}
"""


def _narrow(n: np.ndarray, x: np.ndarray) -> list[np.ndarray]:
    rows = np.arange(int(n))[:, None] * x
    return [rows > 1, np.ones(int(n), bool), rows, np.tile(np.array([4, 2]), (int(n), 1))]


# A sliding window: what is carried is cut out of what was seen, which is all that is given.
WINDOW = """
g (float[B, 5] start, float[B, T, 3] xs, float[T, B] weights)
    => (float[B, 5] last, float[B, T, 8] windows, float[U, B] sums) {
  last, windows, sums = Scan (start, xs, weights) <
    num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [0, 1], scan_output_axes = [1, 0],
    scan_output_directions = [0, 1],
    body = step (float[B, 5] before, float[B, 3] x, float[B] weight)
        => (float[B, 5] after, float[B, 8] window, float[B] sum) {
      window = Concat <axis = 1> (before, x)
      from = Constant <value_ints = [3]> ()
      to = Constant <value_ints = [8]> ()
      axis = Constant <value_ints = [1]> ()
      after = Slice (window, from, to, axis)
      total = ReduceSum <keepdims = 0> (window, axis)
      sum = Mul (total, weight)
    }>
}
"""


def _window(start: np.ndarray, xs: np.ndarray, weights: np.ndarray) -> list[np.ndarray]:
    everything = np.concatenate([start, xs.reshape(len(xs), -1)], 1)
    turns = xs.shape[1]
    windows = np.stack([everything[:, 3 * t : 3 * t + 8] for t in range(turns)], 1)
    return [everything[:, -5:], windows, (windows.sum(2).T * weights[::-1])[::-1]]


# The inner loop is short; its carried value and the number of its turns come of the outer one.
NESTED = """
g (int64 n, float[K] x) => (float[K] y, float[T, K] rows) {
  y, rows = Loop (n, , x) <body = outer (int64 i, bool going, float[K] a) => (bool on, float[K] b, float[K] row) {
    on = Identity (going)
    row = Loop (i, , a) <body = inner (int64 j, bool c, float[K] v) => (bool d, float[K] w) {
      d = Identity (c)
      k = Cast <to = 1> (j)
      u = Sub (x, k)
      w = Add (v, u)
    }>
    half = Constant <value_float = 0.5> ()
    b = Mul (row, half)
  }>
}
"""


def _nested(n: np.ndarray, x: np.ndarray) -> list[np.ndarray]:
    y, rows = x, np.empty((0, *x.shape))
    for i in range(int(n)):
        row = y + i * x - i * (i - 1) / 2
        rows, y = np.vstack([rows, [row]]), row / 2
    return [y, rows]


# What is carried grows in the first turns, so that these are the host's.
GROWING = """
g (int64 n, float[K, 2] x) => (float[M, 2] y, float[T] sums) {
  y, sums = Loop (n, , x) <body = step (int64 i, bool going, float[A, 2] a) => (bool on, float[B, 2] b, float sum) {
    on = Identity (going)
    from = Constant <value_ints = [-6]> ()
    to = Constant <value_ints = [9223372036854775807]> ()
    axis = Constant <value_ints = [0]> ()
    long = Concat <axis = 0> (a, x)
    b = Slice (long, from, to, axis)
    sum = ReduceSum <keepdims = 0> (b)
  }>
}
"""


def _growing(n: np.ndarray, x: np.ndarray) -> list[np.ndarray]:
    y, sums = x, []
    for _ in range(int(n)):
        y = np.concatenate([y, x])[-6:]
        sums.append(y.sum())
    return [y, np.array(sums)]


# The number of the turn is a size.
TRIANGLE = """
g (int64 n, float[K] x) => (float[T] sums) {
  sums = Loop (n) <body = step (int64 i, bool going) => (bool on, float sum) {
    on = Identity (going)
    axis = Constant <value_ints = [0]> ()
    end = Unsqueeze (i, axis)
    part = Slice (x, axis, end, axis)
    sum = ReduceSum <keepdims = 0> (part)
  }>
}
"""


def _triangle(n: np.ndarray, x: np.ndarray) -> list[np.ndarray]:
    return [np.array([x[:i].sum() for i in range(int(n))])]


# A recurrent cell spelled out, with weights and a product in it.
CELL = """
g (float[B, 16] h, float[T, B, 8] xs, float[8, 16] w, float[16, 16] r) => (float[B, 16] last, float[T, B, 16] all) {
  last, all = Scan (h, xs) <num_scan_inputs = 1,
    body = step (float[B, 16] before, float[B, 8] x) => (float[B, 16] after, float[B, 16] out) {
      p = MatMul (x, w)
      q = MatMul (before, r)
      s = Add (p, q)
      after = Tanh (s)
      out = Identity (after)
    }>
}
"""


def _cell(h: np.ndarray, xs: np.ndarray, w: np.ndarray, r: np.ndarray) -> list[np.ndarray]:
    rows = np.empty((0, *h.shape))
    for x in xs:
        h = np.tanh(x @ w + h @ r)
        rows = np.concatenate([rows, h[None]])
    return [h, rows]


# Turns that do not depend on one another: they may be taken at once.
APART = """
g (float[T, 4] xs, float[B, T] ys, float[B, 4] q, float[4, 4] w)
    => (float[B, 4] same, float[U, B] sums, float[4, U, 4] squares, float[U, A, C] joined, float[U, 4] both,
        float[U, 4] picked, float[U, B, 2] columns, float[U, 3] cut, float[U, 4, 4] always, int64[U] at,
        bool[U, B] large)
{
  same, sums, squares, joined, both, picked, columns, cut, always, at, large = Scan (q, xs, ys) <
    num_scan_inputs = 2, scan_input_axes = [0, 1], scan_input_directions = [0, 1],
    scan_output_axes = [0, 1, 0, 0, 0, 0, 0, 0, 0, 0], scan_output_directions = [0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
    body = step (float[B, 4] before, float[4] x, float[B] y) => (float[B, 4] after, float[B] sum, float[4, 4] square,
        float[A, C] join, float[4] both_, float[4] pick, float[B, 2] column, float[3] part, float[4, 4] w_, int64 best,
        bool[B] is_large) {
      after = Identity (before)
      one = Constant <value_ints = [1]> ()
      d = Sub (before, x)
      sum = ReduceSumSquare <keepdims = 0> (d, one)
      m = MatMul (d, w)
      t = Transpose <perm = [1, 0]> (m)
      tm = MatMul (t, m)
      tn = MatMul (w, t)
      square = Identity (tm)
      flat = Transpose <perm = [1, 0]> (tn)
      join = Concat <axis = 0> (flat, before)
      best = ArgMax <axis = 0, keepdims = 0> (y)
      both_ = Gather <axis = 0> (m, best)
      pick = Gather <axis = 0> (q, best)
      ends = Constant <value_ints = [0, 2]> ()
      column = Gather <axis = 1> (m, ends)
      sides = Constant <value_ints = [1, 1]> ()
      nine = Constant <value_float = 9.0> ()
      wide = Pad (x, sides, nine)
      zero = Constant <value_ints = [0]> ()
      end = Constant <value_ints = [6]> ()
      two = Constant <value_ints = [2]> ()
      part = Slice (wide, zero, end, zero, two)
      w_ = Identity (w)
      none = Constant <value_float = 0.0> ()
      is_large = Greater (y, none)
    }>
}
"""


def _apart(xs: np.ndarray, ys: np.ndarray, q: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
    rows = []
    for x, y in zip(xs, ys.T[::-1], strict=True):
        m, at = (q - x) @ w, y.argmax()
        joined = np.concatenate([(w @ m.T).T, q])
        parts = ((q - x) ** 2).sum(1), m.T @ m, joined, m[at], q[at], m[:, [0, 2]], np.pad(x, 1, constant_values=9)[::2]
        rows.append((*parts, w, at, y > 0))
    sums, squares, joined, *rest = map(np.stack, zip(*rows, strict=True))
    return [q, sums, np.moveaxis(squares, 0, 1), joined[::-1], *rest]


def _times(*numbers: int, **others: np.ndarray) -> list[Feeds]:
    return [{"n": np.array(n), **others} for n in numbers]


CASES = [
    Case("exchange", EXCHANGE, _times(5, 0, 1, 300, x=_array(7), y=_array(2, 7)[1]), _exchange),
    Case("flags", FLAGS, _times(1, 6, 0, 99, x=_array(7) > 0, y=np.array(True)), _flags),
    Case(
        "root",
        ROOT,
        [
            {"n": np.array(n), "c": np.array(c), "x": np.abs(_array(size)) + 1}
            for n, c, size in [(100, True, 5), (100, False, 5), (3, True, 2), (0, True, 5), (100, True, 2)]
        ],
        _root,
    ),
    Case("narrow", NARROW, _times(1, 5, 0, 700, x=np.array([0.5, -1, 2], np.float32)), _narrow),
    Case(
        "window",
        WINDOW,
        [{"start": _array(b, 5), "xs": _array(b, t, 3), "weights": _array(t, b)} for b, t in [(2, 6), (1, 1), (2, 90)]],
        _window,
    ),
    Case("nested", NESTED, _times(4, 0, 9, x=_array(3)), _nested),
    Case("growing", GROWING, _times(1, 2, 0, 40, x=_array(2, 2)), _growing),
    Case(
        "apart",
        APART,
        [{"xs": _array(t, 4), "ys": _array(b, t), "q": _array(b, 4), "w": _array(4, 4)} for b, t in [(3, 5), (2, 1)]],
        _apart,
    ),
    Case("triangle", TRIANGLE, _times(3, 0, 5, x=_array(9)), _triangle),
    Case(
        "cell",
        CELL,
        [
            {"h": _array(b, 16), "xs": _array(t, b, 8), "w": _array(8, 16) / 4, "r": _array(16, 16) / 4}
            for b, t in [(3, 5), (1, 64)]
        ],
        _cell,
    ),
]


DECLARED = [("int64", "bool"), ("int64[1]", "bool[1]"), ("int64[1]", "bool"), ("int64", "bool[1]")]
"""What a body may declare of the number of the turn and of its condition."""

FORMS = {
    "at once": ("four", "", "", "", ""),
    "together": ("n", ", x", ", float[6, 2] a", ", float[6, 2] b", "b = Add (a, number)"),
    "turn by turn": ("n", ", x", ", float[A, 2] a", ", float[B, 2] b", "b = Concat <axis = 0> (a, x)"),
    "unrolled": ("n", ", list", ", seq(float[]) a", ", seq(float[]) b", "b = SequenceInsert (a, row)"),
}
"""Ways to take a loop: the trips, what is carried, what the body takes of it and gives, and the node that makes it."""


def form(name: str, number: str, going: str) -> str:
    """A loop over n rows of x [6, 2] that is taken this way, and what its body declares."""
    trips, carried, takes, gives, step = FORMS[name]
    kind = "seq(float[]) last, " if "seq" in takes else "float[] last, " if takes else ""
    return f"""
g (int64 n, float[6, 2] x) => ({kind}float[] rows, float[] numbers, bool[] flags) {{
  four = Constant <value_int = 4> ()
  list = SequenceConstruct (x)
  {"last, " if takes else ""}rows, numbers, flags = Loop ({trips}, {carried or ","}) <body = step (
      {number} i, {going} go{takes}) => ({going} on{gives}, float[] row, float[] number, bool[] flag) {{
    on = Identity (go)
    row = Gather (x, i)
    number = Cast <to = 1> (i)
    flag = Identity (go)
    {step}
  }}>
}}
"""


def check(case: Case, feeds: Feeds, found: list[np.ndarray]) -> None:
    """Fail where outputs are not what is expected; sizes of slices of no turn count for nothing."""
    doubles = {name: x.astype(np.float64) if x.dtype == np.float32 else x for name, x in feeds.items()}
    for ours, wanted in zip(found, case.expected(**doubles), strict=True):
        if wanted.size or ours.size:
            assert ours.shape == wanted.shape
            np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-4)
