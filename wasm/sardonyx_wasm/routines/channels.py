"""What routines on channels-last activations share: where windows are, a loop over channels, fused products.

An image is [B, *spatial, C], with any number of spatial axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from ..assembler import Expr, Function, Operand, ValueType, Variable, f32x4, f64x2, i32
from ..code import Unit
from . import frame


def steps(f: Function, shape: Sequence[int | str], pixel: Expr) -> list[Expr]:
    """The bytes from one element to the next along all axes of an image but the last; `pixel` are those of the last."""
    found = [pixel]
    for size in reversed(shape[1:-1]):
        found.insert(0, f.let(frame.size(f, size) * found[0]))
    return found


def line_of(
    f: Function, number: Expr, lines: Sequence[int | str], strides: Sequence[int], steps: Sequence[Expr]
) -> Expr:
    """Where the windows of a line of outputs begin, in bytes: `lines` are all spatial sizes of the outputs but the
    last, `steps` those of the image."""
    offset: Expr | None = None
    for size, stride, step in zip(reversed(lines), reversed(strides[: len(lines)]), reversed(steps[1:-1])):
        rest = f.let(i32.div_u(number, frame.size(f, size)))
        part = (number - rest * frame.size(f, size)) * stride * step
        offset = part if offset is None else offset + part
        number = rest
    first = number * steps[0]
    return first if offset is None else offset + first


@contextmanager
def taps(f: Function, counts: Sequence[int], steps: Sequence[Expr], start: Operand) -> Iterator[Variable]:
    """Repeat the block for each tap, the last axis fastest, with `start` moved by as many steps along each axis."""
    with ExitStack() as loops:
        at = f.local(i32, init=start)
        for count, step in zip(counts, steps, strict=True):
            at = loops.enter_context(_moving(f, count, step, at))
        yield at


@contextmanager
def _moving(f: Function, count: int, step: Expr, start: Variable) -> Iterator[Variable]:
    at, number = f.let(start), f.local(i32)
    with f.loop(number, 0, count):
        yield at
        f.set(at, at + step)


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
    if "relaxed-simd" in unit.features and a.type in (f32x4, f64x2):
        return a.type.relaxed_madd(a, b, c)
    return a * b + c
