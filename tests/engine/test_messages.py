"""What is wrong with sizes is told in the numbers of the call, however they came about."""

from __future__ import annotations

import re

import numpy as np
import pytest

import sardonyx
from sardonyx.errors import RuntimeException
from tests.engine.graphs import model
from tests.engine.providers import NUMPY

HALVES = """
  two = Constant <value_ints = [2]> ()
  none = Constant <value_ints = [0]> ()
  one = Constant <value_ints = [1]> ()
  w = Shape <start = 1, end = 2> (x)
  h = Add (w, one)
  half = Div (h, two)
  part = Slice (x, none, half, one)
"""
"""Half of a row, rounded up."""

CASES = {
    "Add": ("y = Add (x, part)", "shapes [3,8] and [3,4] do not broadcast at axis -1"),
    "Concat": ("y = Concat <axis = 0> (x, part)", "shapes [3,8] and [3,4] do not join at axis 0"),
    "MatMul": ("y = MatMul (x, part)", "[3,8]"),
    "Reshape": (
        "five = Constant <value_ints = [5, 5]> ()  y = Reshape (part, five)",
        "cannot reshape [3,4] to [5,5]",
    ),
    "Resize": ("s = Shape (x)  t = Concat <axis = 0> (s, half)  y = Resize (part, , , t)", "sizes has 3 elements"),
    "Split": ("y, z = Split <axis = 1> (part, h)", "axis 1 has size 4"),
    "Gather": ("y = Gather <axis = 1> (part, h)", "index 9 is out of range for axis 1 of size 4"),
    "Einsum": ('y = Einsum <equation = "ab,ab->a"> (x, part)', "sizes 8 and 4"),
}


@pytest.mark.parametrize("name", CASES)
def test_sizes_are_numbers(name: str) -> None:
    text, reason = CASES[name]
    graph = model(f"g (float[N, W] x) => (float[A, B] y) {{ {HALVES} {text} }}")
    session = sardonyx.InferenceSession(graph, providers=[NUMPY])
    with pytest.raises(RuntimeException, match=re.escape(reason)) as caught:
        session.run(None, {"x": np.zeros((3, 8), np.float32)})
    assert not re.search(r"\bs\d|//|\*", str(caught.value))
