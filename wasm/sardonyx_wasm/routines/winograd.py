"""Winograd's convolution: tiles of x to planes of v, and planes of products y to outputs.

v = B' d B for each tile d of elements, with the matrices of a `filtering.Filter` for each axis; of the product with the
weights G g G' for each of the places comes a tile of outputs, A' y A. Attributes: `tile`, the outputs of a tile along
both axes, kernel, strides, dilations. Between the products along one axis and the other, some channels of a tile are in
the scratch memory; along an axis of one tap there is nothing to do. A unit is a row of tiles of an image.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sardonyx.compiler.kernel import Routine
from sardonyx.legalization.filtering import Filter, filters

from ..assembler import Expr, Function, Operand, f32x4, i32
from ..code import Code
from . import frame
from .channels import channels
from .multiplier import Multiplier

if TYPE_CHECKING:
    from ..generator import Unit

_CHUNK = 64
"""Bytes of channels that go through both passes at once: a line of the cache in every plane."""
_CONSTANTS = 128
"""Bytes of those of an axis, in the scratch memory."""
_BETWEEN = 2 * _CONSTANTS
"""Where the values between the two passes are."""


def winograd_input(unit: Unit, routine: Routine) -> Code:
    """x [B, H, W, C], border included, as much as `Filter.seen` -> v [B * tiles, places, C]; C >= 4."""
    lines = filters(routine.attributes)
    batch, height, width, depth = routine.inputs[0]
    counts = [_Tiles(n.stride - 1 - (n.taps - 1) * n.dilation, n.outputs * n.stride, n.dilation) for n in lines]
    transform = _Transform(unit, "input", lines)
    with frame.function(unit, routine) as f:
        x, v = frame.buffers(f, routine)
        pixel = f.let(frame.size(f, depth) * 4)
        row = f.let(frame.size(f, width) * pixel)
        down, across = (f.let(n.of(frame.size(f, size))) for n, size in zip(counts, (height, width), strict=True))
        planes = f.let(pixel * (lines[0].places * lines[1].places))
        steps = [f.let(step * line.dilation) for step, line in zip((row, pixel), lines, strict=True)]
        number, column = f.local(i32), f.local(i32)
        target = f.let(v + f.begin * across * planes)
        transform.store(f)
        with f.loop(number, f.begin, f.end):
            image = f.let(i32.div_u(number, down))
            first = _first(lines[0], number - image * down) * lines[0].stride
            source = f.let(x + (image * frame.size(f, height) + first) * row)
            with f.loop(column, 0, across):
                place = source + _first(lines[1], column) * lines[1].stride * pixel
                f.call(transform.tile, place, *steps, target, pixel * lines[1].places, pixel, 0, 0, pixel, f.scratch)
                f.set(target, target + planes)
    return Code(f, counts[0].units(batch, height), scratch=transform.scratch)


def winograd_output(unit: Unit, routine: Routine) -> Code:
    """y [B * tiles, places, M] -> [B, Ho, Wo, M]; the last tiles may hang over; M >= 4."""
    lines = filters(routine.attributes)
    batch, height, width, depth = routine.outputs[0]
    counts = [_Tiles(n.outputs * n.dilation - 1, n.outputs, n.dilation) for n in lines]
    transform = _Transform(unit, "output", lines)
    with frame.function(unit, routine) as f:
        y, z = frame.buffers(f, routine)
        rows, columns = frame.size(f, height), frame.size(f, width)
        pixel = f.let(frame.size(f, depth) * 4)
        row = f.let(columns * pixel)
        down, across = (f.let(n.of(size)) for n, size in zip(counts, (rows, columns), strict=True))
        planes = f.let(pixel * (lines[0].places * lines[1].places))
        steps = [f.let(step * line.dilation) for step, line in zip((row, pixel), lines, strict=True)]
        number, column = f.local(i32), f.local(i32)
        source = f.let(y + f.begin * across * planes)
        transform.store(f)
        with f.loop(number, f.begin, f.end):
            image = f.let(i32.div_u(number, down))
            first = f.let(_first(lines[0], number - image * down))
            high = f.let(_left(f, lines[0], rows - first))
            target = f.let(z + (image * rows + first) * row)
            with f.loop(column, 0, across):
                place = f.let(_first(lines[1], column))
                wide = f.let(_left(f, lines[1], columns - place))
                with f.if_((high > 0) & (wide > 0)):
                    operands = source, pixel * lines[1].places, pixel, target + place * pixel, *steps, high, wide
                    f.call(transform.tile, *operands, pixel, f.scratch)
                f.set(source, source + planes)
    return Code(f, counts[0].units(batch, height), scratch=transform.scratch)


# ---- tiles along an axis


class _Tiles(NamedTuple):
    """How many tiles an axis has: so many for each `block * dilation` elements, of which there are `more`."""

    more: int
    block: int
    dilation: int

    def of(self, size: Expr) -> Expr:
        """The tiles of an axis with so many elements."""
        return i32.div_u(size + self.more, self.block * self.dilation) * self.dilation

    def units(self, batch: Any, rows: Any) -> Any:
        """Rows of tiles of all images, as `Code.units` has it."""
        step = self.block * self.dilation
        if isinstance(batch, int) and isinstance(rows, int):
            return batch * ((rows + self.more) // step * self.dilation)
        images, lines = (
            ["param", "int32", int(size[1:])] if isinstance(size, str) else ["const", "int32", size]
            for size in (batch, rows)
        )
        lines = ["div", "int32", ["add", "int32", lines, ["const", "int32", self.more]], ["const", "int32", step]]
        return ["mul", "int32", images, ["mul", "int32", lines, ["const", "int32", self.dilation]]]


def _first(line: Filter, tile: Expr) -> Expr:
    """The first output of a tile: neighbouring tiles are interleaved where outputs of one are `dilation` apart."""
    if line.dilation == 1:
        return tile * line.outputs
    return tile + i32.div_u(tile, line.dilation) * ((line.outputs - 1) * line.dilation)


def _left(f: Function, line: Filter, size: Expr) -> Expr:
    """The outputs that a tile has where so many places are left, which may be none."""
    count = f.let(i32.div_s(size + (line.dilation - 1), line.dilation))
    return f.select(count < line.outputs, count, line.outputs)


# ---- one tile

_TILE = ("source", "from_row", "from_column", "target", "to_row", "to_column", "rows", "columns", "pixel", "scratch")


class _Transform:
    """The function that transforms a tile, all channels of it: along columns, then along rows.

    Its parameters, all i32, are addresses and steps in bytes; of outputs, that there are so many `rows` and `columns`.
    """

    def __init__(self, unit: Unit, name: str, lines: tuple[Filter, Filter]) -> None:
        self._clipped = name == "output"
        matrices = [line.matrices()[2 if self._clipped else 0] for line in lines]
        self._sizes = [(len(matrix[0]), len(matrix)) for matrix in matrices]  # of a line before and after
        first, second = matrices
        self._multipliers = [Multiplier(first, 0)]
        self._multipliers.append(self._multipliers[0] if second == first else Multiplier(second, _CONSTANTS))
        key = "x".join(f"{line.outputs}_{line.taps}_{line.stride}" for line in lines)
        self.tile: Function = unit.once(
            "winograd", f"{name} {key}", lambda: self._write(unit, f"winograd_{name}_{key}")
        )
        self.scratch = _BETWEEN + self._sizes[0][1] * self._sizes[1][0] * _CHUNK

    def store(self, f: Function) -> None:
        """Put constants into the scratch memory, for all tiles."""
        for multiplier in dict.fromkeys(self._multipliers):
            multiplier.store(f, f.scratch)

    def _write(self, unit: Unit, name: str) -> Function:
        with unit.module.function(name, dict.fromkeys(_TILE, i32)) as f:
            for multiplier in dict.fromkeys(self._multipliers):
                multiplier.load(unit, f, f.scratch)
            if self._sizes[0] == (1, 1):
                places = self._places(f, 1, f.to_column, f.columns)
                self._along(f, 1, f.pixel, f.source, f.from_column, f.target, places)
            elif self._sizes[1] == (1, 1):
                places = self._places(f, 0, f.to_row, f.rows)
                self._along(f, 0, f.pixel, f.source, f.from_row, f.target, places)
            else:
                self._both(f)
        return f

    def _both(self, f: Function) -> None:
        """Chunks of channels, the last of which ends with the pixel."""
        (_, rows), (columns, _) = self._sizes
        start, chunk, at, k, source, between, target = (f.local(i32) for _ in range(7))
        places = self._places(f, 1, f.to_column, f.columns)
        with f.loop(start, 0, f.pixel, step=_CHUNK):
            f.set(at, f.select(start < f.pixel - 16, start, f.pixel - 16))
            f.set(chunk, frame.least(f, f.pixel - at, _CHUNK))
            f.set(source, f.source + at)
            f.set(between, f.scratch + _BETWEEN)
            with f.loop(k, 0, columns):
                self._along(f, 0, chunk, source, f.from_row, between, columns * _CHUNK)
                f.set(source, source + f.from_column)
                f.set(between, between + _CHUNK)
            f.set(between, f.scratch + _BETWEEN)
            f.set(target, f.target + at)
            with f.loop(k, 0, f.rows if self._clipped else rows):
                self._along(f, 1, chunk, between, _CHUNK, target, places)
                f.set(between, between + columns * _CHUNK)
                f.set(target, target + f.to_row)

    def _places(self, f: Function, axis: int, step: Expr, count: Expr) -> Operand | list[Expr]:
        """Where the elements of a line go: steps, or places, where those that hang over have that of the last one."""
        if not self._clipped:
            return step
        return [f.let(frame.least(f, count - 1, k) * step) for k in range(self._sizes[axis][1])]

    def _along(
        self,
        f: Function,
        axis: int,
        pixel: Expr,
        source: Expr,
        step: Operand,
        target: Expr,
        places: Operand | list[Expr],
    ) -> None:
        """Transform lines of so many bytes of channels."""
        before, after = f.let(source), f.let(target)
        with channels(f, pixel, f32x4, (before, after)):
            values = self._multipliers[axis](_load(f, before, step, self._sizes[axis][0]))
            _store(f, after, places, values)


def _load(f: Function, pointer: Expr, step: Operand, count: int) -> list[Expr]:
    """A line of vectors."""
    return [f.let(f32x4.load(at, offset=offset)) for at, offset in _steps(f, pointer, step, count)]


def _store(f: Function, pointer: Expr, places: Operand | list[Expr], values: Sequence[Expr]) -> None:
    """Store a line of vectors, the first one last if there are places."""
    if isinstance(places, list):
        for place, value in zip(reversed(places), reversed(values), strict=True):
            f.store(pointer + place, value)
        return
    for (at, offset), value in zip(_steps(f, pointer, places, len(values)), values, strict=True):
        f.store(at, value, offset=offset)


def _steps(f: Function, pointer: Expr, step: Operand, count: int) -> Iterator[tuple[Expr, int]]:
    """Addresses and offsets, each to be used before the next."""
    if not isinstance(step, Expr):
        yield from ((pointer, k * int(step)) for k in range(count))
        return
    at = f.let(pointer)
    for k in range(count):
        if k:
            f.set(at, at + step)
        yield at, 0
