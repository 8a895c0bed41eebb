"""Rules for shapes, transpositions, parts and borders."""

import pytest

from sardonyx.passes.movement import (
    flatten_of_matrix,
    pad_of_nothing,
    reshape_of_reshape,
    reshape_to_known_sizes,
    shape_of_its_own,
    slice_of_everything,
    softmax_of_rows,
    split_into_one,
    squeeze_of_unsqueeze,
    there_and_back,
    transpose_of_merged,
    transpose_of_nothing,
    transpose_of_transpose,
)
from tests.passes.checking import check

X = "float32[2,N,4] x"
ANY = "float32[...] x"
FAR = 9223372036854775807

CASES = {
    "transpose of merged axes": (
        transpose_of_merged,
        "float32[2,3,N,5] x",
        """int64[3] m = {6, -1, 5} int64[4] b = {2, 3, 5, -1} h = Reshape(x, m) t = Transpose<perm = [0, 2, 1]>(h)
           y = Reshape(t, b)""",
        "y = Transpose<perm = [0, 1, 3, 2]>(x)",
    ),
    "transpose of axes merged otherwise": (
        transpose_of_merged,
        "float32[2,3,4,5] x",
        """int64[3] m = {2, 12, 5} int64[4] b = {2, 5, 3, 4} h = Reshape(x, m) t = Transpose<perm = [0, 2, 1]>(h)
           y = Reshape(t, b)""",
        None,
    ),
    "transpose": (transpose_of_nothing, X, "h = Transpose<perm = [0, 1, 2]>(x) y = Relu(h)", "y = Relu(x)"),
    "transpose of a vector": (transpose_of_nothing, "float32[N] x", "h = Transpose(x) y = Relu(h)", "y = Relu(x)"),
    "transpose, moving": (transpose_of_nothing, X, "h = Transpose(x) y = Relu(h)", None),
    "transposes": (
        transpose_of_transpose,
        X,
        "h = Transpose<perm = [1, 2, 0]>(x) y = Transpose<perm = [0, 2, 1]>(h)",
        "y = Transpose<perm = [1, 0, 2]>(x)",
    ),
    "transposes that cancel": (
        [transpose_of_transpose, transpose_of_nothing],
        X,
        "h = Transpose(x) k = Transpose(h) y = Relu(k)",
        "y = Relu(x)",
    ),
    "reshape": (shape_of_its_own, X, "int64[3] s = {0, -1, 4} h = Reshape(x, s) y = Relu(h)", "y = Relu(x)"),
    "reshape by its shape": (shape_of_its_own, X, "s = Shape(x) h = Reshape(x, s) y = Relu(h)", "y = Relu(x)"),
    "reshape, changing": (shape_of_its_own, X, "int64[2] s = {0, -1} h = Reshape(x, s) y = Relu(h)", None),
    "expand": (shape_of_its_own, X, "int64[2] s = {1, 4} h = Expand(x, s) y = Relu(h)", "y = Relu(x)"),
    "expand by another's shape": (shape_of_its_own, f"{X}, float32[M,1] z", "s = Shape(z) y = Expand(x, s)", None),
    "tile": (shape_of_its_own, X, "int64[3] s = {1, 1, 1} h = Tile(x, s) y = Relu(h)", "y = Relu(x)"),
    "squeeze nothing": (shape_of_its_own, X, "int64[0] a = {} h = Squeeze(x, a) y = Relu(h)", "y = Relu(x)"),
    "flatten": (flatten_of_matrix, "float32[N,4] x", "h = Flatten(x) y = Relu(h)", "y = Relu(x)"),
    "flatten, changing": (flatten_of_matrix, X, "h = Flatten(x) y = Relu(h)", None),
    "reshape back": (
        there_and_back,
        X,
        "int64[1] s = {-1} h = Reshape(x, s) int64[3] t = {2, -1, 4} k = Reshape(h, t) y = Relu(k)",
        "y = Relu(x)",
    ),
    "reshape static sizes back": (
        there_and_back,
        "float32[2,3] x",
        "h = Flatten<axis = 0>(x) int64[1] s = {-1} k = Reshape(h, s) int64[2] t = {2, 3} z = Reshape(k, t) y = Exp(z)",
        "y = Exp(x)",
    ),
    "unsqueeze and squeeze": (
        there_and_back,
        X,
        "int64[1] a = {1} h = Unsqueeze(x, a) int64[1] b = {-3} k = Squeeze(h, b) y = Relu(k)",
        "y = Relu(x)",
    ),
    "unsqueeze and squeeze, any rank": (
        squeeze_of_unsqueeze,
        ANY,
        "int64[1] a = {0} h = Unsqueeze(x, a) k = Squeeze(h, a) y = Relu(k)",
        "y = Relu(x)",
    ),
    "unsqueeze and squeeze elsewhere": (
        squeeze_of_unsqueeze,
        "float32[1,3] x",
        "int64[1] a = {0} int64[1] b = {1} h = Unsqueeze(x, a) k = Squeeze(h, b) y = Relu(k)",
        None,
    ),
    "reshapes": (
        reshape_of_reshape,
        X,
        "int64[2] s = {0, -1} h = Reshape(x, s) int64[2] t = {-1, 2} y = Reshape(h, t)",
        "int64[2] t = {-1, 2} y = Reshape(x, t)",
    ),
    "reshapes, keeping": (
        reshape_of_reshape,
        X,
        "int64[2] s = {4, -1} h = Reshape(x, s) int64[2] t = {0, -1} y = Reshape(h, t)",
        None,
    ),
    "reshape to computed sizes": (
        reshape_to_known_sizes,
        "float32[B,S,12] x",
        "n = Shape<end = 2>(x) int64[2] h = {3, 4} s = Concat<axis = 0>(n, h) y = Reshape(x, s)",
        "int64[4] s = {0, 0, 3, 4} y = Reshape(x, s)",
    ),
    "reshape to a product": (
        reshape_to_known_sizes,
        "float32[B,S,12] x",
        """n = Shape<end = 2>(x) p = ReduceProd<keepdims = 1>(n) int64[1] h = {12}
           s = Concat<axis = 0>(p, h) y = Reshape(x, s)""",
        "int64[2] s = {-1, 12} y = Reshape(x, s)",
    ),
    "reshape to two products": (
        reshape_to_known_sizes,
        "float32[B,S,4] x",
        """b = Shape<end = 1>(x) t = Shape<start = 1, end = 2>(x) int64[1] two = {2}
           c = Mul(b, two) d = Mul(t, two) s = Concat<axis = 0>(c, d) y = Reshape(x, s)""",
        None,
    ),
    "reshape to what is fed": (reshape_to_known_sizes, "float32[N] x, int64[2] s", "y = Shape(x) z = Relu(x)", None),
    "softmax": (
        softmax_of_rows,
        X,
        "h = Flatten<axis = 2>(x) k = Softmax(h) s = Shape(x) y = Reshape(k, s)",
        "y = Softmax<axis = -1>(x)",
    ),
    "softmax of several axes": (
        softmax_of_rows,
        X,
        "h = Flatten(x) k = Softmax(h) s = Shape(x) y = Reshape(k, s)",
        None,
    ),
    "slice": (
        slice_of_everything,
        X,
        f"int64[2] a = {{0, 0}} int64[2] b = {{{FAR}, 4}} int64[2] c = {{1, 2}} h = Slice(x, a, b, c) y = Relu(h)",
        "y = Relu(x)",
    ),
    "slice, turning": (
        slice_of_everything,
        "float32[4] x",
        f"int64[1] a = {{-1}} int64[1] b = {{-{FAR}}} int64[1] c = {{0}} h = Slice(x, a, b, c, a) y = Relu(h)",
        None,
    ),
    "pad": (pad_of_nothing, "float32[N] x", "int64[2] p = {0, 0} h = Pad(x, p) y = Relu(h)", "y = Relu(x)"),
    "pad, shifting": (pad_of_nothing, "float32[4] x", "int64[2] p = {1, -1} h = Pad(x, p) y = Relu(h)", None),
    "split": (split_into_one, X, "h = Split<num_outputs = 1>(x) y = Relu(h)", "y = Relu(x)"),
}


@pytest.mark.parametrize("case", CASES)
def test_rule(case):
    check(*CASES[case])
