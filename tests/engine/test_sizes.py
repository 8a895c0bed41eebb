"""Sizes that a plan was not made with: guards decide, and what they allow compiles nothing."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import sardonyx
from sardonyx.errors import InvalidArgument, RuntimeException
from sardonyx.runtime.executor import MOST_PLANS
from tests.engine.graphs import model
from tests.engine.providers import NUMPY, PROVIDERS

BROADCAST = "g (float[N, 4] x, float[M, 4] y) => (float[K, 4] z) { z = Add (x, y) }"
RESHAPE = "g (float[N, 6] x, int64[2] shape) => (float[A, B] y) { y = Reshape (x, shape) }"

FLIP = """
g (float[2, N, M] x, float[2, 1] scale) => (float[N, M] y) {
  lines = Constant <value_ints = [2, -1]> ()
  flat = Reshape (x, lines)
  scaled = Mul (flat, scale)
  shape = Shape (x)
  stacked = Reshape (scaled, shape)
  one = Constant <value_int = 1> ()
  last = Gather (stacked, one)
  starts = Constant <value_ints = [-1]> ()
  ends = Constant <value_ints = [-1000]> ()
  axes = Constant <value_ints = [0]> ()
  y = Slice (last, starts, ends, axes, starts)
}
"""

TWO, THREE = "float[A, B] x, float[C, D] y", "float[A, B] x, float[C, D] y, float[E, F] w"
BROADCASTS = [
    (TWO, "z = Sub (x, y)"),
    (TWO, "less = Less (x, y) z = Where (less, x, y)"),
    (TWO, "shape = Shape (y) z = Expand (x, shape)"),
    (TWO, "s = Softmax (x) z = Sub (s, y)"),
    (TWO, "s = Sub (x, y) z = Softmax (s)"),
    (TWO, "axes = Constant <value_ints = [1]> () s = ReduceSum (x, axes) z = Sub (y, s)"),
    (TWO, "t = Transpose (x) s = Sub (t, y) z = Transpose (s)"),
    (TWO, "rows = Constant <value_ints = [0, 0, 0]> () s = Gather (x, rows) z = Sub (s, y)"),
    (TWO, "s = Sub (x, y) flat = Constant <value_ints = [-1]> () z = Reshape (s, flat)"),
    (THREE, "s = Mul (x, y) t = Tanh (s) z = Sub (t, w)"),
    ("float[A, B] x, float[B, C] y, float[D, E] w", "p = MatMul (x, y) z = Sub (p, w)"),
    ("float[A, 3, B] x, float[C, B, 3] y, float[D, E] w", "p = MatMul (x, y) z = Mul (p, w)"),
]
"""What broadcasts, of inputs whose sizes are all unknown."""


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_equal_sizes_share_a_plan_and_broadcast_makes_another(provider: str) -> None:
    session = sardonyx.InferenceSession(model(BROADCAST), providers=[provider])
    for n, m, compiled in [(3, 3, 1), (5, 5, 1), (5, 1, 2), (9, 1, 2), (1, 4, 3), (7, 7, 3), (0, 0, 3)]:
        (z,) = session.run(None, {"x": ones(n, 4), "y": ones(m, 4)})
        np.testing.assert_array_equal(z, np.full((max(n, m) if 0 not in (n, m) else 0, 4), 2, np.float32))
        assert session.compiled == compiled, (n, m)


@pytest.mark.parametrize(("inputs", "body"), BROADCASTS, ids=[body for _, body in BROADCASTS])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_sizes_of_one_may_grow(provider: str, inputs: str, body: str, rng: np.random.Generator) -> None:
    """A plan made where all sizes are 1 must not be used for larger ones that it knows nothing of."""
    made = onnx.load_from_string(model(f"g ({inputs}) => (float z) {{ {body} }}"))
    made.graph.output[0].type.tensor_type.ClearField("shape")
    session = sardonyx.InferenceSession(made.SerializeToString(), providers=[provider])
    reference = ReferenceEvaluator(made)
    names = sorted(set(re.findall(r"\b[A-F]\b", inputs)))
    for sizes in product((1, 3), repeat=len(names)):
        known = dict(zip(names, sizes, strict=True))
        feeds = {
            value.name: rng.normal(size=[d.dim_value or known[d.dim_param] for d in value.type.tensor_type.shape.dim])
            for value in made.graph.input
        }
        feeds = {name: x.astype(np.float32) for name, x in feeds.items()}
        (found,), (wanted,) = session.run(None, feeds), reference.run(None, feeds)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6, err_msg=str(known), strict=True)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_shape_from_an_input(provider: str) -> None:
    session = sardonyx.InferenceSession(model(RESHAPE), providers=[provider])
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    for shape in ([2, 12], [12, 2], [-1, 8], [3, -1], [24, 1]):
        (y,) = session.run(None, {"x": x, "shape": np.array(shape)})
        np.testing.assert_array_equal(y, x.reshape(shape))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_rank_from_an_input(provider: str) -> None:
    text = "g (int64[K] shape) => (float[...] y) { y = ConstantOfShape (shape) }".replace("float[...] y", "float y")
    session = sardonyx.InferenceSession(model(text), providers=[provider])
    for shape in ([2, 3, 4], [5], [], [2, 0]):
        (y,) = session.run(None, {"shape": np.array(shape, np.int64)})
        np.testing.assert_array_equal(y, np.zeros(shape, np.float32), strict=True)


def test_the_plans_that_were_not_used_for_longest_go() -> None:
    text = "g (int64[K] shape) => (float y) { y = ConstantOfShape (shape) }"
    session = sardonyx.InferenceSession(model(text), providers=[NUMPY])

    def compiled(rank: int) -> int:
        before = session.compiled
        assert session.run(None, {"shape": np.ones(rank, np.int64)})[0].ndim == rank
        return session.compiled - before

    found = [compiled(rank) for rank in range(MOST_PLANS)]
    assert found == [1, 2, 0, *[1] * (MOST_PLANS - 3)]  # with the second one came a plan for more
    assert compiled(0) == 0
    assert compiled(MOST_PLANS) == 1
    assert len(session.plans) == MOST_PLANS
    assert [compiled(rank) for rank in (0, *range(2, MOST_PLANS + 1))] == [0] * MOST_PLANS
    assert compiled(1) == 1


def test_shapes_that_do_not_fit_name_the_node() -> None:
    session = sardonyx.InferenceSession(model(BROADCAST), providers=[NUMPY])
    with pytest.raises(RuntimeException, match=r"Add 'z': shapes .* do not broadcast"):
        session.run(None, {"x": ones(3, 4), "y": ones(2, 4)})
    np.testing.assert_array_equal(session.run(None, {"x": ones(3, 4), "y": ones(3, 4)})[0], 2 * ones(3, 4))


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({"x": ones(3, 4)}, "Required inputs .*'y'.* are missing"),
        ({"x": ones(3, 4), "y": ones(3, 4), "z": ones(1)}, "no input 'z'"),
        ({"x": ones(3, 5), "y": ones(3, 4)}, "axis 1 is 5, not 4"),
        ({"x": ones(3), "y": ones(3, 4)}, "wants rank 2"),
        ({"x": ones(3, 4).astype(np.float64), "y": ones(3, 4)}, "wants float, not NumPy's float64"),
    ],
)
def test_bad_feeds_are_named(feeds: dict[str, np.ndarray], message: str) -> None:
    session = sardonyx.InferenceSession(model(BROADCAST), providers=[NUMPY])
    with pytest.raises(InvalidArgument, match=message):
        session.run(None, feeds)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_flipped_part_of_a_reshaped_array(provider: str) -> None:
    """Which row of `scale` belongs to an element is a quotient of its place, which counts backwards."""
    session = sardonyx.InferenceSession(model(FLIP), providers=[provider])
    scale = np.array([[1], [10]], np.float32)
    for shape in ((2, 3, 4), (2, 5, 2)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        (y,) = session.run(None, {"x": x, "scale": scale})
        np.testing.assert_array_equal(y, 10 * x[1, ::-1])
