"""im2col: what the windows of a convolution see, side by side, so that one product does the rest.

x [B, H, W, C], border included, to [B, Ho, Wo, kh * kw * C]; attributes kernel, strides, dilations. A pixel has whole
words of 4 bytes. A unit is a row of places. Taps that are neighbours along x see neighbouring elements: a row of taps
is copied at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sardonyx.compiler.kernel import Routine
from sardonyx.dtypes import by_name

from ..assembler import Function, i32, v128
from ..code import Code
from . import frame

if TYPE_CHECKING:
    from ..generator import Unit


def im2col(unit: Unit, routine: Routine) -> Code:
    """`im2col`."""
    _, height, width, channels = routine.inputs[0]
    (kh, kw), (sy, sx), (dy, dx) = (routine.attributes[name] for name in ("kernel", "strides", "dilations"))
    batch, rows, columns, _ = routine.outputs[0]
    runs, together = (1, kw) if dx == 1 else (kw, 1)
    copy = unit.once("routine", "copy_words", lambda: _copy(unit))
    with frame.function(unit, routine) as f:
        x, y = frame.buffers(f, routine)
        pixel = f.let(frame.size(f, channels) * by_name(routine.reads[0]).itemsize)
        line = f.let(frame.size(f, width) * pixel)
        image = f.let(frame.size(f, height) * line)
        count, across = f.let(frame.size(f, rows)), f.let(frame.size(f, columns))
        target = f.let(y + f.begin * pixel * (kh * kw))
        number, tap, left, seen, row = (f.local(i32) for _ in range(5))
        with f.loop(number, f.begin, f.end):
            with f.if_(i32.eqz(left)):
                f.set(row, i32.div_u(number, across))
                f.set(left, i32.rem_u(number, across))
                f.set(seen, x + i32.div_u(row, count) * image + i32.rem_u(row, count) * sy * line + left * sx * pixel)
                f.set(left, across - left)
            f.set(row, seen)
            with f.loop(tap, 0, kh):
                for run in range(runs):
                    f.call(copy, target, row + run * dx * pixel, pixel * together)
                    f.set(target, target + pixel * together)
                f.set(row, row + line * dy)
            f.set(seen, seen + pixel * sx)
            f.set(left, left - 1)
    return Code(f, frame.units([batch, rows, columns]))


def _copy(unit: Unit) -> Function:
    """A function (target, source, bytes) that copies whole words."""
    with unit.module.function("copy_words", dict.fromkeys(("target", "source", "bytes"), i32)) as f:
        at = f.local(i32)
        whole = f.let(f.bytes & -16)
        with f.loop(at, 0, whole, step=16, unsigned=True):
            f.store(f.target + at, v128.load(f.source + at))
        with f.loop(at, whole, f.bytes, step=4, unsigned=True):
            f.store(f.target + at, i32.load(f.source + at))
    return f
