"""Gradients through If, Loop and Scan against slopes, central differences in float64, on every provider."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx
import pytest
from onnx import parser

from sardonyx.errors import NotImplemented
from sardonyx.ops import gradient as gradients
from sardonyx.ops.gradient import control
from sardonyx.ops.preview import training
from tests.engine.providers import NUMPY, PROVIDERS, require_provider

from .slopes import Slope, assert_slopes, slopes

RNG = np.random.default_rng(4)
X, W = RNG.uniform(0.2, 0.8, (2, 3)), RNG.uniform(0.2, 0.8, (3, 3))
CASES = {
    "if": (
        """m = ReduceSum <keepdims = 0> (x) c = Less (m, limit)
        b = If (c) <then_branch = g1 () => (double[2, 3] a) { a = MatMul (x, w) },
          else_branch = g2 () => (double[2, 3] a) { q = Mul (x, x) a = Sub (q, x) }> y = Mul (b, x)""",
        {"limit": np.array(0.5)},
    ),
    "if not": (
        """m = ReduceSum <keepdims = 0> (x) c = Greater (m, limit)
        b = If (c) <then_branch = g1 () => (double[2, 3] a) { a = MatMul (x, w) },
          else_branch = g2 () => (double[2, 3] a) { q = Mul (x, x) a = Sub (q, x) }> y = Mul (b, x)""",
        {"limit": np.array(0.5)},
    ),
    "loop": (
        """n = Constant <value = int64 {5}> () t = Constant <value = bool {1}> ()
        v, s = Loop (n, t, x) <body = g1 (int64 i, bool c, double[2, 3] h) => (bool c2, double[2, 3] h2,
          double[2, 3] z) {
          c2 = Identity (c) u = MatMul (h, w) h2 = Tanh (u) z = Mul (h, h2) }>
        p = ReduceSum <keepdims = 0> (s) q = ReduceSum <keepdims = 0> (v) y = Mul (p, q)""",
        {},
    ),
    "carried twice": (
        """n = Constant <value = int64 {5}> () t = Constant <value = bool {1}> ()
        v, u = Loop (n, t, x, x) <body = g1 (int64 i, bool c, double[2, 3] h, double[2, 3] k) => (bool c2,
          double[2, 3] h2, double[2, 3] k2) {
          c2 = Identity (c) o = MatMul (h, w) h2 = Tanh (o) q = Add (h, k) k2 = Sin (q) }>
        y = Mul (v, u)""",
        {},
    ),
    "trips of the run": (
        """t = Constant <value = bool {1}> ()
        v, k = Loop (n, t, x, n) <body = g1 (int64 i, bool c, double[2, 3] h, int64 k) => (bool c2, double[2, 3] h2,
          int64 k2) {
          c2 = Identity (c) f = CastLike (i, h) u = MatMul (h, w) a = Sin (u) h2 = Add (a, f) k2 = Add (k, i) }>
        y = Mul (v, x)""",
        {"n": np.array(4)},
    ),
    "while": (
        """t = Constant <value = bool {1}> ()
        v = Loop (, t, x) <body = g1 (int64 i, bool c, double[2, 3] h) => (bool c2, double[2, 3] h2) {
          u = Mul (h, h) h2 = Add (u, x) m = ReduceMax <keepdims = 0> (h2) c2 = Less (m, limit) }>
        z = MatMul (v, w) y = Mul (z, x)""",
        {"limit": np.array(30.0)},
    ),
    "no turns": (
        """t = Constant <value = bool {1}> ()
        v = Loop (n, t, x) <body = g1 (int64 i, bool c, double[2, 3] h) => (bool c2, double[2, 3] h2) {
          c2 = Identity (c) h2 = MatMul (h, w) }> y = Mul (v, v)""",
        {"n": np.array(0)},
    ),
    "loop in a loop": (
        """n = Constant <value = int64 {3}> () t = Constant <value = bool {1}> ()
        v = Loop (n, t, x) <body = g1 (int64 i, bool c, double[2, 3] h) => (bool c2, double[2, 3] h2) {
          c2 = Identity (c)
          h2 = Loop (n, t, h) <body = g2 (int64 j, bool d, double[2, 3] k) => (bool d2, double[2, 3] k2) {
            d2 = Identity (d) u = MatMul (k, w) s = Sin (u) k2 = Mul (s, h) }> }>
        y = Mul (v, x)""",
        {},
    ),
    "if in a loop": (
        """n = Constant <value = int64 {4}> () t = Constant <value = bool {1}> () one = Constant <value = int64 {1}> ()
        v = Loop (n, t, x) <body = g1 (int64 i, bool c, double[2, 3] h) => (bool c2, double[2, 3] h2) {
          c2 = Identity (c) o = Mod (i, one) m = ReduceMax <keepdims = 0> (h) b = Less (m, limit)
          h2 = If (b) <then_branch = g2 () => (double[2, 3] a) { a = MatMul (h, w) },
            else_branch = g3 () => (double[2, 3] a) { a = Sqrt (h) }> }>
        y = Mul (v, x)""",
        {"limit": np.array(0.8)},
    ),
    "scan": (
        """v, s = Scan <num_scan_inputs = 1, scan_input_directions = [1],
          body = g1 (double[3] h, double[3] e) => (double[3] h2, double[3] o) {
          u = MatMul (w, h) q = Mul (u, e) h2 = Sin (q) o = Mul (h2, h) }> (z, x)
        p = Mul (s, s) y = MatMul (p, v)""",
        {"z": RNG.uniform(0.2, 0.8, 3)},
    ),
}


def case(name: str) -> Slope:
    body, others = CASES[name]
    feeds = {"x": X, "w": W, **others}
    types = {np.dtype(np.float64): "double", np.dtype(np.int64): "int64"}
    inputs = ", ".join(f"{types[x.dtype]}[{','.join(map(str, x.shape))}] {key}" for key, x in feeds.items())
    text = f'<ir_version: 10, opset_import: ["" : 21]> g ({inputs}) => (double y0) {{ {body} }}'
    model = parser.parse_model(text.replace("[]", ""))
    for node in model.graph.node:
        node.output[:] = ["parts" if output == "y" else output for output in node.output]
    model.graph.node.append(onnx.helper.make_node("ReduceSum", ["parts"], ["y"], keepdims=0))
    model.graph.output[0].name = "y"
    return Slope(model, feeds, ["x", "w"] + ["z"] * ("z" in others))


def narrowed(slope: Slope) -> Slope:
    """In float32, the types that graphs inside declare as well."""
    text = slope.narrowed().model.SerializeToString()
    model = onnx.ModelProto.FromString(text)
    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.tensor_type.elem_type == onnx.TensorProto.DOUBLE:
                value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        graphs += [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    return Slope(model, slope.narrowed().feeds, slope.xs)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_control_flow(name, provider):
    require_provider(provider)
    slope = case(name)
    wanted = slopes(slope, slope.session(NUMPY))
    own, tolerance = (slope, 1e-6) if provider == NUMPY else (narrowed(slope), 1e-4)
    _, *found = own.session(provider).run(None, own.feeds)
    assert_slopes(slope, wanted, found, tolerance)


@pytest.mark.parametrize("name", ["loop", "carried twice"])
@pytest.mark.parametrize("turns", [7, 9])
def test_what_is_too_much_to_store_is_computed_anew(monkeypatch, turns, name):
    divided = []
    monkeypatch.setattr(training, "gradient", partial(gradients.gradient, most_stored=100))
    monkeypatch.setattr(control._Turns, "anew", _counted(control._Turns.anew, divided))
    monkeypatch.setitem(CASES, "long", (CASES[name][0].replace("{5}", f"{{{turns}}}"), {}))
    slope = case("long")
    made = slope.session(NUMPY)
    _, *found = made.run(None, slope.feeds)
    assert divided
    assert set(divided) <= {(turns, 2), (turns, 3), (3, 1)}
    assert_slopes(slope, slopes(slope, made), found, 1e-6)


def _counted(function, calls):
    def anew(self, turns, length):
        calls.append((turns, length))
        return function(self, turns, length)

    return anew


def test_sizes_that_turns_change():
    body = """n = Constant <value = int64 {3}> () t = Constant <value = bool {1}> ()
        v = Loop (n, t, x) <body = g1 (int64 i, bool c, double[a, b] h) => (bool c2, double[a2, b] h2) {
          c2 = Identity (c) u = Mul (h, h) h2 = Concat <axis = 0> (h, u) }> y = Mul (v, v)"""
    model = parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21]> g (double[2, 3] x) => (double y) {{ {body} }}'
    )
    with pytest.raises(NotImplemented, match="a value that a loop carries changes its sizes"):
        Slope(model, {"x": X}, ["x"]).session(NUMPY).run(None, {"x": X})


def test_a_body_that_draws_random_numbers():
    body = """n = Constant <value = int64 {3}> () t = Constant <value = bool {1}> ()
        v = Loop (n, t, x) <body = g1 (int64 i, bool c, double[2, 3] h) => (bool c2, double[2, 3] h2) {
          c2 = Identity (c) r = RandomNormalLike (h) h2 = Mul (h, r) }> y = Mul (v, v)"""
    model = parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21]> g (double[2, 3] x) => (double y) {{ {body} }}'
    )
    with pytest.raises(NotImplemented, match=r"a body calls 'random\.key'"):
        Slope(model, {"x": X}, ["x"]).session(NUMPY).run(None, {"x": X})
