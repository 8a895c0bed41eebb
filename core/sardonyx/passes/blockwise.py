"""Weights of products as integers of 2, 4 or 8 bits in blocks along K, to the bit as onnxruntime's kernels make them.

A block is `block_size` elements of one column. Its scale and zero point are computed in float32, the scale is rounded
to the weight's own type, and halves are rounded away from zero.
"""

from __future__ import annotations

import numpy as np

from sardonyx.common.record import record
from sardonyx.model.serde.tensors import pack

PORTION = 1 << 22
"""Elements that are quantized at once, which bounds what this takes beside the weight and its result."""


@record(eq=False)
class Blocks:
    """A weight [K, N] in blocks: `integers` uint8 [K, N], `scales` [blocks, N] and `zero_points` uint8 [blocks, N].

    An element is (integer - zero point) * scale. Symmetric blocks have the middle of the range for all zero points.
    """

    integers: np.ndarray
    scales: np.ndarray
    zero_points: np.ndarray


def quantize_blocks(
    weight: np.ndarray, bits: int, block_size: int, symmetric: bool, fused_rounding: bool = True
) -> Blocks:
    """The blocks of a weight of floats [K, N]; the last block of a column may be shorter.

    With `fused_rounding` the zero point is added before rounding, as for MatMulNBits; without, after it, as for
    DequantizeLinear, which differs in halves below zero.

    >>> blocks = quantize_blocks(np.array([[-1.0], [0.5], [2.0]], np.float32), bits=4, block_size=16, symmetric=False)
    >>> blocks.integers.tolist(), blocks.zero_points.tolist(), float(blocks.scales[0, 0])
    ([[0], [8], [15]], [[5]], 0.20000000298023224)
    """
    rows, columns = weight.shape
    count = -(-rows // block_size)
    integers = np.empty((rows, columns), np.uint8)
    scales = np.empty((count, columns), weight.dtype)
    zero_points = np.empty((count, columns), np.uint8)
    step = max(1, PORTION // max(1, count * block_size))
    for start in range(0, columns, step):
        part = slice(start, start + step)
        padded = np.zeros((count * block_size, len(range(columns)[part])), np.float32)
        padded[:rows] = weight[:, part]
        blocks = padded.reshape(count, block_size, -1)
        with np.errstate(all="ignore"):  # blocks of zeros, and what is no number, divide as the kernels let them
            scales[:, part], zero_points[:, part] = _parameters(blocks, bits, symmetric)
            quantized = _quantized(blocks, scales[:, part], zero_points[:, part], bits, fused_rounding)
        integers[:, part] = quantized.reshape(padded.shape)[:rows]
    return Blocks(integers, scales, zero_points)


def _parameters(blocks: np.ndarray, bits: int, symmetric: bool) -> tuple[np.ndarray, np.ndarray]:
    """Scales and zero points of float32 [blocks, block_size, N]. Zero is in every range, so padding changes nothing."""
    least: np.ndarray = np.fmin.reduce(blocks, axis=1)
    most: np.ndarray = np.fmax.reduce(blocks, axis=1)
    if symmetric:
        middle = 1 << bits - 1
        extreme = np.where(np.abs(most) > np.abs(least), most, least)
        return extreme / np.float32(-middle), np.full(extreme.shape, middle, np.uint8)
    least, most = np.minimum(least, np.float32(0)), np.maximum(most, np.float32(0))
    scales = (most - least) / np.float32((1 << bits) - 1)
    zero_points = np.where(scales != 0, -least / scales, np.float32(0))
    return scales, _rounded(np.clip(zero_points, 0, (1 << bits) - 1)).astype(np.uint8)


def _quantized(
    blocks: np.ndarray, scales: np.ndarray, zero_points: np.ndarray, bits: int, fused_rounding: bool
) -> np.ndarray:
    scales = scales.astype(np.float32)
    factors = np.where(scales != 0, np.float32(1) / scales, np.float32(0))[:, None]
    offsets = zero_points.astype(np.float32)[:, None]
    values = _rounded(blocks * factors + offsets) if fused_rounding else _rounded(blocks * factors) + offsets
    clipped: np.ndarray = np.clip(values, 0, (1 << bits) - 1)
    return clipped.astype(np.uint8)


def _rounded(values: np.ndarray) -> np.ndarray:
    """Rounded, halves away from zero, as C's roundf: exact, unlike the floor of a half more."""
    whole = np.trunc(values)
    away = np.where(np.abs(values - whole) >= 0.5, np.copysign(np.float32(1), values), np.float32(0))
    rounded: np.ndarray = whole + away
    return rounded


def pack_columns(blocks: Blocks, bits: int, block_size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """MatMulNBits' inputs: uint8 [N, blocks, bytes], scales [N, blocks] and zero points uint8 [N, bytes of a column].

    Lower bits come first. What fills the zero points' last byte is the middle of the range.
    """
    rows, columns = blocks.integers.shape
    count, together = len(blocks.scales), 8 // bits
    integers = np.zeros((count * block_size, columns), np.uint8)
    integers[:rows] = blocks.integers
    tail = rows % together
    first = rows - tail
    if tail and first % (together * block_size):
        # The kernels leave the lanes of the bytes before in a last byte that has fewer; no product reads them.
        integers[rows : first + together] = integers[rows - together : first]
    packed = pack(np.ascontiguousarray(integers.T).reshape(-1), bits).reshape(columns, count, -1)
    filled = np.full((columns, -(-count // together) * together), 1 << bits - 1, np.uint8)
    filled[:, :count] = blocks.zero_points.T
    zero_points = pack(filled.reshape(-1), bits).reshape(columns, -1)
    return packed, np.ascontiguousarray(blocks.scales.T), zero_points
