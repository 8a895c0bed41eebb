"""Depthwise convolution of x [B, *spatial, C], border included, with w [taps, C] to [B, *sizes, C]: a unit is a line,
or some channels of one where there are few lines.

A tile computes some neighbouring outputs and walks over the channels; each input that they share is loaded once. The
products of an output are added in the order of its taps, whatever tile it is in.

Where pixels are a power of two apart, all inputs of a tile compete for a few places in the cache. A tile therefore
does a whole line of each pixel before it goes on to the next row of taps, and keeps the sums where the outputs will
be: natively for all pixels of whole lines, in browsers where the places are too few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from sardonyx.code.kernel import Routine

from ..assembler import Expr, Function, ValueType, Variable, i32
from ..code import Code, Unit
from ..primitives import DEPTHWISE
from . import channels, frame
from .tile import LANES

_TAPS = DEPTHWISE.taps
_ROWS = {"v8": 3, "wasmtime": 1}
"""Taps along y that a tile has code for. Cranelift moves sums behind all loads of a straight run of code."""
_LINE = 64
"""Bytes of a line of the cache."""
_CACHE = 1 << 15
"""Bytes of the innermost cache."""
_FEW = 32
"""Lines of an image that threads share well enough without dividing them."""
_STEPS = ("pixel", "line", "plane", "part")


class Window(NamedTuple):
    """The taps of an output along z, y and x."""

    kernel: tuple[int, int, int]
    strides: tuple[int, int, int]
    dilations: tuple[int, int, int]

    @classmethod
    def of(cls, routine: Routine) -> Window:
        """That of a routine over two or three axes."""
        z, y, x = zip(*((1, *routine.attributes[name])[-3:] for name in cls._fields), strict=True)
        return cls(*zip(z, y, x, strict=True))

    def __str__(self) -> str:
        return "_".join("x".join(map(str, axes)) for axes in self)


def depthwise(unit: Unit, routine: Routine) -> Code:
    """`depthwise`; attributes kernel, strides, dilations."""
    window, held = Window.of(routine), LANES[routine.reads[0]]
    source, target = routine.inputs[0], routine.outputs[0]
    batch, *rows, columns, depth = target
    narrow = len(rows) == 1 and source[2] == columns == window.kernel[2] == 1  # x is a line, and so are the outputs
    strides = window.strides[-len(rows) - 1 :]
    if narrow:
        window = Window(*((1, 1, along) for _, along, _ in window))
    parts = 1 if narrow else _parts(rows, depth, held.element)
    least = held.type.size // held.element
    suits = {held.type: isinstance(depth, str) or depth >= least, held.scalar: isinstance(depth, str) or depth < least}
    kinds = [_row(unit, window, lanes) for lanes, possible in suits.items() if possible]
    with frame.function(unit, routine) as f:
        x, w, y = frame.buffers(f, routine)
        pixel = f.let(frame.size(f, depth) * held.element)
        steps = channels.steps(f, source, pixel)
        across = f.let(frame.size(f, columns) * pixel)
        number, count = f.local(i32), f.local(i32, init=i32.const(1))
        with f.if_(across), f.loop(number, f.begin, f.end, step=count):
            line: Expr = number
            at: Expr = i32.const(0)
            wide: Expr = across
            part: Expr = pixel
            if narrow:
                f.set(count, _left(f, number, frame.size(f, rows[0])))
                wide = across * count
            elif parts > 1:
                f.set(count, _left(f, number, i32.const(parts)))
                line = f.let(i32.div_u(number, parts))
                at = f.let((number - line * parts) * _LINE)
                last = i32.eqz(i32.rem_u(number + count, parts))
                part = f.let(f.select(last, pixel - at, count * _LINE))
            seen = x + channels.line_of(f, line, rows, strides, steps) + at
            planes = steps[-3] if len(rows) > 1 else 0
            operands = seen, w + at, y + line * across + at, wide, pixel, steps[-2], planes, part
            with f.if_(i32.const(1) if len(kinds) == 1 else pixel >= 16):
                f.call(kinds[0], *operands)
            for few in kinds[1:]:
                with f.else_():
                    f.call(few, *operands)
    return Code(f, frame.units((batch, *rows, parts)))


def _parts(rows: Sequence[int | str], depth: int | str, element: int) -> int:
    """The parts in which the channels of a line are divided: lines of the cache, the last part being one or more."""
    if isinstance(depth, str) or any(isinstance(size, str) for size in rows) or prod(map(int, rows)) >= _FEW:
        return 1
    return max(1, element * depth // _LINE)


def _left(f: Function, number: Expr, size: Expr) -> Expr:
    """How many units are left of the call, or of the `size` to which this one belongs."""
    left, more = f.let(size - i32.rem_u(number, size)), f.let(f.end - number)
    return f.select(left < more, left, more)


def _row(unit: Unit, window: Window, lanes: ValueType) -> Function:
    """`(x, w, y, across, pixel, line, plane, part)`: `across` bytes of outputs, `part` bytes of channels of each.

    The others are steps of x along its axes.
    """
    return unit.once("depthwise row", f"{window} {lanes}", lambda: _write_row(unit, window, lanes))  # type: ignore[no-any-return]


def _write_row(unit: Unit, window: Window, lanes: ValueType) -> Function:
    wide, usual, single = (_write_tile(unit, window, lanes, count) for count in (7, 4, 1))
    by_lines = lanes.size > 8 and window.kernel[2] <= _TAPS
    lines = _write_lines(unit, window, lanes, 4) if by_lines else None
    apart = _LINE if unit.target == "wasmtime" else _conflicting(window, 4)
    params = dict.fromkeys(("x", "w", "y", "across", *_STEPS), i32)
    with unit.module.function(f"depthwise_row_{window}", params) as f:
        end = f.let(f.y + f.across)

        def tiles(tile: Function, count: int) -> None:
            """Tiles from left to right; the last moves back to where it fits and repeats some outputs."""
            last, step = f.let(end - f.pixel * count), f.let(f.pixel * count)
            with f.block() as done, f.repeat() as again:
                f.call(tile, f.x, f.w, f.y, f.pixel, f.line, f.plane, f.part)
                f.br_if(done, i32.ge_u(f.y, last))
                left = f.let(last - f.y)
                left = f.let(f.select(i32.lt_u(left, step), left, step))
                f.set(f.y, f.y + left)
                f.set(f.x, f.x + left * window.strides[2])
                f.br(again)

        if lines is not None:
            with f.if_(i32.eqz(f.pixel & (apart - 1)) & i32.ge_u(f.across, f.pixel * 4)):
                tiles(lines, 4)
                f.return_()
        with f.if_(i32.eqz(i32.rem_u(f.across, f.pixel * 7))):
            tiles(wide, 7)
            f.return_()
        with f.if_(i32.ge_u(f.across, f.pixel * 4)):
            tiles(usual, 4)
            f.return_()
        tiles(single, 1)
    return f


def _conflicting(window: Window, count: int) -> int:
    """The least power of two of bytes that pixels are apart where a tile's lines have no room in the cache together."""
    taps = prod(window.kernel)
    columns = (count - 1) * window.strides[2] + (window.kernel[2] - 1) * window.dilations[2] + 1
    wanted = taps // window.kernel[2] * columns + taps + count
    apart = _LINE
    while _CACHE // apart >= wanted:
        apart *= 2
    return apart


