"""Depthwise convolution of x [B, H, W, C], border included, with w [kh * kw, C] to [B, Ho, Wo, C]: a unit is a row.

A tile computes some neighbouring outputs and walks over the channels; each input that they share is loaded once. The
products of an output are added in the order of its taps, whatever tile it is in.

Where pixels are a power of two apart, all inputs of a tile compete for a few places in the cache. Natively a tile
therefore does a whole line of each pixel before it goes on to the next row of taps, and keeps the sums where the
outputs will be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from sardonyx.compiler.kernel import Routine

from ..assembler import Function, ValueType, Variable, f32, f32x4, i32
from ..code import Code
from . import frame
from .channels import channels, multiply_add

if TYPE_CHECKING:
    from ..generator import Unit

_TAPS = 7
"""Taps along x that a tile has code for; more are a loop."""
_ROWS = {"v8": 3, "wasmtime": 1}
"""Taps along y that a tile has code for. Cranelift moves sums behind all loads of a straight run of code."""
_LINE = 64
"""Bytes of a line of the cache."""


class _Window(NamedTuple):
    """What the taps of an output are: along y, then along x."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]

    def __str__(self) -> str:
        return "_".join("x".join(map(str, pair)) for pair in self)


def depthwise(unit: Unit, routine: Routine) -> Code:
    """`depthwise`; attributes kernel, strides, dilations."""
    window = _Window(*(tuple(routine.attributes[name]) for name in _Window._fields))
    _, height, width, depth = routine.inputs[0]
    batch, rows, columns, _ = routine.outputs[0]
    narrow = width == columns == window.kernel[1] == 1  # then x is a line, and so are the outputs
    step = window.strides[0]
    if narrow:
        window = _Window(*((1, along) for along, _ in window))
    suits = {f32x4: isinstance(depth, str) or depth >= 4, f32: isinstance(depth, str) or depth < 4}
    kinds = [_row(unit, window, lanes) for lanes, possible in suits.items() if possible]
    with frame.function(unit, routine) as f:
        x, w, y = frame.buffers(f, routine)
        pixel = f.let(frame.size(f, depth) * 4)
        line = f.let(frame.size(f, width) * pixel)
        across = f.let(frame.size(f, columns) * pixel)
        number, count = f.local(i32), f.local(i32, init=i32.const(1))
        with f.if_(across), f.loop(number, f.begin, f.end, step=count):
            image = f.let(i32.div_u(number, frame.size(f, rows)))
            first = f.let(number - image * frame.size(f, rows))
            if narrow:
                left, more = f.let(frame.size(f, rows) - first), f.let(f.end - number)
                f.set(count, f.select(left < more, left, more))
            source = x + (first * step + image * frame.size(f, height)) * line
            operands = source, w, y + number * across, across * count, pixel, line
            with f.if_(i32.const(1) if len(kinds) == 1 else pixel >= 16):
                f.call(kinds[0], *operands)
            for few in kinds[1:]:
                with f.else_():
                    f.call(few, *operands)
    return Code(f, frame.units((batch, rows)))


def _row(unit: Unit, window: _Window, lanes: ValueType) -> Function:
    """`(x, w, y, across, pixel, line)`: a row of outputs of `across` bytes; `pixel` and `line` are bytes of x."""
    return unit.once("depthwise row", f"{window} {lanes}", lambda: _write_row(unit, window, lanes))  # type: ignore[no-any-return]


def _write_row(unit: Unit, window: _Window, lanes: ValueType) -> Function:
    wide, usual, single = (_write_tile(unit, window, lanes, count) for count in (7, 4, 1))
    by_lines = unit.target == "wasmtime" and lanes is f32x4 and window.kernel[1] <= _TAPS
    lines = _write_lines(unit, window, 4) if by_lines else None
    params = dict.fromkeys(("x", "w", "y", "across", "pixel", "line"), i32)
    with unit.module.function(f"depthwise_row_{window}", params) as f:
        end = f.let(f.y + f.across)

        def tiles(tile: Function, count: int) -> None:
            """Tiles from left to right; the last moves back to where it fits and repeats some outputs."""
            last, step = f.let(end - f.pixel * count), f.let(f.pixel * count)
            with f.block() as done, f.repeat() as again:
                f.call(tile, f.x, f.w, f.y, f.pixel, f.line)
                f.br_if(done, i32.ge_u(f.y, last))
                left = f.let(last - f.y)
                left = f.let(f.select(i32.lt_u(left, step), left, step))
                f.set(f.y, f.y + left)
                f.set(f.x, f.x + left * window.strides[1])
                f.br(again)

        if lines is not None:
            with f.if_(i32.eqz(f.pixel & (_LINE - 1)) & i32.ge_u(f.across, f.pixel * 4)):
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


