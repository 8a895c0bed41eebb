"""Winograd's convolution F(m x m, 3 x 3): tiles of x to planes of v, and planes of products y to outputs.

v = B' d B for each tile d of (m + 2)^2 elements; of the product with the weights G g G' (`filtering.weight_transform`)
for each of its places come m x m outputs, A' y A. Between the products along one axis and the other, some channels of
a tile are in the scratch memory. A unit is a row of tiles of an image; m is 2 or 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sardonyx.compiler.kernel import Routine

from ..assembler import Expr, Function, Variable, f32x4, i32
from ..code import Code
from . import frame
from .channels import channels
from .filtering import Filter, store_constants

if TYPE_CHECKING:
    from ..generator import Unit

_CHUNK = 64
"""Bytes of channels that go through both passes at once: a line of the cache in every plane."""


def winograd_input(unit: Unit, routine: Routine) -> Code:
    """x [B, H, W, C], border included, H and W multiples of m and 2 more -> v [B * tiles, (m + 2)^2, C]; C >= 4."""
    m = routine.attributes["m"]
    batch, height, width, depth = routine.inputs[0]
    tile = unit.once("winograd", f"input {m}", lambda: _input_tile(unit, m))
    with frame.function(unit, routine) as f:
        x, v = frame.buffers(f, routine)
        pixel = f.let(frame.size(f, depth) * 4)
        line = f.let(frame.size(f, width) * pixel)
        down, across = (f.let(i32.div_u(frame.size(f, size) - 2, m)) for size in (height, width))
        tiles = f.let(pixel * (m + 2) ** 2)
        number, column = f.local(i32), f.local(i32)
        target, source = f.let(v + f.begin * across * tiles), f.local(i32)
        store_constants(f, m, f.scratch)
        with f.loop(number, f.begin, f.end):
            image = f.let(i32.div_u(number, down))
            f.set(source, x + (image * frame.size(f, height) + (number - image * down) * m) * line)
            with f.loop(column, 0, across):
                f.call(tile, source, target, pixel, line, f.scratch)
                f.set(source, source + pixel * m)
                f.set(target, target + tiles)
    return Code(f, _units(batch, height, m, -2), scratch=_SCRATCH)


def winograd_output(unit: Unit, routine: Routine) -> Code:
    """y [B * tiles, (m + 2)^2, M] -> [B, Ho, Wo, M]; the last tiles may hang over; M >= 4."""
    m = routine.attributes["m"]
    batch, height, width, depth = routine.outputs[0]
    tile = unit.once("winograd", f"output {m}", lambda: _output_tile(unit, m))
    with frame.function(unit, routine) as f:
        y, z = frame.buffers(f, routine)
        rows, columns = frame.size(f, height), frame.size(f, width)
        pixel = f.let(frame.size(f, depth) * 4)
        line = f.let(columns * pixel)
        down, across = (f.let(i32.div_u(size + (m - 1), m)) for size in (rows, columns))
        tiles = f.let(pixel * (m + 2) ** 2)
        number, column = f.local(i32), f.local(i32)
        source, target = f.let(y + f.begin * across * tiles), f.local(i32)
        store_constants(f, m, f.scratch)
        with f.loop(number, f.begin, f.end):
            image = f.let(i32.div_u(number, down))
            row = f.let((number - image * down) * m)
            high = f.let(frame.least(f, rows - row, m))
            f.set(target, z + (image * rows + row) * line)
            with f.loop(column, columns, 0, step=-m):
                f.call(tile, source, target, pixel, line, high, frame.least(f, column, m), f.scratch)
                f.set(source, source + tiles)
                f.set(target, target + pixel * m)
    return Code(f, _units(batch, height, m, m - 1), scratch=_SCRATCH)


def _units(batch: Any, height: Any, m: int, more: int) -> Any:
    """Rows of tiles of all images, (height + more) / m of each, as `Code.units` has it."""
    if isinstance(batch, int) and isinstance(height, int):
        return batch * ((height + more) // m)
    images, lines = (
        ["param", "int32", int(size[1:])] if isinstance(size, str) else ["const", "int32", size]
        for size in (batch, height)
    )
    lines = ["add", "int32", lines, ["const", "int32", more]]
    return ["mul", "int32", images, ["div", "int32", lines, ["const", "int32", m]]]


_PASS = 128
"""Where the values between the two passes are in the scratch memory; the constants come first."""
_SCRATCH = _PASS + 36 * _CHUNK


# ---- tiles


def _input_tile(unit: Unit, m: int) -> Function:
    """`(x, v, pixel, line, scratch)`: a tile of x, all channels."""
    n = m + 2
    with unit.module.function(f"winograd_input_{m}", dict.fromkeys(("x", "v", "pixel", "line", "scratch"), i32)) as f:
        filtered = Filter(unit, f, m, f.scratch)
        k, source, between, target = (f.local(i32) for _ in range(4))

        def first(chunk: Expr, at: Expr) -> None:
            with f.loop(k, 0, n):
                f.set(source, f.x + at + f.pixel * k)
                f.set(between, f.scratch + k * _CHUNK)
                with channels(f, chunk, f32x4, (source, between)):
                    x = _strided(f, source, f.line, n)
                    for i, value in enumerate(filtered.input(x)):
                        f.store(between, value, offset=_PASS + i * n * _CHUNK)

        def second(chunk: Expr, at: Expr) -> None:
            with f.loop(k, 0, n):
                f.set(between, f.scratch + k * (n * _CHUNK))
                f.set(target, f.v + at + f.pixel * (n * k))
                with channels(f, chunk, f32x4, (between, target)):
                    x = [f.let(f32x4.load(between, offset=_PASS + i * _CHUNK)) for i in range(n)]
                    _store_line(f, target, f.pixel, filtered.input(x))

        _chunks(f, first, second)
    return f


def _output_tile(unit: Unit, m: int) -> Function:
    """`(y, z, pixel, line, rows, columns, scratch)`: so many rows and columns of a tile, all channels."""
    n = m + 2
    params = dict.fromkeys(("y", "z", "pixel", "line", "rows", "columns", "scratch"), i32)
    with unit.module.function(f"winograd_output_{m}", params) as f:
        filtered = Filter(unit, f, m, f.scratch)
        k, source, between, target = (f.local(i32) for _ in range(4))
        # Columns that hang over are written to the last one, and then that itself is.
        places = [f.let(frame.least(f, f.columns - 1, i) * f.pixel) for i in range(1, m)]

        def first(chunk: Expr, at: Expr) -> None:
            with f.loop(k, 0, n):
                f.set(source, f.y + at + f.pixel * k)
                f.set(between, f.scratch + k * _CHUNK)
                with channels(f, chunk, f32x4, (source, between)):
                    y = _strided(f, source, f.let(f.pixel * n), n)
                    for i, value in enumerate(filtered.output(y)):
                        f.store(between, value, offset=_PASS + i * n * _CHUNK)

        def second(chunk: Expr, at: Expr) -> None:
            with f.loop(k, 0, f.rows):
                f.set(between, f.scratch + k * (n * _CHUNK))
                f.set(target, f.z + at + f.line * k)
                with channels(f, chunk, f32x4, (between, target)):
                    y = [f.let(f32x4.load(between, offset=_PASS + i * _CHUNK)) for i in range(n)]
                    values = filtered.output(y)
                    for place, value in zip(reversed(places), reversed(values)):
                        f.store(target + place, value)
                    f.store(target, values[0])

        _chunks(f, first, second)
    return f


def _chunks(f: Function, *passes: Callable[[Expr, Expr], None]) -> None:
    """Each pass for each chunk of channels: its bytes, and where it starts; the last ends with the pixel."""
    start, chunk, at = f.local(i32), f.local(i32), f.local(i32)
    with f.loop(start, 0, f.pixel, step=_CHUNK):
        f.set(at, f.select(start < f.pixel - 16, start, f.pixel - 16))
        f.set(chunk, frame.least(f, f.pixel - at, _CHUNK))
        for part in passes:
            part(chunk, at)


def _strided(f: Function, pointer: Expr, step: Expr, count: int) -> list[Variable]:
    at = f.let(pointer)
    values = []
    for k in range(count):
        if k:
            f.set(at, at + step)
        values.append(f.let(f32x4.load(at)))
    return values


def _store_line(f: Function, pointer: Expr, step: Expr, values: Sequence[Expr]) -> None:
    at = f.let(pointer)
    for k, value in enumerate(values):
        if k:
            f.set(at, at + step)
        f.store(at, value)
