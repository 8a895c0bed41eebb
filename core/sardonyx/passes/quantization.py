"""Rules for graphs in which integers are dequantized, computed with, and quantized again."""

from __future__ import annotations

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.model.ir import Node, Value
from sardonyx.model.ir.build import constant
from sardonyx.passes.checks import array_of, maker, rank, words
from sardonyx.passes.pattern import Factory, Uses, changed, constants, microsoft, op, variables
from sardonyx.passes.rule import rule

x, y, w, b = variables("x y w b")
scale, zero, low, high, by_x, at_x, by_w, at_w = constants("scale zero low high by_x at_x by_w at_w")

MOVING = words("""
    DepthToSpace Expand Flatten Gather GatherElements Identity MaxPool Pad Reshape Resize Slice SpaceToDepth
    Squeeze Tile Transpose Unsqueeze
""")
"""Operators that move the elements of their first input, or choose among them by their order."""

RANGE = (1e-30, 1e30)
"""Scales for which quantizing restores every integer that was dequantized."""

SMALLEST = 0.0
"""What scales of weights have to be above: channels that training has left at 1e-35 add nothing, in floats as well."""

TOLERANCE = 1e-4
"""How far, relatively, the scale of a bias may be from that of the products to which it is added."""

_TINY = float(np.finfo(np.float32).tiny)
"""Below it float32 has fewer digits; as a unit of a bias it gives at most 3e-29."""

_BYTES = (dtypes.uint8, dtypes.int8)


def _same(one: Value | None, other: Value | None) -> bool:
    """Whether two parameters are the same constant."""
    a, b = array_of(one), array_of(other)
    if one is other or a is None or b is None:
        return one is other and one is not None
    return a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())


def _same_parameters(one: Node, other: Node) -> bool:
    """Whether two QuantizeLinear or DequantizeLinear nodes map the same numbers to the same integers."""
    sources = [node.outputs[0] if node.op_type == "QuantizeLinear" else node.inputs[0] for node in (one, other)]
    kinds = {value.dtype for value in sources if value is not None}
    if None in kinds or len(kinds) != 1 or not _same(one.inputs[1], other.inputs[1]) or not _is_usual(one):
        return False
    zeros = [array_of(node.inputs[2]) if len(node.inputs) > 2 else np.zeros(()) for node in (one, other)]
    if zeros[0] is None or zeros[1] is None or (zeros[0] != zeros[1]).any():
        return False
    names = ("axis", "block_size", "precision", "output_dtype")
    per_tensor = _is_per_tensor(one)
    places = [[node.attribute(name) for name in names[per_tensor:2]] for node in (one, other)]
    return places[0] == places[1]


def _is_usual(node: Node, least: float = RANGE[0]) -> bool:
    """Whether the scales are positive, and neither tiny nor huge, and the arithmetic float32."""
    array = array_of(node.inputs[1])
    if (
        array is None
        or array.dtype != np.float32
        or node.attribute("precision", 0)
        or node.attribute("output_dtype", 0)
    ):
        return False
    return bool(((array > least) & (array < RANGE[1])).all())


def _is_per_tensor(node: Node) -> bool:
    scales = node.inputs[1]
    return scales is not None and scales.constant is not None and scales.constant.size == 1


@rule(
    op.QuantizeLinear(
        op.DequantizeLinear(x, by_x, at_x.optional).named("inner"), scale, zero.optional
    ).named("outer")
)  # fmt: skip
def dequantized_again(
    x: Value, by_x: Value, at_x: Value | None, scale: Value, zero: Value | None, inner: Node, outer: Node
) -> Value | None:
    """QuantizeLinear(DequantizeLinear(x)) -> x, by the same parameters"""
    return x if _same_parameters(inner, outer) else None


