"""Products that NumPy's BLAS does natively: on wide registers, which WebAssembly's 128 bits cannot match.

BLAS puts the operands of a large product into an order of its own each time, which takes half of it where rows are few.
With AVX-512, OpenBLAS does small products in place and at full speed. So it is given a large one as stacks of small
ones, each a call of NumPy: blocks of rows times panels of columns. The smaller side is read again and again, from the
cache; the larger one comes from memory once: NumPy goes through a stack in the order of its axes if told to, else in
one of its own. Constant matrices are stored in panels; where these are long, sums are made in pieces. What the windows
of a convolution see is put side by side for some places at a time, and stays in the cache meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import chain
from math import gcd, prod
from typing import Any

import numpy as np

from sardonyx.code.kernel import Routine
from sardonyx.common.dtypes import by_name
from sardonyx.host.products import grain, one_by_one

from ..abi import HOSTED
from .heights import HEIGHT, runs
from .operands import (
    ArrayAt,
    Form,
    Numbers,
    Operands,
    Panels,
    Part,
    Rectangle,
    Right,
    Rights,
    Rows,
    Sharing,
    Sweep,
    View,
    side_by_side,
    view,
)
from .widths import broad

FEWEST = 1 << 16
"""Products of fewer multiplications are done sooner by WebAssembly than handed over."""
SMALL = 10**6
"""So many multiplications OpenBLAS does in place."""
WIDTH = 64
"""Columns of a panel of float32: four registers. With two, OpenBLAS takes twelve rows together."""
BAND = 1 << 19
"""Bytes of left sides and results that are made at a time,"""
PACKED_BAND = 1 << 20
"""and where BLAS puts the right sides into an order of its own for each of them."""
SCRATCH = 1 << 14
"""Bytes of scratch memory of what makes and uses them."""
COMMON = 1 << 22
"""Bytes of them that all threads may make together, if matrices are what takes longer to read."""
SHARED = 1 << 20
"""Multiplications from which on it is worth waking other threads."""
MOST_PLACES = 128
"""Places where a product is remembered."""

_ALL = 1 << 60  # rows of a block, where BLAS gets all of them
_LIKELY = 64  # rows that a product of any number may well have
_ROWS = 7  # that a block may have at least, so that up to three that are left over can go with four
REGISTER = 64  # bytes of one of AVX-512
_MANY, _NEAR = 24, 1 << 15  # rows from which on narrow panels are better, and bytes of a panel that stays nearest
_HALVES = 1.03, 0.9  # what a column costs in a narrow one: there may be fewer zeros, and it alone may be near
_AGAIN = 1 << 20  # bytes of left sides that are read for each panel
_VECTOR = 9000  # multiplications by a vector that OpenBLAS does not divide among threads of its own
_CACHED = 1 << 19  # bytes of a matrix that may be read in panels, though it is not stored so
_AVX512 = frozenset({"X86_V4", "AVX512_SKX", "AVX512_ICL"})
_STORED = frozenset({"matmul_panels", "conv_panels", "conv_winograd"})


@cache
def in_blocks() -> bool:
    """Whether NumPy's BLAS does small products in place and at full speed."""
    try:
        config: Any = np.show_config(mode="dicts")
        name, found = config["Build Dependencies"]["blas"]["name"], config["SIMD Extensions"]["found"]
    except (TypeError, KeyError):  # an old NumPy, or one that was built in another way
        return False
    return "openblas" in name and not _AVX512.isdisjoint(found)


def wide(itemsize: int) -> int:
    """Columns of a panel of elements of so many bytes."""
    return 4 * WIDTH // itemsize


