"""Keys and values in a cache of integers: of 8 bits each, or two of 4 bits in a byte, the lower one first."""

from __future__ import annotations

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.microsoft.packing import unpack_rows
from sardonyx.primitives.array import Array

_KINDS = ("NONE", "PER_TENSOR", "PER_CHANNEL")


class QuantizedCache:
    """How a cache has keys, or values: as integers times a scale that broadcasts against [B, heads, S, size]."""

    def __init__(self, name: str, kind: str, bits: int, scale: Array | None) -> None:
        if kind not in _KINDS:
            raise ValueError(f"{name}_quant_type {kind!r} is unknown; use one of {', '.join(_KINDS)}")
        if kind != "NONE" and scale is None:
            raise ValueError(f"{name}_quant_type {kind!r} needs the input {name}_scale")
        if kind != "NONE" and bits not in (4, 8):
            raise ValueError(f"kv_cache_bit_width is {bits}; use 4 or 8")
        self.name, self.bits = name, bits
        self.scale = scale if kind != "NONE" else None

    def check(self, past: Array | None) -> None:
        """Raise ValueError where a cache is of another type."""
        if self.scale is None or past is None:
            return
        dtype = dtypes.uint8 if self.bits == 4 else dtypes.int8
        if past.dtype is not dtype:
            name = {"k": "past_key", "v": "past_value"}[self.name]
            raise ValueError(f"{name} is {past.dtype.name}; {self.bits} bits are in {dtype.name}")

    def write(self, x: Array) -> Array:
        """What the cache has for x, rounded to the nearest integer."""
        if self.scale is None:
            return x
        low = -(1 << (self.bits - 1))
        whole = p.round_even(p.widen(x) / self.scale)
        numbers = p.minimum(p.maximum(whole, low), -low - 1)
        if self.bits == 8:
            return p.cast(numbers, dtypes.int8)
        numbers = p.cast(numbers - low, dtypes.uint8)
        size = x.shape[-1]
        pairs = p.reshape(numbers, (*x.shape[:-1], size // 2, 2))
        first, second = (p.squeeze(p.slice_axis(pairs, x.rank, k, 1), [x.rank]) for k in (0, 1))
        return first | p.shift_left(second, 4)

    def read(self, x: Array, like: Array) -> Array:
        """What the cache means, in the type of `like`."""
        if self.scale is None:
            return x
        numbers = p.cast(unpack_rows(x, 4), dtypes.int32) - 8 if self.bits == 4 else x
        return p.cast(p.cast(numbers, self.scale.dtype) * self.scale, like.dtype)
