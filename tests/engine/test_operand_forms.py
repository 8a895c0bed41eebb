"""Operands that rewritings look for as constants, in every form that they can have: constants that are not folded, the
results of others, constants that were expanded to sizes of the input, in the graph or outside of a loop.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import sardonyx
from sardonyx.primitives import evaluation
from tests.engine.providers import WASM, WEBGPU, require_provider
from tests.support.saturation import exact

rng = np.random.default_rng(0)


class Block(NamedTuple):
    """Nodes, as ONNX's text, that compute y from x and other operands."""

    nodes: str
    x: np.ndarray
    operands: dict[str, np.ndarray]


def block(nodes: str, x: np.ndarray, **operands: Any) -> Block:
    return Block(nodes, x, {name: np.asarray(operand) for name, operand in operands.items()})


def f(*shape: int) -> np.ndarray:
    return np.asarray(rng.normal(size=shape), np.float32)


def positive(*shape: int) -> np.ndarray:
    return np.asarray(np.abs(f(*shape)) * 0.01 + 0.001, np.float32)


def signed(*shape: int) -> np.ndarray:
    return exact(rng.integers(-127, 128, shape, np.int8))


def unsigned(*shape: int) -> np.ndarray:
    return rng.integers(0, 256, shape, np.uint8)


CONV = "c = Conv <{}> (x, w, b)  y = Relu (c)"
HALF, SMALL, ONE_STEP = np.float32(0.5), np.float32(0.02), 1
HEADS = "y = com.microsoft.{} <num_heads = 2> ({})"
LSTM = "y = {} <hidden_size = 12> ({})"
BLOCKS = {
    "projections": block(
        """m = MatMul (x, w)  a = Add (b, m)  s = Mul (a, k)  n = MatMul (x, v)  d = Add (n, e)
        t = Transpose <perm = [0, 2, 1]> (s)  y = MatMul (d, t)""",
        f(1, 5, 16),
        w=f(16, 32),
        b=f(1, 1, 32),
        k=HALF,
        v=f(16, 32),
        e=f(32),
    ),
    "Gemm": block("y = Gemm <alpha = 0.5, beta = 2.0> (x, w, b)", f(6, 16), w=f(16, 32), b=f(32)),
    "MatMul": block("m = MatMul (x, w)  a = Add (m, b)  y = Mul (a, s)", f(3, 6, 16), w=f(16, 32), b=f(32), s=f(32)),
    "Conv": block(CONV.format("pads = [1, 1, 1, 1]"), f(1, 4, 12, 12), w=f(8, 4, 3, 3), b=f(8)),
    "Conv-1": block(CONV.format("group = 1"), f(1, 4, 40), w=f(8, 4, 3), b=f(8)),
    "Conv-3": block(CONV.format("group = 1"), f(1, 2, 6, 6, 6), w=f(4, 2, 3, 3, 3), b=f(4)),
    "Conv-depthwise": block(CONV.format("group = 8"), f(1, 8, 12, 12), w=f(8, 1, 3, 3), b=f(8)),
    "Conv-groups": block(CONV.format("group = 2"), f(1, 8, 12, 12), w=f(8, 4, 3, 3), b=f(8)),
    "Conv-pointwise": block(CONV.format("group = 1"), f(1, 8, 9, 9), w=f(16, 8, 1, 1), b=f(16)),
    "Conv-strides": block(CONV.format("strides = [2, 2]"), f(1, 3, 16, 16), w=f(8, 3, 4, 4), b=f(8)),
    "Conv-dilations": block(CONV.format("dilations = [2, 2]"), f(1, 4, 16, 16), w=f(8, 4, 3, 3), b=f(8)),
    "ConvTranspose": block("y = ConvTranspose <strides = [2, 2]> (x, w, b)", f(1, 6, 8, 8), w=f(6, 5, 4, 4), b=f(5)),
    "ConvTranspose-2": block("y = ConvTranspose <strides = [2, 2]> (x, w, b)", f(1, 6, 8, 8), w=f(6, 5, 2, 2), b=f(5)),
    "BatchNormalization": block(
        "c = Conv (x, w)  y = BatchNormalization (c, s, b, m, v)",
        f(1, 4, 12, 12),
        w=f(8, 4, 3, 3),
        s=f(8),
        b=f(8),
        m=f(8),
        v=positive(8) + HALF,
    ),
    "MaxPool": block(
        "c = Conv (x, w)  a = Add (c, b)  r = Relu (a)  y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)",
        *(f(1, 4, 12, 12),),
        w=f(8, 4, 3, 3),
        b=f(8, 1, 1),
    ),
    "MatMulInteger": block(
        "y = MatMulInteger (x, w, p, q)", unsigned(5, 32), w=signed(32, 16), p=np.uint8(7), q=np.int8(3)
    ),
    "DynamicQuantizeLinear": block(
        """n, s, z = DynamicQuantizeLinear (x)  m = MatMulInteger (n, w, z, q)  c = Cast <to = 1> (m)
        t = Mul (s, k)  d = Mul (c, t)  y = Add (d, b)""",
        f(5, 32),
        w=signed(32, 16),
        q=np.int8(0),
        k=SMALL,
        b=f(16),
    ),
    "ConvInteger": block(
        "y = ConvInteger <pads = [1, 1, 1, 1]> (x, w, p, q)",
        unsigned(1, 4, 12, 12),
        w=unsigned(8, 4, 3, 3),
        p=np.uint8(7),
        q=np.uint8(130),
    ),
    "ConvInteger-pointwise": block(
        "y = ConvInteger (x, w, p, q)", unsigned(1, 8, 12, 12), w=signed(8, 8, 1, 1), p=np.uint8(7), q=np.int8(0)
    ),
    "QLinearConv": block(
        "y = QLinearConv (x, xs, xz, w, ws, wz, ys, yz, b)",
        unsigned(1, 4, 12, 12),
        xs=SMALL,
        xz=np.uint8(120),
        w=signed(8, 4, 3, 3),
        ws=positive(8),
        wz=np.zeros(8, np.int8),
        ys=HALF,
        yz=np.uint8(100),
        b=rng.integers(-500, 500, 8, np.int32),
    ),
    "QLinearMatMul": block(
        "y = QLinearMatMul (x, xs, xz, w, ws, wz, ys, yz)",
        unsigned(5, 32),
        xs=SMALL,
        xz=np.uint8(120),
        w=signed(32, 16),
        ws=SMALL,
        wz=np.int8(2),
        ys=HALF,
        yz=np.uint8(100),
    ),
    "QuantizeLinear": block(
        """d = DequantizeLinear (x, xs, xz)  e = DequantizeLinear <axis = 0> (w, ws, wz)  c = Conv (d, e)
        h = HardSigmoid (c)  m = Mul (c, h)  y = QuantizeLinear (m, ys, yz)""",
        unsigned(1, 4, 10, 10),
        xs=SMALL,
        xz=np.uint8(120),
        w=signed(8, 4, 3, 3),
        ws=positive(8),
        wz=np.zeros(8, np.int8),
        ys=HALF,
        yz=np.uint8(100),
    ),
    "DequantizeLinear": block(
        "d = DequantizeLinear <axis = 1> (w, s, z)  y = MatMul (x, d)",
        f(5, 64),
        w=signed(64, 96),
        s=positive(96),
        z=signed(96),
    ),
    "DequantizeLinear-blocks": block(
        "d = DequantizeLinear <axis = 0, block_size = 32> (w, s, z)  y = MatMul (x, d)",
        f(5, 64),
        w=signed(64, 96),
        s=positive(2, 96),
        z=signed(2, 96),
    ),
    "MatMulNBits": block(
        "y = com.microsoft.MatMulNBits <K = 64, N = 96, bits = 4, block_size = 32> (x, w, s, z)",
        f(5, 64),
        w=unsigned(96, 2, 16),
        s=positive(192),
        z=unsigned(96),
    ),
    "RNN": block(LSTM.format("RNN", "x, w, r, b"), f(4, 1, 8), w=f(1, 12, 8), r=f(1, 12, 12), b=f(1, 24)),
    "GRU": block(
        "y = GRU <hidden_size = 12, linear_before_reset = 1> (x, w, r, b, l, h)",
        f(4, 1, 8),
        w=f(1, 36, 8),
        r=f(1, 36, 12),
        b=f(1, 72),
        l=np.array([3], np.int32),
        h=f(1, 1, 12),
    ),
    "LSTM": block(
        LSTM.format("LSTM", "x, w, r, b, l, h, c, p"),
        f(4, 1, 8),
        w=f(1, 48, 8),
        r=f(1, 48, 12),
        b=f(1, 96),
        l=np.array([3], np.int32),
        h=f(1, 1, 12),
        c=f(1, 1, 12),
        p=f(1, 36),
    ),
    "DynamicQuantizeLSTM": block(
        LSTM.format("com.microsoft.DynamicQuantizeLSTM", "x, w, r, b, , , , , ws, wz, rs, rz"),
        f(4, 1, 8),
        w=signed(1, 8, 48),
        r=signed(1, 12, 48),
        b=f(1, 96),
        ws=positive(1),
        wz=np.zeros(1, np.int8),
        rs=positive(1),
        rz=np.zeros(1, np.int8),
    ),
    "Attention": block(
        HEADS.format("Attention", "x, w, b, m, , e"),
        f(1, 5, 16),
        w=f(16, 48),
        b=f(48),
        m=np.array([[1, 1, 1, 0, 0]], np.int32),
        e=f(1, 2, 5, 5),
    ),
    "MultiHeadAttention": block(
        HEADS.format("MultiHeadAttention", "x, k, v, b, m"),
        f(1, 5, 16),
        k=f(1, 7, 16),
        v=f(1, 7, 16),
        b=f(48),
        m=np.array([[1] * 5 + [0] * 2], np.int32),
    ),
    "softmax": block(
        "a = MatMul (x, k)  b = Mul (a, s)  c = Add (b, m)  d = Softmax (c)  y = MatMul (d, v)",
        f(1, 2, 5, 8),
        k=f(1, 2, 8, 7),
        v=f(1, 2, 7, 8),
        s=HALF,
        m=f(5, 7),
    ),
    "LayerNormalization": block("y = LayerNormalization (x, s, b)", f(2, 5, 16), s=f(16), b=f(16)),
    "GroupNormalization": block("y = GroupNormalization <num_groups = 2> (x, s, b)", f(1, 8, 6, 6), s=f(8), b=f(8)),
    "Gather": block("y = Gather (x, i)", f(6, 8), i=np.array([1, 3, 5, 0])),
    "Gather-table": block("y = Gather (w, x)", np.array([[1, 2, 3]]), w=f(40, 16)),
    "ScatterND": block(
        'y = ScatterND <reduction = "add"> (x, i, u)', f(40, 16), i=rng.integers(0, 40, (300, 1)), u=f(300, 16)
    ),
    "Clip": block("y = Clip (x, l, h)", f(5, 16), l=-HALF, h=HALF),
    "NonMaxSuppression": block(
        "y = NonMaxSuppression (x, s, k, o, t)",
        np.abs(f(1, 30, 4)),
        s=np.abs(f(1, 2, 30)),
        k=np.array([5]),
        o=np.array([0.5], np.float32),
        t=positive(1),
    ),
    "Einsum": block('y = Einsum <equation = "btd,dhe->bthe"> (x, w)', f(2, 5, 16), w=f(16, 2, 12)),
    "GridSample": block("y = GridSample (x, g)", f(1, 3, 8, 8), g=np.clip(f(1, 5, 5, 2), -1, 1)),
    "DeformConv": block("y = DeformConv (x, w, o, b)", f(1, 4, 8, 8), w=f(6, 4, 3, 3), o=f(1, 18, 6, 6), b=f(6)),
}
FORMS = {
    "kept": False,
    "kept outside of a loop": True,
    "fed": False,
    "expanded": False,
    "expanded outside of a loop": True,
}
"""What becomes of all operands, and whether the block is in a loop."""
OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]


