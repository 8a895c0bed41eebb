"""Rules that move scales and offsets into weights. The numbers are such that nothing is rounded."""

import pytest

from sardonyx.passes.affine import (
    conv_add,
    conv_batch_normalization,
    conv_mul,
    conv_of_pad,
    gemm_add,
    gemm_batch_normalization,
    gemm_of_transpose,
    matmul_add,
    normalization_add,
    normalization_mul,
)
from tests.passes.checking import check

X = "float32[1,2,N] x"
W = "float32[2,2,1] w = {1, 2, 3, 4}"
GROUPED = "float32[2,1,2] w = {1, 2, 3, 4}"
C = "float32[2,1] c = {8, 16}"
NORM = "float32[2] s = {2, 4} float32[2] o = {1, -1} float32[2] m = {0, 1} float32[2] v = {4, 16}"
"""(x - m) / sqrt(v) * s + o = x + o - m."""
HALF = "float32[2] s = {1, 1} float32[2] o = {0, 0} float32[2] m = {4, 8} float32[2] v = {4, 16}"
"""x * {0.5, 0.25} - 2."""
MATRIX = "float32[N,2] x"
SQUARE = "float32[2,2] w = {1, 2, 3, 4}"


def norm(text: str, output: str = "y") -> str:
    return f"{output} = BatchNormalization<epsilon = 0.0>({text}, s, o, m, v)"


