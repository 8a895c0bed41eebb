"""Attention in the forms that exporters give it, against onnxruntime's run of what they wrote."""

import numpy as np
import pytest

from sardonyx.passes.attention import attention
from sardonyx.passes.journal import Journal
from sardonyx.passes.movement import transpose_of_merged, transpose_of_transpose
from sardonyx.passes.rewrite import rewrite
from sardonyx.passes.simplify import scalar_constant
from tests.passes.checking import feeds, graph_of, onnxruntime_run, run

RULES = [attention, transpose_of_merged, transpose_of_transpose, scalar_constant]
QKV = "float32[B,2,S,4] q, float32[B,2,T,4] k, float32[B,2,T,3] v"
KEYS = "t = Transpose<perm = [0, 1, 3, 2]>(k)"
HALF = "float32 c = 0.5"
PLAIN = f"{KEYS} s = MatMul(q, t)"
SCORES = f"{PLAIN} {HALF} d = Mul(s, c)"
LOWEST = "float32 low = -3.4028235e38 float32 zero = 0"
TAIL = "p = Softmax<axis = -1>({}) y = MatMul(p, v)"
GUARD = "p = Softmax<axis = -1>({}) n = IsNaN(p) float32 null = 0 w = Where(n, null, p) y = MatMul(w, v)"
PADDING = f"""{LOWEST} float32 one = 1 int64[2] ax = {{1, 2}} f = Cast<to = 1>(m) i = Sub(one, f) b = Mul(i, low)
              e = Unsqueeze(b, ax)"""
RANGES = """int64 first = 0 int64 step = 1 int64[1] a0 = {0} int64[1] a1 = {1} ns = Shape<start = 2, end = 3>(q)
            nt = Shape<start = 2, end = 3>(k) ls = Squeeze(ns) lt = Squeeze(nt) r = Range(first, ls, step)
            c1 = Range(first, lt, step) rows = Unsqueeze(r, a1)"""
SHARED = """int64[1] two = {{2}} int64[1] g = {{2}} int64[1] h = {{4}} int64[1] four = {{4}}
            u{0} = Unsqueeze({0}, two) b{0} = Shape<end = 1>({0}) l{0} = Shape<start = 2, end = 3>({0})
            x{0} = Concat<axis = 0>(b{0}, g, g, l{0}, four) e{0} = Expand(u{0}, x{0})
            z{0} = Concat<axis = 0>(b{0}, h, l{0}, four) r{0} = Reshape(e{0}, z{0})"""
TORCH = """ns = Shape<end = 2>(k) nt = Shape<start = 2, end = 3>(k) int64[1] d4 = {4} int64[1] free = {-1}
           flat = Concat<axis = 0>(free, nt, d4) back = Concat<axis = 0>(ns, d4, nt) k3 = Reshape(k, flat)
           t3 = Transpose<perm = [0, 2, 1]>(k3) t4 = Reshape(t3, back) float32 root = 0.70710677
           qs = Mul(q, root) ks = Mul(t4, root) s = MatMul(qs, ks)"""

