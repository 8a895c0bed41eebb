"""Integers that are dequantized, computed with, and quantized again: the same integers without, or nearly."""

import numpy as np
import pytest

from sardonyx.api.options import SessionOptions
from sardonyx.model.ir.model import Model
from sardonyx.passes.journal import Journal
from sardonyx.passes.pipeline import prepare
from sardonyx.passes.quantization import (
    INTEGER_RULES,
    dequantized_again,
    quantized_clip,
    quantized_movement,
)
from sardonyx.passes.rewrite import rewrite
from tests.passes.checking import check, feeds, graph_of, onnxruntime_run, run

Q = "float32 s = 0.3 uint8 z = 7"
DQ = f"{Q} f = DequantizeLinear(x, s, z)"
AGAIN = "y = QuantizeLinear({}, s, z)"
IMAGE = "uint8[1,2,4,4] x"

MOVED = {
    "reshape": ("int64[2] n = {2, -1} r = Reshape(f, n)", "int64[2] n = {2, -1} y = Reshape(x, n)"),
    "transpose": ("r = Transpose<perm = [0, 2, 3, 1]>(f)", "y = Transpose<perm = [0, 2, 3, 1]>(x)"),
    "pool": (
        "r = MaxPool<kernel_shape = [2, 2], pads = [1, 1, 1, 1]>(f)",
        "y = MaxPool<kernel_shape = [2, 2], pads = [1, 1, 1, 1]>(x)",
    ),
    "slice": (
        "int64[1] b = {1} int64[1] e = {3} int64[1] a = {2} r = Slice(f, b, e, a)",
        "int64[1] b = {1} int64[1] e = {3} int64[1] a = {2} y = Slice(x, b, e, a)",
    ),
    "concat": ("g = DequantizeLinear(x, s, z) r = Concat<axis = 1>(f, g)", "y = Concat<axis = 1>(x, x)"),
    "nearest": (
        'float32[4] n = {1, 1, 2, 2} r = Resize(f, "", n)',
        'float32[4] n = {1, 1, 2, 2} y = Resize(x, "", n)',
    ),
    "a border of zeros": (
        "int64[8] p = {0, 0, 1, 1, 0, 0, 0, 2} r = Pad(f, p)",
        "int64[8] p = {0, 0, 1, 1, 0, 0, 0, 2} uint8 z = 7 y = Pad(x, p, z)",
    ),
}


@pytest.mark.parametrize("case", MOVED)
def test_integers_are_moved_as_they_are(case):
    before, after = MOVED[case]
    check(quantized_movement, IMAGE, f"{DQ} {before} {AGAIN.format('r')}", after, tolerance=0)


@pytest.mark.parametrize(
    "before",
    [
        f"{DQ} r = Relu(f) {AGAIN.format('r')}",
        f"{DQ} float32 o = 0.5 r = Identity(f) y = QuantizeLinear(r, o, z)",
        f"{Q} float32 o = 0.5 f = DequantizeLinear(x, o, z) g = DequantizeLinear(x, s, z) "
        f"r = Concat<axis = 1>(f, g) {AGAIN.format('r')}",
        f'{DQ} float32[4] n = {{1, 1, 2, 2}} r = Resize<mode = "linear">(f, "", n) {AGAIN.format("r")}',
        f"{DQ} int64[8] p = {{0, 0, 1, 1, 0, 0, 0, 2}} float32 o = 1 r = Pad(f, p, o) {AGAIN.format('r')}",
        "float32[2] s = {0.3, 0.2} uint8[2] z = {7, 8} f = DequantizeLinear(x, s, z) "
        "r = Transpose<perm = [0, 2, 1, 3]>(f) y = QuantizeLinear<axis = 2>(r, s, z)",
    ],
)
def test_what_computes_stays(before):
    check([quantized_movement, dequantized_again], IMAGE, before, None)


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_what_was_dequantized_is_not_quantized_again(kind):
    body = f"float32 s = 0.3 {kind} z = 7 f = DequantizeLinear(x, s, z) y = QuantizeLinear(f, s, z)"
    graph = graph_of(f"{kind}[256] x", body)
    every = [np.arange(256).astype(kind)]
    assert run(graph, every)[0].tolist() == every[0].tolist()
    rewrite(graph, [dequantized_again], Journal())
    assert run(graph, every)[0].tolist() == every[0].tolist()
    assert [node.op_type for node in graph.nodes] == ["Identity"]


