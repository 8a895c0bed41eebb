"""Tables for numbers of 8 bits, and sums that become such, against NumPy."""

from __future__ import annotations

from math import lcm, prod
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sardonyx_wasm.routines.requantize import STEP
from tests.wasm.compiled import PLAIN, RELAXED, Array, Compiled

SHAPES = [(1, 3, 5, 16), (2, 4, 3, 24), (1, 2, 7, 3), (3, 1, 1, 40), (0, 3, 3, 16)]
BORDERS = [((0, 0), (0, 0)), ((1, 1), (1, 1)), ((2, 0), (0, 3)), ((0, 1), (0, 0))]
RNG = np.random.default_rng(0)


def bordered(x: Array, low: Any, high: Any) -> Array:
    return np.pad(x, [(0, 0), *zip(low, high, strict=True), (0, 0)])


def sums(x: Array, bias: Array, scale: Array, low: int, high: int) -> Array:
    """How far rounded sums are above the lower limit."""
    scaled = (x + bias).astype(np.float32) * scale
    return (np.clip(np.rint(scaled), low, high) - low).astype(np.int64)


@pytest.mark.parametrize("target", ["uint8", "int8", "int16", "int32", "float32"])
@pytest.mark.parametrize("source", ["int32", "float32"])
@pytest.mark.parametrize("tabled", [False, True])
@pytest.mark.parametrize(("low", "high"), BORDERS)
def test_sums(target: str, source: str, tabled: bool, low: Any, high: Any) -> None:
    first, last, moved = -100, 27 if target == "int8" else 155, -100 if target == "int8" else 0
    table = RNG.integers(-128, 128, 256).astype(target)
    for shape in SHAPES:
        channels = shape[-1]
        x = RNG.integers(-(10**5), 10**5, shape).astype(source)
        bias = RNG.integers(-1000, 1000, channels).astype(source)
        scale = RNG.uniform(1e-4, 4e-3, channels).astype(np.float32)
        place = sums(x, bias, scale, first, last)
        expected = bordered((table[place] if tabled else place + moved).astype(target), low, high)
        period = lcm(channels, STEP)
        arrays = [x, *(np.resize(part, period) for part in (bias, scale)), np.array([first, last, moved], np.float32)]
        arrays += [table] * tabled
        reads = [str(array.dtype) for array in arrays]
        routine = Compiled(
            "requantize",
            (reads, [target]),
            [array.shape for array in arrays],
            [expected.shape],
            attributes={"border": low},
        )
        for pieces in (1, 3):
            assert_array_equal(routine.run(arrays, [expected.shape], pieces=pieces)[0], expected)


@pytest.mark.parametrize("features", [PLAIN, RELAXED])
def test_halves_go_to_the_even_number_and_ends_stay(features: frozenset[str]) -> None:
    values = np.array([-(2**31), 2**31 - 1, -3, -1, 1, 3, 5, 7, 255, 256, -255, 0, 2, 4, 509, 511], np.int32)
    arrays = [values, np.zeros(16, np.int32), np.full(16, 0.5, np.float32), np.array([-128, 127, -128], np.float32)]
    routine = Compiled(
        "requantize",
        (["int32", "int32", "float32", "float32"], ["int8"]),
        [array.shape for array in arrays],
        [(16,)],
        attributes={"border": (0, 0)},
        features=features,
    )
    expected = np.clip(np.rint(values.astype(np.float32) * np.float32(0.5)), -128, 127)
    assert_array_equal(routine.run(arrays, [(16,)])[0], expected)


def test_bias_wraps_as_int32_does() -> None:
    x, bias = np.full((4, 16), 2**31 - 1, np.int32), np.full(16, 1, np.int32)
    arrays = [x, bias, np.full(16, 1e-8, np.float32), np.array([-50, 50, 0], np.float32)]
    routine = Compiled(
        "requantize",
        (["int32", "int32", "float32", "float32"], ["uint8"]),
        [array.shape for array in arrays],
        [x.shape],
        attributes={"border": (0, 0)},
    )
    assert_array_equal(routine.run(arrays, [x.shape])[0], 50 - 21)


@pytest.mark.parametrize("target", ["uint8", "int8", "int16", "float32"])
@pytest.mark.parametrize(("low", "high"), BORDERS)
def test_bytes(target: str, low: Any, high: Any) -> None:
    table = RNG.integers(-128, 128, 256).astype(target)
    for shape in [*SHAPES, (2, 9, 9, 1)]:
        x = RNG.integers(0, 256, shape).astype(np.uint8)
        expected = bordered(table[x], low, high)
        routine = Compiled(
            "lookup",
            (["uint8", target], [target]),
            [x.shape, table.shape],
            [expected.shape],
            attributes={"border": low},
        )
        for pieces in (1, 4):
            assert_array_equal(routine.run([x, table], [expected.shape], pieces=pieces)[0], expected)


@pytest.mark.parametrize("shape", [(7,), (5, 48), (2, 3, 48), (2, 3, 5, 16)])
def test_sizes_may_be_parameters(shape: tuple[int, ...]) -> None:
    names = tuple(f"p{k}" for k in range(len(shape)))
    x, table = RNG.integers(0, 256, shape).astype(np.uint8), RNG.integers(-128, 128, 256).astype(np.int16)
    attributes = {"border": (0, 0)}
    routine = Compiled("lookup", (["uint8", "int16"], ["int16"]), [names, (256,)], [names], len(shape), attributes)
    assert_array_equal(routine.run([x, table], [shape], shape, pieces=2)[0], table[x])
    sizes = (*names[:-1], shape[-1])
    whole = RNG.integers(-5000, 5000, shape).astype(np.int32)
    period = lcm(shape[-1], STEP)
    bias, scale = RNG.integers(-9, 9, period).astype(np.int32), np.full(period, 0.01, np.float32)
    bias = np.resize(bias[: shape[-1]], period)
    arrays = [whole, bias, scale, np.array([0, 255, 0], np.float32)]
    routine = Compiled(
        "requantize",
        (["int32", "int32", "float32", "float32"], ["uint8"]),
        [sizes, *(array.shape for array in arrays[1:])],
        [sizes],
        len(shape),
        attributes,
    )
    expected = sums(whole, np.resize(bias, prod(shape[-1:])), np.float32(0.01), 0, 255)
    assert_array_equal(routine.run(arrays, [shape], shape, pieces=3)[0], expected)
