"""Legalization of products with dequantized weights: (number - zero point) * scale stays as small as it is stored.

Along the rows of the matrix scales must stay the same for whole blocks.
"""

from __future__ import annotations

from math import prod

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.legalization.dequantized import Multiplied, multiplied
from sardonyx.compiler.legalization.ranges import bounds
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.binding import constant
from sardonyx.sizes.symbolic import Size, hint

from .. import primitives as own
from ..abi import FEW, HOSTED, PANELS, SCRATCH
from ..device import blas
from .legalizer import Legalizer
from .products import in_panels

FEWEST = 1 << 12
"""Matrices of fewer numbers become floats."""
SHORT = 64
"""The blocks that a whole column is split into."""
_NARROW = 96
"""Columns of a panel for BLAS at least, which puts the other side in order anew for each."""
_GREATEST = 1 << 14
_SHIFTS = np.array([[0, 16], [4, 20], [8, 24], [12, 28]])
"""Where the numbers of k = 0, 1; 2, 3; ... lie in a word of eight."""


def dot_general(legalizer: Legalizer, equation: Equation) -> bool:
    """dot_general of floats and dequantized weights -> matmul_nbits"""
    (output,) = equation.outputs
    product = multiplied(legalizer, equation)
    if product is None or (result := matmul(legalizer, product)) is None:
        return False
    legalizer.define_reshaped(output, p.cast(result, output.dtype))
    return True


def matmul(legalizer: Legalizer, product: Multiplied) -> Array | None:
    """The product, None where `matmul_nbits` cannot do it."""
    a, weights, rows, columns = product
    inner = product.inner()
    depth, n, size = product.depth, product.width, prod(int(weights.numbers.shape[axis]) for axis in inner)
    block = _block(depth, size)
    low, high = bounds(weights.numbers)
    least, most = bounds(weights.zeros)
    padded = -(-depth // block) * block if block else 0
    few = depth * n < FEWEST or padded > own.MATMUL_NBITS.deepest
    if not block or few or high - low > 255 or least < -_GREATEST or most > _GREATEST:
        return None
    bits = 4 if high - low < 16 else 8
    base = low if bits == 4 else low + 128
    numbers = weights.matrix(p.cast(weights.numbers, dtypes.int32) - base, rows, columns)
    zeros = weights.matrix(p.cast(weights.zeros, dtypes.int32) - base, rows, columns, inner)
    scales = weights.matrix(p.cast(weights.scales, dtypes.float32), rows, columns, inner)
    repeat = -(-size // block)
    nr = legalizer.width(dtypes.float32)
    operands = [
        p.pad(p.cast(a, dtypes.float32), [0, 0], [0, padded - depth]),
        _packed(p.pad(numbers, [0, 0], [padded - depth, 0]), bits, nr),
        in_panels(_repeated(scales, repeat), nr),
        p.cast(in_panels(_repeated(zeros, repeat), nr), dtypes.int16),
    ]
    attributes = {"bits": bits, "block": block}
    if legalizer.target == "wasmtime" and (panel := _width_for_blas(a.shape[0], padded, n, nr)):
        attributes[HOSTED] = panel
    return legalizer.record(own.MATMUL_NBITS, operands, attributes, dtypes.float32, (a.shape[0], n))


def _width_for_blas(rows: Size, depth: int, columns: int, nr: int) -> int:
    """The columns of a panel of floats where BLAS pays, else 0: a whole number of panels of nr."""
    if hint(rows) <= FEW or hint(rows) * depth * columns < blas.FEWEST:
        return 0
    most = min(blas.panel_width(depth, 1 << 20) or max(PANELS // (4 * depth), _NARROW), SCRATCH // (4 * depth))
    count = -(-columns // most)
    if count % 2:  # two threads do as many
        half = most // 2
        count = -(-columns // half) if columns % half == 0 and half % nr == 0 else count + 1
    return -(-columns // (count * nr)) * nr


def _block(depth: int, size: int) -> int:
    """The numbers of a block of the routine where scales stay the same for `size` numbers, 0 if it cannot have them."""
    if size == depth and size % 8:
        return SHORT
    return next((block for block in range(min(size, own.MATMUL_NBITS.longest) & -8, 0, -8) if size % block == 0), 0)


def _repeated(x: Array, times: int) -> Array:
    rows, columns = x.shape
    return p.reshape(p.broadcast_to(p.unsqueeze(x, [1]), [rows, times, columns]), [rows * times, columns])


def _packed(numbers: Array, bits: int, nr: int) -> Array:
    """[K, N] -> [panels, K / 8, nr] words of eight numbers of 4 bits, [panels, K / 2, nr, 2] numbers of 8"""
    panels = in_panels(numbers, nr)
    count, depth, _ = panels.shape
    if bits == 8:
        return p.cast(p.transpose(p.reshape(panels, [count, depth // 2, 2, nr]), [0, 1, 3, 2]), dtypes.int8)
    eight = p.reshape(p.cast(panels, dtypes.uint32), [count, depth // 8, 4, 2, nr])
    shifts = constant(_SHIFTS[:, :, None], dtypes.uint32)
    return p.sum_(p.shift_left(eight, shifts), [2, 3])