@pytest.mark.parametrize(
    "body",
    [
        "float32 s = 0.3 float32 t = 0.4 uint8 z = 7 f = DequantizeLinear(x, s, z) y = QuantizeLinear(f, t, z)",
        "float32 s = 0.3 uint8 z = 7 uint8 o = 8 f = DequantizeLinear(x, s, z) y = QuantizeLinear(f, s, o)",
        "float32 s = 1e-38 uint8 z = 7 f = DequantizeLinear(x, s, z) y = QuantizeLinear(f, s, z)",
        "float32 s = -0.3 uint8 z = 7 f = DequantizeLinear(x, s, z) y = QuantizeLinear(f, s, z)",
        "float32 s = 0.3 uint8 z = 7 int8 o = 7 f = DequantizeLinear(x, s, z) y = QuantizeLinear(f, s, o)",
        """float32[2] s = {0.3, 0.2} uint8[2] z = {7, 7} f = DequantizeLinear<axis = 0>(x, s, z)
           y = QuantizeLinear<axis = 1>(f, s, z)""",
    ],
)
def test_other_parameters_quantize_anew(body):
    check(dequantized_again, "uint8[2,2] x", body, None)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("r = Relu(x) uint8 z = 0 y = QuantizeLinear(r, s, z)", "uint8 z = 0 y = QuantizeLinear(x, s, z)"),
        ("r = Relu(x) y = QuantizeLinear(r, s)", "y = QuantizeLinear(x, s)"),
        ("r = Relu(x) int8 z = -128 y = QuantizeLinear(r, s, z)", "int8 z = -128 y = QuantizeLinear(x, s, z)"),
        ("r = Relu(x) uint8 z = 3 y = QuantizeLinear(r, s, z)", None),
        (
            "float32 a = 0 float32 b = 127.5 r = Clip(x, a, b) y = QuantizeLinear(r, s)",
            "y = QuantizeLinear(x, s)",
        ),
        ("float32 a = 0 float32 b = 6 r = Clip(x, a, b) y = QuantizeLinear(r, s)", None),
    ],
)
def test_bounds_that_integers_have_anyway_go(before, after):
    check(
        quantized_clip, "float32[8] x", f"float32 s = 0.5 {before}", after and f"float32 s = 0.5 {after}", tolerance=0
    )


CONV = """float32 sx = 0.1 uint8 zx = 120 float32[3] sw = {0.02, 0.03, 0.01} int8[3] zw = {0, 0, 0} float32 sy = 0.2
          uint8 zy = 90 f = DequantizeLinear(x, sx, zx) g = DequantizeLinear<axis = 0>(w, sw, zw)"""
BIAS = "float32[3] b = {1, -2, 0.5}"
CONVOLUTION = "c = Conv<pads = [1, 0, 1, 0]>(f, g, b) y = QuantizeLinear(c, sy, zy)"
PRODUCT = """float32 sx = 0.1 uint8 zx = 120 float32 sw = 0.02 int8 zw = 3 float32 sy = 0.2 int8 zy = -5
             f = DequantizeLinear(x, sx, zx)
             g = DequantizeLinear(w, sw, zw) c = MatMul(f, g) y = QuantizeLinear(c, sy, zy)"""

GEMM = """float32 sx = 0.1 int8 zx = 12 float32[5] sw = {{0.02, 0.03, 0.01, 0.025, 0.015}}
          int8[5] zw = {{0, 0, 0, 0, 0}} float32 sy = 0.2 int8 zy = -5 float32[5] b = {{1, -2, 0.5, 3, 0}}
          f = DequantizeLinear(x, sx, zx) g = DequantizeLinear{0}(w, sw, zw) c = Gemm{2}({1})
          y = QuantizeLinear(c, sy, zy)"""


@pytest.mark.parametrize(
    ("inputs", "body", "expected"),
    [
        ("uint8[2,2,5,4] x, int8[3,2,3,2] w", f"{CONV} {BIAS} {CONVOLUTION}", "QLinearConv"),
        (
            "uint8[2,2,5,4] x, int8[3,2,3,2] w, int32[3] bi",
            f"""{CONV} float32[3] sb = {{0.002, 0.003, 0.001}} int32[3] zb = {{0, 0, 0}}
                b = DequantizeLinear<axis = 0>(bi, sb, zb) {CONVOLUTION}""",
            "QLinearConv",
        ),
        ("uint8[2,2,5,4] x, int8[3,2,3,2] w, float32[3] b", f"{CONV} {CONVOLUTION}", "Conv"),
        ("uint8[2,3,8] x, int8[8,5] w", PRODUCT, "QLinearMatMul"),
        ("int8[3,8] x, int8[8,5] w", GEMM.format("", "f, g, b", ""), "QGemm"),
        ("int8[3,8] x, int8[5,8] w", GEMM.format("<axis = 0>", "f, g, b", "<transB = 1>"), "QGemm"),
        ("int8[8,3] x, int8[8,5] w", GEMM.format("", "f, g", "<transA = 1>"), "QGemm"),
        ("int8[3,8] x, int8[8,5] w", GEMM.format("", "f, g, b", "<alpha = 0.5>"), "Gemm"),
        ("int8[3,8] x, int8[5,8] w", GEMM.format("<axis = 0>", "f, g, b", "<transB = 1, alpha = 2.0>"), "Gemm"),
    ],
)
def test_products_of_integers_are_within_one_step(inputs, body, expected):
    graphs = [graph_of(inputs, body) for _ in range(2)]
    rng = np.random.default_rng(2)
    arrays = [rng.integers(0, 255, a.shape).astype(a.dtype) if a.dtype.kind in "iu" else a for a in feeds(graphs[0])]
    rewrite(graphs[0], INTEGER_RULES, Journal())
    assert expected in [node.op_type for node in graphs[0].nodes]
    found, reference = run(graphs[0], arrays)[0], onnxruntime_run(graphs[1], arrays)[0]
    assert np.abs(found.astype(int) - reference.astype(int)).max() <= 1


