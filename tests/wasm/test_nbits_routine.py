"""Products with weights in blocks of few bits, against float64 NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sardonyx.code.kernel import Routine
from sardonyx_wasm import routines
from sardonyx_wasm.abi import SCRATCH
from sardonyx_wasm.generator import Generator
from sardonyx_wasm.hosts import host
from sardonyx_wasm.primitives import MATMUL_NBITS
from sardonyx_wasm.routines.tile import panel_width

Array: TypeAlias = np.ndarray[Any, Any]
TARGETS = pytest.mark.parametrize("target", ["v8", "wasmtime"])
BITS = pytest.mark.parametrize("bits", [4, 8])


class Weights:
    """Random numbers, scales and zero points; `packed` as the routine wants them."""

    def __init__(self, bits: int, depth: int, columns: int, block: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        low, high = (0, 15) if bits == 4 else (-128, 127)
        self.bits, self.block = bits, block
        self.numbers = rng.integers(low, high, (depth, columns), endpoint=True)
        self.zeros = rng.integers(low, high, (depth // block, columns), endpoint=True)
        self.scales = rng.uniform(0.01, 0.1, (depth // block, columns)).astype(np.float32)

    @property
    def floats(self) -> Array:
        """float64 [K, N]."""
        scales, zeros = (np.repeat(x, self.block, 0).astype(float) for x in (self.scales, self.zeros))
        return (self.numbers - zeros) * scales

    def packed(self, nr: int) -> list[Array]:
        numbers, scales, zeros = (self._panels(x, nr) for x in (self.numbers, self.scales, self.zeros))
        panels, depth, _ = numbers.shape
        if self.bits == 8:
            pairs = numbers.reshape(panels, depth // 2, 2, nr).swapaxes(2, 3)
            return [pairs.astype(np.int8).view(np.uint8), scales, zeros.astype(np.int16)]
        shifts = np.array([0, 16, 4, 20, 8, 24, 12, 28])
        words = (numbers.reshape(panels, depth // 8, 8, nr) << shifts[:, None]).sum(2)
        return [words.astype(np.uint32).view(np.uint8), scales, zeros.astype(np.int16)]

    def _panels(self, x: Array, nr: int) -> Array:
        rows, columns = x.shape
        filled = np.zeros((rows, -(-columns // nr) * nr), x.dtype)
        filled[:, :columns] = x
        return filled.reshape(rows, -1, nr).swapaxes(0, 1).copy()


def multiply(target: str, a: Array, w: Weights, splits: Any = None, symbolic: bool = False) -> Array:
    """The routine's result; what lies behind it must stay as it is."""
    nr, (depth, columns) = panel_width(target), w.numbers.shape
    operands = [a, *w.packed(nr)]
    unit = Generator(frozenset({"simd", "relaxed-simd"}), target)
    outer: Sequence[Any] = ["p0", *a.shape[1:-1]] if symbolic else a.shape[:-1]
    shapes = [[*outer, depth], *([*x.shape] for x in operands[1:])]
    types = ("float32", "uint8", "float32", "int16")
    attributes = {"bits": w.bits, "block": w.block}
    routine = Routine(
        "product", "matmul_nbits", types, ("float32",), symbolic, attributes, tuple(shapes), ([*outer, columns],)
    )
    code = routines.write(unit, routine)
    assert code.units == -(-columns // nr)
    unit.module.export(code.function)
    function = host().load(unit.module).function("product")
    memory, places, size = host(), [], math.prod(a.shape[:-1]) * columns
    for array in (*operands, np.full(size + 64, 7, np.float32)):
        places.append(memory.allocate(array.nbytes, 256))
        memory.array(places[-1], array.shape, array.dtype)[...] = array
    scratch = memory.allocate(SCRATCH, 256)
    memory.array(scratch, (SCRATCH,), np.uint8)[:] = 0xFF
    for begin, end in splits or [(0, code.units)]:
        function(begin, end, scratch, *places, *a.shape[:symbolic])
    result = memory.array(places[-1], (size + 64,), np.float32).copy()
    for place in (*places, scratch):
        memory.free(place)
    assert_array_equal(result[size:], 7)
    return result[:size].reshape(*a.shape[:-1], columns)


def random(*shape: int) -> Array:
    return np.random.default_rng(math.prod(shape)).standard_normal(shape).astype(np.float32)


def check(result: Array, a: Array, w: Weights) -> None:
    numbers = np.abs(w.floats) + np.abs(np.repeat(w.zeros * w.scales, w.block, 0))
    bound = np.abs(a).astype(float) @ numbers
    assert (np.abs(result - a.astype(float) @ w.floats) <= 4e-7 * bound).all()


@BITS
@TARGETS
@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 70])
@pytest.mark.parametrize(("k", "n", "block"), [(32, 8, 32), (48, 25, 16), (64, 1, 32), (24, 12, 8), (512, 33, 256)])
def test_sizes(bits: int, target: str, m: int, k: int, n: int, block: int) -> None:
    a, w = random(m, k), Weights(bits, k, n, block)
    check(multiply(target, a, w), a, w)


@TARGETS
def test_rows_known_at_last(target: str) -> None:
    w = Weights(4, 64, 20, 32)
    for m in (0, 1, 4, 5, 61):
        a = random(m, 2, 64)
        check(multiply(target, a, w, symbolic=True), a, w)


@BITS
@TARGETS
@pytest.mark.parametrize("m", [1, 4, 9])
def test_any_split_gives_the_same_bits(bits: int, target: str, m: int) -> None:
    a, w = random(m, 64), Weights(bits, 64, 70, 32)
    whole, units = multiply(target, a, w), -(-70 // panel_width(target))
    singly = [(k, k + 1) for k in range(units)][::-1]
    for splits in (singly, [(2, 2), (0, 2), (2, units)]):
        assert_array_equal(multiply(target, a, w, splits), whole)


@TARGETS
def test_blocks_of_any_magnitude(target: str) -> None:
    a, w = random(2, 160), Weights(4, 160, 9, 32)
    a *= np.repeat(np.array([1e-30, 1e30, 0, 1, 1e-3], np.float32), 32)
    for row in range(5):
        only = np.where(np.arange(160) // 32 == row, a, 0).astype(np.float32)
        check(multiply(target, only, w), only, w)


@TARGETS
def test_infinities_and_nan(target: str) -> None:
    a, w = random(3, 64), Weights(4, 64, 20, 32)
    a[0, 5], a[2, 40] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        expected = a.astype(float) @ w.floats
    result = multiply(target, a, w)
    assert_array_equal(np.isnan(result), np.isnan(expected))
    assert_array_equal(np.isinf(result), np.isinf(expected))
    check(result[1:2], a[1:2], w)


@BITS
@TARGETS
def test_the_deepest(bits: int, target: str) -> None:
    a, w = random(4, MATMUL_NBITS.deepest), Weights(bits, MATMUL_NBITS.deepest, 13, 256)
    check(multiply(target, a, w), a, w)
    a = random(6, MATMUL_NBITS.deepest)
    check(multiply(target, a, w), a, w)
