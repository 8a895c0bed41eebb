"""Gradients of graphs against central differences in float64, and a step of training on every provider."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

import sardonyx
from sardonyx.errors import NotImplemented
from tests.engine.providers import NUMPY, PROVIDERS, require_provider

from .slopes import Slope, assert_slopes, slopes

STEP = 1e-6


def session(provider: str, feeds: dict[str, np.ndarray], body: str, xs: list[str], zs: list[str] | None = None) -> Any:
    """A session that gives y and its derivatives by xs."""
    require_provider(provider)
    types = {np.dtype(np.float64): "double", np.dtype(np.float32): "float", np.dtype(np.int64): "int64"}
    inputs = ", ".join(f"{types[x.dtype]}[{','.join(map(str, x.shape))}] {name}" for name, x in feeds.items())
    text = f'<ir_version: 10, opset_import: ["" : 24]> g ({inputs}) => (double y) {{ {body} }}'
    model = parser.parse_model(text)
    attributes = {"xs": xs, "y": "y"} | ({"zs": zs} if zs else {})
    results = [f"d{name}" for name in xs]
    node = helper.make_node("Gradient", [*xs, *(zs or [])], results, domain="ai.onnx.preview.training", **attributes)
    model.graph.node.append(node)
    model.opset_import.append(helper.make_opsetid("ai.onnx.preview.training", 1))
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in ["y", *results])
    return sardonyx.InferenceSession(model.SerializeToString(), providers=[provider])


def differences(made: Any, feeds: dict[str, np.ndarray], name: str) -> np.ndarray:
    x = feeds[name]
    found = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        sides = []
        for sign in (1, -1):
            moved = x.copy()
            moved[place] += sign * STEP
            sides.append(made.run(["y"], {**feeds, name: moved})[0].sum())
        found[place] = (sides[0] - sides[1]) / (2 * STEP)
    return found


RNG = np.random.default_rng(0)
X, Z = RNG.uniform(0.2, 0.8, (2, 3)), RNG.uniform(0.2, 0.8, (3,))
UNARY = (
    "Neg Abs Sqrt Exp Log Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Sigmoid Asinh Atanh Erf Relu Softplus Gelu Floor"
)
BODIES = {
    **{name: f"y = {name} (x)" for name in UNARY.split()},
    "Acosh": "two = Constant <value_float = 2.0> () w = CastLike (two, x) u = Add (x, w) y = Acosh (u)",
    **{name: f"y = {name} (x, z)" for name in ["Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "MatMul"]},
    "Mod": "y = Mod <fmod = 1> (x, z)",
    "scaled scalar": "s = ReduceSum <keepdims = 0> (z) y = Mul (x, s)",
    "mean": "m = ReduceMean <keepdims = 0> (x) y = Mul (m, m)",
    "largest": "a = Constant <value_ints = [1]> () m = ReduceMax (x, a) y = Mul (m, m)",
    "softmax": "s = Softmax (x) y = Mul (s, z)",
    "layer norm": "n = LayerNormalization (x, z) y = Mul (n, x)",
    "transpose": "t = Transpose (x) t2 = Mul (t, t) y = MatMul (x, t2)",
    "reshape": "n = Constant <value_ints = [3, 2]> () r = Reshape (x, n) t = Transpose (r) y = Mul (x, t)",
    "concat": "c = Concat <axis = 0> (x, x) c2 = Mul (c, c) y = MatMul (c2, z)",
    "slice": "a = Constant <value_ints = [2]> () b = Constant <value_ints = [-9]> () c = Constant <value_ints = [1]> ()"
    " d = Constant <value_ints = [-1]> () s = Slice (x, a, b, c, d) y = Mul (s, x)",
    "strided": "a = Constant <value_ints = [0]> () b = Constant <value_ints = [3]> () c = Constant <value_ints = [1]>"
    " () d = Constant <value_ints = [2]> () s = Slice (x, a, b, c, d) y = Mul (s, s)",
    "pad": "n = Constant <value_ints = [0, 1, 0, 1]> () q = Pad (x, n) y = Mul (q, q)",
    "gather": "i = Constant <value_ints = [2, 0, 2]> () g = Gather <axis = 1> (x, i) y = Mul (g, z)",
    "where": "c = Less (x, z) y = Where (c, x, z)",
    "expand": "n = Constant <value_ints = [4, 2, 3]> () e = Expand (x, n) y = Mul (e, e)",
    "attention to itself": "k = Constant <value_ints = [0]> () a = Unsqueeze (x, k) b = Unsqueeze (a, k)"
    " s = Attention (b, b, b) y = Mul (s, b)",
    "cast": "f = Cast <to = 1> (x) f2 = Mul (f, f) y = CastLike (f2, x)",
}


@pytest.mark.parametrize("case", BODIES)
def test_gradients_are_slopes(case):
    feeds = {"x": X, "z": Z}
    made = session(NUMPY, feeds, BODIES[case], ["x", "z"])
    _, *found = made.run(None, feeds)
    tolerance = 0.1 if case == "cast" else 1e-6
    for name, own in zip(feeds, found, strict=True):
        assert own.shape == feeds[name].shape
        np.testing.assert_allclose(own, differences(made, feeds, name), rtol=tolerance, atol=tolerance)


def test_products_over_several_axes():
    feeds = {"x": RNG.normal(size=(2, 3, 4)), "z": RNG.normal(size=(4, 2, 5))}
    made = session(NUMPY, feeds, 'e = Einsum <equation = "abc,cad->bd"> (x, z) y = Mul (e, e)', ["x", "z"])
    _, *found = made.run(None, feeds)
    for name, own in zip(feeds, found, strict=True):
        np.testing.assert_allclose(own, differences(made, feeds, name), rtol=1e-6, atol=1e-6)


def test_fixed_tensors_do_not_count():
    feeds = {"x": X}
    made = session(NUMPY, feeds, "w = Mul (x, x) y = Mul (w, x)", ["x"], ["w"])
    np.testing.assert_allclose(made.run(["dx"], feeds)[0], X * X)


GRAPH = """<ir_version: 10, opset_import: ["" : 21, "ai.onnx.preview.training" : 1]>
    g (double[2, 3] x, bool c) => (double[2, 3] d) { %s
      d = If (c) <then_branch = g1 () => (double[2, 3] a) { %s
          a = ai.onnx.preview.training.Gradient <xs = ["x"], y = "y"> (x) },
        else_branch = g2 () => (double[2, 3] b) { b = Neg (x) }> }"""


@pytest.mark.parametrize("place", [0, 1])
def test_a_gradient_in_a_branch(place):
    """Of what is computed around the branch, or in it."""
    parts = ["", ""]
    parts[place] = "y = Mul (x, x)"
    made = sardonyx.InferenceSession(parser.parse_model(GRAPH % tuple(parts)).SerializeToString(), providers=[NUMPY])
    for condition, wanted in ((True, 2 * X), (False, -X)):
        np.testing.assert_allclose(made.run(None, {"x": X, "c": np.array(condition)})[0], wanted)


def test_a_gradient_in_a_loop_of_what_is_around_it():
    text = """<ir_version: 10, opset_import: ["" : 21, "ai.onnx.preview.training" : 1]>
    g (double[2, 3] x, int64 n) => (double[2, 3] d) { y = Mul (x, x) t = Constant <value = bool {1}> ()
      d = Loop (n, t, x) <body = g1 (int64 i, bool c, double[2, 3] h) => (bool c2, double[2, 3] h2) {
        c2 = Identity (c) a = ai.onnx.preview.training.Gradient <xs = ["x"], y = "y"> (x) h2 = Add (h, a) }> }"""
    made = sardonyx.InferenceSession(parser.parse_model(text).SerializeToString(), providers=[NUMPY])
    with pytest.raises(NotImplemented, match="y is computed in a graph around"):
        made.run(None, {"x": X, "n": np.array(2)})


def test_a_constant_has_no_gradient():
    text = """<ir_version: 10, opset_import: ["" : 21, "ai.onnx.preview.training" : 1]>
    g (double[2] x) => (double[2] d) <double[2] w = {1.0, 2.0}> { y = Mul (x, w)
      d = ai.onnx.preview.training.Gradient <xs = ["w"], y = "y"> (w) }"""
    with pytest.raises(NotImplemented, match="tensor 0 of xs is a constant, and so is what is made of it"):
        sardonyx.InferenceSession(parser.parse_model(text).SerializeToString(), providers=[NUMPY])


def test_a_primitive_without_gradient_is_named():
    @sardonyx.custom_op("my", "Doubled", host=True, infer=lambda x: (x.dtype, x.shape))
    def doubled(x: np.ndarray) -> np.ndarray:
        return 2 * x

    with pytest.raises(NotImplemented, match="'host' has no gradient: a function of the host says nothing"):
        session(NUMPY, {"x": X}, "y = my.Doubled (x)", ["x"]).run(None, {"x": X})


@pytest.mark.parametrize("narrow", ["BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "FLOAT4E2M1"])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_conversions_pass_gradients_on(provider, narrow):
    """As if nothing had been rounded: PyTorch's casts do so, too."""
    feeds = {"x": X.astype(np.float32), "z": Z.astype(np.float32)}
    number = getattr(TensorProto, narrow)
    body = f"n = Cast <to = {number}> (x) f = Cast <to = 1> (n) g = Mul (f, f) y = Mul (g, z)"
    made = session(provider, feeds, body, ["x"])
    rounded = feeds["x"].astype(helper.tensor_dtype_to_np_dtype(number)).astype(np.float32)
    (found,) = made.run(["dx"], feeds)
    # The gradient comes back through the narrow type.
    wanted = (2 * rounded * feeds["z"]).astype(rounded.dtype).astype(helper.tensor_dtype_to_np_dtype(number))
    np.testing.assert_array_equal(found, wanted.astype(np.float32))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_layer_learns(provider):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(8, 5)).astype(np.float32)
    wanted = x @ rng.normal(size=(5, 2)).astype(np.float32)
    feeds = {"w": np.zeros((5, 2), np.float32), "x": x, "t": wanted}
    body = "p = MatMul (x, w) e = Sub (p, t) s = Mul (e, e) y = ReduceMean <keepdims = 0> (s)"
    made = session(provider, feeds, body, ["w"])
    losses = []
    for _ in range(60):
        loss, slope = made.run(None, feeds)
        losses.append(float(loss))
        feeds["w"] = feeds["w"] - np.float32(0.4) * slope
    assert losses[-1] < 0.02 * losses[0]


