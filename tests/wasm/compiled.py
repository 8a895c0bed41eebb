"""Routines on arrays: compiled for a target, their sizes literals or parameters, their units in any ranges."""

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
RELAXED, PLAIN = frozenset({"simd", "relaxed-simd"}), frozenset({"simd"})
GUARD = 64
"""Elements before and behind every array: NaN, which no result may depend on and no routine may overwrite."""


def run(
    primitive: str,
    arrays: Sequence[Array],
    shape: Sequence[int],
    attributes: Mapping[str, Any],
    target: str = "v8",
    features: frozenset[str] = RELAXED,
    open_sizes: bool = False,
    pieces: int = 1,
) -> Array:
    """The float32 result [*shape]; with `open_sizes` all sizes are parameters; units run in `pieces`, last first."""
    sizes = dict.fromkeys((*(size for array in arrays for size in array.shape), *shape))
    params = list(sizes) if open_sizes else []

    def named(dims: Sequence[int]) -> tuple[Any, ...]:
        return tuple(f"p{params.index(size)}" if open_sizes else size for size in dims)

    unit = Unit([], features, target)
    reads = ("float32",) * len(arrays)
    inputs = tuple(named(array.shape) for array in arrays)
    code = routines.write(
        unit, Routine("routine", primitive, reads, ("float32",), len(params), dict(attributes), inputs, (named(shape),))
    )
    unit.module.export(code.function)
    with unit.module.function("units", {f"param{k}": i32 for k in range(len(params))}, [i32], export=True) as f:
        f.return_(programs.size(unit, f, code.units, f.params))
    module = host().load(unit.module)
    places = []
    for array in (*arrays, np.full(shape, np.nan, "f4")):
        size = array.size + 2 * GUARD
        places.append(host().allocate(4 * size, 256))
        memory = host().array(places[-1], (size,), np.float32)
        memory[:] = np.nan
        memory[GUARD : GUARD + array.size] = array.ravel()
    scratch = host().allocate(SCRATCH, 256)
    host().array(scratch, (SCRATCH,), np.uint8)[:] = 0xFF
    units = module.function("units")(*params)
    ends = [-(-units * k // pieces // code.align) * code.align for k in range(pieces)] + [units]
    for begin, end in reversed([*pairwise(ends)]):
        addresses = [place + 4 * GUARD for place in places]
        module.function("routine")(min(begin, units), min(end, units), scratch, *addresses, *params)
    result = host().array(places[-1], (int(np.prod(shape)) + 2 * GUARD,), np.float32).copy()
    for place in (*places, scratch):
        host().free(place)
    assert_array_equal(result[:GUARD], np.nan)
    assert_array_equal(result[len(result) - GUARD :], np.nan)
    return result[GUARD : len(result) - GUARD].reshape(shape)