@rule(op.QuantizeLinear(y, scale, zero.optional).named("outer"))
def quantized_movement(y: Value, scale: Value, zero: Value | None, outer: Node, uses: Uses) -> Value | None:
    """QuantizeLinear(Reshape(DequantizeLinear(x))) -> Reshape(x), by the same parameters; likewise what else moves"""
    node = maker(y, "Concat", *MOVING)
    if node is None or uses[y] != 1 or len(node.outputs) > 1 or not _is_per_tensor(outer):
        return None
    count = len(node.inputs) if node.op_type == "Concat" else 1
    integers = []
    for value in node.inputs[:count]:
        inner = maker(value, "DequantizeLinear")
        if inner is None or not _is_per_tensor(inner) or not _same_parameters(inner, outer):
            return None
        integers.append(inner.inputs[0])
    rest = node.inputs[count:]
    if node.op_type == "MaxPool" and outer.outputs[0].dtype not in _BYTES:
        return None
    if node.op_type == "Resize" and (
        node.attribute("mode", "nearest") != "nearest"
        or node.attribute("coordinate_transformation_mode") == "tf_crop_and_resize"
    ):
        return None
    if node.op_type == "Pad" and node.attribute("mode", "constant") == "constant":
        border = array_of(rest[1]) if len(rest) > 1 else np.zeros(())
        kind = outer.outputs[0].dtype
        if (
            (rest[1:] and rest[1] is not None and border is None)
            or (border is not None and border.any())
            or kind is None
        ):
            return None
        middle = array_of(zero)
        filled = np.zeros((), kind.storage) if middle is None else middle.reshape(())
        rest = [rest[0], constant(filled), *rest[2:]]
    return changed(node, *integers, *rest)


def _saturated(outer: Node, number: float, up: bool) -> bool:
    """Whether this number, and all beyond it, are quantized to the largest integer, or the smallest if not `up`."""
    kind = outer.outputs[0].dtype
    scales, zeros = array_of(outer.inputs[1]), array_of(outer.inputs[2] if len(outer.inputs) > 2 else None)
    if kind is None or not kind.is_int or scales is None or not _is_usual(outer):
        return False
    least = -(2 ** (kind.bits - 1)) if kind.kind == "int" else 0
    middle = np.zeros(()) if zeros is None else zeros.astype(np.int64)
    reached = np.rint(np.float32(number) / scales) + middle
    return bool((reached >= least + 2**kind.bits - 1).all() if up else (reached <= least).all())


_BOUNDED = op.Relu(x).once | op.Clip(x, low.optional, high.optional).once


@rule(op.QuantizeLinear(_BOUNDED, scale, zero.optional).named("outer"))
def quantized_clip(
    x: Value, low: Value | None, high: Value | None, scale: Value, zero: Value | None, outer: Node
) -> Value | None:
    """QuantizeLinear(Clip(x)) -> QuantizeLinear(x), where the integers end there as well; likewise Relu"""
    clip = maker(outer.inputs[0], "Clip")
    bounds = [array_of(value) for value in (low, high)]
    if clip is not None and any(
        value is not None and (array is None or array.size != 1) for value, array in zip((low, high), bounds)
    ):
        return None
    least = bounds[0] if clip is not None else np.zeros(())
    if least is not None and not _saturated(outer, float(least.reshape(())), False):
        return None
    if bounds[1] is not None and not _saturated(outer, float(bounds[1].reshape(())), True):
        return None
    return changed(outer, x, *outer.inputs[1:])


RULES = [dequantized_again, quantized_movement, quantized_clip]


# ---- integers throughout


def _parameters(node: Node, axis: int, least: float = RANGE[0]) -> tuple[Value, Value] | None:
    """Scale and zero point of a tensor, or of its parts along this axis; None where a scale is not above `least`."""
    source = node.inputs[0] if node.op_type == "DequantizeLinear" else node.outputs[0]
    scales = node.inputs[1]
    if source is None or source.dtype not in _BYTES or scales is None or not _is_usual(node, least):
        return None
    if not _is_per_tensor(node):
        size = rank(source)
        if size is None or node.attribute("axis", 1) % size != axis % size or node.attribute("block_size", 0):
            return None
    zero_point = node.inputs[2] if len(node.inputs) > 2 else None
    shape = () if scales.constant is None else scales.constant.shape
    return scales, zero_point or constant(np.zeros(shape, source.dtype.storage))


