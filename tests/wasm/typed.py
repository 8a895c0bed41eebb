"""Routines of any element types and any number of results, their units in any ranges, and what lies around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.testing import assert_array_equal

from sardonyx.compiler.kernel import Routine
from sardonyx_wasm import programs, routines
from sardonyx_wasm.assembler import i32
from sardonyx_wasm.code import SCRATCH
from sardonyx_wasm.generator import Unit
from sardonyx_wasm.hosts import host

Array = np.ndarray[Any, Any]
GUARD = 256
"""Bytes before and behind every array, which no routine may change."""
PATTERN = 0x7D


def run(
    primitive: str,
    arrays: Sequence[Array],
    results: Sequence[tuple[str, Sequence[int]]],
    attributes: Mapping[str, Any],
    pieces: int = 1,
    open_sizes: bool = False,
) -> list[Array]:
    """The results, of these dtypes and shapes; with `open_sizes` sizes above 1 are parameters; units run in `pieces`,
    last first."""
    shapes = [array.shape for array in arrays], [tuple(shape) for _, shape in results]
    sizes = dict.fromkeys(size for shape in (*shapes[0], *shapes[1]) for size in shape if size > 1)
    params = list(sizes) if open_sizes else []
    read, written = (tuple(tuple(_named(size, params) for size in shape) for shape in group) for group in shapes)
    dtypes = tuple(str(array.dtype) for array in arrays), tuple(dtype for dtype, _ in results)
    names = tuple(name.replace("bool_", "bool") for name in dtypes[0]), dtypes[1]
    unit = Unit([], frozenset({"simd"}), "v8")
    code = routines.write(unit, Routine("routine", primitive, *names, len(params), dict(attributes), read, written))
    unit.module.export(code.function)
    with unit.module.function("units", {f"param{k}": i32 for k in range(len(params))}, [i32], export=True) as f:
        f.return_(programs.size(unit, f, code.units, f.params))
    module, machine = host().load(unit.module), host()
    targets = [np.empty(shape, dtype) for dtype, shape in results]
    places = []
    for array in (*arrays, *targets):
        places.append(machine.allocate(array.nbytes + 2 * GUARD, 256))
        memory = machine.array(places[-1], (array.nbytes + 2 * GUARD,), np.uint8)
        memory[:] = PATTERN
    for place, array in zip(places, arrays):
        machine.array(place + GUARD, array.shape, array.dtype)[...] = array
    scratch = machine.allocate(SCRATCH, 256)
    machine.array(scratch, (SCRATCH,), np.uint8)[:] = 0xFF
    units = module.function("units")(*params)
    ends = [-(-units * k // pieces // code.align) * code.align for k in range(pieces)] + [units]
    for begin, end in reversed([*pairwise(ends)]):
        addresses = [place + GUARD for place in places]
        module.function("routine")(min(begin, units), min(end, units), scratch, *addresses, *params)
    found = []
    for place, array in zip(places, (*arrays, *targets)):
        memory = machine.array(place, (array.nbytes + 2 * GUARD,), np.uint8)
        assert_array_equal(memory[:GUARD], PATTERN)
        assert_array_equal(memory[GUARD + array.nbytes :], PATTERN)
        found.append(machine.array(place + GUARD, array.shape, array.dtype).copy())
    for before, after in zip(arrays, found):
        assert_array_equal(after, before)
    for place in (*places, scratch):
        machine.free(place)
    return found[len(arrays) :]


def _named(size: int, params: Sequence[int]) -> int | str:
    return f"p{params.index(size)}" if size in params else size
