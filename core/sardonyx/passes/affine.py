"""Rules that move scales and offsets of channels into the weights of what comes before."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sardonyx.common import dtypes
from sardonyx.model.ir import DimLike, Node, Value
from sardonyx.passes.checks import array_of, fill_of, integers, is_float, like, rank
from sardonyx.passes.fold import constant_value
from sardonyx.passes.pattern import changed, constants, op, variables
from sardonyx.passes.rule import rule

x, a, b, z = variables("x a b z")
axes = variables("axes")[0]
w, c, scale, offset, mean, variance = constants("w c scale offset mean variance")

Array = np.ndarray


def _wide(value: Value | None) -> Array | None:
    """The elements of a constant of floats, in float64."""
    array = array_of(value)
    return None if array is None or array.dtype.kind != "f" else array.astype(np.float64)


def _per_channel(value: Value, channels: int, rank: int) -> Array | None:
    """A constant as float64 [channels]: one number for each channel (axis 1) of a tensor of this rank.

    None if the constant differs along another axis, or would change the tensor's shape.
    """
    array = _wide(value)
    if array is None or array.ndim > rank:
        return None
    shape = [1] * (rank - array.ndim) + list(array.shape)
    if shape[1] not in (1, channels) or any(size != 1 for axis, size in enumerate(shape) if axis != 1):
        return None
    return np.broadcast_to(array.reshape(-1), (channels,))


# ---- convolutions


def _channels(conv: Node, w: Value) -> int:
    """The number of channels in the output of a Conv or ConvTranspose."""
    assert w.constant is not None
    shape = w.constant.shape
    return shape[0] if conv.op_type == "Conv" else shape[1] * int(conv.attribute("group", 1))


def _scaled_weights(conv: Node, w: Value, factor: Array) -> Value:
    """The weights times a factor for each channel of the result."""
    assert w.constant is not None
    ones = [1] * (len(w.constant.shape) - 2)
    if conv.op_type == "Conv":
        factor = factor.reshape(-1, 1, *ones)
        if w.dtype in (dtypes.float32, dtypes.float64):
            return constant_value(w.constant.scaled(factor.astype(w.constant.dtype.storage)))
    weights = array_of(w)
    assert weights is not None
    split = weights
    if conv.op_type != "Conv":
        groups = int(conv.attribute("group", 1))
        split, factor = weights.reshape(groups, -1, *weights.shape[1:]), factor.reshape(groups, 1, -1, *ones)
    work = np.promote_types(weights.dtype, np.float32)  # of large weights a copy in float64 takes long
    return like(np.multiply(split, factor.astype(work), dtype=work).reshape(weights.shape), w)


def _affine(conv: Node, x: Value, w: Value, b: Value | None, factor: Array | None, shift: Array | None) -> Value | None:
    """conv(x, w, b) * factor + shift as one convolution."""
    bias = np.zeros(_channels(conv, w)) if b is None else _wide(b)
    if bias is None or not is_float(w):
        return None
    weights = w
    if factor is not None:
        weights, bias = _scaled_weights(conv, w, factor), bias * factor
    if shift is not None:
        bias = bias + shift
    offsets = like(bias, w)
    return changed(conv, x, weights, offsets if bias.any() else None) if _finite(weights, offsets) else None


def _finite(*values: Value) -> bool:
    """Whether float16 is wide enough for these constants; other types always are."""
    arrays = [array_of(value) for value in values if value.dtype is dtypes.float16]
    return all(array is not None and np.isfinite(array).all() for array in arrays)


_CONVOLUTIONS = [make(x, w, b.optional).named("conv").once for make in (op.Conv, op.ConvTranspose)]


@rule(*(conv + c for conv in _CONVOLUTIONS))
def conv_add(conv: Node, x: Value, w: Value, b: Value | None, c: Value) -> Value | None:
    """Conv(x, w, b) + c -> Conv(x, w, b + c), where c is one number per channel"""
    shift = _per_channel(c, _channels(conv, w), rank(w) or 0)
    return None if shift is None else _affine(conv, x, w, b, None, shift)


@rule(*(conv * c for conv in _CONVOLUTIONS))
def conv_mul(conv: Node, x: Value, w: Value, b: Value | None, c: Value) -> Value | None:
    """Conv(x, w, b) * c -> Conv(x, w * c, b * c), where c is one number per channel"""
    factor = _per_channel(c, _channels(conv, w), rank(w) or 0)
    return None if factor is None else _affine(conv, x, w, b, factor, None)


@rule(op.Conv(op.Pad(x, c, z.optional, axes.optional).named("pad").once, w, b.optional).named("conv"))
def conv_of_pad(
    x: Value, c: Value, z: Value | None, axes: Value | None, pad: Node, w: Value, b: Value | None, conv: Node
) -> Value | None:
    """Conv(Pad(x, widths), w, b) -> Conv(x, w, b, pads=widths), where Pad adds zeros to what the kernel moves along"""
    widths, places, size = integers(c), integers(axes), rank(x)
    constant_mode = pad.attribute("mode", "constant") == "constant" and conv.attribute("auto_pad", "NOTSET") == "NOTSET"
    if widths is None or size is None or not constant_mode or (z is not None and fill_of(z) != 0):
        return None
    if axes is not None:
        if places is None:
            return None
        spread = [0] * (2 * size)
        for place, axis in enumerate(places):
            spread[axis % size], spread[axis % size + size] = widths[place], widths[place + len(places)]
        widths = spread
    starts, ends = widths[:size], widths[size:]
    if min(widths) < 0 or any((*starts[:2], *ends[:2])):
        return None
    own = conv.attribute("pads", [0] * (2 * size - 4))
    return changed(conv, x, w, b, pads=[a + b for a, b in zip(own, [*starts[2:], *ends[2:]])])


def _normal(norm: Node, *statistics: Value) -> tuple[Array, Array] | None:
    """The factor and the shift that a BatchNormalization applies to each channel."""
    scale, offset, mean, variance = map(_wide, statistics)
    if scale is None or offset is None or mean is None or variance is None or norm.attribute("training_mode", 0):
        return None
    factor = scale / np.sqrt(variance + norm.attribute("epsilon", 1e-5))
    return factor, offset - mean * factor


@rule(*(op.BatchNormalization(conv, scale, offset, mean, variance).named("norm") for conv in _CONVOLUTIONS))
def conv_batch_normalization(
    conv: Node,
    x: Value,
    w: Value,
    b: Value | None,
    norm: Node,
    scale: Value,
    offset: Value,
    mean: Value,
    variance: Value,
) -> Sequence[Value | None] | None:
    """BatchNormalization(Conv(x, w, b)) -> Conv(x, w * factor, b * factor + shift)"""
    affine = _normal(norm, scale, offset, mean, variance)
    result = affine and _affine(conv, x, w, b, *affine)
    return None if result is None else [result, mean, variance]


_NORM = op.BatchNormalization(x, ...).named("norm").once


@rule(_NORM + c)
def normalization_add(x: Value, norm: Node, c: Value) -> Value | None:
    """BatchNormalization(x, scale, offset) + c -> BatchNormalization(x, scale, offset + c), one number per channel"""
    return _combined(norm, c, lambda scale, offset, number: (scale, offset + number))


@rule(_NORM * c)
def normalization_mul(x: Value, norm: Node, c: Value) -> Value | None:
    """BatchNormalization(x, scale, offset) * c -> BatchNormalization(x, scale * c, offset * c), c per channel"""
    return _combined(norm, c, lambda scale, offset, number: (scale * number, offset * number))


def _combined(norm: Node, c: Value, combine: Callable[[Array, Array, Array], tuple[Array, Array]]) -> Value | None:
    """A BatchNormalization whose scale and offset are combined with a number per channel."""
    x, scale, offset, *statistics = norm.inputs
    old, size = (_wide(scale), _wide(offset)), rank(x)
    if scale is None or old[0] is None or old[1] is None or size is None or norm.attribute("training_mode", 0):
        return None
    number = _per_channel(c, len(old[0]), size)
    if number is None:
        return None
    parameters = [like(array, scale) for array in combine(old[0], old[1], number)]
    return changed(norm, x, *parameters, *statistics) if _finite(*parameters) else None


# ---- matrix products


def _is_matrix_row(b: Value, rows: DimLike, columns: DimLike) -> bool:
    """Whether a Value can be the C of a Gemm of this size."""
    if b.shape is None or len(b.shape) > 2:
        return False
    sizes = (1, 1, *b.shape)[-2:]
    return all(size == 1 or (size == want and want is not None) for size, want in zip(sizes, (rows, columns)))


@rule(op.MatMul(x, a).once + b)
def matmul_add(x: Value, a: Value, b: Value) -> Value | None:
    """MatMul(x, a) + b -> Gemm(x, a, b), of matrices, to whose product b broadcasts"""
    if x.shape is None or a.shape is None or len(x.shape) != 2 or len(a.shape) != 2 or not is_float(x):
        return None
    return op.Gemm(x, a, b) if _is_matrix_row(b, x.shape[0], a.shape[1]) else None


@rule(
    op.Gemm(op.Transpose(x).named("turn"), a, b.optional).named("gemm"),
    op.Gemm(x, op.Transpose(a).named("turn"), b.optional).named("gemm"),
)
def gemm_of_transpose(x: Value, a: Value, b: Value | None, turn: Node, gemm: Node) -> Value | None:
    """Gemm(Transpose(x), a, b) -> Gemm(x, a, b, transA=1); likewise of a"""
    name = "transA" if gemm.inputs[0] is turn.outputs[0] else "transB"
    if turn.attribute("perm", [1, 0]) != [1, 0]:
        return None
    return changed(gemm, x, a, b, **{name: 1 - gemm.attribute(name, 0)})


@rule(op.Gemm(x, a).named("gemm").once + b)
def gemm_add(x: Value, a: Value, b: Value, gemm: Node) -> Value | None:
    """Gemm(x, a) + b -> Gemm(x, a, b), where b broadcasts to the product"""
    shape = gemm.outputs[0].shape
    return changed(gemm, x, a, b, beta=1.0) if shape and _is_matrix_row(b, *shape) else None


@rule(
    *(
        op.BatchNormalization(make(x, w, c.optional).named("gemm").once, scale, offset, mean, variance).named("norm")
        for make in (op.Gemm, op.MatMul)
    )
)
def gemm_batch_normalization(
    gemm: Node,
    x: Value,
    w: Value,
    c: Value | None,
    norm: Node,
    scale: Value,
    offset: Value,
    mean: Value,
    variance: Value,
) -> Sequence[Value | None] | None:
    """BatchNormalization(Gemm(x, w, c)) -> Gemm(x, w * factor, c * factor + shift); likewise MatMul of matrices"""
    affine, weights = _normal(norm, scale, offset, mean, variance), _wide(w)
    if affine is None or weights is None or weights.ndim != 2 or rank(x) != 2:
        return None
    factor, shift = affine
    if c is not None:
        bias = _per_channel(c, len(factor), 2)
        if bias is None:
            return None
        shift = shift + bias * factor * gemm.attribute("beta", 1.0)
    weights = weights * (factor[:, None] if gemm.attribute("transB", 0) else factor)
    operands = [like(weights, w), like(shift, w)]
    return [changed(gemm, x, *operands, factory=op.Gemm, beta=1.0), mean, variance] if _finite(*operands) else None


RULES = [
    conv_add,
    conv_mul,
    conv_batch_normalization,
    conv_of_pad,
    normalization_add,
    normalization_mul,
    matmul_add,
    gemm_of_transpose,
    gemm_add,
    gemm_batch_normalization,
]