def _type(node: Node) -> DType | None:
    """The type of the integers of a QuantizeLinear or DequantizeLinear."""
    source = node.inputs[0] if node.op_type == "DequantizeLinear" else node.outputs[0]
    return None if source is None else source.dtype


_X = op.DequantizeLinear(x, by_x, at_x.optional).named("left")
_W = op.DequantizeLinear(w, by_w, at_w.optional).named("right")


@rule(op.QuantizeLinear(op.Conv(_X, _W, b.optional).named("conv").once, scale, zero.optional).named("outer"))
def quantized_conv(
    x: Value,
    w: Value,
    b: Value | None,
    by_x: Value,
    at_x: Value | None,
    by_w: Value,
    at_w: Value | None,
    scale: Value,
    zero: Value | None,
    left: Node,
    right: Node,
    conv: Node,
    outer: Node,
) -> Value | None:
    """QuantizeLinear(Conv(DequantizeLinear(x), DequantizeLinear(w), b)) -> QLinearConv(x, w, b), but for rounding"""
    parameters = [_parameters(left, 1), _parameters(right, 0, SMALLEST), _parameters(outer, 1)]
    if None in parameters or not _is_per_tensor(left) or not _is_per_tensor(outer):
        return None
    flat = [value for pair in parameters if pair is not None for value in pair]
    products = array_of(flat[0])
    factors = array_of(flat[2])
    if products is None or factors is None:
        return None
    bias = None if b is None else _bias(b, products.reshape(()).astype(np.float64) * factors)
    if bias is None and b is not None:
        return None
    return changed(conv, x, flat[0], flat[1], w, flat[2], flat[3], flat[4], flat[5], bias, factory=op.QLinearConv)


def _bias(b: Value, unit: np.ndarray) -> Value | None:
    """A bias in units of the products."""
    node = maker(b, "DequantizeLinear")
    if node is not None:
        scales = array_of(node.inputs[1])
        zeros = array_of(node.inputs[2]) if len(node.inputs) > 2 else np.zeros(())
        source = node.inputs[0]
        if source is None or source.dtype is not dtypes.int32 or scales is None or zeros is None or zeros.any():
            return None
        return source if np.allclose(scales, unit, rtol=TOLERANCE, atol=_TINY) else None
    array = array_of(b)
    if array is None or array.dtype != np.float32:
        return None
    rounded = np.rint(array / np.broadcast_to(unit, array.shape))
    return constant(rounded.astype(np.int32)) if (np.abs(rounded) < 2**31).all() else None


@rule(op.QuantizeLinear(op.MatMul(_X, _W).once, scale, zero.optional).named("outer"))
def quantized_matmul(
    x: Value,
    w: Value,
    by_x: Value,
    at_x: Value | None,
    by_w: Value,
    at_w: Value | None,
    scale: Value,
    zero: Value | None,
    left: Node,
    right: Node,
    outer: Node,
) -> Value | None:
    """QuantizeLinear(MatMul(DequantizeLinear(x), DequantizeLinear(w))) -> QLinearMatMul(x, w), but for rounding"""
    parameters = [_parameters(left, -1), _parameters(right, -1, SMALLEST), _parameters(outer, -1)]
    if None in parameters or not all(map(_is_per_tensor, (left, outer))):
        return None
    flat = [value for pair in parameters if pair is not None for value in pair]
    return op.QLinearMatMul(x, flat[0], flat[1], w, *flat[2:])


