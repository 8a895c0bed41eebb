"""Convolution of x [B, *spatial, C], border included, with packed weights to [B, *sizes, M]: a matrix product in place.

The rows of the left matrix are windows of x: contiguous segments that `tile.product` finds through a table of
addresses. Blocks of windows span lines of outputs. A unit is a window.
"""

from __future__ import annotations

from math import prod

from sardonyx.code.kernel import Routine

from ..assembler import Expr, i32
from ..code import Code, Unit
from . import channels, frame, tile

# Places in the scratch memory: addresses of windows, a tile at the edge, offsets of segments.
_EDGE = 4 * tile.BLOCK + 16
_OFFSETS = _EDGE + tile.EDGE
_LARGE = 1 << 16
"""Weights of which a thread should read each for `_FEWEST` windows at least."""
_FEWEST = 18


def conv_packed(unit: Unit, routine: Routine) -> Code:
    """w [groups * ceil(M / groups / nr), taps * C / groups, nr]; attributes kernel, strides, dilations, groups."""
    groups: int = routine.attributes["groups"]
    kernel, strides, dilations = (routine.attributes[name] for name in ("kernel", "strides", "dilations"))
    depth = routine.inputs[0][-1]
    batch, *rows, columns, made = routine.outputs[0]
    segments, joined = [*kernel], 1
    if groups == 1:  # neighbouring taps are one segment where nothing lies between their channels
        if len(kernel) == 2 and routine.inputs[0][2] == 1 and dilations[0] == 1:
            segments, joined = [1, 1], kernel[0]
        elif dilations[-1] == 1:
            segments[-1], joined = 1, kernel[-1]
    shape = tile.SHAPES[unit.target]
    element = tile.LANES[routine.reads[0]].element
    multiply = tile.product(unit, routine.reads[0])
    with frame.function(unit, routine) as f:
        with f.if_(i32.ge_u(f.begin, f.end)):
            f.return_()
        x, w, z = frame.buffers(f, routine)
        pixel = f.let(frame.size(f, depth) * element)
        steps = channels.steps(f, routine.inputs[0], pixel)
        c_row = f.let(frame.size(f, made) * element)
        seen, sums = (f.let(i32.div_u(size, groups)) for size in (pixel, c_row))
        panel = f.let(seen * (prod(kernel) * shape.width // element))
        weights = f.let(i32.div_u(sums + (shape.width - 1), shape.width) * panel)

        place = f.local(i32, init=f.scratch)
        between = [step * dilation for step, dilation in zip(steps[1:], dilations, strict=True)]
        with channels.taps(f, segments, between, 0) as offset:
            f.store(place, offset, offset=_OFFSETS)
            f.set(place, place + 4)

        def line_of(number: Expr) -> Expr:
            return x + channels.line_of(f, number, rows, strides, steps)

        number = f.local(i32, init=i32.div_u(f.begin, frame.size(f, columns)))
        column = f.local(i32, init=f.begin - number * frame.size(f, columns))
        address = f.local(i32, init=line_of(number) + column * pixel * strides[-1])
        first, count, group = (f.local(i32) for _ in range(3))
        c = f.let(z + f.begin * c_row)
        total = f.let(f.end - f.begin)
        block = f.let(_block(total, shape.height))
        with f.loop(first, 0, total, step=block):
            f.set(count, f.select(block < total - first, block, total - first))
            with f.loop(place, 0, count):
                f.store(f.scratch + place * 4, address)
                f.set(address, address + pixel * strides[-1])
                f.set(column, column + 1)
                with f.if_(column == frame.size(f, columns)):
                    f.set(column, 0)
                    f.set(number, number + 1)
                    f.set(address, line_of(number))
            with f.loop(group, 0, groups):
                operands = (f.scratch, count, f.scratch + _OFFSETS, prod(segments), seen * joined)
                panels = (w + group * weights, shape.width, panel)
                f.call(multiply, *operands, *panels, c + group * sums, c_row, sums, f.scratch + _EDGE)
                if groups > 1:
                    with f.loop(place, 0, count):
                        at = f.scratch + place * 4
                        f.store(at, i32.load(at) + seen)
            f.set(c, c + count * c_row)
    fewest = _FEWEST if prod(size for size in routine.inputs[1] if isinstance(size, int)) >= _LARGE else shape.height
    return Code(f, frame.units((batch, *rows, columns)), fewest, _OFFSETS + 4 * prod(segments))


def _block(total: Expr, height: int) -> Expr:
    """Rows of a block, a multiple of `height`, so that blocks are nearly equal."""
    pieces = i32.div_u(total + (tile.BLOCK - 1), tile.BLOCK) | (total == 0)
    return i32.div_u(i32.div_u(total + (pieces - 1), pieces) + (height - 1), height) * height
