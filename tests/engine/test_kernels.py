"""What fuses: element-wise chains, movement, epilogues of reductions, on every provider."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import onnxruntime
import pytest

import sardonyx
from sardonyx.plans import plan as plans
from tests.engine.graphs import CHAIN, HEADER, model
from tests.engine.providers import PROVIDERS, WASM, require_provider

MOVEMENT = """
g (float[N, 6] x) => (float[A, B] y) {
  shape = Constant <value_ints = [-1, 2, 3]> ()
  a = Reshape (x, shape)
  b = Transpose <perm = [2, 0, 1]> (a)
  c = Exp (b)
  flat = Constant <value_ints = [3, -1]> ()
  y = Reshape (c, flat)
}
"""

CONV = """
g (float[N, 2, H, W] x) => (float[N, 3, H, W] y)
<float[3, 2, 1, 1] w = {1, 2, 3, 4, 5, 6}, float[3] b = {1, -1, 0}> {
  a = Conv (x, w, b)
  c = Clip (a, , )
  y = Relu (c)
}
"""

CONSTANT = """
g (float[N, M] x) => (float[N] y) {
  shape = Shape (x)
  half = Constant <value_float = 0.5> ()
  wide = Expand (half, shape)
  last = Constant <value_ints = [-1]> ()
  y = ReduceSum <keepdims = 0> (wide, last)
}
"""

CASES: dict[str, tuple[str, dict[str, tuple[int, ...]], int]] = {
    "chain": (CHAIN, {"x": (5, 4)}, 1),
    "movement": (MOVEMENT, {"x": (4, 6)}, 1),
    "conv": (CONV, {"x": (2, 2, 3, 5)}, 1),
    "constant": (CONSTANT, {"x": (3, 5)}, 1),
}


def launches(session: sardonyx.InferenceSession) -> int:
    return sum(isinstance(step, plans.Launch) for step in session.plans[0].steps)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", CASES)
def test_fused_and_right(name: str, provider: str) -> None:
    text, shapes, count = CASES[name]
    rng = np.random.default_rng(0)
    feeds = {key: rng.normal(size=shape).astype(np.float32) for key, shape in shapes.items()}
    session = sardonyx.InferenceSession(model(text), providers=[provider])
    (found,) = session.run(None, feeds)
    (expected,) = onnxruntime.InferenceSession(model(text)).run(None, feeds)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, strict=True)
    if name != "conv":  # for which there are routines
        assert launches(session) == count


def test_equal_kernels_share_code() -> None:
    text = """
    g (float[N, 8] x, float[M, 16] y) => (float[N, 8] a, float[M, 16] b) { a = Tanh (x)  b = Tanh (y) }
    """
    session = sardonyx.InferenceSession(model(text), providers=[WASM])
    session.run(None, {"x": np.ones((2, 8), np.float32), "y": np.ones((3, 16), np.float32)})
    assert launches(session) == 2
    assert len(session.plans[0].codes) == 1


def test_larger_sizes_are_parameters_of_one_code() -> None:
    text = "g (float[5, 7] x, float[6, 9] y) => (float[7, 5] a, float[9, 6] b) { a = Transpose (x)  b = Transpose (y) }"
    session = sardonyx.InferenceSession(model(text), providers=[WASM])
    x, y = np.arange(35, dtype=np.float32).reshape(5, 7), np.arange(54, dtype=np.float32).reshape(6, 9)
    a, b = session.run(None, {"x": x, "y": y})
    np.testing.assert_array_equal(a, x.T)
    np.testing.assert_array_equal(b, y.T)
    assert launches(session) == 2
    assert len(session.plans[0].codes) == 1


@pytest.mark.parametrize("provider", PROVIDERS)
def test_long_chains_are_cut(provider: str) -> None:
    """A thousand operators in a row: kernels stay small, and nothing recurses."""
    steps = "\n".join(f"v{k + 1} = {('Neg', 'Abs', 'Relu')[k % 3]} (v{k})" for k in range(1000))
    text = f"g (float[N] v0) => (float[N] v1000) {{ {steps} }}"
    session = sardonyx.InferenceSession(model(text), providers=[provider])
    (found,) = session.run(None, {"v0": np.array([-2, 3], np.float32)})
    (expected,) = onnxruntime.InferenceSession(model(text)).run(None, {"v0": np.array([-2, 3], np.float32)})
    np.testing.assert_array_equal(found, expected)
    assert 1000 / 48 <= launches(session) <= 60


WINDOWS = """
g (float[N, 1, H, W] x) => (float[N, 1, A, B] y, int64[N, 1, A, B] places) {
  y, places = MaxPool <kernel_shape = [3, 2], strides = [1, 2], pads = [1, 1, 1, 0]> (x)
}
"""


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_place_of_the_largest_in_a_window_is_that_of_the_first_nan(provider: str) -> None:
    """Wherever it is: NumPy's argmax says the same."""
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (9, 1, 5, 6)).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    number = np.arange(x.size).reshape(x.shape)
    found, places = sardonyx.InferenceSession(model(WINDOWS), providers=[provider]).run(None, {"x": x})
    for n, _, i, j in np.ndindex(*places.shape):
        window = np.s_[n, 0, max(0, i - 1) : i + 2, max(0, 2 * j - 1) : 2 * j + 1]
        np.testing.assert_array_equal(found[n, 0, i, j], x[window].max())
        assert places[n, 0, i, j] == number[window].flat[x[window].argmax()]