def _write_tile(unit: Unit, window: _Window, lanes: ValueType, count: int) -> Function:
    """`(x, w, y, pixel, line)`: `count` neighbouring outputs, all channels."""
    params = dict.fromkeys(("x", "w", "y", "pixel", "line"), i32)
    with unit.module.function(f"depthwise_{window}_{count}", params) as f:
        at = f.local(i32)
        with channels(f, f.pixel, lanes, (f.x, f.w, f.y)):
            f.set(at, f.y)
            for k, total in enumerate(_sums(unit, f, window, lanes, count)):
                if k:
                    f.set(at, at + f.pixel)
                f.store(at, total)
    return f


def _write_lines(unit: Unit, window: _Window, count: int) -> Function:
    """The same for pixels of whole lines."""
    (height, width), down = window.kernel, window.dilations[0]
    params = dict.fromkeys(("x", "w", "y", "pixel", "line"), i32)
    with unit.module.function(f"depthwise_lines_{window}_{count}", params) as f:
        sums = [f.local(f32x4) for _ in range(count)]
        row, weight, ky, part, target, at = (f.local(i32) for _ in range(6))

        def outputs(use: Callable[[Variable], None]) -> None:
            """Do something to each sum, with `target` being where its output is."""
            f.set(target, f.y + part)
            for k, total in enumerate(sums):
                if k:
                    f.set(target, target + f.pixel)
                use(total)

        def taps(first: bool) -> None:
            with f.loop(part, 0, _LINE, step=f32x4.size):
                if not first:
                    outputs(lambda total: f.set(total, f32x4.load(target)))
                f.set(at, row + part)
                _add_taps(unit, f, window, sums, width, at, f.let(weight + part), first)
                outputs(lambda total: f.store(target, total))
            f.set(row, row + f.line * down)
            f.set(weight, weight + f.pixel * width)

        end = f.let(f.x + f.pixel)
        with f.while_(i32.lt_u(f.x, end)):
            f.set(row, f.x)
            f.set(weight, f.w)
            taps(first=True)
            with f.loop(ky, 1, height):
                taps(first=False)
            for pointer in (f.x, f.w, f.y):
                f.set(pointer, pointer + _LINE)
    return f


def _add_taps(
    unit: Unit,
    f: Function,
    window: _Window,
    sums: Sequence[Variable],
    taps: int,
    at: Variable,
    weight: Variable,
    first: bool = False,
) -> None:
    """Add the products of so many taps; each input and each weight is loaded when it is needed first.

    `at` is where the first input is, `weight` the first weight; the former is left somewhere, the latter behind them.
    """
    lanes = sums[0].type
    weights: list[Variable] = []
    users: dict[int, list[tuple[int, int]]] = {}
    for kx, k in product(range(taps), range(len(sums))):
        users.setdefault(k * window.strides[1] + kx * window.dilations[1], []).append((kx, k))
    place = 0
    for here in sorted(users):
        if here > place:
            f.set(at, at + f.pixel * (here - place))
            place = here
        value = f.let(lanes.load(at))
        for kx, k in users[here]:
            while len(weights) <= kx:
                weights.append(f.let(lanes.load(weight)))
                f.set(weight, weight + f.pixel)
            if first and kx == 0:
                f.set(sums[k], value * weights[kx])
            else:
                f.set(sums[k], multiply_add(unit, value, weights[kx], sums[k]))


def _sums(unit: Unit, f: Function, window: _Window, lanes: ValueType, count: int) -> list[Variable]:
    """`count` outputs of the channels at `f.x` and `f.w`."""
    (height, width), _, (down, right) = window
    sums = [f.local(lanes) for _ in range(count)]
    line, column, at, weight = f.let(f.x), f.local(i32), f.local(i32), f.let(f.w)
    number, ky = f.local(i32), f.local(i32)

    def taps(taps: int, first: bool = False) -> None:
        f.set(at, column)
        _add_taps(unit, f, window, sums, taps, at, weight, first)

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

    if width <= _TAPS and height <= _ROWS[unit.target]:
        for y in range(height):
            row(first=y == 0)
    else:
        for total in sums:
            f.set(total, lanes.const(0.0))
        with f.loop(ky, 0, height):
            row()
    return sums
