"""Winograd's convolution: tiles of x to planes of v, products with weights, and planes of them to outputs.

v = B' d B for each tile d of elements, with the matrices of a `filtering.Filter` for each axis; of the product with the
weights G g G' for each of the places comes a tile of outputs, A' y A. Attributes: `tile`, the outputs of a tile along
both axes, kernel, strides, dilations. Between the products along one axis and the other, some channels of a tile are in
the scratch memory; along an axis of one tap there is nothing to do. A unit is a row of tiles of an image.

Where BLAS does the products, the two transforms are code of their own. Else all is done for a band of tiles at a time,
whose planes are in the scratch memory, and so in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from sardonyx.code.kernel import Routine
from sardonyx.common.record import record
from sardonyx.compiler.legalization.filtering import Filter, filters

from ..abi import SCRATCH
from ..assembler import Expr, Function, Operand, Variable, f32x4, i32
from ..code import Code, Unit
from . import frame, tile
from .channels import channels
from .multiplier import Multiplier

_FILTERS = ("tile", "kernel", "strides", "dilations")
"""The attributes that `filters` reads."""
_CHUNK = 64
"""Bytes of channels that go through both passes at once: a line of the cache in every plane."""
_CONSTANTS = 128
"""Bytes of those of an axis, in the scratch memory."""
_BETWEEN = 2 * _CONSTANTS
"""Where the values between the two passes are."""
_COLUMNS = (64, 80, 96, 112)
"""Channels that are made of a band at a time, if all of them leave no room for a whole block of tiles; the first of
these that leaves enough for a vector, or none."""
_FEWEST = 12
"""Tiles that a thread should have at least."""

# Places in the scratch memory of `conv_winograd`: addresses of rows, the offset of the only segment, a tile at the
# edge, those of either transform, the planes of a band.
_OFFSETS, _EDGE, _INPUT = 512, 1024, 2048
assert _INPUT >= _EDGE + tile.EDGE


class Band(NamedTuple):
    """How many tiles are done at a time, and how many of the channels that are made."""

    tiles: int
    columns: int


def band(lines: tuple[Filter, Filter], channels: int, made: int) -> Band:
    """The band of tiles that fits the scratch memory; it may have none.

    >>> band((Filter(4, 3), Filter(4, 3)), 64, 64), band((Filter(4, 3, 2), Filter(4, 3, 2)), 64, 128)
    (Band(tiles=56, columns=64), Band(tiles=24, columns=64))
    """
    places = lines[0].places * lines[1].places
    between = max(lines[0].places * lines[1].span, lines[0].outputs * lines[1].places) * _CHUNK
    room = (SCRATCH - _INPUT - 2 * (_BETWEEN + between)) // (4 * places)
    columns = made
    if room // (channels + columns) < tile.BLOCK:
        columns = next((count for count in _COLUMNS if count < made and not 0 < made % count < 4), made)
    return Band(min(tile.BLOCK, room // (channels + columns)), columns)


def winograd_input(unit: Unit, routine: Routine) -> Code:
    """x [B, H, W, C], border included, as much as `Filter.seen` -> v [B * tiles, places, C]; C >= 4."""
    image = _Input(unit, filters(routine.attributes), routine.inputs[0])
    return Code(frame.general(unit, routine, _write_input, _FILTERS), image.units, scratch=image.room)


def _write_input(unit: Unit, routine: Routine) -> Function:
    image = _Input(unit, filters(routine.attributes), routine.inputs[0])
    with frame.function(unit, routine) as f:
        x, v = frame.buffers(f, routine)
        image.start(f, x, f.scratch)
        first = f.let(f.begin * image.across)
        planes = image.pixel * image.places
        image.transform(first, f.end * image.across - first, v + first * planes)
    return f


def winograd_output(unit: Unit, routine: Routine) -> Code:
    """y [B * tiles, places, M] -> [B, Ho, Wo, M]; the last tiles may hang over; M >= 4."""
    image = _Output(unit, filters(routine.attributes), routine.outputs[0])
    return Code(frame.general(unit, routine, _write_output, _FILTERS), image.units, scratch=image.room)


def _write_output(unit: Unit, routine: Routine) -> Function:
    image = _Output(unit, filters(routine.attributes), routine.outputs[0])
    with frame.function(unit, routine) as f:
        y, z = frame.buffers(f, routine)
        image.start(f, z, f.scratch)
        first = f.let(f.begin * image.across)
        planes = image.pixel * image.places
        image.transform(first, f.end * image.across - first, y + first * planes, i32.const(0), image.pixel)
    return f


def conv_winograd(unit: Unit, routine: Routine) -> Code:
    """x as `winograd_input` takes it, x u [Q, ceil(N / nr), C, nr] -> [B, Ho, Wo, N]; attributes n and nr besides.

    Q are the weights of the places that differ: where an axis has fewer than places, the last is that of the rest.
    """
    lines = filters(routine.attributes)
    made, (_, panels, depth, nr) = routine.attributes["n"], routine.inputs[1]
    places = [line.places for line in lines]
    size, wide = band(lines, depth, made)
    source, result = _Input(unit, lines, routine.inputs[0]), _Output(unit, lines, routine.outputs[0])
    multiply = tile.product(unit)
    with frame.function(unit, routine) as f, f.if_(f.begin < f.end):
        x, u, z = frame.buffers(f, routine)
        source.start(f, x, f.scratch + _INPUT)
        result.start(f, z, f.scratch + (_INPUT + source.room))
        f.store(f.scratch, i32.const(0), offset=_OFFSETS)
        v = f.let(f.scratch + (_INPUT + source.room + result.room))
        y = f.let(v + size * source.places * depth * 4)
        first, end, column, down, across, a, b, c = (f.local(i32) for _ in range(8))
        f.set(first, f.begin * source.across)
        f.set(end, f.end * source.across)
        bands = frame.divided_up(end - first, size)
        step = f.let(frame.divided_up(end - first, bands))
        with f.while_(first < end):
            count = f.let(frame.least(f, step, end - first))
            source.transform(first, count, v)
            with f.loop(column, 0, 4 * made, step=4 * wide):
                pixel = f.let(frame.least(f, 4 * made - column, 4 * wide))
                f.set(a, v)
                f.set(c, y)
                with f.loop(down, 0, places[0]):
                    line = f.let(frame.least(f, down, lines[0].weights - 1) * lines[1].weights)
                    with f.loop(across, 0, places[1]):
                        f.set(b, line + frame.least(f, across, lines[1].weights - 1))
                        f.set(b, u + b * (4 * panels * depth * nr) + column * depth)
                        tile.table(f, f.scratch, count, a, i32.const(4 * source.places * depth))
                        left = f.scratch, count, f.scratch + _OFFSETS, 1, 4 * depth
                        right = b, 4 * nr, 4 * depth * nr
                        f.call(multiply, *left, *right, c, pixel * result.places, pixel, f.scratch + _EDGE)
                        f.set(a, a + 4 * depth)
                        f.set(c, c + pixel)
                result.transform(first, count, y, column, pixel)
            f.set(first, first + step)
    return Code(f, source.units, source.align, SCRATCH)


# ---- images in tiles


class _Image:
    """An image whose tiles are transformed, as part of a function."""

    def __init__(self, unit: Unit, name: str, lines: tuple[Filter, Filter], shape: Sequence[Any]) -> None:
        self._lines, self._shape = lines, shape
        self._counts = [_seen(line) if name == "input" else made(line) for line in lines]
        self._transform = _Transform(unit, name, lines)
        self.places = lines[0].places * lines[1].places
        self.room = self._transform.scratch
        """Bytes of scratch memory that it takes."""
        self.units = self._counts[0].units(*shape[:2])
        """Rows of tiles."""
        across = self._counts[1].of(shape[2]) if isinstance(shape[2], int) else _FEWEST
        self.align = -(-_FEWEST // max(1, across))
        if isinstance(shape[1], int):  # rows that threads share evenly
            down = max(1, self._counts[0].of(shape[1]))
            self.align = -(-down // -(-down // self.align))

    def start(self, f: Function, address: Expr, scratch: Expr) -> None:
        """Be at an address, with scratch memory."""
        self._f, self._address, self._scratch = f, address, scratch
        self._height, self._width, depth = (frame.size(f, size) for size in self._shape[1:])
        self.pixel = f.let(depth * 4)
        row = f.let(self._width * self.pixel)
        self._down, self.across = (
            f.let(count.of(size)) for count, size in zip(self._counts, (self._height, self._width), strict=True)
        )
        self._row = row
        self._steps = [f.let(step * n.dilation) for step, n in zip((row, self.pixel), self._lines, strict=True)]
        self._transform.store(f, scratch)

    @contextmanager
    def _tiles(self, first: Expr, count: Expr) -> Iterator[tuple[Variable, Variable, Variable]]:
        """For each of some tiles, numbered from the first one of all images on: its image, row and column."""
        f = self._f
        number, image, down, across = (f.local(i32) for _ in range(4))
        with f.if_(count > 0):
            f.set(image, i32.div_u(first, self.across))
            f.set(across, first - image * self.across)
            f.set(down, i32.rem_u(image, self._down))
            f.set(image, i32.div_u(image, self._down))
            with f.loop(number, 0, count):
                yield image, down, across
                f.set(across, across + 1)
                with f.if_(across == self.across):
                    f.set(across, 0)
                    f.set(down, down + 1)
                    with f.if_(down == self._down):
                        f.set(down, 0)
                        f.set(image, image + 1)


class _Input(_Image):
    """What tiles are taken from."""

    def __init__(self, unit: Unit, lines: tuple[Filter, Filter], shape: Sequence[Any]) -> None:
        super().__init__(unit, "input", lines, shape)

    def transform(self, first: Expr, count: Expr, target: Expr) -> None:
        """Write the planes of some tiles."""
        f, (rows, columns) = self._f, self._lines
        target = f.let(target)
        with self._tiles(first, count) as (image, down, across):
            top = image * self._height + first_output(rows, down) * rows.stride
            place = self._address + top * self._row + first_output(columns, across) * columns.stride * self.pixel
            planes = self.pixel * columns.places, self.pixel
            f.call(self._transform.tile, place, *self._steps, target, *planes, 0, 0, self.pixel, self._scratch)
            f.set(target, target + self.pixel * self.places)


class _Output(_Image):
    """Where tiles go; those that hang over may have nothing to write."""

    def __init__(self, unit: Unit, lines: tuple[Filter, Filter], shape: Sequence[Any]) -> None:
        super().__init__(unit, "output", lines, shape)

    def transform(self, first: Expr, count: Expr, source: Expr, channel: Expr, channels: Expr) -> None:
        """Write tiles of planes that have so many bytes of channels, to those from a byte on."""
        f, (rows, columns) = self._f, self._lines
        source = f.let(source)
        with self._tiles(first, count) as (image, down, across):
            top, left = f.let(first_output(rows, down)), f.let(first_output(columns, across))
            high, wide = (
                f.let(outputs_left(f, rows, self._height - top)),
                f.let(outputs_left(f, columns, self._width - left)),
            )
            with f.if_((high > 0) & (wide > 0)):
                place = self._address + (image * self._height + top) * self._row + left * self.pixel + channel
                planes = channels * columns.places, channels
                ends = high, wide, channels, self._scratch
                f.call(self._transform.tile, source, *planes, place, *self._steps, *ends)
            f.set(source, source + channels * self.places)


# ---- tiles along an axis


@record(frozen=True)
class Tiles:
    """How many tiles an axis has: so many for each `block * dilation` elements, of which there are `more`."""

    more: int
    block: int
    dilation: int

    def of(self, size: Any) -> Any:
        """The tiles of an axis with so many elements."""
        step = self.block * self.dilation
        if isinstance(size, int):
            return (size + self.more) // step * self.dilation
        return i32.div_u(size + self.more, step) * self.dilation

    def units(self, batch: Any, rows: Any) -> Any:
        """Rows of tiles of all images, as `Code.units` has it."""
        if isinstance(batch, int) and isinstance(rows, int):
            return batch * self.of(rows)
        images, lines = (
            ["param", "int32", int(size[1:])] if isinstance(size, str) else ["const", "int32", size]
            for size in (batch, rows)
        )
        step = ["const", "int32", self.block * self.dilation]
        lines = ["div", "int32", ["add", "int32", lines, ["const", "int32", self.more]], step]
        return ["mul", "int32", images, ["mul", "int32", lines, ["const", "int32", self.dilation]]]


def _seen(line: Filter) -> Tiles:
    """Of an image that is seen."""
    return Tiles(line.stride - 1 - (line.taps - 1) * line.dilation, line.outputs * line.stride, line.dilation)


def made(line: Filter) -> Tiles:
    """Of an image that is made."""
    return Tiles(line.outputs * line.dilation - 1, line.outputs, line.dilation)


def first_output(line: Filter, tile: Expr) -> Expr:
    """The first output of a tile: neighbouring tiles are interleaved where outputs of one are `dilation` apart."""
    if line.dilation == 1:
        return tile * line.outputs
    return tile + i32.div_u(tile, line.dilation) * ((line.outputs - 1) * line.dilation)


def outputs_left(f: Function, line: Filter, size: Expr) -> Expr:
    """The outputs that a tile has where so many places are left, which may be none."""
    count = f.let(size if line.dilation == 1 else i32.div_s(size + (line.dilation - 1), line.dilation))
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

    def store(self, f: Function, scratch: Expr) -> None:
        """Put constants into the scratch memory, for all tiles."""
        for multiplier in dict.fromkeys(self._multipliers):
            multiplier.store(f, scratch)

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