def _write_tile(unit: Unit, window: Window, lanes: ValueType, count: int) -> Function:
    """`(x, w, y, pixel, line, plane, part)`: `count` neighbouring outputs, the channels of a part."""
    params = dict.fromkeys(("x", "w", "y", *_STEPS), i32)
    with unit.module.function(f"depthwise_{window}_{count}", params) as f:
        at = f.local(i32)
        with channels.channels(f, f.part, lanes, (f.x, f.w, f.y)):
            f.set(at, f.y)
            for k, total in enumerate(_sums(unit, f, window, lanes, count)):
                if k:
                    f.set(at, at + f.pixel)
                f.store(at, total)
    return f


def _write_lines(unit: Unit, window: Window, lanes: ValueType, count: int) -> Function:
    """The same for pixels of whole lines."""
    (deep, height, width), (behind, down, _) = window.kernel, window.dilations
    params = dict.fromkeys(("x", "w", "y", *_STEPS), i32)
    with unit.module.function(f"depthwise_lines_{window}_{count}", params) as f:
        sums = [f.local(lanes) for _ in range(count)]
        plane, row, weight, kz, ky, part, target, at = (f.local(i32) for _ in range(8))

        def outputs(use: Callable[[Variable], None]) -> None:
            """Do something to each sum, with `target` being where its output is."""
            f.set(target, f.y + part)
            for k, total in enumerate(sums):
                if k:
                    f.set(target, target + f.pixel)
                use(total)

        def taps(first: bool) -> None:
            with f.loop(part, 0, _LINE, step=lanes.size):
                if not first:
                    outputs(lambda total: f.set(total, lanes.load(target)))
                f.set(at, row + part)
                weights = _weights(f, lanes, f.let(weight + part))
                add_taps(unit, f, window, sums, width, at, lanes.load, weights, first)
                outputs(lambda total: f.store(target, total))
            f.set(row, row + f.line * down)
            f.set(weight, weight + f.pixel * width)

        end = f.let(f.x + f.part)
        with f.while_(i32.lt_u(f.x, end)):
            f.set(row, f.x)
            f.set(weight, f.w)
            taps(first=True)
            with f.loop(ky, 1, height):
                taps(first=False)
            if deep > 1:
                f.set(plane, f.x)
                with f.loop(kz, 1, deep):
                    f.set(plane, plane + f.plane * behind)
                    f.set(row, plane)
                    with f.loop(ky, 0, height):
                        taps(first=False)
            for pointer in (f.x, f.w, f.y):
                f.set(pointer, pointer + _LINE)
    return f


