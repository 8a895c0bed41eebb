"""Sequences whose length only the run tells: what a Loop appends, and the slices of a tensor; against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import sardonyx
from sardonyx.plans.bundle import Bundle
from tests.engine.graphs import model
from tests.engine.providers import PROVIDERS, WASM, WEBGPU, require_provider

TARGETS = {WASM: "wasm", WEBGPU: "webgpu"}

APPENDED = """
g (float[T, B, 3] x, int64 at)
    => (float[B, T, 3] stacked, float[B, U] flat, float[B, 3] one, int64 count, float[B, 3] state, float[T] sums)
{
  shape = Shape (x)
  zero = Constant <value_ints = [0]> ()
  first = Constant <value_ints = [1]> ()
  third = Constant <value_ints = [3]> ()
  trips = Slice (shape, zero, first)
  sizes = Slice (shape, first, third)
  start = ConstantOfShape (sizes)
  none = SequenceEmpty <dtype = 1> ()
  rows = SplitToSequence <axis = 0, keepdims = 0> (x)
  state, items, sums = Loop (trips, , start, none) <body = turn (int64[1] i, bool go, float[B, 3] s, seq(float[B, 3]) q)
      => (bool go2, float[B, 3] s2, seq(float[B, 3]) q2, float sum) {
    go2 = Identity (go)
    row = SequenceAt (rows, i)
    both = Add (s, row)
    s2 = Tanh (both)
    double = Add (s2, s2)
    q2 = SequenceInsert (q, double)
    sum = ReduceSum <keepdims = 0> (s2)
  }>
  stacked = ConcatFromSequence <axis = 1, new_axis = 1> (items)
  flat = ConcatFromSequence <axis = -1> (items)
  one = SequenceAt (items, at)
  count = SequenceLength (items)
}
"""
WHILE = """
g (float[N] x, float limit) => (float[T, N] stacked, float total) {
  none = SequenceEmpty <dtype = 1> ()
  zero = Constant <value_float = 0.0> ()
  yes = Constant <value = bool {1}> ()
  total, items = Loop (, yes, zero, none) <body = turn (int64 i, bool go, float t, seq(float[N]) q)
      => (bool go2, float t2, seq(float[N]) q2) {
    some = ReduceMax <keepdims = 0> (x)
    t2 = Add (t, some)
    scaled = Mul (x, t2)
    q2 = SequenceInsert (q, scaled)
    go2 = Less (t2, limit)
  }>
  stacked = ConcatFromSequence <axis = 0, new_axis = 1> (items)
}
"""
OTHERS = {
    "growing": "part = Slice (x, zero, next)\n    q2 = SequenceInsert (q, part)",
    "in front": "next2 = Identity (next)\n    q2 = SequenceInsert (q, x, zero)",
    "twice": "q1 = SequenceInsert (q, next)\n    q2 = SequenceInsert (q1, next)",
}
"""What turns append of other shapes, elsewhere, or more than once."""
OTHER = """
g (float[N] x, int64 trips) => (seq(float[?]) items, float[M] joined) {{
  none = SequenceEmpty <dtype = 1> ()
  items = Loop (trips, , none) <body = turn (int64[1] i, bool go, seq(float[?]) q) => (bool go2, seq(float[?]) q2) {{
    go2 = Identity (go)
    zero = Constant <value_ints = [0]> ()
    one = Constant <value_ints = [1]> ()
    last = Add (i, one)
    next = {next}
    {body}
  }}>
  joined = ConcatFromSequence <axis = 0> (items)
}}
"""
LONGER = """
g (float[B, P, 2] before, float[T, B] x) => (float[B, M, 2] longer, float[B] total, float[K] grown, float[N, B] used) {
  trips = Shape <end = 1> (x)
  first = Constant <value_ints = [0]> ()
  zero = Constant <value_float = 0.0> ()
  batch = Shape <start = 1> (x)
  start = ConstantOfShape (batch)
  none = Constant <value_floats = [1.5]> ()
  row0 = Slice (x, first, trips)
  longer, total, grown, used = Loop (trips, , before, start, none, row0) <
    body = turn (int64[1] i, bool go, float[B, Q, 2] l, float[B] t, float[G] g1, float[U, B] u)
      => (bool go2, float[B, Q2, 2] l2, float[B] t2, float[G2] g2, float[U2, B] u2) {
    go2 = Identity (go)
    row = Gather <axis = 0> (x, i)
    flat = Squeeze (row, first)
    t2 = Add (t, flat)
    ends = Constant <value_ints = [1, 2]> ()
    ones = Constant <value_ints = [1]> ()
    column = Unsqueeze (t2, ends)
    pair = Concat <axis = -1> (column, column)
    l2 = Concat <axis = -2> (l, pair)
    next = Add (i, ones)
    some = Slice (t2, first, next)
    g2 = Concat <axis = 0> (g1, some)
    largest = ReduceMax <keepdims = 1> (u, first)
    u2 = Concat <axis = 0> (u, largest)
  }>
}
"""
SLICES = """
g (float[N, M] x, int64 at) => (seq(float[N, 1]) columns, float[N, 1] one, float[N, M] same, int64 count) {
  one_ = Constant <value_int = 1> ()
  columns = SplitToSequence <axis = 1> (x, one_)
  one = SequenceAt (columns, at)
  same = ConcatFromSequence <axis = 1> (columns)
  count = SequenceLength (columns)
}
"""
REPEATED = """
g (float[T, 2] x, int64[T] counts, int64 at) => (float[M, 2] rows, float[P, 2] one, int64 number, float[M, 2] again) {
  trips = Shape <end = 1> (x)
  ones = ConstantOfShape <value = int64[1] {1}> (trips)
  none = SequenceEmpty <dtype = 1> ()
  parts = SplitToSequence <axis = 0> (x, ones)
  each = SplitToSequence <axis = 0> (counts, ones)
  items = Loop (trips, , none) <
    body = turn (int64[1] i, bool go, seq(float[R, 2]) q) => (bool go2, seq(float[R, 2]) q2) {
      go2 = Identity (go)
      row = SequenceAt (parts, i)
      count = SequenceAt (each, i)
      two = Constant <value_ints = [2]> ()
      shape = Concat <axis = 0> (count, two)
      given = Constant <value_ints = [-1, -1]> ()
      asked = Equal (shape, given)
      unit = Constant <value_ints = [1, 1]> ()
      safe = Where (asked, unit, shape)
      some = Expand (row, safe)
      q2 = SequenceInsert (q, some)
    }
  >
  rows = ConcatFromSequence <axis = 0> (items)
  one = SequenceAt (items, at)
  number = SequenceLength (items)
  first = Constant <value_ints = [0]> ()
  again = Loop (trips, , rows) <
    body = once (int64[1] j, bool on, float[M, 2] r) => (bool on2, float[M, 2] r2) {
      on2 = Identity (on)
      part = SequenceAt (items, j)
      sum = ReduceSum <keepdims = 1> (part, first)
      r2 = Add (r, sum)
    }
  >
}
"""
"""What repeat_interleave is where PyTorch's older exporter writes it."""