CASES = {
    "pad": (
        conv_of_pad,
        X,
        f"{W} int64[6] p = {{0, 0, 1, 0, 0, 2}} h = Pad(x, p) y = Conv<pads = [0, 1]>(h, w)",
        f"{W} y = Conv<pads = [1, 3]>(x, w)",
    ),
    "pad of an axis": (
        conv_of_pad,
        X,
        f'{W} int64[2] p = {{1, 2}} int64[1] a = {{-1}} h = Pad(x, p, "", a) y = Conv(h, w)',
        f"{W} y = Conv<pads = [1, 2]>(x, w)",
    ),
    "pad of channels": (
        conv_of_pad,
        "float32[1,1,N] x",
        f"{W} int64[6] p = {{0, 1, 1, 0, 0, 2}} h = Pad(x, p) y = Conv(h, w)",
        None,
    ),
    "pad with ones": (
        conv_of_pad,
        X,
        f"{W} int64[6] p = {{0, 0, 1, 0, 0, 2}} float32 o = 1 h = Pad(x, p, o) y = Conv(h, w)",
        None,
    ),
    "pad by what is near": (
        conv_of_pad,
        X,
        f'{W} int64[6] p = {{0, 0, 1, 0, 0, 2}} h = Pad<mode = "edge">(x, p) y = Conv(h, w)',
        None,
    ),
    "crop": (conv_of_pad, X, f"{W} int64[6] p = {{0, 0, -1, 0, 0, 2}} h = Pad(x, p) y = Conv(h, w)", None),
    "gemm of what is turned": (
        gemm_of_transpose,
        "float32[2,N] x",
        f"{SQUARE} t = Transpose(x) y = Gemm(t, w)",
        f"{SQUARE} y = Gemm<transA = 1>(x, w)",
    ),
    "gemm by what is turned, twice": (
        gemm_of_transpose,
        "float32[N,2] x, float32[2,2] w",
        "t = Transpose<perm = [1, 0]>(w) y = Gemm<transB = 1>(x, t)",
        "y = Gemm<transB = 0>(x, w)",
    ),
    "add": (conv_add, X, f"{W} {C} h = Conv(x, w) y = Add(h, c)", f"{W} float32[2] b = {{8, 16}} y = Conv(x, w, b)"),
    "add a bias": (
        conv_add,
        X,
        f"{W} {C} float32[2] b = {{1, 2}} h = Conv<pads = [1, 0]>(x, w, b) y = Add(c, h)",
        f"{W} float32[2] b = {{9, 18}} y = Conv<pads = [1, 0]>(x, w, b)",
    ),
    "add a number": (
        conv_add,
        X,
        f"{W} float32 c = 4 h = Conv(x, w) y = Add(h, c)",
        f"{W} float32[2] b = {{4, 4}} y = Conv(x, w, b)",
    ),
    "add along another axis": (
        conv_add,
        "float32[1,2,2] x",
        f"{W} float32[2] c = {{1, 2}} h = Conv(x, w) y = Add(h, c)",
        None,
    ),
    "add in more rows": (conv_add, X, f"{W} float32[2,1,1] c = {{1, 2}} h = Conv(x, w) y = Add(h, c)", None),
    "add what is used twice": (conv_add, X, f"{W} {C} h = Conv(x, w) k = Add(h, c) y = Mul(h, k)", None),
    "add what is no constant": (conv_add, f"{X}, float32[2,1] c", f"{W} h = Conv(x, w) y = Add(h, c)", None),
    "multiply": (
        conv_mul,
        X,
        f"{W} {C} float32[2] b = {{1, 2}} h = Conv(x, w, b) y = Mul(h, c)",
        "float32[2,2,1] w = {8, 16, 48, 64} float32[2] b = {8, 32} y = Conv(x, w, b)",
    ),
    "multiply in groups": (
        conv_mul,
        "float32[1,2,3] x",
        f"{GROUPED} {C} h = Conv<group = 2>(x, w) y = Mul(h, c)",
        "float32[2,1,2] w = {8, 16, 48, 64} y = Conv<group = 2>(x, w)",
    ),
    "multiply beyond float16": (
        conv_mul,
        "float16[1,1,2] x",
        "float16[1,1,1] w = {60000} float16 c = 2 h = Conv(x, w) y = Mul(h, c)",
        None,
    ),
    "multiply transposed": (
        conv_mul,
        "float32[1,2,3] x",
        f"{W} {C} h = ConvTranspose<strides = [2]>(x, w) y = Mul(h, c)",
        "float32[2,2,1] w = {8, 32, 24, 64} y = ConvTranspose<strides = [2]>(x, w)",
    ),
    "multiply transposed groups": (
        conv_mul,
        "float32[1,2,3] x",
        f"{GROUPED} {C} h = ConvTranspose<group = 2>(x, w) y = Mul(h, c)",
        "float32[2,1,2] w = {8, 16, 48, 64} y = ConvTranspose<group = 2>(x, w)",
    ),
    "normalize": (
        conv_batch_normalization,
        X,
        f"{W} {NORM} h = Conv(x, w) {norm('h')}",
        f"{W} float32[2] b = {{1, -2}} y = Conv(x, w, b)",
    ),
    "normalize a bias": (
        conv_batch_normalization,
        X,
        f"{W} {HALF} float32[2] b = {{2, 4}} h = Conv(x, w, b) {norm('h')}",
        "float32[2,2,1] w = {0.5, 1, 0.75, 1} float32[2] b = {-1, -1} y = Conv(x, w, b)",
    ),
    "normalize transposed": (
        conv_batch_normalization,
        X,
        f"{W} {HALF} h = ConvTranspose(x, w) {norm('h')}",
        "float32[2,2,1] w = {0.5, 0.5, 1.5, 1} float32[2] b = {-2, -2} y = ConvTranspose(x, w, b)",
    ),
    "normalize in training": (
        conv_batch_normalization,
        X,
        f"{W} {NORM} h = Conv(x, w) y, a, b = BatchNormalization<training_mode = 1>(h, s, o, m, v)",
        None,
    ),
    "add to what is normalized": (
        normalization_add,
        X,
        f"{HALF} {C} {norm('x', 'h')} y = Add(c, h)",
        f"{HALF.replace('o = {0, 0}', 'o = {8, 16}')} {norm('x')}",
    ),
    "multiply what is normalized": (
        normalization_mul,
        X,
        f"{NORM} {C} {norm('x', 'h')} y = Mul(c, h)",
        f"{NORM.replace('s = {2, 4}', 's = {16, 64}').replace('o = {1, -1}', 'o = {8, -16}')} {norm('x')}",
    ),
    "normalize a product": (
        gemm_batch_normalization,
        MATRIX,
        f"{SQUARE} {HALF} h = MatMul(x, w) {norm('h')}",
        "float32[2,2] w = {0.5, 0.5, 1.5, 1} float32[2] b = {-2, -2} y = Gemm<beta = 1.0>(x, w, b)",
    ),
    "normalize a stack of products": (
        gemm_batch_normalization,
        "float32[3,2,2] x",
        f"{SQUARE} {HALF} h = MatMul(x, w) {norm('h')}",
        None,
    ),
    "normalize a Gemm": (
        gemm_batch_normalization,
        MATRIX,
        f"{SQUARE} {HALF} float32[1,2] c = {{4, 8}} h = Gemm<beta = 0.5, transB = 1>(x, w, c) {norm('h')}",
        "float32[2,2] w = {0.5, 1, 0.75, 1} float32[2] b = {-1, -1} y = Gemm<beta = 1.0, transB = 1>(x, w, b)",
    ),
    "product and row": (
        matmul_add,
        MATRIX,
        f"{SQUARE} float32[2] b = {{1, 2}} h = MatMul(x, w) y = Add(b, h)",
        f"{SQUARE} float32[2] b = {{1, 2}} y = Gemm(x, w, b)",
    ),
    "product and matrix": (
        matmul_add,
        f"{MATRIX}, float32[2,M] w, float32[N,M] b",
        "h = MatMul(x, w) y = Add(b, h)",
        "y = Gemm(x, w, b)",
    ),
    "product of a stack": (
        matmul_add,
        "float32[3,2,2] x",
        f"{SQUARE} float32[2] b = {{1, 2}} h = MatMul(x, w) y = Add(b, h)",
        None,
    ),
    "product and more rows": (
        matmul_add,
        "float32[1,2] x",
        f"{SQUARE} float32[2,1] b = {{1, 2}} h = MatMul(x, w) y = Add(b, h)",
        None,
    ),
    "product of integers": (
        matmul_add,
        "int32[N,2] x",
        "int32[2,1] w = {1, 2} int32[1] b = {3} h = MatMul(x, w) y = Add(b, h)",
        None,
    ),
    "Gemm and row": (
        gemm_add,
        MATRIX,
        f"{SQUARE} float32[2] b = {{1, 2}} h = Gemm<alpha = 0.5>(x, w) y = Add(b, h)",
        f"{SQUARE} float32[2] b = {{1, 2}} y = Gemm<beta = 1.0, alpha = 0.5>(x, w, b)",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_rule(case):
    check(*CASES[case], tolerance=1e-3 if "float16" in case else 1e-5)