def test_shapes_may_be_open():
    text = (
        '<ir_version: 10, opset_import: ["" : 21]> g (float[n, m] x) => (float y) { s = Mul (x, x) y = ReduceSum (s) }'
    )
    model = parser.parse_model(text)
    node = helper.make_node("Gradient", ["x"], ["dx"], domain="ai.onnx.preview.training", xs=["x"], y="y")
    model.graph.node.append(node)
    model.opset_import.append(helper.make_opsetid("ai.onnx.preview.training", 1))
    model.graph.output.append(helper.make_tensor_value_info("dx", TensorProto.FLOAT, None))
    made = sardonyx.InferenceSession(model.SerializeToString(), providers=[NUMPY])
    for shape in ((2, 3), (4, 1)):
        x = np.ones(shape, np.float32)
        np.testing.assert_allclose(made.run(["dx"], {"x": x})[0], 2 * x)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_gradients_of_gradients(provider):
    """Of a convolution, a pool and a curve."""
    rng = np.random.default_rng(3)
    feeds = {"x": rng.normal(size=(1, 2, 6, 6)), "z": rng.normal(size=(3, 2, 3, 3))}
    text = """<ir_version: 10, opset_import: ["" : 21, "ai.onnx.preview.training" : 1]>
    g (double[1, 2, 6, 6] x, double[3, 2, 3, 3] z) => (double y) {
      a = Conv <pads = [1, 1, 1, 1], strides = [2, 1]> (x, z) b = Tanh (a) c = MaxPool <kernel_shape = [2, 2]> (b)
      d = Mul (c, c) e = ReduceSum <keepdims = 0> (d)
      f, h = ai.onnx.preview.training.Gradient <xs = ["x", "z"], y = "e"> (x, z)
      i = Mul (f, f) j = Mul (h, h) k = ReduceSum <keepdims = 0> (i) l = ReduceSum <keepdims = 0> (j)
      y = Add (k, l) }"""
    slope = Slope(parser.parse_model(text), feeds, ["x", "z"])
    wanted = slopes(slope, slope.session(NUMPY))
    require_provider(provider)
    own, tolerance = (slope, 1e-6) if provider == NUMPY else (slope.narrowed(), 1e-3)
    _, *found = own.session(provider).run(None, own.feeds)
    assert_slopes(slope, wanted, found, tolerance)
