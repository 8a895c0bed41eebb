"""im2col: what the windows of a convolution see, side by side, so that one product does the rest.

x [B, *spatial, C], border included, to [B, *sizes, taps * C]; attributes kernel, strides, dilations. Elements have 4
bytes, or 2: then a zero may follow what a place sees, whose number is even so. A unit is a place. Taps that are
neighbours along the last axis see neighbouring elements: a line of taps is copied at once. With an attribute `groups`
what a group sees is together: [groups, taps, C / groups].
"""

from __future__ import annotations

from math import prod

from sardonyx.code.kernel import Routine
from sardonyx.common.dtypes import by_name

from ..assembler import Function, i32, v128
from ..code import Code, Unit
from . import channels, frame


def im2col(unit: Unit, routine: Routine) -> Code:
    """`im2col`."""
    attributes = "kernel", "strides", "dilations", "groups"
    return Code(frame.general(unit, routine, _write, attributes), frame.units(routine.outputs[0][:-1]))


def _write(unit: Unit, routine: Routine) -> Function:
    kernel, strides, dilations = (routine.attributes[name] for name in ("kernel", "strides", "dilations"))
    _, *rows, columns, _ = routine.outputs[0]
    element = by_name(routine.reads[0]).itemsize
    groups = routine.attributes.get("groups", 1)
    runs, together = (1, kernel[-1]) if dilations[-1] == groups == 1 else (kernel[-1], 1)
    copy = unit.once("routine", "copy_parts", lambda: _copy_parts(unit)) if groups > 1 else _copy(unit, element)
    with frame.function(unit, routine) as f:
        x, y = frame.buffers(f, routine)
        pixel = f.let(frame.size(f, routine.inputs[0][-1]) * element)
        steps = channels.steps(f, routine.inputs[0], pixel)
        between = [f.let(step * dilation) for step, dilation in zip(steps[1:], dilations, strict=True)]
        part = f.let(i32.div_u(pixel, groups))
        apart = f.let(part * prod(kernel))
        across = f.let(frame.size(f, columns))
        every = pixel * prod(kernel)
        target = f.let(y + f.begin * (every if element >= 4 else (every + 2) & -4))
        number, left, seen, row = (f.local(i32) for _ in range(4))
        with f.loop(number, f.begin, f.end):
            with f.if_(i32.eqz(left)):
                f.set(row, i32.div_u(number, across))
                f.set(left, i32.rem_u(number, across))
                f.set(seen, x + channels.line_of(f, row, rows, strides, steps) + left * strides[-1] * pixel)
                f.set(left, across - left)
            with channels.taps(f, kernel[:-1], between[:-1], seen) as line:
                for run in range(runs):
                    source = line + run * between[-1]
                    if groups > 1:
                        f.call(copy, target, source, part, apart, groups)
                    else:
                        f.call(copy, target, source, pixel * together)
                    f.set(target, target + part * together)
            if groups > 1:
                f.set(target, target + apart * (groups - 1))
            if element == 2:
                with f.if_(target & 2):
                    f.store(target, i32.const(0), bits=16)
                    f.set(target, target + 2)
            f.set(seen, seen + pixel * strides[-1])
            f.set(left, left - 1)
    return f


def _copy(unit: Unit, element: int = 4) -> Function:
    """A function (target, source, bytes) that copies elements of so many bytes."""
    return unit.once("routine", f"copy_{element}", lambda: _write_copy(unit, element))  # type: ignore[no-any-return]


def _write_copy(unit: Unit, element: int) -> Function:
    with unit.module.function(f"copy_{element}", dict.fromkeys(("target", "source", "bytes"), i32)) as f:
        at = f.local(i32)
        whole = f.let(f.bytes & -16)
        with f.loop(at, 0, whole, step=16, unsigned=True):
            f.store(f.target + at, v128.load(f.source + at))
        words = f.let(f.bytes & -4) if element < 4 else f.bytes
        with f.loop(at, whole, words, step=4, unsigned=True):
            f.store(f.target + at, i32.load(f.source + at))
        if element < 4:
            with f.if_(f.bytes & 2):
                f.store(f.target + words, i32.load16_u(f.source + words), bits=16)
    return f


def _copy_parts(unit: Unit) -> Function:
    """A function (target, source, bytes, apart, count) that copies neighbouring parts of whole words to places that are
    `apart` bytes apart."""
    copy = _copy(unit)
    params = dict.fromkeys(("target", "source", "bytes", "apart", "count"), i32)
    with unit.module.function("copy_parts", params) as f:
        number, at, to = (f.local(i32) for _ in range(3))
        with f.if_(f.bytes & 15), f.loop(number, 0, f.count):
            f.call(copy, f.target, f.source, f.bytes)
            f.set(f.target, f.target + f.apart)
            f.set(f.source, f.source + f.bytes)
        with f.else_(), f.loop(number, 0, f.count):
            f.set(to, f.target)
            f.set(at, f.source + f.bytes)
            with f.while_(f.source != at):
                f.store(to, v128.load(f.source))
                f.set(f.source, f.source + 16)
                f.set(to, to + 16)
            f.set(f.target, f.target + f.apart)
    return f