def add_taps(
    unit: Unit,
    f: Function,
    window: Window,
    sums: Sequence[Variable],
    taps: int,
    at: Variable,
    load: Callable[[Expr], Expr],
    weights: Iterator[Variable],
    first: bool = False,
) -> None:
    """Add the products of so many neighbouring taps; each input and each weight is loaded when it is needed first.

    `at` is where the first input is, and is left somewhere.
    """
    known: list[Variable] = []
    users: dict[int, list[tuple[int, int]]] = {}
    for kx, k in product(range(taps), range(len(sums))):
        users.setdefault(k * window.strides[2] + kx * window.dilations[2], []).append((kx, k))
    place = 0
    for here in sorted(users):
        if here > place:
            f.set(at, at + f.pixel * (here - place))
            place = here
        value = f.let(load(at))
        for kx, k in users[here]:
            while len(known) <= kx:
                known.append(next(weights))
            if first and kx == 0:
                f.set(sums[k], value * known[kx])
            else:
                f.set(sums[k], channels.multiply_add(unit, value, known[kx], sums[k]))


def _weights(f: Function, lanes: ValueType, at: Variable) -> Iterator[Variable]:
    """The weights of one tap after another."""
    while True:
        weight = f.let(lanes.load(at))
        f.set(at, at + f.pixel)
        yield weight


def _sums(unit: Unit, f: Function, window: Window, lanes: ValueType, count: int) -> list[Variable]:
    """`count` outputs of the channels at `f.x` and `f.w`."""
    (deep, height, width), _, (behind, down, right) = window
    sums = [f.local(lanes) for _ in range(count)]
    plane, line, column, at, weight = f.let(f.x), f.let(f.x), f.local(i32), f.local(i32), f.let(f.w)
    number, ky, kz = f.local(i32), f.local(i32), f.local(i32)

    def taps(taps: int, first: bool = False) -> None:
        f.set(at, column)
        add_taps(unit, f, window, sums, taps, at, lanes.load, _weights(f, lanes, weight), first)

    def row(first: bool = False) -> None:
        f.set(column, line)
        if width <= _TAPS:
            taps(width, first)
        else:
            with f.loop(number, 0, width // _TAPS):
                taps(_TAPS)
                f.set(column, column + f.pixel * (_TAPS * right))
            taps(width % _TAPS)
        f.set(line, line + f.line * down)

    def rows(first: bool) -> None:
        if straight:
            for y in range(height):
                row(first=first and y == 0)
        else:
            with f.loop(ky, 0, height):
                row()

    straight = width <= _TAPS and height <= _ROWS[unit.target]
    if deep > 1 or not straight:
        for total in sums:
            f.set(total, lanes.const(0.0))
    if deep == 1:
        rows(first=True)
    else:
        with f.loop(kz, 0, deep):
            f.set(line, plane)
            rows(first=False)
            f.set(plane, plane + f.plane * behind)
    return sums
