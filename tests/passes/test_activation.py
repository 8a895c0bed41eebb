"""Activations: recognised in the forms that exporters give them, and put into layers."""

import pytest

from sardonyx.passes.activation import (
    conv_activation,
    conv_add_activation,
    conv_clip,
    gelu,
    gemm_activation,
    hard_sigmoid,
    hard_swish,
    mish,
    swish,
    swish_of_multiple,
    tanh_gelu,
)
from tests.passes.checking import check

X = "float32[2,N] x"
SIX = "float32 z = 0 float32 t = 3 float32 s = 6 float32 e = 0.16666667"
RELU6 = f"{SIX} a = Add(x, t) c = Clip(a, z, s)"
HARD = "y = HardSigmoid<alpha = 0.16666667, beta = 0.5>(x)"
GELU = "float32 two = 1.4142135 float32 inv = 0.70710677 float32 o = 1 float32 h = 0.5"
ERF = f"{GELU} d = Div(x, two) e = Erf(d) p = Add(e, o)"
BENT = """float32 k = 0.044715 float32 r = 0.7978846 float32 three = 3 float32 o = 1 float32 h = 0.5
          q = Pow(x, three) b = Mul(q, k) s = Add(x, b) m = Mul(s, r) t = Tanh(m) p = Add(t, o)"""
CUBE = "float32 k = 0.044715 float32 r = 0.797885 float32 o = 1 float32 h = 0.5 s = Mul(x, x)"
NEW_GELU = f"{CUBE} q = Mul(s, x) b = Mul(k, q) u = Add(x, b) m = Mul(r, u) t = Tanh(m) p = Add(o, t)"
FAST_GELU = f"{CUBE} b = Mul(k, s) u = Add(o, b) v = Mul(x, u) m = Mul(v, r) t = Tanh(m) p = Add(t, o)"
TANH = 'y = Gelu<approximate = "tanh">(x)'
IMAGE = "float32[1,1,N] x"
CONV = "float32[2,1,1] w = {1, 2} float32[2] b = {3, 4} h = Conv<pads = [1, 1]>(x, w, b)"
FUSED = "float32[2,1,1] w = {1, 2} float32[2] b = {3, 4} y = com.microsoft.FusedConv"
MATRIX = "float32[N,1] x, float32[1,2] w"


def conv(**attributes: str) -> str:
    return f"{FUSED}<{', '.join(f'{name} = {text}' for name, text in attributes.items())}, pads = [1, 1]>(x, w, b)"