FUSED = {
    "plain": (QKV, f"{PLAIN} {TAIL.format('s')}", {"scale": 1.0}),
    "scaled by a division": (QKV, f"{PLAIN} {HALF} d = Div(s, c) {TAIL.format('d')}", {"scale": 2.0}),
    "scaled queries": (
        QKV,
        f"{KEYS} {HALF} d = Mul(c, q) s = MatMul(d, t) {TAIL.format('s')}",
        {"scale": 0.5},
    ),
    "scaled keys, before they turn": (
        QKV,
        f"{HALF} d = Mul(k, c) t = Transpose<perm = [0, 1, 3, 2]>(d) s = MatMul(q, t) {TAIL.format('s')}",
        {"scale": 0.5},
    ),
    "keys that come turned": (
        "float32[B,2,S,4] q, float32[B,2,4,T] k, float32[B,2,T,3] v",
        f"s = MatMul(q, k) {TAIL.format('s')}",
        {"scale": 1.0},
    ),
    "heads split by one transposition, as in BERT": (
        "float32[B,S,2,4] q, float32[B,T,2,4] k, float32[B,T,2,3] v",
        """h = Transpose<perm = [0, 2, 1, 3]>(q) t = Transpose<perm = [0, 2, 3, 1]>(k) s = MatMul(h, t)
           p = Softmax(s) w = Transpose<perm = [0, 2, 1, 3]>(v) y = MatMul(p, w)""",
        {"scale": 1.0},
    ),
    "padding, as in BERT": (
        f"{QKV}, int64[B,T] m",
        f"{SCORES} {PADDING} a = Add(d, e) {TAIL.format('a')}",
        {"scale": 0.5},
    ),
    "padding of as yet unknown length": (
        f"{QKV}, int64[B,L] m",
        f"{SCORES} {PADDING} a = Add(e, d) {TAIL.format('a')}",
        {"scale": 0.5},
    ),
    "the triangle from ranges": (
        QKV,
        f"""{SCORES} {RANGES} {LOWEST} o = LessOrEqual(c1, rows) e = Where(o, zero, low) a = Add(d, e)
            {TAIL.format("a")}""",
        {"is_causal": 1},
    ),
    "the triangle, turned around": (
        QKV,
        f"""{SCORES} {RANGES} float32 never = -inf o = Greater(c1, rows) a = Where(o, never, d) {TAIL.format("a")}""",
        {"is_causal": 1},
    ),
    "the triangle by Trilu": (
        QKV,
        f"""{SCORES} {RANGES} int64 k1 = 1 size = Concat<axis = 0>(ns, nt)
            e = ConstantOfShape<value = float32[1] {{-1e9}}>(size) u = Trilu<upper = 1>(e, k1) a = Add(d, u)
            {TAIL.format("a")}""",
        {"is_causal": 1},
    ),
    "a constant triangle": (
        "float32[B,2,2,4] q, float32[B,2,3,4] k, float32[B,2,3,3] v",
        f"{SCORES} float32[2,3] e = {{0, -1e9, -1e9, 0, 0, -1e9}} a = Add(d, e) {TAIL.format('a')}",
        {"is_causal": 1},
    ),
    "GPT-2: the triangle in a table, then padding": (
        f"{QKV.replace('T', 'S')}, int64[B,S] m",
        f"""{SCORES} bool[1,1,4,4] table = {{1,0,0,0,1,1,0,0,1,1,1,0,1,1,1,1}}
            int64[2] st = {{0, 0}} int64[2] ax2 = {{2, 3}}
            ns = Shape<start = 2, end = 3>(q) en = Concat<axis = 0>(ns, ns) o = Slice(table, st, en, ax2)
            {PADDING} c2 = Where(o, d, low) a = Add(c2, e) {TAIL.format("a")}""",
        {"scale": 0.5},
    ),
    "a mask that chooses": (
        f"{QKV}, bool[B,1,S,T] m",
        f"{SCORES} {LOWEST} a = Where(m, d, low) {TAIL.format('a')}",
        {"scale": 0.5},
    ),
    "a guarded mask of -inf, as in PyTorch": (
        f"{QKV}, bool[B,1,S,T] m",
        f"{SCORES} float32 never = -inf a = Where(m, d, never) {GUARD.format('a')}",
        {"scale": 0.5},
    ),
    "PyTorch's dynamo": (
        f"{QKV}, bool[B,1,S,T] m",
        f"{TORCH} {LOWEST} e = Where(m, zero, low) a = Add(s, e) {GUARD.format('a')}",
        {"scale": 0.5},
    ),
    "shared keys and values, as in Llama": (
        "float32[B,4,S,4] q, float32[B,2,T,4] k, float32[B,2,T,4] v",
        f"""{SHARED.format("k")} {SHARED.format("v").split("four = {4}")[1]} {HALF}
            t = Transpose<perm = [0, 1, 3, 2]>(rk) s = MatMul(q, t) d = Mul(s, c) p = Softmax(d) y = MatMul(p, rv)""",
        {"scale": 0.5},
    ),
    "capped, as in Gemma": (
        QKV,
        f"{SCORES} float32 cap = 5 i = Div(d, cap) th = Tanh(i) j = Mul(th, cap) {TAIL.format('j')}",
        {"scale": 0.5, "softcap": 5.0},
    ),
}


