"""Weights of 2, 4 or 8 bits in blocks, each with a scale and a zero point of its own."""

from __future__ import annotations

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.indexing import from_front
from sardonyx.ops.microsoft.attention import refuse
from sardonyx.ops.microsoft.packing import unpack, unpack_rows
from sardonyx.ops.operator import Operator
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.sizes.symbolic import Size

MICROSOFT = "com.microsoft"


class MatMulNBits(Operator, domain=MICROSOFT):
    """A B' plus bias, where row n of B is stored in blocks along K as (number - zero point) * scale; `group` says for
    each number of a row to which block it belongs, if they do not follow one another."""

    K: int
    N: int
    bits: int = 4
    block_size: int
    weight_prepacked: int = 0

    def expand(
        self,
        a: Array,
        b: Array,
        scales: Array,
        zero_points: Array | None = None,
        group: Array | None = None,
        bias: Array | None = None,
    ) -> Array:
        refuse(weight_prepacked=self.weight_prepacked)
        if a.shape[-1] != self.K:
            raise ValueError(f"A {p.show(a.shape)} and B of {self.N} rows of {self.K} do not multiply")
        if group is not None and group.size < self.K:
            raise ValueError(f"g_idx has {group.size} elements; give the block of each of {self.K} numbers of a row")
        blocks = -(-self.K // self.block_size)
        parameters = self._parameters(scales, zero_points, blocks)
        packed = p.reshape(b, (self.N, blocks * self.block_size * self.bits // 8))
        if group is None:
            width = self.block_size * self.bits // 8
            result = self._by_blocks(a, unpack(p.reshape(b, (self.N, blocks, width)), self.bits), *parameters)
        elif (order := self._order(group.value)) is not None:
            places = constant(order)
            rows = p.gather(unpack_rows(packed, self.bits), [places], [1], 1)
            pack = 8 // self.bits
            numbers = p.swap_last(p.reshape(rows, (self.N, blocks, self.block_size // pack, pack)))
            result = self._by_blocks(p.gather(a, [places], [a.rank - 1], a.rank - 1), numbers, *parameters)
        else:
            result = self._by_groups(a, unpack_rows(packed, self.bits), p.slice_axis(group, 0, 0, self.K), *parameters)
        return p.cast(result if bias is None else result + p.widen(bias), a.dtype)

    def _by_blocks(self, a: Array, numbers: Array, scale: Array, zero: Array | float) -> Array:
        """The product with numbers [N, blocks, numbers in a byte, bytes]."""
        _, blocks, pack, width = numbers.shape
        a = p.pad(a, [0] * a.rank, [*[0] * (a.rank - 1), blocks * self.block_size - self.K])
        # The numbers of a byte have an axis of their own, not the last one: no index is divided, and lines are long.
        split = p.reshape(p.widen(a), (*a.shape[:-1], blocks, width, pack))
        contract = [a.rank - 1, a.rank + 1, a.rank], [1, 2, 3]
        return p.dot_general(split, (p.cast(numbers, scale.dtype) - zero) * scale, contract)

    def _by_groups(self, a: Array, numbers: Array, group: Array, scale: Array, zero: Array | float) -> Array:
        """The product with numbers [N, K], each of the block that its group says."""

        def own(x: Array) -> Array:
            return p.gather(p.reshape(x, x.shape[:2]), [group], [1], 1)

        centred = p.cast(p.slice_axis(numbers, 1, 0, self.K), scale.dtype) - (
            own(zero) if isinstance(zero, Array) else zero
        )
        return p.matmul(p.widen(a), p.transpose(centred * own(scale)))

    def _parameters(self, scales: Array, zero_points: Array | None, blocks: int) -> tuple[Array, Array | float]:
        """Scales and zero points as floats of 32 bits or more, [N, blocks, 1, 1]."""
        scale = p.widen(p.reshape(scales, (self.N, blocks, 1, 1)))
        if zero_points is None:
            return scale, float(2 ** (self.bits - 1))
        if zero_points.dtype is dtypes.uint8:
            row = -(-blocks * self.bits // 8)
            rows = unpack_rows(p.reshape(zero_points, (self.N, row)), self.bits)
            zero_points = p.slice_axis(rows, 1, 0, blocks)
        return scale, p.cast(p.reshape(zero_points, (self.N, blocks, 1, 1)), scale.dtype)

    def _order(self, group: np.ndarray | None) -> np.ndarray | None:
        """The order of a row's numbers in which blocks lie one after the other; None if there is none."""
        if group is None or self.K % self.block_size:
            return None
        order = np.argsort(group[: self.K], kind="stable").astype(np.int64)
        blocks = np.repeat(np.arange(self.K // self.block_size), self.block_size)
        return order if np.array_equal(group[order], blocks) else None


class GatherBlockQuantized(Operator, domain=MICROSOFT):
    """Slices of a table stored in blocks along `quantize_axis` as (number - zero point) * scale; zeros for an index
    that is out of range."""

    bits: int = 4
    block_size: int = 128
    gather_axis: int = 0
    quantize_axis: int = 1

    def expand(self, table: Array, indices: Array, scales: Array, zero_points: Array | None = None) -> Array:
        packed = table.dtype is dtypes.uint8
        axis = p.normalize_axis(self.gather_axis, table.rank)
        along = p.normalize_axis(self.quantize_axis, table.rank)
        if packed and self.bits != 8 and axis == table.rank - 1:
            raise ValueError(f"gather_axis {axis} is the one along which numbers are packed; use another one")
        size = table.shape[axis]
        place = from_front(indices, size)
        numbers = p.gather(table, [place], [axis], axis)
        numbers = unpack_rows(numbers, self.bits) if packed else numbers
        scale = self._spread(scales, place, axis, along, numbers)
        zero: Array | float | None = float(2 ** (self.bits - 1)) if packed else None
        if zero_points is not None:
            zero_points = unpack_rows(zero_points, self.bits) if packed else zero_points
            zero_points = p.slice_axis(zero_points, along, 0, scales.shape[along])
            zero = p.cast(self._spread(zero_points, place, axis, along, numbers), scale.dtype)
        number = p.cast(numbers, scale.dtype)
        result = (number if zero is None else number - zero) * scale
        inside = p.reshape((place >= 0) & (place < size), (*indices.shape, *[1] * (table.rank - 1 - axis)))
        return p.cast(p.where(inside, result, 0.0), scales.dtype)

    def _spread(self, x: Array, place: Array, axis: int, along: int, numbers: Array) -> Array:
        """Scales or zero points, repeated for each gathered number."""
        wide = p.widen(x)
        block: Size = self.block_size
        if axis == along:
            return p.gather(wide, [place / block if block else place * 0], [axis], axis)
        if x.shape[axis] == 1:
            place = place * 0
        wide = p.gather(wide, [place], [axis], axis)
        along = along if along < axis else along + place.rank - 1
        before, count, behind = wide.shape[:along], wide.shape[along], wide.shape[along + 1 :]
        block = block or numbers.shape[along]
        repeated = p.broadcast_to(p.unsqueeze(wide, [along + 1]), (*before, count, block, *behind))
        return p.slice_axis(p.reshape(repeated, (*before, count * block, *behind)), along, 0, numbers.shape[along])
