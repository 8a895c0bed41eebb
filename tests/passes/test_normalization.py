"""Normalisations in the forms that exporters give them."""

import pytest

from sardonyx.passes.normalization import (
    layer_normalization,
    layer_normalization_bias,
    layer_normalization_of_products,
    normalization_cast,
    normalization_scale,
    rms_normalization,
)
from tests.passes.checking import check

X = "float32[B,3,2] x, float32[2] g, float32[2] b"
A = "int64[1] a = {-1} float32 e = 0.5 float32 t = 2 float32 o = 1"
CENTRED = f"{A} m = ReduceMean(x, a) d = Sub(x, m)"
NORMAL = f"{CENTRED} q = Pow(d, t) v = ReduceMean(q, a) w = Add(v, e) s = Sqrt(w)"
LAYER = "LayerNormalization<axis = -1, epsilon = 0.5>"
SQUARE = f"{A} q = Pow(x, t) v = ReduceMean(q, a) w = Add(v, e) s = Sqrt(w)"
RMS = "y = RMSNormalization<axis = -1, epsilon = 0.5>(x, g)"
BOTH = [layer_normalization, normalization_scale, layer_normalization_bias]
SCALED = [layer_normalization, normalization_scale]
RMS_SCALED = [rms_normalization, normalization_scale]
HALF = "float16[B,3,2] x, float16[2] g"
WIDE = "int64[1] a = {-1} float32 e = 0.5 float32 t = 2 h = Cast<to = 1>(x)"

CASES = {
    "layer": (BOTH, X, f"{NORMAL} n = Div(d, s) k = Mul(n, g) y = Add(k, b)", f"y = {LAYER}(x, g, b)"),
    "layer, by the reciprocal": (
        BOTH,
        X,
        f"{NORMAL} r = Reciprocal(s) n = Mul(d, r) k = Mul(g, n) y = Add(b, k)",
        f"y = {LAYER}(x, g, b)",
    ),
    "layer, squares by a product": (
        BOTH,
        X,
        f"{CENTRED} q = Mul(d, d) v = ReduceMean(q, a) w = Add(e, v) s = Sqrt(w) n = Div(d, s) y = Mul(n, g)",
        f"y = {LAYER}(x, g)",
    ),
    "layer, two axes": (
        SCALED,
        "float32[B,3,2] x, float32[3,2] g",
        f"{NORMAL} n = Div(d, s) y = Mul(n, g)".replace("int64[1] a = {-1}", "int64[2] a = {2, 1}"),
        "y = LayerNormalization<axis = -2, epsilon = 0.5>(x, g)",
    ),
    "layer, another axis": (
        layer_normalization,
        X,
        f"{NORMAL} n = Div(d, s) y = Mul(n, g)".replace("{-1}", "{1}"),
        None,
    ),
    "layer, a scale for all": (
        SCALED,
        "float32[B,3,2] x, float32[3,2] g",
        f"{NORMAL} n = Div(d, s) y = Mul(n, g)",
        f"float32[2] o = {{1, 1}} n = {LAYER}(x, o) y = Mul(n, g)",
    ),
    "layer without a scale": (
        SCALED,
        "float32[B,3,2] x",
        f"{NORMAL} y = Div(d, s)",
        f"float32[2] o = {{1, 1}} y = {LAYER}(x, o)",
    ),
    "layer, by a power": (
        SCALED,
        X,
        f"{NORMAL} float32 p = -0.5 r = Pow(w, p) n = Mul(d, r) y = Mul(n, g)",
        f"y = {LAYER}(x, g)",
    ),
    "layer, scale and bias of constants with more axes": (
        BOTH,
        "float32[B,3,2] x",
        f"{NORMAL} float32[1,1,2] g = {{3, 4}} float32[1,2] b = {{5, 6}} n = Div(d, s) k = Mul(n, g) y = Add(b, k)",
        f"float32[2] g = {{3, 4}} float32[2] b = {{5, 6}} y = {LAYER}(x, g, b)",
    ),
    "layer of TensorFlow": (
        layer_normalization_of_products,
        X,
        f"{NORMAL} r = Reciprocal(s) f = Mul(r, g) k = Mul(x, f) l = Mul(m, f) z = Sub(b, l) y = Add(k, z)",
        f"y = {LAYER}(x, g, b)",
    ),
    "layer of float16, in float32": (
        [*SCALED, normalization_cast],
        HALF,
        f"""{WIDE} m = ReduceMean(h, a) d = Sub(h, m) q = Pow(d, t) v = ReduceMean(q, a) w = Add(v, e) s = Sqrt(w)
            n = Div(d, s) c = Cast<to = 10>(n) y = Mul(c, g)""",
        f"y = {LAYER}(x, g)",
        "y",
        True,
        2e-3,
    ),
    "rms of float16, in float32": (
        [*RMS_SCALED, normalization_cast],
        HALF,
        f"""{WIDE} q = Pow(h, t) v = ReduceMean(q, a) w = Add(v, e) s = Sqrt(w) r = Reciprocal(s)
            n = Mul(h, r) c = Cast<to = 10>(n) y = Mul(g, c)""",
        RMS,
        "y",
        True,
        2e-3,
    ),
    "layer, of float64": (
        layer_normalization,
        "float64[3,2] x, float64[2] g",
        f"{NORMAL} n = Div(d, s) y = Mul(n, g)".replace("float32", "float64"),
        None,
    ),
    "layer, a larger bias": (
        layer_normalization_bias,
        "float32[B,3,2] x, float32[2] g, float32[3,2] b",
        f"k = {LAYER}(x, g) y = Add(k, b)",
        None,
    ),
    "rms": (RMS_SCALED, X, f"{SQUARE} n = Div(x, s) y = Mul(n, g)", RMS),
    "rms of Llama": (RMS_SCALED, X, f"{SQUARE} r = Div(o, s) n = Mul(x, r) y = Mul(g, n)", RMS),
    "rms, summed": (
        rms_normalization,
        X,
        f"{SQUARE} n = Div(x, s) y = Mul(n, g)".replace("ReduceMean(q, a)", "ReduceSum(q, a)"),
        None,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_rule(case):
    check(*CASES[case])
