"""Recurrent layers as a routine, against float64; any split of the units gives the same bits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sardonyx.code.kernel import Routine
from sardonyx.code.layer import STATES, Layer
from sardonyx.primitives.binding import constant
from sardonyx.primitives.evaluation import evaluate
from sardonyx.primitives.recurrent_layer import RECURRENT
from sardonyx_wasm import routines
from sardonyx_wasm.abi import SCRATCH
from sardonyx_wasm.generator import Generator
from sardonyx_wasm.hosts import host
from sardonyx_wasm.legalization.quads import in_quads
from sardonyx_wasm.primitives import MATMUL_INT8
from sardonyx_wasm.routines import tile
from tests.support import require
from tests.support.recurrent import FUNCTIONS, USUAL, layer_of, operands, reference

Array = np.ndarray[Any, Any]
TARGETS = sorted(tile.SHAPES)
RELAXED = frozenset({"simd", "relaxed-simd"})
ONE, TWO = (False,), (False, True)

require("wasm")
pytestmark = pytest.mark.usefixtures("no_cache_on_disk")


def panels(columns: Array, target: str) -> Array:
    """[directions, hidden, wide] -> [directions, ceil(wide / nr), hidden, nr]."""
    nr = tile.panel_width(target)
    count, hidden, wide = columns.shape
    filled = np.zeros((count, hidden, -(-wide // nr) * nr), columns.dtype)
    filled[..., :wide] = columns
    return filled.reshape(count, hidden, -1, nr).swapaxes(1, 2)


def pairs(columns: Array) -> Array:
    """[directions, hidden, wide] -> [directions, ceil(wide / width), hidden / 2, width, 2]."""
    count, hidden, wide = columns.shape
    width = MATMUL_INT8.width(wide)
    filled = np.zeros((count, hidden + hidden % 2, -(-wide // width) * width), columns.dtype)
    filled[:, :hidden, :wide] = columns
    return np.moveaxis(filled.reshape(count, len(filled[0]) // 2, 2, -1, width), (3, 1, 4, 2), (1, 2, 3, 4)).copy()


def packed(layer: Layer, weights: Array, target: str) -> list[Array]:
    """Weights as the routine takes them: integers of 8 bits as bytes, if they suit that."""
    columns, hidden = weights.swapaxes(1, 2), weights.shape[2]
    if weights.dtype == np.int8 and (quads := in_quads(constant(columns))):
        return [array for array in map(evaluate, quads) if array is not None]
    if weights.dtype != np.float32:
        return [pairs(columns)]
    if layer.cell == "gru" and not layer.linear_before_reset:
        parts = columns[..., : 2 * hidden], columns[..., 2 * hidden :]
        return [np.concatenate([panels(part, target) for part in parts], 1)]
    return [panels(columns, target)]


class Compiled:
    """The routine for a layer; with `symbolic`, one for any number of steps and sequences."""

    def __init__(
        self,
        layer: Layer,
        arrays: Sequence[Array],
        target: str,
        symbolic: bool = False,
        features: frozenset[str] = RELAXED,
    ) -> None:
        self.layer, self.target, self.symbolic = layer, target, symbolic
        steps, count, batch, _ = arrays[0].shape
        hidden = arrays[1].shape[2]
        sizes: list[Any] = ["p0", "p1"] if symbolic else [steps, batch]
        given = [*packed(layer, arrays[1], target), *arrays[2:]]
        state = (count, sizes[1], hidden)
        outputs = ((sizes[0], *state), *[state for _ in STATES[layer.cell]])
        dtypes = tuple(str(array.dtype) for array in (arrays[0], *given))
        shapes = ((sizes[0], count, sizes[1], arrays[0].shape[3]), *(array.shape for array in given))
        written = ("float32",) * len(outputs)
        unit = Generator(features, target)
        attributes = vars(layer)
        routine = Routine("r", "recurrent", dtypes, written, 2 * symbolic, attributes, shapes, outputs)
        self.code = routines.write(unit, routine)
        unit.module.export(self.code.function)
        self.size = len(unit.module.to_bytes())
        self._module = host().load(unit.module)

    def __call__(self, arrays: Sequence[Array], splits: Sequence[tuple[int, int]] | None = None) -> list[Array]:
        steps, count, batch, _ = arrays[0].shape
        state = (count, batch, arrays[1].shape[2])
        shapes = [(steps, *state), *[state for _ in STATES[self.layer.cell]]]
        given = [arrays[0], *packed(self.layer, arrays[1], self.target), *arrays[2:]]
        memory, places = host(), []
        for array in (*given, *(np.full(math.prod(shape) + 16, 7, np.float32) for shape in shapes)):
            places.append(memory.allocate(array.nbytes + 4, 256))
            memory.array(places[-1], array.shape, array.dtype)[...] = array
        scratch = memory.allocate(SCRATCH, 256)
        memory.array(scratch, (SCRATCH,), np.uint8)[:] = 0xFF
        units = self.code.units if isinstance(self.code.units, int) else count * -(-batch // 12)
        for begin, end in splits or [(0, units)]:
            self._module.function("r")(begin, end, scratch, *places, *([steps, batch] if self.symbolic else []))
        results = []
        for place, shape in zip(places[len(given) :], shapes, strict=True):
            flat = memory.array(place, (math.prod(shape) + 16,), np.float32).copy()
            assert_array_equal(flat[-16:], 7)
            results.append(flat[:-16].reshape(shape))
        for place in (*places, scratch):
            memory.free(place)
        return results


def check(layer: Layer, steps: int, batch: int, hidden: int, target: str = "v8", seed: int = 0) -> None:
    arrays = operands(layer, steps, batch, hidden, seed)
    compare(Compiled(layer, arrays, target)(arrays), reference(layer, arrays))


def compare(found: Sequence[Array], wanted: Sequence[Array]) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert_allclose(one, other, 1e-5, 1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("hidden", [1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 33])
@pytest.mark.parametrize("cell", USUAL)
def test_sizes(cell: str, hidden: int, target: str) -> None:
    names = ("h", "c") if cell == "lstm" else ("h",)
    check(layer_of(cell, ONE, operands=names), 3, 2, hidden, target)
    check(layer_of(cell, TWO, linear_before_reset=True), 4, 1, hidden, target)


@pytest.mark.parametrize("cell", USUAL)
@pytest.mark.parametrize("steps", [0, 1, 7])
@pytest.mark.parametrize("batch", [1, 3, 12, 13, 25])
def test_batches(cell: str, steps: int, batch: int) -> None:
    for backwards in (ONE, (True,), TWO):
        check(layer_of(cell, backwards, operands=("lengths", "h")), steps, batch, 6, seed=batch)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("hidden", [3, 4, 9, 20])
def test_options(hidden: int, target: str) -> None:
    names = ("peephole", "lengths", "c", "h")
    check(layer_of("lstm", TWO, operands=names, clip=0.7), 5, 3, hidden, target)
    check(layer_of("lstm", TWO, operands=names, input_forget=True), 5, 3, hidden, target)
    check(layer_of("gru", TWO, operands=("bias", "h"), linear_before_reset=True, clip=0.5), 5, 3, hidden, target)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_activations(name: str) -> None:
    for cell, functions in USUAL.items():
        chosen = (*((each, 0.0, 0.0) for each in functions[:-1]), (name, 0.3, 0.4))
        check(layer_of(cell, ONE, activations=(chosen,)), 4, 2, 5)
    check(layer_of("rnn", TWO, activations=(((name, 0.3, 0.4),),) * 2, operands=("h",)), 3, 1, 7)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("batch", "hidden"), [(1, 4), (2, 5), (5, 33), (20, 6)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "int16"])
@pytest.mark.parametrize("target", TARGETS)
def test_states_of_8_bits(batch: int, hidden: int, seed: int, dtype: str, target: str) -> None:
    """What is rounded differs by a step where a value lies in the middle: the same arithmetic gives the same bits."""
    layer = layer_of("lstm", TWO, operands=("scale", "h", "lengths"))
    arrays = operands(layer, 6, batch, hidden, seed)
    wanted = RECURRENT.numpy(*arrays, **vars(layer))
    if dtype != "float32":
        arrays[1] = arrays[1].astype(dtype)
        assert_array_equal(arrays[1], operands(layer, 6, batch, hidden, seed)[1])
    compiled = Compiled(layer, arrays, target, symbolic=True)
    assert compiled.code.units == 2
    for one, other in zip(compiled(arrays), wanted, strict=True):
        assert_allclose(one, other, 0, 2e-2)
        assert np.mean(np.abs(one - other) > 1e-5) < 0.2


@pytest.mark.parametrize("features", [RELAXED, frozenset({"simd"})], ids=["relaxed", "plain"])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("batch", "hidden"), [(1, 4), (2, 5), (14, 33), (3, 64)])
def test_states_as_bytes(batch: int, hidden: int, seed: int, features: frozenset[str]) -> None:
    """Products of bytes give the bits that those of 16 bits give, some weights being large."""
    layer = layer_of("lstm", TWO, operands=("scale", "h", "lengths"))
    arrays = operands(layer, 6, batch, hidden, seed)
    rng = np.random.default_rng(seed)
    arrays[1] = np.rint(np.clip(rng.normal(0, 22, arrays[1].shape), -128, 127)).astype(np.int8)
    if hidden > 5:
        arrays[1][:, 3, :2], arrays[1][1, 7, hidden - 2 :] = 127, -128
    assert (packed(layer, arrays[1], "v8")[3].size > 0) == (hidden > 5)
    found = Compiled(layer, arrays, "v8", symbolic=True, features=features)(arrays)
    arrays[1] = arrays[1].astype(np.int16)
    for one, other in zip(found, Compiled(layer, arrays, "v8", features=features)(arrays), strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize("cell", USUAL)
def test_any_sizes(cell: str) -> None:
    layer = layer_of(cell, TWO, operands=("h", "lengths"))
    compiled = Compiled(layer, operands(layer, 2, 2, 9), "v8", symbolic=True)
    for steps, batch in ((1, 1), (5, 3), (0, 4), (2, 30), (3, 0)):
        arrays = operands(layer, steps, batch, 9)
        compare(compiled(arrays), reference(layer, arrays))


@pytest.mark.parametrize("cell", USUAL)
def test_any_split_gives_the_same_bits(cell: str) -> None:
    layer = layer_of(cell, TWO, operands=("h",))
    arrays = operands(layer, 4, 30, 11)
    compiled = Compiled(layer, arrays, "v8")
    assert compiled.code.units == 6
    whole = compiled(arrays)
    for splits in ([(k, k + 1) for k in range(6)][::-1], [(4, 6), (1, 1), (0, 4)]):
        for one, other in zip(compiled(arrays, splits), whole, strict=True):
            assert_array_equal(one, other)


def test_nan_stays_in_its_sequence() -> None:
    layer = layer_of("lstm", ONE)
    arrays = operands(layer, 3, 4, 5)
    arrays[0][1, 0, 2, 3] = np.nan
    y, h, c = Compiled(layer, arrays, "v8")(arrays)
    for rows in (y[1:, 0], h, c):
        assert_array_equal(np.isnan(rows).any(axis=(0, 2)), [False, False, True, False])
    assert np.isfinite(y[0]).all()


def test_the_code_is_small() -> None:
    layer = layer_of("lstm", TWO, operands=("h", "c"))
    assert Compiled(layer, operands(layer, 3, 1, 101), "v8").size < 16000