def repeated(counts: list[int], at: int) -> dict[str, np.ndarray]:
    x = np.random.default_rng(len(counts)).random((len(counts), 2), np.float32)
    return {"x": x, "counts": np.array(counts), "at": np.array(at)}


def appended(length: int, batch: int, at: int) -> dict[str, np.ndarray]:
    x = np.random.default_rng(length).standard_normal((length, batch, 3), np.float32)
    return {"x": x, "at": np.array(at)}


def both(text: str, provider: str) -> tuple[sardonyx.InferenceSession, onnxruntime.InferenceSession]:
    """Sessions of a model: on the provider, and onnxruntime's."""
    require_provider(provider)
    data = model(text)
    return sardonyx.InferenceSession(data, providers=[provider]), onnxruntime.InferenceSession(data)


def assert_same(ours: list[Any], theirs: list[Any]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        if isinstance(other, list):
            assert_same(one, other)
        else:
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_every_turn_appends(provider: str) -> None:
    ours, theirs = both(APPENDED, provider)
    for sizes in [(4, 2, 1), (1, 1, 0), (9, 3, -2), (2, 0, 0), (6, 1, -6)]:
        feeds = appended(*sizes)
        assert_same(ours.run(None, feeds), theirs.run(None, feeds))


@pytest.mark.parametrize("provider", TARGETS)
def test_a_bundle_takes_any_number_of_turns(provider: str, tmp_path: Path) -> None:
    require_provider(provider)
    data, file = model(APPENDED), tmp_path / "appended.sdx"
    file.write_bytes(sardonyx.compile(data, TARGETS[provider]))
    assert len(Bundle(file.read_bytes()).manifest["targets"][TARGETS[provider]]["plans"]) <= 2
    theirs = onnxruntime.InferenceSession(data)
    ours = sardonyx.InferenceSession(file, providers=[provider])
    for sizes in [(5, 2, -1), (1, 1, 0), (40, 3, 7)]:
        feeds = appended(*sizes)
        assert_same(ours.run(None, feeds), theirs.run(None, feeds))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_tensors_that_turns_make_longer(provider: str) -> None:
    """One of them by slices of other sizes, and one that is read besides."""
    ours, theirs, rng = *both(LONGER, provider), np.random.default_rng(0)
    for length, batch, before in [(3, 2, 0), (1, 4, 2), (7, 3, 1), (2, 1, 0)]:
        feeds = {"before": rng.random((batch, before, 2), np.float32), "x": rng.random((length, batch), np.float32)}
        assert_same(ours.run(None, feeds), theirs.run(None, feeds))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_turns_that_only_the_run_counts(provider: str) -> None:
    ours, theirs = both(WHILE, provider)
    for limit in (0.0, 2.5, 9.0):
        feeds = {"x": np.array([0.5, 1.0, -2.0], np.float32), "limit": np.array(limit, np.float32)}
        assert_same(ours.run(None, feeds), theirs.run(None, feeds))


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_stack_stays_a_sequence(name: str) -> None:
    data = model(OTHER.format(body=OTHERS[name], next="Identity (last)" if name == "growing" else "Slice (x, i, last)"))
    theirs, ours = onnxruntime.InferenceSession(data), sardonyx.InferenceSession(data)
    for trips in (1, 3):
        feeds = {"x": np.arange(4, dtype=np.float32), "trips": np.array(trips)}
        assert_same(ours.run(None, feeds), theirs.run(None, feeds))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_slices_of_a_tensor(provider: str) -> None:
    ours, theirs = both(SLICES, provider)
    for shape, at in [((2, 3), -1), ((0, 2), 1), ((3, 1), 0)]:
        feeds = {"x": np.arange(np.prod(shape), dtype=np.float32).reshape(shape), "at": np.array(at)}
        assert_same(ours.run(None, feeds), theirs.run(None, feeds))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_rows_that_are_repeated_as_data_say(provider: str) -> None:
    ours, theirs = both(REPEATED, provider)
    for counts, at in [([2, 3, 4], 1), ([5, 2], -1), ([3, 0, 1, 2, 4], 0), ([2, 2, 2, 1, 7, 3], 4), ([3, 3, 1], 2)]:
        feeds = repeated(counts, at)
        assert_same(ours.run(None, feeds), theirs.run(None, feeds))
    assert len(ours.plans) <= 2


@pytest.mark.parametrize("provider", TARGETS)
def test_a_bundle_repeats_rows_as_data_say(provider: str, tmp_path: Path) -> None:
    require_provider(provider)
    data, file = model(REPEATED), tmp_path / "repeated.sdx"
    file.write_bytes(sardonyx.compile(data, TARGETS[provider]))
    theirs = onnxruntime.InferenceSession(data)
    ours = sardonyx.InferenceSession(file, providers=[provider])
    for counts, at in [([2, 3, 4], 1), ([5, 2], -1), ([3, 0, 1, 2, 4], 0)]:
        feeds = repeated(counts, at)
        assert_same(ours.run(None, feeds), theirs.run(None, feeds))
