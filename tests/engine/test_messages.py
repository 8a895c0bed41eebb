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


CONTRADICTIONS = {
    "Transpose": ("[2, 3] x", "y = Transpose <perm = [0, 0]> (x)", "perm [0, 0] is no permutation of the 2 axes"),
    "Slice": (
        "[6] x",
        "one = Constant <value_ints = [1, 1]> () six = Constant <value_ints = [6, 6]> () "
        "axes = Constant <value_ints = [0, -1]> () y = Slice (x, one, six, axes)",
        "axes [0, -1] name one axis twice",
    ),
    "Scan": (
        "[2, 1] x, [3, 1] z",
        "y = Scan <num_scan_inputs = 2, body = b (float[1] p, float[1] q) => (float[1] r) { r = Add (p, q) }> (x, z)",
        "scans [3,1] along axis 0 beside an input of length 2",
    ),
    "kernel": ("[1, 1, 4, 4] x, [4, 1, 2, 2] w", "y = Conv <kernel_shape = [3, 3]> (x, w)", "kernel_shape [3, 3]"),
    "bias": ("[1, 1, 4, 4] x, [4, 1, 2, 2] w, [1] b", "y = Conv (x, w, b)", "the bias [1] is not one number for each"),
    "statistics": (
        "[1, 3, 2] x, [3] s, [1] m",
        "y = BatchNormalization (x, s, m, s, s)",
        "[1] is not one number for each of 3 channels",
    ),
    "Gemm": ("[2, 3] x, [3, 4] w, [5, 2, 4] c", "y = Gemm (x, w, c)", "C [5,2,4] does not broadcast to a matrix"),
    "GRU": (
        "[1, 1, 2] x, [1, 9, 2] w, [1, 9, 3] r",
        "y = GRU <hidden_size = 4> (x, w, r)",
        "hidden_size 4 is not that of R [1,9,3]",
    ),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_what_contradicts_itself_is_refused(name: str) -> None:
    inputs, text, reason = CONTRADICTIONS[name]
    shapes = re.findall(r"\[([\d, ]+)\] (\w)", inputs)
    given = ", ".join(f"float[{shape}] {letter}" for shape, letter in shapes)
    feeds = {letter: np.zeros([int(size) for size in shape.split(",")], np.float32) for shape, letter in shapes}

    def answer() -> None:
        session = sardonyx.InferenceSession(model(f"g ({given}) => (float[] y) {{ {text} }}"), providers=[NUMPY])
        session.run(None, feeds)

    with pytest.raises(RuntimeException, match=re.escape(reason)):
        answer()
