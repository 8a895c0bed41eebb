"""What is computed before the model runs, and what is not."""

import numpy as np
import pytest

from sardonyx.model.ir import Graph
from sardonyx.passes.fold import LIMIT
from sardonyx.passes.journal import Journal
from sardonyx.passes.rewrite import rewrite
from tests.passes.checking import check, graph_of, make_constant, run

X = "float32[N,4] x"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("float32[2] a = {1, 2} b = Neg(a) c = Mul(b, a) y = Add(x, c)", "float32[2] c = {-1, -4} y = Add(x, c)"),
        ("c = Constant<value = float32 {3.0}>() y = Add(x, c)", "float32 c = 3 y = Add(x, c)"),
        ("c = Constant<value_floats = [1.0, 2.0]>() y = Add(x, c)", "float32[2] c = {1, 2} y = Add(x, c)"),
        ("n = Shape<start = 1>(x) c = Cast<to = 1>(n) y = Add(x, c)", "float32[1] c = {2} y = Add(x, c)"),
        ("int64 k = 1 n = Shape(x) s = Gather(n, k) c = Cast<to = 1>(s) y = Add(x, c)", "float32 c = 2 y = Add(x, c)"),
        (
            "float32[4] a = {4, 3, 2, 1} b, c = Split<num_outputs = 2>(a) y = Add(x, c)",
            "float32[2] c = {2, 1} y = Add(x, c)",
        ),
        (
            "float32[2,2] a = {1, 2, 3, 4} b = Transpose(a) y = MatMul(x, b)",
            "float32[2,2] b = {1, 3, 2, 4} y = MatMul(x, b)",
        ),
    ],
)
def test_constants_and_sizes_are_computed(before, after):
    check([], "float32[N,2] x", before, after, only=False)


def test_the_sizes_that_are_not_known_stay_computed():
    check([], X, "int64 k = 0 n = Shape(x) s = Gather(n, k) c = Cast<to = 1>(s) y = Add(x, c)", only=False)


def test_an_output_that_is_constant_becomes_an_initializer_of_its_name():
    graph = graph_of(X, "float32[2] c = {1, 2} y = Neg(c) z = Relu(x)", "y, z")
    rewrite(graph, [])
    assert [value.name for value in graph.outputs] == ["y", "z"]
    assert graph.initializers == [graph.outputs[0]]
    assert run(graph)[0].tolist() == [-1, -2]


def operators(graph: Graph) -> list[str]:
    return [node.op_type for node in graph.all_nodes()]


@pytest.mark.parametrize(
    "body",
    [
        "float32[2] c = {1, 2} r = RandomNormalLike(c) y = Add(x, r)",
        "r = RandomUniform<shape = [2]>() y = Add(x, r)",
        "float32[2] c = {1, 2} r = Bernoulli(c) y = Add(x, r)",
        "float32[2] c = {1, 2} float32 d = 0.5 bool t = 1 r = Dropout(c, d, t) y = Add(x, r)",
        "float32[2] c = {1, 2} r = com.example.Unknown(c) y = Add(x, r)",
        "int64[2] s = {100, 100} r = ConstantOfShape(s) y = MatMul(x, r)",
        "int64[1] s = {5000} float32[1] a = {1} r = Expand(a, s) y = Add(x, r)",
        "int64 a = 0 int64 b = 5000 int64 d = 1 r = Range(a, b, d) c = Cast<to = 1>(r) y = Add(x, c)",
        """int64 n = 1000000 bool t = 1 float32 v = 0
           r = Loop(n, t, v) <body = b (int64 i, bool c, float32 a) => (c2, a2) { c2 = Identity(c) a2 = Exp(a) }>
           y = Add(x, r)""",
    ],
)
def test_what_is_random_unknown_large_or_loops_stays(body):
    graph = graph_of("float32[N,100] x", body)
    before = operators(graph)
    rewrite(graph, [])
    assert operators(graph) == before


@pytest.mark.parametrize("widening", ["w = DequantizeLinear(q, s)", "f = Cast<to = 1>(q) w = Mul(f, s)"])
def test_quantized_weights_stay_quantized(widening):
    graph = graph_of("float32[N,64] x, int8[64,64] q", f"float32 s = 0.5 {widening} y = MatMul(x, w)")
    before = operators(graph)
    make_constant(graph, "q", np.ones((64, 64), np.int8))
    rewrite(graph, [])
    assert operators(graph) == before


@pytest.mark.parametrize(("more", "expected"), [(0, ["Add"]), (1, ["Neg", "Add"])])
def test_a_result_beyond_the_limit_stays_computed(more, expected):
    count = LIMIT // 4 + more
    graph = graph_of(f"float32[1] x, float32[{count}] w", "v = Neg(w) y = Add(x, v)")
    make_constant(graph, "w", np.ones(count, np.float32))
    rewrite(graph, [])
    assert operators(graph) == expected


@pytest.mark.parametrize(("times", "expected"), [(4, ["Add"]), (5, ["Expand", "Add"])])
def test_a_result_much_larger_than_its_operands_stays_computed(times, expected):
    graph = graph_of("float32[1] x, float32[2048] w", f"int64[2] s = {{{times}, 1}} v = Expand(w, s) y = Add(x, v)")
    make_constant(graph, "w", np.ones(2048, np.float32))
    rewrite(graph, [])
    assert operators(graph) == expected


