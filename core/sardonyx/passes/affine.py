"""Rules that move scales and offsets of channels into the weights of what comes before."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sardonyx.ir import DimLike, Node, Value
from sardonyx.passes.checks import array_of, is_float, like, rank
from sardonyx.passes.pattern import changed, constants, op, variables
from sardonyx.passes.rule import rule

x, a, b = variables("x a b")
w, c, scale, offset, mean, variance = constants("w c scale offset mean variance")

Array = np.ndarray


def _wide(value: Value | None) -> Array | None:
    """The elements of a constant of floats, in float64."""
    array = array_of(value)
    return None if array is None or array.dtype.kind != "f" else array.astype(np.float64)


def _per_channel(value: Value, channels: int, rank: int) -> Array | None:
    """The float64 [channels] that a constant is to each channel (axis 1) of a tensor of this rank.

    None if it differs along another axis, or would change the tensor's shape.
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
    """How many channels a Conv or ConvTranspose gives."""
    assert w.constant is not None
    shape = w.constant.shape
    return shape[0] if conv.op_type == "Conv" else shape[1] * int(conv.attribute("group", 1))


def _scaled_weights(conv: Node, w: Array, factor: Array) -> Array:
    """The weights that make each channel of the result so many times larger."""
    ones = [1] * (w.ndim - 2)
    if conv.op_type == "Conv":
        scaled: Array = w * factor.reshape(-1, 1, *ones)
        return scaled
    groups = int(conv.attribute("group", 1))
    split = w.reshape(groups, -1, *w.shape[1:])
    scaled = split * factor.reshape(groups, 1, -1, *ones)
    return scaled.reshape(w.shape)


def _affine(conv: Node, x: Value, w: Value, b: Value | None, factor: Array | None, shift: Array | None) -> Value | None:
    """conv(x, w, b) * factor + shift as one convolution."""
    weights, bias = _wide(w), np.zeros(_channels(conv, w)) if b is None else _wide(b)
    if weights is None or bias is None:
        return None
    if factor is not None:
        weights, bias = _scaled_weights(conv, weights, factor), bias * factor
    if shift is not None:
        bias = bias + shift
    made = _fitting(w, weights, bias)
    if made is None:
        return None
    return changed(conv, x, made[0] if factor is not None else w, made[1] if bias.any() else None)


def _fitting(w: Value, *arrays: Array) -> list[Value] | None:
    """Constants of the element type of `w`, unless its range is too small for them."""
    with np.errstate(over="ignore"):
        made = [like(array, w) for array in arrays]
    return made if all(np.isfinite(array_of(value)).all() for value in made) else None  # type: ignore[arg-type]


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


def _normal(norm: Node, *statistics: Value) -> tuple[Array, Array] | None:
    """The factor and shift of each channel that a BatchNormalization amounts to."""
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
    found = _normal(norm, scale, offset, mean, variance)
    result = found and _affine(conv, x, w, b, *found)
    return None if result is None else [result, mean, variance]


_NORM = op.BatchNormalization(x, scale, offset, mean, variance).named("norm").once


@rule(_NORM + c)
def normalization_add(
    norm: Node, x: Value, scale: Value, offset: Value, mean: Value, variance: Value, c: Value
) -> Value | None:
    """BatchNormalization(x, scale, offset) + c -> BatchNormalization(x, scale, offset + c), one number per channel"""
    return _shifted(norm, c, lambda factor, shift, number: (factor, shift + number))


@rule(_NORM * c)
def normalization_mul(
    norm: Node, x: Value, scale: Value, offset: Value, mean: Value, variance: Value, c: Value
) -> Value | None:
    """BatchNormalization(x, scale, offset) * c -> BatchNormalization(x, scale * c, offset * c), one number per channel"""
    return _shifted(norm, c, lambda factor, shift, number: (factor * number, shift * number))


def _shifted(norm: Node, c: Value, combine: Callable[[Array, Array, Array], tuple[Array, Array]]) -> Value | None:
    """A BatchNormalization whose scale and offset are combined with a number per channel."""
    x, scale, offset, *statistics = norm.inputs
    factor, shift = _wide(scale), _wide(offset)
    size = rank(x)
    if factor is None or shift is None or size is None or scale is None or norm.attribute("training_mode", 0):
        return None
    number = _per_channel(c, len(factor), size)
    made = None if number is None else _fitting(scale, *combine(factor, shift, number))
    return made and changed(norm, x, *made, *statistics)


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
    found, weights = _normal(norm, scale, offset, mean, variance), _wide(w)
    if found is None or weights is None or weights.ndim != 2 or rank(x) != 2:
        return None
    factor, shift = found
    if c is not None:
        bias = _per_channel(c, len(factor), 2)
        if bias is None:
            return None
        shift = shift + bias * factor * gemm.attribute("beta", 1.0)
    weights = weights * (factor[:, None] if gemm.attribute("transB", 0) else factor)
    made = _fitting(w, weights, shift)
    return made and [changed(gemm, x, *made, factory=op.Gemm, beta=1.0), mean, variance]


RULES = [
    conv_add,
    conv_mul,
    conv_batch_normalization,
    normalization_add,
    normalization_mul,
    matmul_add,
    gemm_add,
    gemm_batch_normalization,
]