def both(inputs, body, given=None):
    graph, original = graph_of(inputs, body), graph_of(inputs, body)
    arrays = feeds(graph, {"B": 2}) if given is None else given(graph)
    arrays = [array % 2 if array.dtype == np.int64 else array for array in arrays]
    rewrite(graph, RULES, Journal())
    return graph, run(graph, arrays)[0], onnxruntime_run(original, arrays)[0]


def operators(graph):
    return [node.op_type for node in graph.nodes]


@pytest.mark.parametrize("case", FUSED)
def test_what_exporters_spell_out_is_recognised(case):
    inputs, body, attributes = FUSED[case]
    graph, found, expected = both(inputs, body)
    assert "Softmax" not in operators(graph)
    (node,) = [node for node in graph.nodes if node.op_type == "Attention"]
    assert {name: node.attribute(name) for name in attributes} == pytest.approx(attributes)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    if "Llama" in case:
        assert [value.shape[1] for value in node.inputs] == [4, 2, 2]


@pytest.mark.parametrize(
    ("inputs", "body"),
    [
        (QKV, f"{SCORES} p = Softmax<axis = 1>(d) y = MatMul(p, v)"),
        (QKV, f"{SCORES} p = Softmax<axis = -1>(d) z = MatMul(p, v) i = ReduceSum<keepdims = 0>(p) y = Add(z, i)"),
        (QKV, f"{SCORES} i = ReduceMax<keepdims = 0>(s) p = Softmax(d) z = MatMul(p, v) y = Add(z, i)"),
        (f"{QKV}, float32[B,1,S,T] m", f"{SCORES} a = Add(d, m) {TAIL.format('a')}"),
        (f"{QKV}, bool[B,1,S,T] m", f"{SCORES} float32 never = -inf a = Where(m, d, never) {TAIL.format('a')}"),
        (f"{QKV}, bool[B,1,S,T] m", f"{SCORES} float32 low = -10000 a = Where(m, d, low) {TAIL.format('a')}"),
        (f"{QKV}, float32[B,1,1,T] m", f"{SCORES} e = Log(m) a = Add(d, e) {TAIL.format('a')}"),
        ("float32[1,2,S,4] q, float32[B,2,T,4] k, float32[B,2,T,3] v", f"{SCORES} {TAIL.format('d')}"),
        ("float64[B,2,S,4] q, float64[B,2,T,4] k, float64[B,2,T,3] v", f"{PLAIN} {TAIL.format('s')}"),
        (
            "float32[B,S,4] q, float32[B,T,4] k, float32[B,T,3] v",
            f"t = Transpose<perm = [0, 2, 1]>(k) s = MatMul(q, t) {TAIL.format('s')}",
        ),
    ],
)
def test_what_would_not_be_the_same_stays(inputs, body):
    graph = graph_of(inputs, body)
    rewrite(graph, RULES, Journal())
    assert "Attention" not in operators(graph)


@pytest.mark.parametrize("name", ["padding, as in BERT", "GPT-2: the triangle in a table, then padding"])
def test_rows_that_see_nothing_are_the_same(name):
    inputs, body, _ = FUSED[name]

    def nothing(graph):
        arrays = feeds(graph, {"B": 2})
        return [*arrays[:3], np.array([[0, 0, 0], [1, 0, 1]])]

    graph, found, expected = both(inputs, body, nothing)
    assert "Attention" in operators(graph)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("fill", ["-inf", "-3.4028235e38"])
def test_a_guarded_row_that_sees_nothing_is_the_same(fill):
    body = f"{SCORES} float32 low = {fill} a = Where(m, d, low) {GUARD.format('a')}"

    def nothing(graph):
        return [*feeds(graph, {"B": 2})[:3], np.arange(18).reshape(2, 1, 3, 3) > 8]

    _, found, expected = both(f"{QKV}, bool[B,1,S,T] m", body, nothing)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_float16_in_a_softmax_of_float32():
    inputs = QKV.replace("float32", "float16")
    body = f"{PLAIN} w = Cast<to = 1>(s) p = Softmax<axis = -1>(w) h = Cast<to = 10>(p) y = MatMul(h, v)"
    graph, found, expected = both(inputs, body)
    assert operators(graph) == ["Attention"]
    np.testing.assert_allclose(found.astype(np.float32), expected.astype(np.float32), rtol=0.02, atol=0.02)
