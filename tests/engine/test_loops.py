"""Loops on every provider, which may take them whole, against float64 NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import sardonyx
from tests.engine.graphs import model
from tests.engine.loops import CASES, Case, check
from tests.engine.providers import PROVIDERS


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