def written(text: str) -> list[onnx.NodeProto]:
    return list(parser.parse_graph(f"g (float x) => (float y) {{ {text} }}").node)


def value(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    shape = [f"{name}{axis}" for axis in range(array.ndim)]
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape)


def operand(name: str, array: np.ndarray, form: str) -> str:
    """Nodes that make an operand of a constant `name_`."""
    if form.startswith("expanded") and array.ndim:
        rest = f"value_ints = [{', '.join('1' * (array.ndim - 1))}]" if array.ndim > 1 else "value_ints : ints = []"
        return f"""{name}n = Shape <end = 1> (x)  {name}o = Constant <value_ints = [1]> ()
            {name}m = Min ({name}n, {name}o)  {name}r = Constant <{rest}> ()
            {name}e = Concat <axis = 0> ({name}m, {name}r)  {name} = Expand ({name}_, {name}e)"""
    if array.dtype.itemsize == 1:
        number = helper.np_dtype_to_tensor_dtype(array.dtype)
        return f"""{name}i = Cast <to = {TensorProto.INT32}> ({name}_)  {name}j = Neg ({name}i)  {name}k = Neg ({name}j)
            {name} = Cast <to = {number}> ({name}k)"""
    return f"{name}i = Neg ({name}_)  {name} = Neg ({name}i)"


