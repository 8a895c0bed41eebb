"""Normalisations in the forms that exporters give them."""

import pytest

from sardonyx.passes.normalization import layer_normalization, layer_normalization_bias, rms_normalization
from tests.passes.checking import check

X = "float32[B,3,2] x, float32[2] g, float32[2] b"
A = "int64[1] a = {-1} float32 e = 0.5 float32 t = 2 float32 o = 1"
CENTRED = f"{A} m = ReduceMean(x, a) d = Sub(x, m)"
NORMAL = f"{CENTRED} q = Pow(d, t) v = ReduceMean(q, a) w = Add(v, e) s = Sqrt(w)"
LAYER = "LayerNormalization<axis = -1, epsilon = 0.5>"
SQUARE = f"{A} q = Pow(x, t) v = ReduceMean(q, a) w = Add(v, e) s = Sqrt(w)"
RMS = "y = RMSNormalization<axis = -1, epsilon = 0.5>(x, g)"
BOTH = [layer_normalization, layer_normalization_bias]

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
        layer_normalization,
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
        layer_normalization,
        "float32[B,3,2] x, float32[3,2] g",
        f"{NORMAL} n = Div(d, s) y = Mul(n, g)",
        None,
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
    "rms": (rms_normalization, X, f"{SQUARE} n = Div(x, s) y = Mul(n, g)", RMS),
    "rms of Llama": (rms_normalization, X, f"{SQUARE} r = Div(o, s) n = Mul(x, r) y = Mul(g, n)", RMS),
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