TWO = """float32 s = 0.0513 int8 z = 5 float32 t = 0.0317 int8 u = -9 float32 v = 0.0731 int8 q = 3
         f = DequantizeLinear(x, s, z) g = DequantizeLinear(w, t, u)"""


@pytest.mark.parametrize(
    ("inputs", "body", "expected"),
    [
        ("int8[2,3,40,41] x, int8[2,3,40,41] w", f"{TWO} h = Add(f, g) y = QuantizeLinear(h, v, q)", "QLinearAdd"),
        ("int8[2,3,40,41] x, int8[3,1,41] w", f"{TWO} h = Mul(f, g) y = QuantizeLinear(h, v, q)", "QLinearMul"),
        (
            "int8[2,3,40,41] x, int8[2,5,40,41] w",
            f"{TWO} h = Concat<axis = 1>(f, g) y = QuantizeLinear(h, v, q)",
            "QLinearConcat",
        ),
        ("int8[9] x, int8[9] w", f"{TWO} h = Add(f, g) i = Relu(h) y = QuantizeLinear(i, v, q)", "Add"),
        ("int8[9] x, float32[9] w", f"{TWO.partition('g =')[0]} h = Add(f, w) y = QuantizeLinear(h, v, q)", "Add"),
        ("int8[9] x, int8[9] w", f"{TWO} h = Mul(f, g) uint8 r = 3 y = QuantizeLinear(h, v, r)", "Mul"),
    ],
)
def test_functions_of_two_quantized_tensors_are_those_of_integers(inputs, body, expected):
    graphs = [graph_of(inputs, body) for _ in range(2)]
    rng = np.random.default_rng(2)
    arrays = [rng.integers(-128, 128, a.shape).astype(a.dtype) for a in feeds(graphs[0])]
    rewrite(graphs[0], INTEGER_RULES, Journal())
    assert expected in [node.op_type for node in graphs[0].nodes]
    found, reference = run(graphs[0], arrays)[0], onnxruntime_run(graphs[1], arrays)[0]
    off = np.abs(found.astype(int) - reference.astype(int))
    assert off.max() <= 1
    assert (off > 0).mean() <= 1e-3


@pytest.mark.parametrize(
    ("entry", "preferred", "expected"),
    [("", True, True), ("", False, False), ("1", False, True), ("0", True, False)],
)
def test_products_of_integers_are_what_options_or_providers_want(entry, preferred, expected):
    model = Model(graph_of("uint8[2,3,8] x, int8[8,5] w", PRODUCT), {"": 21})
    options = SessionOptions()
    if entry:
        options.add_session_config_entry("optimization.integer_arithmetic", entry)
    nodes = [node.op_type for node in prepare(model, options, (), preferred).graph.nodes]
    assert (nodes == ["QLinearMatMul"]) == expected
    assert ("MatMul" in nodes) != expected


@pytest.mark.parametrize("unit", [1e-32, 1e-38])
def test_channels_of_tiny_weights_are_integers_too(unit):
    """Training leaves dead channels at 1e-35 or so; their products and biases are below every step of the result."""
    scales = f"float32[3] t = {{0.01, {unit}, 0.02}}"
    body = f"""float32 s = 0.05 uint8 z = 128 {scales} int8[3] u = {{0, 0, 0}} float32 v = 0.5 uint8 q = 9
               float32[3] a = {{0.0005, {unit * 0.05}, 0.001}} int32[3] n = {{0, 0, 0}} int32[3] k = {{7, -9, 100}}
               f = DequantizeLinear(x, s, z) g = DequantizeLinear<axis = 0>(w, t, u)
               b = DequantizeLinear<axis = 0>(k, a, n) h = Conv(f, g, b) y = QuantizeLinear(h, v, q)"""
    graphs = [graph_of("uint8[1,2,5,4] x, int8[3,2,3,2] w", body) for _ in range(2)]
    rng = np.random.default_rng(2)
    arrays = [rng.integers(0, 255, a.shape).astype(a.dtype) for a in feeds(graphs[0])]
    rewrite(graphs[0], INTEGER_RULES, Journal())
    assert [node.op_type for node in graphs[0].nodes if node.op_type != "DequantizeLinear"] == ["QLinearConv"]
    found, reference = run(graphs[0], arrays)[0], onnxruntime_run(graphs[1], arrays)[0]
    assert np.abs(found.astype(int) - reference.astype(int)).max() <= 1
    assert (found[:, 1] == 9).all()