def panel_width(depth: int, columns: int, rows: int = 1, itemsize: int = 4) -> int:
    """Columns of the panels in which to store a constant matrix, 0 for as it is; there are about so many rows.

    >>> panel_width(4621, 1000)  # a prime number
    0
    """
    depth //= pieces(depth, itemsize)
    most = wide(itemsize)
    half = _HALVES[rows >= _MANY and _NEAR // WIDTH < 4 * depth <= 2 * _NEAR // WIDTH]
    costs = {width: cost for width, cost in ((most, 1.0), (most // 2, half)) if _ROWS * depth * width <= SMALL}
    width = min(costs, key=lambda width: -(-columns // width) * min(width, columns) * costs[width], default=0)
    return min(width, columns) if in_blocks() else 0


def pieces(depth: int, itemsize: int = 4) -> int:
    """The pieces in which long sums over stored panels are made: equal ones that are short enough.

    >>> pieces(1024), pieces(4608)
    (1, 3)
    """
    fewest = -(-_ROWS * depth * wide(itemsize) // SMALL)
    return next((count for count in range(fewest, 2 * fewest) if depth % count == 0), 1)


def fewest_multiplications(repeated: bool) -> int:
    """The multiplications of a product that BLAS should do; to leave a loop for it costs more than to leave a plan."""
    return FEWEST << 4 if repeated else FEWEST


def takes(code: Any, repeated: bool = False) -> bool:
    """Whether a launch of this code is for BLAS: a product of floats, large as far as is known."""
    fewest = fewest_multiplications(repeated)
    if not isinstance(code, Routine) or code.primitive in _STORED or HOSTED in code.attributes:
        return isinstance(code, Routine)
    if code.primitive != "matmul" or set(code.reads) not in ({"float32"}, {"float64"}):
        return False
    *rows, columns = code.outputs[0]
    depth = code.inputs[0][-1]
    known = prod(size for size in (depth, columns) if isinstance(size, int))
    if isinstance(depth, int) and isinstance(columns, int) and any(isinstance(size, str) for size in rows):
        return known >= fewest // _LIKELY
    return any(isinstance(size, str) for size in (depth, columns)) or prod(rows) * known >= fewest


def blocks(depth: int, columns: int, itemsize: int = 4) -> tuple[int, int]:
    """The pieces of the sums over stored panels of so many columns, and the most rows of a block."""
    number = pieces(depth, itemsize) if in_blocks() else 1
    return number, block_rows(depth // number, columns) if in_blocks() else _ALL


def block_rows(depth: int, columns: int) -> int:
    """The most rows of a block that OpenBLAS multiplies in place."""
    return max(_ROWS, (SMALL if columns > 1 else _VECTOR) // max(1, depth * columns))


class Product:
    """`count` products of [rows, depth] and [depth, columns]; `most` rows at a time, and `unit` belong together.

    Sums are made in `pieces`.
    """

    def __init__(
        self,
        sizes: Numbers,
        most: int,
        a: Rows,
        b: Panels,
        c: Rows,
        unit: int = 1,
        pieces: int = 1,
        shared: Sharing | None = None,
    ) -> None:
        self.count, self.rows, self.depth, self.columns = sizes
        self.shared = shared or Sharing((1, self.count), (1, self.count))
        self.most, self.unit, self.pieces = most, max(1, unit), pieces
        self.work = prod(sizes)
        self.a, self.b, self.c = a, b, c
        self.itemsize = b.itemsize
        self.addresses = a.address, b.address, c.address
        self.panels = range(-(-self.columns // max(1, b.width)))
        """All panels."""
        self._near = max(_ROWS, _AGAIN // (self.itemsize * max(1, self.depth)))
        """Rows that a panel is multiplied by before the next one is read, where they are not all."""
        self._again = max(1, _CACHED // max(1, self.itemsize * self.depth * b.width))
        """Panels that stay in the cache until they are read again."""
        self._rights: Rights = {}
        self.groups = list(self.shared.groups())
        """Of matrices that are alike."""
        self._here = range(len(self.groups))
        """Those that are multiplied."""
        self._across: dict[tuple[int, int, int], list[tuple[int, int, int, int]]] = {}
        self._known: dict[Form, tuple[list[View], list[Part]]] = {}

        # Launches of equal sizes often work at the same places, and so does this one when sizes come again.
        self._lefts: dict[tuple[Form, int], list[list[np.ndarray]]] = {}
        self._results: dict[tuple[Form, int], list[list[np.ndarray]]] = {}

    def at(self, addresses: Numbers, rights: Rights) -> Product:
        """The same elsewhere; `rights` are right sides that are known to lie there, and will be."""
        found = Product.__new__(Product)
        vars(found).update(vars(self))
        found.addresses = addresses[0], addresses[1], addresses[2]
        found._rights = rights
        return found

    def resized(self, rows: int) -> Product:
        """The same with other rows, if it is the only one."""
        found = Product.__new__(Product)
        vars(found).update(vars(self))
        found.rows, found.work = rows, rows * self.depth * self.columns
        found.a, found.c = (x._replace(between=rows * x.row) for x in (self.a, self.c))
        found._known, found._rights, found._lefts, found._results = {}, {}, {}, {}
        return found

    def group(self, number: int) -> Product:
        """Those of one group of matrices."""
        found = self.at(self.addresses, self._rights)
        found._known, found._lefts, found._results, found._here = {}, {}, {}, range(number, number + 1)
        found.count = prod(self.groups[number][2])
        found.work = self.work // self.count * found.count
        return found

    @property
    def is_shared(self) -> bool:
        """Whether some of several share an operand."""
        return self.shared.left != self.shared.right

    @property
    def is_stack(self) -> bool:
        """Whether there are several, and none share an operand."""
        return self.count > 1 and self.unit == 1 and self.shared == Sharing((1, self.count), (1, self.count))

    def sharers(self, threads: int) -> int:
        """How many threads do it, of so many."""
        return threads if self.work >= SHARED else 1

    def parts(self, threads: int, size: int) -> list[range]:
        """The units that are done at a time, `size` of them at most, by so many threads."""
        units = self.rows // self.unit
        block = self.depth // self.pieces * min(self.rows * self.b.width, self.rows * self.columns)
        small = SMALL if in_blocks() else grain(self.itemsize).small
        if 0 < small < block and self.most >= self.rows:  # OpenBLAS sums small ones in another order
            threads = max(1, min(threads, self.rows * self.depth * self.columns // (2 * small)))
        found, start = [], 0
        for end in [self.cut(units * number // threads) for number in range(1, threads + 1)]:
            while start < end:
                bands = -(-(end - start) // size)
                stop = end if bands == 1 else min(end, self.cut(start + -(-(end - start) // bands)))
                found.append(range(start, stop))
                start = stop
        return found

    @property
    def grain(self) -> int:
        """So many units, and multiples of them, have rows that OpenBLAS takes together."""
        return self.height // gcd(self.unit, self.height)

    @property
    def height(self) -> int:
        """So many rows, and multiples of them, begin it anew: what BLAS makes of others does not depend on them."""
        is_whole = self.itemsize == 8 and self.most >= self.rows
        return HEIGHT if in_blocks() and not is_whole else grain(self.itemsize).rows

    def cut(self, unit: int) -> int:
        """Where rows may be divided near a unit: no sum depends on it."""
        units, step = self.rows // self.unit, self.grain
        place = (unit + step // 2) // step * step
        if unit >= units or place >= units:
            return units
        return place if (units - place) * self.unit >= self.height else max(0, place - step)

    def calls(
        self, array: ArrayAt, rows: range, panels: range, source: int | None = None, target: int | None = None
    ) -> Iterator[Operands]:
        """What to call NumPy with; the left sides of these rows may be elsewhere, and the results may go elsewhere.

        Both sides have one axis more than the results if sums are made in pieces.
        """
        return chain.from_iterable([zip(*sides) for _, *sides in self.sweeps(array, rows, panels, source, target)])

    def sweeps(
        self, array: ArrayAt, rows: range, panels: range, source: int | None = None, target: int | None = None
    ) -> list[Sweep]:
        """The same, in groups of calls."""
        x, w, y = self.addresses
        source = x + rows.start * self.a.row if source is None else source
        target = y + rows.start * self.c.row if target is None else target
        form = len(rows), panels.start, panels.stop
        views, parts = self._known.get(form) or self._known.setdefault(form, self.views(len(rows), panels))
        if len(self._results) > MOST_PLACES:
            self._lefts.clear()
            self._results.clear()
        lefts = self._lefts.get((form, source))
        if lefts is None:
            found = [array(source + offset, sizes, strides) for offset, sizes, strides in views]
            lefts = self._lefts[form, source] = [[found[k] for k in part.lefts] for part in parts]
        results = self._results.get((form, target))
        if results is None:
            results = self._results[form, target] = [side_by_side(array, target, part.results) for part in parts]
        known = self._rights
        rights = [
            known.get(part.rights) or known.setdefault(part.rights, right_sides(self, array, w, part.rights))
            for part in parts
        ]
        return list(map(Sweep, [part.is_plain for part in parts], lefts, rights, results))

    def views(self, rows: int, panels: range) -> tuple[list[View], list[Part]]:
        """The left sides for so many rows, and what they are multiplied by, sweep by sweep."""
        if self.count == self.pieces == 1 and 0 < rows <= self._near and not self.is_shared:
            return self._flat_views(rows, panels)
        a, b, c = self.a, self.b, self.c
        if self._is_one_call(rows) and len(panels):
            return self._stack_views(rows)
        pieces, depth, size_of = self.pieces, self.depth // self.pieces, self.itemsize
        across_a, across_c = ((x.between * self.shared.left[1], x.between) for x in (a, c))
        by_panels = self._by_panels(rows)
        lefts: dict[Numbers, tuple[int, View]] = {}
        found: list[Part] = []
        for blocks, (column, times, wide, width) in self._rectangles(rows, panels):
            numbers, rights, results = [], [], []
            for row, count, size in blocks:
                outer = ((size * a.row, 0), (size * c.row, size_of * b.width))
                counts, (steps_a, steps_c) = (count, min(wide, 2)), outer
                many = count, wide
                if by_panels:
                    counts, steps_a, steps_c, many = counts[::-1], steps_a[::-1], steps_c[::-1], many[::-1]
                for group in self._here:
                    first, _, sides, _ = self.groups[group]
                    key = (group, row, wide > 1)
                    if key not in lefts:
                        sizes: Numbers = (pieces, *sides, *counts, size, depth)
                        strides: Numbers = (size_of * depth, *across_a, *steps_a, a.row, size_of)
                        lefts[key] = len(lefts), view(first * a.between + row * a.row, sizes, strides)
                    sizes, strides = (*sides, *many, size, width), (*across_c, *steps_c, c.row, size_of)
                    place = first * c.between + row * c.row + size_of * column
                    numbers.append(lefts[key][0])
                    rights.append((group, column, times, wide, count > 1, by_panels))
                    results.append(view(place, sizes, strides, (times, size_of * wide * b.width)))
            is_plain = all(self._is_plain(size, width) for _, _, size in blocks)
            found.append(Part(is_plain, numbers * times, tuple(rights), results))
        return [left for _, left in lefts.values()], found

    def _flat_views(self, rows: int, panels: range) -> tuple[list[View], list[Part]]:
        """The same of a single product without pieces that has one band, in a fraction of the time: sizes that come for
        the first time wait for nothing else as long.
        """
        depth, row_a, row_c, size_of, width = self.depth, self.a.row, self.c.row, self.itemsize, self.b.width
        panel, by_panels = size_of * width, rows < self.columns and width < self.columns
        most = self._most(rows)
        blocks = runs(rows, most) if rows > most else ((0, 1, rows),)
        is_plain = self._is_plain(blocks[-1][2], width)
        lefts: list[View] = []
        found: list[Part] = []
        for column, times, wide, columns in self._panels(panels, self._again if len(blocks) > 1 else len(panels)):
            first = len(lefts)
            rights: list[Right] = []
            results: list[View] = []
            for row, count, size in blocks:
                left: Numbers = (size, depth)
                result: Numbers = (size, columns)
                steps_a: Numbers = (row_a, size_of)
                steps_c: Numbers = (row_c, size_of)
                if wide > 1 and not by_panels:
                    left, result, steps_a, steps_c = (1, *left), (wide, *result), (0, *steps_a), (panel, *steps_c)
                if count > 1:
                    left, steps_a = (count, *left), (size * row_a, *steps_a)
                    result, steps_c = (count, *result), (size * row_c, *steps_c)
                if wide > 1 and by_panels:
                    left, result, steps_a, steps_c = (1, *left), (wide, *result), (0, *steps_a), (panel, *steps_c)
                lefts.append((row * row_a, left, steps_a))
                results.append((row * row_c + size_of * column, (times, *result), (panel * wide, *steps_c)))
                rights.append((0, column, times, wide, count > 1, by_panels))
            numbers = [*range(first, len(lefts))] * times
            found.append(Part(is_plain and columns == width, numbers, tuple(rights), results))
        return lefts, found

    def _is_one_call(self, rows: int) -> bool:
        """Whether so many rows of a stack, whose matrices are one panel each, are multiplied at once."""
        is_simple = self.is_stack and self.pieces == 1 and self.b.width == self.columns
        return is_simple and 0 < rows <= min(self._most(rows), self._band(rows))

    def _most(self, rows: int) -> int:
        """The most rows of a block, where there are so many in all."""
        is_whole = self.most >= _ALL and one_by_one(rows, self.depth, self.columns)
        return 1 if is_whole else self.most

    def _stack_views(self, rows: int) -> tuple[list[View], list[Part]]:
        """The same of several products that one call does, in a quarter of the time."""
        (_, across_a, row_a), (_, across_c, row_c), width = self.a, self.c, self.b.width
        size_of = self.itemsize
        left = 0, (self.count, rows, self.depth), (across_a, row_a, size_of)
        result = 0, (1, self.count, rows, width), (size_of * width, across_c, row_c, size_of)
        right = 0, 0, 1, 1, False, self._by_panels(rows)
        return [left], [Part(self._is_plain(rows, width), [0], (right,), [result])]

    def right(self, group: int, column: int, times: int, wide: int, often: bool, by_panels: bool) -> View:
        """Right sides: so many times some panels from a column on, for one block of rows or for several."""
        b = self.b
        _, other, counts, steps = self.groups[group]
        blocks, depth = (2, 0) if often else (1, 0), self.depth // self.pieces
        axes = [(wide, b.panel), blocks] if by_panels else [blocks, (wide, b.panel)]
        sizes = (self.pieces, *counts, *[size for size, _ in axes], depth, b.width)
        strides = (depth * b.row, *[step * b.between for step in steps], *[step for _, step in axes], b.row, b.itemsize)
        place = other * b.between + column // b.width * b.panel + b.itemsize * (column % b.width)
        return view(place, sizes, strides, (times, wide * b.panel))

    def _is_plain(self, rows: int, columns: int) -> bool:
        """Whether `steps` gives one product, and no more, for so many columns of a right side."""
        lanes = REGISTER // self.itemsize
        is_even = rows > 1 or columns <= lanes or not columns % lanes
        return self.pieces == 1 and columns == self.b.width and is_even

    def _by_panels(self, rows: int) -> bool:
        """Whether all blocks of so many rows are multiplied by a panel before the next one is read."""
        return rows < self.columns and self.b.width < self.columns

    def _band(self, rows: int) -> int:
        """How many of so many rows meet all panels before others do."""
        in_bands = self._by_panels(rows) or self.pieces > 1  # a band has memory for its pieces
        return self._near if in_bands else rows

    def _rectangles(self, rows: int, panels: range) -> Iterator[Rectangle]:
        """Blocks of rows, as `runs` has them, and panels that they are multiplied by, as `_panels` has them."""
        band, most = self._band(rows), self._most(rows)
        for start, count, size in runs(rows, band):
            blocks = runs(size, most)
            across = self._panels(panels, self._again if len(blocks) > 1 else len(panels))
            for top in range(start, start + count * size, size):
                here = [(top + row, many, height) for row, many, height in blocks] if top else blocks
                for run in across:
                    yield here, run

    def _panels(self, panels: range, most: int) -> list[tuple[int, int, int, int]]:
        """Panels side by side, at most so many: the first column, how often there are how many, the columns of each.

        What is read again comes in so few panels that these stay in the cache until then.

        BLAS sums narrower panels in another order, so the last one is as wide as the others, and equal columns have
        equal sums: where panels are stored it is filled up with zeros, elsewhere it overlaps the one before.
        """
        key = panels.start, panels.stop, most
        if key in self._across:
            return self._across[key]
        found: list[tuple[int, int, int, int]] = []
        width = self.b.width
        whole, rest = divmod(self.columns, max(1, width))
        number = max(0, min(panels.stop, whole) - panels.start)
        most = next((wide for wide in range(most, most // 2, -1) if number % wide == 0), most)
        times, left = divmod(number, max(1, most))
        if times:
            found.append((panels.start * width, times, most, width))
        if left:
            found.append(((panels.start + times * most) * width, 1, left, width))
        if rest and panels.stop > whole:
            found.append((whole * width, 1, 1, rest) if self.b.stored else (self.columns - width, 1, 1, width))
        self._across[key] = found
        return found


def right_sides(product: Product, array: ArrayAt, address: int, keys: tuple[Right, ...]) -> list[np.ndarray]:
    """The right sides of a sweep."""
    return side_by_side(array, address, [product.right(*key) for key in keys])


def product(code: Routine, addresses: Numbers, params: Numbers) -> Product:
    """The product that a launch of this code is, its operands being at these addresses."""
    _, w, y = (
        [params[int(size[1:])] if isinstance(size, str) else size for size in shape]
        for shape in (*code.inputs, *code.outputs)
    )
    groups, itemsize = code.attributes.get("groups", 1), by_name(code.reads[0]).itemsize
    columns, depth, most, number = y[-1] // groups, w[-2], _ALL, 1
    width = stored = code.attributes.get("nr", 0)
    if in_blocks() and (stored or itemsize * depth * columns <= _CACHED):
        width = stored or (wide(itemsize) if columns > 2 * wide(itemsize) else columns)
        number, most = blocks(depth, width, itemsize) if stored else (1, block_rows(depth, width))
    count, unit, shared = prod(w[: -3 if stored else -2]), 1, None
    rows = prod(y[:-1]) // (max(1, count) if groups == 1 else 1)
    is_alone = count == groups == 1 and code.primitive != "conv_winograd"
    if is_alone and not in_blocks() and stored in (0, columns):
        width, stored = broad(rows, depth, columns), 0
    row, panel = (stored, stored * depth) if stored else (columns, width)
    between = itemsize * prod(w[-3:] if stored else w[-2:])
    b = Panels(addresses[1], between, itemsize * row, itemsize * panel, width or columns, itemsize)
    if code.primitive == "conv_winograd":
        from sardonyx.compiler.legalization.filtering import filters  # which few models need

        down, across = filters(code.attributes)
        unit = across.tiles(y[2])
        rows = y[0] * down.tiles(y[1]) * unit
        shared = Sharing((down.places, across.places), (down.weights, across.weights))
        count = prod(shared.left)
    ends = (addresses[0], depth), (addresses[2], columns)
    if shared or groups > 1:  # matrices whose rows alternate
        a, c = (Rows(at, itemsize * size, itemsize * size * count) for at, size in ends)
    else:
        a, c = (Rows(at, itemsize * size * rows, itemsize * size) for at, size in ends)
    return Product((count, rows, depth, columns), most, a, b, c, unit, number, shared)