@rule(op.QuantizeLinear(op.Gemm(_X, _W, b.optional).named("gemm").once, scale, zero.optional).named("outer"))
def quantized_gemm(
    x: Value,
    w: Value,
    b: Value | None,
    by_x: Value,
    at_x: Value | None,
    by_w: Value,
    at_w: Value | None,
    scale: Value,
    zero: Value | None,
    left: Node,
    right: Node,
    gemm: Node,
    outer: Node,
) -> Value | None:
    """QuantizeLinear(Gemm(DequantizeLinear(x), DequantizeLinear(w), b)) -> QGemm(x, w, b), but for rounding"""
    columns = 0 if gemm.attribute("transB", 0) else 1
    parameters = [_parameters(left, 1), _parameters(right, columns, SMALLEST), _parameters(outer, 1)]
    if None in parameters or not _is_per_tensor(left) or not _is_per_tensor(outer):
        return None
    if gemm.attribute("alpha", 1.0) != 1 or (b is not None and gemm.attribute("beta", 1.0) != 1):
        return None
    flat = [value for pair in parameters if pair is not None for value in pair]
    products, factors = array_of(flat[0]), array_of(flat[2])
    if products is None or factors is None or x.dtype is not _type(outer):
        return None
    bias = None if b is None else _bias(b, products.reshape(()).astype(np.float64) * factors)
    if bias is None and b is not None:
        return None
    attributes = {name: gemm.attribute(name, 0) for name in ("transA", "transB")}
    return microsoft.QGemm(x, flat[0], flat[1], w, flat[2], flat[3], bias, flat[4], flat[5], **attributes)


def _of_two(y: Value, outer: Node, op_type: str, factory: Factory) -> Value | None:
    """A function of two quantized tensors of one type, each with one scale."""
    node = maker(y, op_type)
    left, right = (None, None) if node is None else (maker(value, "DequantizeLinear") for value in node.inputs)
    if left is None or right is None:
        return None
    nodes = (left, right, outer)
    parameters = [_parameters(node, 0) for node in nodes]
    if None in parameters or len({*map(_type, nodes)}) > 1 or not all(map(_is_per_tensor, nodes)):
        return None
    (x_scale, x_zero), (w_scale, w_zero), (scale, zero) = (pair for pair in parameters if pair is not None)
    return factory(left.inputs[0], x_scale, x_zero, right.inputs[0], w_scale, w_zero, scale, zero)


@rule(op.QuantizeLinear(y, scale, zero.optional).named("outer"))
def quantized_add(y: Value, scale: Value, zero: Value | None, outer: Node, uses: Uses) -> Value | None:
    """QuantizeLinear(Add(DequantizeLinear(x), DequantizeLinear(w))) -> QLinearAdd(x, w), but for rounding"""
    return _of_two(y, outer, "Add", microsoft.QLinearAdd) if uses[y] == 1 else None


@rule(op.QuantizeLinear(y, scale, zero.optional).named("outer"))
def quantized_mul(y: Value, scale: Value, zero: Value | None, outer: Node, uses: Uses) -> Value | None:
    """QuantizeLinear(Mul(DequantizeLinear(x), DequantizeLinear(w))) -> QLinearMul(x, w), but for rounding"""
    return _of_two(y, outer, "Mul", microsoft.QLinearMul) if uses[y] == 1 else None


@rule(op.QuantizeLinear(y, scale, zero.optional).named("outer"))
def quantized_concat(y: Value, scale: Value, zero: Value | None, outer: Node, uses: Uses) -> Value | None:
    """QuantizeLinear(Concat(DequantizeLinear(x), ...)) -> QLinearConcat(x, ...), each in its scale"""
    node = maker(y, "Concat") if uses[y] == 1 else None
    target = _parameters(outer, 0)
    if node is None or target is None or not _is_per_tensor(outer):
        return None
    operands: list[Value | None] = [*target]
    for value in node.inputs:
        inner = maker(value, "DequantizeLinear")
        given = None if inner is None or not _is_per_tensor(inner) else _parameters(inner, 0)
        if inner is None or given is None or _type(inner) is not _type(outer):
            return None
        operands += [inner.inputs[0], *given]
    return microsoft.QLinearConcat(*operands, axis=node.attribute("axis"))


INTEGER_RULES = [quantized_conv, quantized_matmul, quantized_gemm, quantized_add, quantized_mul, quantized_concat]
"""The rules for quantized products that onnxruntime applies at the extended level."""
