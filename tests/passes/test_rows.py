"""Rows of outputs that are wanted are those of all rows, and only they are computed."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

import sardonyx
from sardonyx.errors import InvalidArgument
from tests.engine.graphs import model

HEADS = {
    "product": "y = MatMul (h, w)",
    "chain": """
  a = MatMul (h, w)
  b = Add (a, c)
  t = Tanh (b)
  y = Softmax <axis = -1> (t)""",
    "bits": """
  y = com.microsoft.MatMulNBits <K = 8, N = 16, bits = 4, block_size = 16> (h, q, scales)""",
    "transposed": """
  wt = Transpose (v)
  a = MatMul (h, wt)
  y = Mul (a, s)""",
    "used twice": """
  y = MatMul (h, w)
  other = ReduceSum (y)""",
    "other axis": """
  a = MatMul (h, w)
  y = Softmax <axis = 1> (a)""",
    "along rows": """
  a = MatMul (h, w)
  n = Shape <start = 1, end = 2> (a)
  first = Constant <value_ints = [0]> ()
  r = Slice (rows, first, n, first)
  y = Add (a, r)""",
}


WEIGHTS = {"w": (8, 16), "v": (16, 8), "c": (16,), "s": (), "rows": (9, 16)}


def filled(head: str, rng: np.random.Generator) -> bytes:
    """A model whose last nodes these are, with numbers for its weights."""
    more = ", float other" if "other =" in head else ""
    made = onnx.load_from_string(
        model(f"g (float[B, S, 8] x) => (float[B, S, 16] y{more}) {{\n  h = Sin (x)\n  {head}\n}}")
    )
    for name, shape in WEIGHTS.items():
        made.graph.initializer.append(numpy_helper.from_array(rng.normal(size=shape).astype("f4"), name))
    bits = rng.integers(0, 256, (16, 1, 8)).astype("u1")
    made.graph.initializer.append(numpy_helper.from_array(bits, "q"))
    made.graph.initializer.append(numpy_helper.from_array(rng.normal(size=16).astype("f4"), "scales"))
    made.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    return bytes(made.SerializeToString())


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_chosen_rows(head: str, rng: np.random.Generator) -> None:
    made = filled(head, rng)
    options = sardonyx.SessionOptions()
    options.choose_rows("y", "at")
    session = sardonyx.InferenceSession(made, options)
    assert [(port.name, port.shape) for port in session.get_inputs()][-1] == ("at", ["B"])
    assert session.get_outputs()[0].shape == ["B", 1, 16]
    x = rng.normal(size=(3, 5, 8)).astype("f4")
    (wanted,) = onnxruntime.InferenceSession(made).run(["y"], {"x": x})
    at = np.array([4, 0, 2])
    (y,) = session.run(["y"], {"x": x, "at": at})
    np.testing.assert_allclose(y[:, 0], wanted[range(3), at], 1e-5, 1e-6)


@pytest.mark.parametrize("name", ["product", "chain", "transposed", "bits"])
def test_others_are_not_computed(name: str, rng: np.random.Generator) -> None:
    """No buffer has a row of each place, but for what the rows are chosen of."""
    options = sardonyx.SessionOptions()
    options.choose_rows("y", "at")
    session = sardonyx.InferenceSession(filled(HEADS[name], rng), options, providers=["NumpyExecutionProvider"])
    session.run(["y"], {"x": np.zeros((2, 5, 8), "f4"), "at": np.array([4, 0])})
    (plan,) = session.plans
    assert not [buffer.shape for buffer in plan.buffers if len(buffer.shape) == 3 and buffer.shape[1:] == ["s1", 16]]


def test_models_without_such_an_output_stay(rng: np.random.Generator) -> None:
    options = sardonyx.SessionOptions()
    options.choose_rows("none", "at")
    assert len(sardonyx.InferenceSession(filled(HEADS["product"], rng), options).get_inputs()) == 1
    options = sardonyx.SessionOptions()
    options.choose_rows("y", "x")
    with pytest.raises(InvalidArgument, match="the model has an input 'x' already"):
        sardonyx.InferenceSession(filled(HEADS["product"], rng), options)