CASES = {
    "hard sigmoid": (hard_sigmoid, X, f"{RELU6} y = Div(c, s)", HARD),
    "hard sigmoid by a product": (hard_sigmoid, X, f"{RELU6} y = Mul(e, c)", HARD),
    "not quite a hard sigmoid": (hard_sigmoid, X, f"{RELU6} y = Div(c, t)", None),
    "hard swish": (hard_swish, X, f"{RELU6} m = Mul(x, c) y = Div(m, s)", "y = HardSwish(x)"),
    "hard swish by a product": (hard_swish, X, f"{RELU6} m = Mul(c, x) y = Mul(m, e)", "y = HardSwish(x)"),
    "hard swish, scaled first": (hard_swish, X, f"{RELU6} m = Mul(x, e) y = Mul(m, c)", "y = HardSwish(x)"),
    "hard swish of parts": ([hard_sigmoid, hard_swish], X, f"{RELU6} d = Div(c, s) y = Mul(d, x)", "y = HardSwish(x)"),
    "hard swish of two": (hard_swish, f"{X}, float32[2,N] u", f"{RELU6} m = Mul(u, c) y = Div(m, s)", None),
    "gelu": (gelu, X, f"{ERF} m = Mul(x, p) y = Mul(m, h)", "y = Gelu(x)"),
    "gelu, half first": (gelu, X, f"{ERF} m = Mul(x, h) y = Mul(m, p)", "y = Gelu(x)"),
    "gelu, half of the factor": (gelu, X, f"{ERF} m = Mul(h, p) y = Mul(x, m)", "y = Gelu(x)"),
    "gelu by a product": (
        gelu,
        X,
        f"{GELU} d = Mul(inv, x) e = Erf(d) p = Add(o, e) m = Mul(p, x) y = Mul(h, m)",
        "y = Gelu(x)",
    ),
    "gelu of another": (gelu, f"{X}, float32[2,N] u", f"{ERF} m = Mul(u, p) y = Mul(m, h)", None),
    "tanh gelu": (tanh_gelu, X, f"{BENT} m2 = Mul(x, h) y = Mul(m2, p)", TANH),
    "tanh gelu of GPT-2": (tanh_gelu, X, f"{NEW_GELU} g = Mul(h, x) y = Mul(g, p)", TANH),
    "tanh gelu, factored": (tanh_gelu, X, f"{FAST_GELU} g = Mul(h, x) y = Mul(g, p)", TANH),
    "tanh gelu, scaled first": (
        tanh_gelu,
        X,
        f"""{GELU} float32 r = 0.7978846 float32 k = 0.044715 q = Mul(x, x) m = Mul(q, k) u = Add(m, o) a = Mul(x, r)
            v = Mul(a, u) t = Tanh(v) p = Add(t, o) g = Mul(h, x) y = Mul(g, p)""",
        TANH,
    ),
    "tanh gelu, of the small part first": (
        tanh_gelu,
        X,
        f"""{GELU} float32 r = 0.7978846 float32 k = 0.044715 m = Mul(x, k) n = Mul(m, x) b = Mul(n, x) u = Add(x, b)
            v = Mul(r, u) t = Tanh(v) p = Add(o, t) c = Mul(p, h) y = Mul(x, c)""",
        TANH,
    ),
    "swish": (swish, X, "s = Sigmoid(x) y = Mul(s, x)", "y = Swish(x)"),
    "swish of two": (swish, f"{X}, float32[2,N] u", "s = Sigmoid(x) y = Mul(s, u)", None),
    "swish whose factor is used": (swish, X, "s = Sigmoid(x) m = Mul(x, s) y = Add(m, s)", None),
    "quick gelu": (
        swish_of_multiple,
        X,
        "float32 f = 1.702 m = Mul(f, x) s = Sigmoid(m) y = Mul(x, s)",
        "y = Swish<alpha = 1.7020000219345093>(x)",
    ),
    "mish": (mish, X, "s = Softplus(x) t = Tanh(s) y = Mul(x, t)", "y = Mish(x)"),
    "relu of a sum of the same shape": (
        conv_add_activation,
        "float32[1,1,4] x, float32[1,2,6] z",
        f"{CONV} s = Add(z, h) y = Relu(s)",
        f'{FUSED}<activation = "Relu", pads = [1, 1]>(x, w, b, z)',
    ),
    "relu of a sum that broadcasts": (
        conv_add_activation,
        "float32[1,1,4] x, float32[2,2,6] z",
        f"{CONV} s = Add(z, h) y = Relu(s)",
        None,
    ),
    "relu": (conv_activation, IMAGE, f"{CONV} y = Relu(h)", conv(activation='"Relu"')),
    "leaky relu": (
        conv_activation,
        IMAGE,
        f"{CONV} y = LeakyRelu<alpha = 0.25>(h)",
        conv(activation='"LeakyRelu"', activation_params="[0.25]"),
    ),
    "hard sigmoid of a layer": (
        conv_activation,
        IMAGE,
        f"{CONV} y = HardSigmoid<alpha = 0.25>(h)",
        conv(activation='"HardSigmoid"', activation_params="[0.25, 0.5]"),
    ),
    "sigmoid": (conv_activation, IMAGE, f"{CONV} y = Sigmoid(h)", conv(activation='"Sigmoid"')),
    "tanh": (conv_activation, IMAGE, f"{CONV} y = Tanh(h)", conv(activation='"Tanh"')),
    "relu of what is used twice": (conv_activation, IMAGE, f"{CONV} r = Relu(h) y = Add(r, h)", None),
    "clip": (
        conv_clip,
        IMAGE,
        f"{CONV} float32 l = -1 float32 u = 6 y = Clip(h, l, u)",
        conv(activation='"Clip"', activation_params="[-1.0, 6.0]"),
    ),
    "clip above": (
        conv_clip,
        IMAGE,
        f'{CONV} float32 u = 6 y = Clip(h, "", u)',
        conv(activation='"Clip"', activation_params="[-3.4028235e38, 6.0]"),
    ),
    "clip by what is fed": (conv_clip, f"{IMAGE}, float32 u", f'{CONV} y = Clip(h, "", u)', None),
    "relu of a product": (
        gemm_activation,
        MATRIX,
        "h = Gemm<alpha = 0.5>(x, w) y = Relu(h)",
        'y = com.microsoft.FusedGemm<activation = "Relu", alpha = 0.5>(x, w)',
    ),
    "hard sigmoid of a product": (
        gemm_activation,
        MATRIX,
        "h = Gemm(x, w) y = HardSigmoid<alpha = 0.25>(h)",
        """y = com.microsoft.FusedGemm<activation = "HardSigmoid", activation_alpha = 0.25,
           activation_beta = 0.5>(x, w)""",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_rule(case):
    check(*CASES[case])


def test_a_gelu_of_float16_has_rounded_constants():
    text = GELU.replace("float32", "float16")
    check(
        gelu,
        "float16[4] x",
        f"{text} d = Div(x, two) e = Erf(d) p = Add(e, o) m = Mul(x, p) y = Mul(m, h)",
        "y = Gelu(x)",
        tolerance=2e-3,
    )
