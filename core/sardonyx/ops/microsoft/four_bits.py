"""Products with a matrix of numbers of four bits, stored as one line of bytes."""

from __future__ import annotations

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.microsoft.packing import unpack
from sardonyx.ops.operator import Operator
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.reading import known_sizes

MICROSOFT = "com.microsoft"

FP4 = (0, 1 / 192, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4)
"""What codes of a float of four bits stand for (Dettmers et al., 2023); those from 8 on are their negatives."""
NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
"""Quantiles of the normal distribution, from -1 to 1 (Dettmers et al., 2023)."""
CODES = np.array([[*FP4, *(-number for number in FP4)], NF4], np.float32)


class MatMulBnb4(Operator, domain=MICROSOFT):
    """A B', or A B if not `transB`, of a matrix B [N, K] of 4-bit floats (`quant_type` 0) or quantiles (1).

    B is one line of codes, the first of two in the upper half of a byte, in blocks with the largest magnitude of each.
    """

    K: int
    N: int
    block_size: int
    quant_type: int
    training_mode: int = 0
    transB: int = 1  # noqa: N815 - onnxruntime's name

    def expand(self, a: Array, b: Array, largest: Array) -> Array:
        size, block = self.N * self.K, self.block_size
        if self.quant_type not in (0, 1):
            raise ValueError(f"quant_type is {self.quant_type}; use 0 for FP4, or 1 for NF4")
        if b.shape != ((size + 1) // 2,) or largest.shape != (-(-size // block),):
            raise ValueError(
                f"B {p.show(b.shape)} and absmax {p.show(largest.shape)} are not those of {self.N} rows of {self.K} "
                f"in blocks of {block}"
            )
        codes = p.reshape(p.swap_last(p.flip(unpack(b, 4), [0])), (b.shape[0] * 2,))
        numbers = p.gather(constant(CODES[self.quant_type]), [p.cast(codes, dtypes.int32)], [0])
        scales = p.gather(p.widen(largest), [p.iota((size,), 0, dtypes.int32) / block], [0])
        matrix = p.reshape(p.slice_axis(numbers, 0, 0, size) * scales, (self.N, self.K))
        return p.cast(p.dot_general(p.widen(a), matrix, ([a.rank - 1], [1 if self.transB else 0])), a.dtype)


class MatMulFpQ4(Operator, domain=MICROSOFT):
    """A B of a matrix [K, N] whose columns are stored in blocks of 32 numbers as (number - zero point) * scale.

    A block is its scale, float32, its zero point, a byte (8, and not stored, if `blk_quant_type` is 0), and 16 bytes:
    the lower halves of them are the first numbers, the upper ones the others.
    """

    blk_quant_type: int = 1

    def expand(self, a: Array, b: Array, shape: Array) -> Array:
        if self.blk_quant_type not in (0, 1):
            raise NotImplementedError(f"blk_quant_type {self.blk_quant_type} is not supported; use 0 or 1")
        k, n = known_sizes(shape)
        start, blocks = 4 + self.blk_quant_type, (k + 31) // 32
        if b.rank != 1 or b.shape[0] != n * blocks * (start + 16):
            raise ValueError(f"B {p.show(b.shape)} is not {n} columns of {blocks} blocks of {start + 16} bytes")
        stored = p.reshape(b, (n, blocks, start + 16))
        parts = [p.cast(p.slice_axis(stored, 2, place, 1), dtypes.uint32) for place in range(start)]
        bits = parts[0] | p.shift_left(parts[1], 8) | p.shift_left(parts[2], 16) | p.shift_left(parts[3], 24)
        zero: Array | float = p.cast(parts[4], dtypes.float32) if self.blk_quant_type else 8.0
        numbers = p.reshape(unpack(p.slice_axis(stored, 2, start, 16), 4), (n, blocks, 32))
        columns = (p.cast(numbers, dtypes.float32) - zero) * p.bitcast(bits, dtypes.float32)
        columns = p.slice_axis(p.reshape(columns, (n, blocks * 32)), 1, 0, k)
        return p.cast(p.dot_general(p.widen(a), columns, ([a.rank - 1], [1])), a.dtype)
