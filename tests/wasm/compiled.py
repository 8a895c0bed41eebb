"""Routines on arrays: compiled for a target, their sizes literals or parameters, their units in any ranges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.testing import assert_array_equal

from sardonyx.code.kernel import Routine
from sardonyx_wasm import programs, routines
from sardonyx_wasm.abi import SCRATCH
from sardonyx_wasm.assembler import i32
from sardonyx_wasm.generator import Generator
from sardonyx_wasm.hosts import host

Array = np.ndarray[Any, Any]
Shapes: TypeAlias = Sequence[Sequence[int | str]]
RELAXED, PLAIN = frozenset({"simd", "relaxed-simd"}), frozenset({"simd"})
GUARD = 256
"""Bytes before and behind every array, which no routine may change."""
PATTERN = 0xFF
"""What they are: as floats NaN, which no result may depend on."""


class Compiled:
    """A routine for these dtypes and shapes; sizes that the shapes leave open are "p0", ..., of which there are
    `params`. Its module has the routine for other shapes, those `beside` it, as well."""

    def __init__(
        self,
        primitive: str,
        dtypes: tuple[Sequence[str], Sequence[str]],
        inputs: Shapes,
        outputs: Shapes,
        params: int = 0,
        attributes: Mapping[str, Any] | None = None,
        target: str = "v8",
        features: frozenset[str] = RELAXED,
        beside: Sequence[tuple[Shapes, Shapes]] = (),
    ) -> None:
        unit = Generator(features, target)
        reads, writes = map(tuple, dtypes)
        for shapes in (*beside, (inputs, outputs)):
            read, written = (tuple(map(tuple, each)) for each in shapes)
            routine = Routine("routine", primitive, reads, writes, params, dict(attributes or {}), read, written)
            self.writes, self.code = writes, routines.write(unit, routine)
        unit.module.export(self.code.function)
        with unit.module.function("units", {f"param{k}": i32 for k in range(params)}, [i32], export=True) as f:
            f.return_(programs.size(unit, f, self.code.units, f.params))
        self.size = len(unit.module.to_bytes())
        self._module = host().load(unit.module)

    def run(
        self,
        arrays: Sequence[Array],
        shapes: Sequence[Sequence[int]],
        params: Sequence[int] = (),
        splits: Iterable[tuple[int, int]] | None = None,
        pieces: int = 1,
    ) -> list[Array]:
        """The results; what lies around them, and the operands, must stay as they are. Units run in the ranges
        `splits`, or in `pieces`, last first."""
        memory, places = host(), []
        everything = [*arrays, *(np.empty(shape, dtype) for shape, dtype in zip(shapes, self.writes))]
        for array in everything:
            places.append(memory.allocate(array.nbytes + 2 * GUARD, 256))
            memory.array(places[-1], (array.nbytes + 2 * GUARD,), np.uint8)[:] = PATTERN
        for place, array in zip(places, arrays):
            memory.array(place + GUARD, array.shape, array.dtype)[...] = array
        scratch = memory.allocate(SCRATCH, 256)
        memory.array(scratch, (SCRATCH,), np.uint8)[:] = 0xFF
        if splits is None:
            units, align = self._module.function("units")(*params), self.code.align
            ends = [min(-(-units * k // pieces // align) * align, units) for k in range(pieces)] + [units]
            splits = reversed([*pairwise(ends)])
        for begin, end in splits:
            self._module.function("routine")(begin, end, scratch, *(place + GUARD for place in places), *params)
        found = []
        for place, array in zip(places, everything):
            around = memory.array(place, (array.nbytes + 2 * GUARD,), np.uint8)
            assert_array_equal(around[:GUARD], PATTERN)
            assert_array_equal(around[GUARD + array.nbytes :], PATTERN)
            found.append(memory.array(place + GUARD, array.shape, array.dtype).copy())
        for before, after in zip(arrays, found):
            assert_array_equal(after, before)
        for place in (*places, scratch):
            memory.free(place)
        return found[len(arrays) :]


class Product(Compiled):
    """A product of two arrays."""

    def __call__(self, a: Array, b: Array, shape: Sequence[int], params: Sequence[int] = (), *, splits: Any) -> Array:
        return self.run([a, b], [shape], params, splits)[0]


def run(
    primitive: str,
    arrays: Sequence[Array],
    results: Sequence[tuple[str, Sequence[int]]],
    attributes: Mapping[str, Any],
    pieces: int = 1,
    open_sizes: bool = False,
    target: str = "v8",
    features: frozenset[str] = RELAXED,
) -> list[Array]:
    """The results, of these dtypes and shapes; with `open_sizes` sizes above 1 are parameters."""
    shapes = [array.shape for array in arrays], [tuple(shape) for _, shape in results]
    sizes = dict.fromkeys(size for shape in (*shapes[0], *shapes[1]) for size in shape if size > 1)
    params = list(sizes) if open_sizes else []
    read, written = ([[_named(size, params) for size in shape] for shape in group] for group in shapes)
    dtypes = [array.dtype.name for array in arrays], [dtype for dtype, _ in results]
    made = Compiled(primitive, dtypes, read, written, len(params), attributes, target, features)
    return made.run(arrays, shapes[1], params, pieces=pieces)


def _named(size: int, params: Sequence[int]) -> int | str:
    return f"p{params.index(size)}" if size in params else size
