"""Vectors in memory, and the folding of their lanes."""

from __future__ import annotations

from collections.abc import Sequence

from ..assembler import Expr, Function, i8x16, i16x8, i32, i32x4, v128
from ..scalars import functions
from ..scalars.values import Kind, kind
from .conversion import from_bits, to_bits
from .lanes import Vector, VectorScope, collect, element, lanes, once, words
from .lanewise import apply


def iota() -> Expr:
    """The numbers of the lanes, an i32x4."""
    return i32x4.const(0, 1, 2, 3)


def load(s: VectorScope, k: Kind, address: Expr, offset: int = 0) -> Vector:
    """The 4 elements in memory from `address + offset`."""
    if k.bits == 64:
        address = s.let(address)
        return tuple(lanes(k).load(address, offset=offset + 16 * part) for part in range(2))
    if k.bits == 32:
        return (lanes(k).load(address, offset=offset),)
    if k.bits == 16:
        bits: Expr = getattr(i32x4, f"load16x4_{k.signed}")(address, offset=offset)
    else:
        short = getattr(i16x8, f"extend_low_i8x16_{k.signed}")(i8x16.load32_zero(address, offset=offset))
        bits = getattr(i32x4, f"extend_low_i16x8_{k.signed}")(short)
    return (_decoded(s, k, bits),)


def gather(s: VectorScope, k: Kind, addresses: Sequence[Expr], offset: int = 0) -> Vector:
    """The elements at 4 addresses + offset."""
    if k.bits < 32:
        read = getattr(i32, f"load{k.bits}_{k.signed}")
        bits = collect(kind("int32"), [read(address, offset=offset) for address in addresses])
        return (_decoded(s, k, bits),)
    count = 128 // k.bits
    return tuple(_gather(k, addresses[at : at + count], offset) for at in range(0, 4, count))


def _gather(k: Kind, addresses: Sequence[Expr], offset: int) -> Expr:
    x: Expr = getattr(v128, f"load{k.bits}_zero")(addresses[0], offset=offset)
    for at, address in enumerate(addresses[1:], 1):
        x = getattr(v128, f"load{k.bits}_lane")(address, x, lane=at, offset=offset)
    return x.as_(lanes(k))


def _decoded(s: VectorScope, k: Kind, bits: Expr) -> Expr:
    """What a dtype of fewer than 32 bits is, from its bits, extended."""
    return from_bits(s, k, bits) if k.is_half or k.family == "bool" else bits


def store(f: Function, s: VectorScope, k: Kind, address: Expr, value: Vector, offset: int = 0) -> None:
    """Store the 4 elements from `address + offset`; no byte past them is touched."""
    if k.bits == 64:
        address = s.let(address)
        for part, x in enumerate(value):
            f.store(address, x, offset=offset + 16 * part)
        return
    (x,) = value
    if k.bits == 32:
        f.store(address, x, offset=offset)
        return
    bits = s.let(to_bits(s, k, x))
    packed = s.let(_narrowed(k, 16, bits, bits))
    if k.bits == 8:
        packed = _narrowed(k, 8, packed, packed)
    f.do(getattr(v128, f"store{4 * k.bits}_lane")(address, packed, lane=0, offset=offset))


def store_together(f: Function, s: VectorScope, k: Kind, address: Expr, values: Sequence[Vector], offset: int) -> None:
    """Store as many vectors of elements of 8 or 16 bits as one v128 holds, one after another."""
    parts = [to_bits(s, k, x) for (x,) in values]
    for bits in (16, 8)[: len(values) // 2]:
        parts = [_narrowed(k, bits, low, high) for low, high in zip(parts[::2], parts[1::2], strict=True)]
    f.store(address, parts[0], offset=offset)


def _narrowed(k: Kind, bits: int, low: Expr, high: Expr) -> Expr:
    """The lanes of two v128 in half as many bits each."""
    sign = "s" if k.family == "int" else "u"
    narrow = getattr(i16x8, f"narrow_i32x4_{sign}") if bits == 16 else getattr(i8x16, f"narrow_i16x8_{sign}")
    return narrow(low, high)  # type: ignore[no-any-return]


def horizontal(s: VectorScope, function: str, k: Kind, x: Vector) -> Expr:
    """The 4 lanes folded by `sum`, `prod`, `min`, `max`, `any` or `all`: (0 + 2) + (1 + 3)."""
    function = _FOLDS[function]
    if k.bits == 64:
        pairs: list[Vector] = [(x[0], x[0]), (x[1], x[1])]
    else:
        part = once(s, x[0])
        pairs = [(part,), (words(part, part, 2, 3, 2, 3),)]
    folded = once(s, apply(s, function, k, pairs)[0])
    return functions.apply(s, function, k, [element(k, folded, at) for at in range(2)])


_FOLDS = {"sum": "add", "prod": "mul", "min": "min", "max": "max", "any": "or", "all": "and"}