def test_an_error_is_left_to_the_run():
    graph = graph_of("float32[2] x", "float32[2] a = {1, 2} float32[3] b = {1, 2, 3} c = Add(a, b) y = Add(x, c)")
    rewrite(graph, [])
    assert operators(graph) == ["Add", "Add"]


FAR = 1 << 40
GIANTS = {
    "ConstantOfShape": f"int64[1] s = {{{FAR}}} r = ConstantOfShape(s)",
    "Expand": f"float32[1] a = {{1}} int64[1] s = {{{FAR}}} r = Expand(a, s)",
    "Range": "int64 a = 0 int64 b = 1000000000000 int64 d = 1 r = Range(a, b, d)",
    "Range of floats": "float32 a = 0 float32 b = 1e12 float32 d = 1e-12 r = Range(a, b, d)",
    "Pad": f"float32[1] a = {{1}} int64[2] s = {{{FAR}, {FAR}}} r = Pad(a, s)",
    "Pad by reflection": f'float32[2] a = {{1, 2}} int64[2] s = {{{FAR}, 0}} r = Pad<mode = "reflect">(a, s)',
    "Tile": f"float32[1] a = {{1}} int64[1] s = {{{FAR}}} r = Tile(a, s)",
    "Resize": f'float32[1,1,2] a = {{1, 2}} int64[3] s = {{1, 1, {FAR}}} r = Resize<mode = "linear">(a, "", "", s)',
    "OneHot": f"int64[1] i = {{1}} int64 d = {FAR} float32[2] v = {{0, 1}} r = OneHot(i, d, v)",
    "MatMul": f"int64[2] s = {{1, {FAR}}} int64[2] t = {{{FAR}, 1}} a = ConstantOfShape(s)"
    " b = ConstantOfShape(t) r = MatMul(a, b)",
    "Loop": f"""int64 n = {FAR} bool t = 1 float32 v = 0
        r = Loop(n, t, v) <body = b (int64 i, bool c, float32 a) => (c2, a2) {{ c2 = Identity(c) a2 = Exp(a) }}>""",
    "SplitToSequence": "int64[1] s = {1048576} c = ConstantOfShape(s) p = SplitToSequence(c)"
    " int64 z = 0 r = SequenceAt(p, z)",
    "Concat, again and again": " ".join(
        [
            "float32[1] r0 = {1}",
            *(f"r{k + 1} = Concat<axis = 0>(r{k}, r{k}, r{k}, r{k})" for k in range(30)),
            "r = Neg(r30)",
        ]
    ),
}


@pytest.mark.parametrize("name", GIANTS)
def test_what_nobody_could_hold_is_not_even_begun(name, monkeypatch):
    made = []
    monkeypatch.setattr("sardonyx.passes.fold._constant", lambda value, array, strings: made.append(array.size))
    graph = graph_of("float32[N] x", f"{GIANTS[name]} y = Cast<to = 11>(r)")
    rewrite(graph, [])
    assert graph.nodes
    assert max(made, default=0) * 4 <= LIMIT


def test_long_products_stay(monkeypatch):
    graph = graph_of("float32[N,64] x, float32[64,4096] a, float32[4096,64] b", "c = MatMul(a, b) y = Add(x, c)")
    for name, shape in (("a", (64, 4096)), ("b", (4096, 64))):
        make_constant(graph, name, np.ones(shape, np.float32))
    monkeypatch.setattr("sardonyx.passes.fold.WORK", 64 * 64 * 4096 - 1)
    rewrite(graph, [])
    assert operators(graph) == ["MatMul", "Add"]
    monkeypatch.setattr("sardonyx.passes.fold.WORK", 64 * 64 * 4096)
    rewrite(graph, [])
    assert operators(graph) == ["Add"]


def test_all_results_together_are_bounded(monkeypatch):
    monkeypatch.setattr("sardonyx.passes.rewrite.TOTAL", 3 * 40_000)
    chain = " ".join(f"w{k + 1} = Neg(w{k})" for k in range(6))
    graph = graph_of("float32[1] x, float32[10000] w0", f"{chain} y = Add(x, w6)")
    make_constant(graph, "w0", np.ones(10_000, np.float32))
    rewrite(graph, [])
    assert operators(graph) == ["Neg", "Neg", "Neg", "Add"]


@pytest.mark.parametrize(
    ("shape", "folded"), [((4, 2), False), ((4, 2, 1, 1), False), ((1, 1), True), ((8,), True), ((), True)]
)
def test_small_weights_stay_integers_for_products_of_them(shape, folded):
    graph = graph_of(f"int8[{','.join(map(str, shape))}] w", "float32 s = 0.5 y = DequantizeLinear(w, s)")
    make_constant(graph, "w", np.ones(shape, np.int8))
    rewrite(graph, [], Journal())
    assert [node.op_type for node in graph.nodes] == ([] if folded else ["DequantizeLinear"]), shape