APART = """
g (float[N, 64] x, float[N, 64] by) => (float[N, 64] y, float[N, 64] z) {
  s = FUNCTION (x)
  y = Add (s, by)
  z = Mul (s, by)
}
"""
TOGETHER = """
g (float[N, 64] x, float[N, 64] by) => (float[N, 64] y) {
  s = FUNCTION (x)
  one = Constant <value_float = 1.0> ()
  rest = Sub (one, s)
  a = Mul (rest, by)
  b = Mul (s, s)
  y = Add (a, b)
}
"""


SUMS = "last = Constant <value_ints = [-1]> ()  r = ReduceSum <keepdims = 0> (x, last)"
MEETING = {
    "sums": f"{SUMS}  t = Transpose (r)  y = Sub (r, t)",
    "sums, after more": f"{SUMS}  e = Sigmoid (r)  t = Transpose (e)  y = Sub (t, e)",
    "there and back": f"{SUMS}  t = Transpose (r)  n = Neg (t)  u = Transpose (n)  y = Sub (r, u)",
    "in another shape": f"{SUMS}  t = Transpose (r)  all = Constant <value_ints = [-1]> ()  a = Reshape (t, all)"
    "  b = Reshape (r, all)  d = Sub (a, b)  whole = Constant <value_ints = [6, 6]> ()  y = Reshape (d, whole)",
    "products": "r = MatMul (x, x)  t = Transpose <perm = [0, 2, 1]> (r)  y = Sub (r, t)",
    "dear": "r = Exp (x)  t = Transpose <perm = [1, 0, 2]> (r)  y = Sub (r, t)",
}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", MEETING)
def test_a_result_may_meet_what_it_is_when_transposed(name: str, provider: str) -> None:
    """Elements of other places are other numbers, whatever kernel they are computed in."""
    graph = model(f"g (float[6, 6, 6] x) => (float y) {{ {MEETING[name]} }}")
    feeds = {"x": np.random.default_rng(0).normal(size=(6, 6, 6)).astype(np.float32)}
    (found,) = sardonyx.InferenceSession(graph, providers=[provider]).run(None, feeds)
    (expected,) = onnxruntime.InferenceSession(graph).run(None, feeds)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def computed(session: sardonyx.InferenceSession, function: str) -> int:
    """How many times the kernels of a plan compute a scalar function."""
    kernels = [code for code in session.plans[0].codes if code["kind"] == "kernel"]
    return sum(node[0] == function for kernel in kernels for node in kernel["nodes"])


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(("text", "count"), [(APART, 3), (TOGETHER, 1)])
def test_what_is_dear_is_computed_once(text: str, count: int, provider: str) -> None:
    """A function with several readers has a launch of its own, or is part of the one in which they all are."""
    rng = np.random.default_rng(0)
    feeds = {name: rng.normal(size=(48, 64)).astype(np.float32) for name in ("x", "by")}
    for function in ("Sigmoid", "Tanh"):
        graph = model(text.replace("FUNCTION", function))
        session = sardonyx.InferenceSession(graph, providers=[provider])
        wanted = onnxruntime.InferenceSession(graph).run(None, feeds)
        for found, expected in zip(session.run(None, feeds), wanted, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        assert computed(session, function.lower()) == 1
        assert launches(session) == count


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_depends_on_indices_alone_warns_of_nothing(provider: str) -> None:
    text = """<ir_version: 8, opset_import: ["": 18]> g (float[N] x) => (float[N] y)
    <int64 zero = {0}, int64 one = {1}>
    { s = Shape (x)  n = Squeeze (s)  r = Range (zero, n, one)  f = Cast <to = 1> (r)  l = Log (f)  y = Add (x, l) }"""
    session = sardonyx.InferenceSession(onnx.parser.parse_model(text).SerializeToString(), providers=[provider])
    (found,) = session.run(None, {"x": np.zeros(3, np.float32)})
    np.testing.assert_allclose(found, [-np.inf, 0, np.log(2)], rtol=1e-6)


@pytest.mark.parametrize("shape", ["[0, 4, -1]", "[-1, 4, 256]"], ids=["open", "fixed"])
def test_a_group_of_channels_is_told_by_the_channel_alone(shape: str) -> None:
    """GroupNorm, as exporters write it, divides no index: channels are last here, and two axes."""
    require_provider(WASM)
    size = "N, 8, H, W" if "0" in shape else "N, 8, 8, 16"
    text = f"""g (float[{size}] x) => (float[{size}] y)
    <float[4] one = {{1, 1, 1, 1}}, float[4] none = {{0, 0, 0, 0}}> {{
        a = Conv (x, w)
        groups = Constant <value_ints = {shape}> ()
        b = Reshape (a, groups)
        c = InstanceNormalization (b, one, none)
        same = Shape (a)
        d = Reshape (c, same)
        y = Conv (d, w)
    }}"""
    proto = onnx.parser.parse_model(HEADER + text)
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(8, 8, 1, 1)).astype("f4"), rng.normal(size=(2, 8, 8, 16)).astype("f4")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    data = proto.SerializeToString()
    session = sardonyx.InferenceSession(data, providers=[WASM])
    wanted = onnxruntime.InferenceSession(data).run(None, {"x": x})[0]
    np.testing.assert_allclose(session.run(None, {"x": x})[0], wanted, rtol=1e-4, atol=1e-4)
    nodes = [node for code in session.plans[0].codes for node in code.get("nodes", ())]
    assert nodes
    assert not [node for node in nodes if node[0] in ("div", "rem") and node[1] == "int32"]
