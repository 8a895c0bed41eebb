"""What routines on channels-last activations share: a loop over the channels of a pixel, products that may be fused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..assembler import Expr, Function, ValueType, Variable, f32x4, i32

if TYPE_CHECKING:
    from ..generator import Unit


@contextmanager
def channels(f: Function, pixel: Expr, lanes: ValueType, pointers: Sequence[Variable]) -> Iterator[None]:
    """Repeat the block for each vector of channels, moving the pointers to it; a pixel has `pixel` bytes.

    The last vector is moved back to end with the pixel, which must not be smaller: nothing beyond it is touched, and
    some channels are done twice.
    """
    left = f.let(pixel)
    with f.block() as done, f.repeat() as again:
        yield
        f.set(left, left - lanes.size)
        f.br_if(done, left <= 0)
        step = f.let(f.select(left < lanes.size, left, i32.const(lanes.size)))
        for pointer in pointers:
            f.set(pointer, pointer + step)
        f.br(again)


def multiply_add(unit: Unit, a: Expr, b: Expr, c: Expr) -> Expr:
    """a * b + c, rounded once or twice, as the host does it faster."""
    if "relaxed-simd" in unit.features and a.type is f32x4:
        return f32x4.relaxed_madd(a, b, c)
    return a * b + c