def model(of: Block, form: str) -> tuple[bytes, dict[str, np.ndarray]]:
    """A model of a block with all sizes open, and its feeds."""
    feeds = {"x": of.x, **(of.operands if form == "fed" else {})}
    constants = {f"{name}_": array for name, array in of.operands.items()} if form != "fed" else {}
    made = [] if form == "fed" else [node for item in of.operands.items() for node in written(operand(*item, form))]
    nodes = written(of.nodes)
    result = "y"
    if FORMS[form]:
        going = [helper.make_tensor_value_info(name, kind, []) for name, kind in (("turn", 7), ("on", 9))]
        ends = [helper.make_empty_tensor_value_info(name) for name in ("off", "y")]
        body = helper.make_graph([helper.make_node("Identity", ["on"], ["off"]), *nodes], "body", going, ends)
        nodes = [helper.make_node("Loop", ["turns", ""], ["all"], body=body)]
        constants["turns"] = np.array(2)
        result = "all"
    graph = helper.make_graph(
        [*made, *nodes],
        "block",
        [value(*item) for item in feeds.items()],
        [helper.make_empty_tensor_value_info(result)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=OPSETS, ir_version=10).SerializeToString(), feeds


def run(library: Any, model: bytes, feeds: dict[str, np.ndarray], provider: str) -> np.ndarray:
    """The result with nothing optimized before it is traced."""
    options = library.SessionOptions()
    options.graph_optimization_level = library.GraphOptimizationLevel.ORT_DISABLE_ALL
    found: np.ndarray = library.InferenceSession(model, options, providers=[provider]).run(None, feeds)[0]
    return found


@pytest.mark.parametrize("provider", [pytest.param(WASM, id="wasm"), pytest.param(WEBGPU, id="webgpu")])
@pytest.mark.parametrize("name", BLOCKS)
def test_operands_of_any_form(name: str, provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require_provider(provider)
    monkeypatch.setattr(evaluation, "FOLD_LIMIT", 1)
    for form in FORMS:
        made, feeds = model(BLOCKS[name], form)
        expected = run(onnxruntime, made, feeds, "CPUExecutionProvider")
        found = run(sardonyx, made, feeds, provider)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape), form
        step = ONE_STEP if expected.dtype.itemsize == 1 else 1e-4 * np.abs(expected).max() * (found.dtype.kind == "f")
        np.testing.assert_allclose(found.astype(float), expected.astype(float), 0, step, err_msg=form)
