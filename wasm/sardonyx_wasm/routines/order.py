"""What sorting and selecting share: elements as unsigned numbers in the same order, and heaps of them.

Zeros are equal, and NaN is the largest. Elements of up to 32 bits are put into an i64, a *rank*: the number in the
upper half, below it their place in the line, so that no two are equal and the first of equal ones comes first.
"""

from __future__ import annotations

from ..assembler import Expr, Function, ValueType, i32, i64
from ..code import Unit
from ..scalars.values import Kind


def number(f: Function, k: Kind, address: Expr, falling: bool = False) -> Expr:
    """The element at an address as an unsigned number of its own width, i32 or i64."""
    kind, width = (i64, 64) if k.bits == 64 else (i32, k.bits)
    top, every = 1 << (width - 1), (1 << width) - 1
    found = bits(k, address)
    if k.family == "float":
        found = f.let(found)
        size = f.let(found & _const(kind, top - 1))
        negative = found < 0 if width >= 32 else found & top
        flipped = found ^ f.select(negative, _const(kind, every), _const(kind, top))
        flipped = f.select(kind.eqz(size), _const(kind, top), flipped)
        found = f.select(kind.gt_u(size, _const(kind, _INFINITY[k.name])), _const(kind, every), flipped)
    elif k.family == "int":
        found = found ^ _const(kind, top)
    return found ^ _const(kind, every) if falling else found


_INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000, "float64": 0x7FF0000000000000}


def bits(k: Kind, address: Expr) -> Expr:
    """The bits of an element, zeros above them."""
    if k.bits == 64:
        return i64.load(address)
    return {8: i32.load8_u, 16: i32.load16_u, 32: i32.load}[k.bits](address)


def _const(kind: ValueType, value: int) -> Expr:
    """A constant of these bits."""
    width = 8 * kind.size
    return kind.const(value - (1 << width) if value >> (width - 1) else value)


def rank(f: Function, k: Kind, address: Expr, place: Expr, falling: bool = False) -> Expr:
    """The rank of an element of up to 32 bits, the lower one coming first."""
    return i64.extend_i32_u(number(f, k, address, falling)) << 32 | i64.extend_i32_u(place)


def sift(unit: Unit) -> Function:
    """A function: a rank goes down from a hole in a heap whose root is the largest; `hole` and `size` are in bytes."""
    return unit.once("order", "sift", lambda: _write_sift(unit))  # type: ignore[no-any-return]


def _write_sift(unit: Unit) -> Function:
    with unit.module.function("sift", {"heap": i32, "hole": i32, "size": i32, "rank": i64}) as f:
        child, found, other = f.local(i32), f.local(i64), f.local(i64)
        with f.block() as done, f.repeat() as again:
            f.set(child, (f.hole << 1) + 8)
            f.br_if(done, i32.ge_u(child, f.size))
            f.set(found, i64.load(f.heap + child))
            with f.if_(i32.lt_u(child + 8, f.size)):
                f.set(other, i64.load(f.heap + child, offset=8))
                higher = f.let(i64.gt_u(other, found))
                f.set(child, child + (higher << 3))
                f.set(found, f.select(higher, other, found))
            f.br_if(done, i64.le_u(found, f.rank))
            f.store(f.heap + f.hole, found)
            f.set(f.hole, child)
            f.br(again)
        f.store(f.heap + f.hole, f.rank)
    return f


def heapify(unit: Unit, f: Function, heap: Expr, size: Expr) -> None:
    """Make a heap of `size` bytes of ranks."""
    at = f.let((i32.shr_u(size, 4) << 3) - 8)
    with f.while_(at >= 0):
        f.call(sift(unit), heap, at, size, i64.load(heap + at))
        f.set(at, at - 8)


def unheap(unit: Unit, f: Function, heap: Expr, size: Expr) -> None:
    """Put the ranks of a heap into rising order."""
    left = f.let(size - 8)
    last = f.local(i64)
    with f.while_(left > 0):
        f.set(last, i64.load(heap + left))
        f.store(heap + left, i64.load(heap))
        f.call(sift(unit), heap, 0, left, last)
        f.set(left, left - 8)


def copy(f: Function, k: Kind, source: Expr, target: Expr) -> None:
    """Copy one element."""
    f.store(target, bits(k, source), bits=k.bits if k.bits < 32 else None)
