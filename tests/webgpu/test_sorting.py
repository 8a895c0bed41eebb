"""TopK, all of a line or its first elements, against NumPy's stable sort."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sardonyx import InferenceSession
from sardonyx.primitives.reduction import SORT
from sardonyx_webgpu.legalization.sorting import FEW, GROUP
from tests.engine.graphs import model
from tests.engine.providers import WEBGPU
from tests.webgpu.nodes import Array, feeds, on_device, run, session

DTYPES = ["float32", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]

__all__ = ["on_device"]


def lines(dtype: str, count: int, length: int) -> Array:
    """With equal elements, the extremes of the dtype, and, of floats, zeros of both signs, NaN and infinities."""
    rng = np.random.default_rng(length)
    if dtype.startswith("float"):
        odd = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -1.5]
        plain = rng.normal(size=(count, length)).round(2)
        return np.where(rng.random((count, length)) < 0.3, rng.choice(odd, (count, length)), plain).astype(dtype)
    limits = np.iinfo(dtype)
    values = [limits.min, limits.max, 0, 1, 2, limits.max // 3, limits.max - 1, limits.min + 1]
    return rng.choice(np.array(values, dtype), (count, length))


def check(x: Array, k: int, axis: int = -1, largest: int = 1, open_sizes: bool = False) -> None:
    wanted = SORT.numpy(x, axis=axis % x.ndim, descending=bool(largest))
    details = {"axis": axis, "largest": largest, "outputs": 2, "open_sizes": open_sizes}
    found = run("TopK", x, constants={1: np.array([k], np.int64)}, **details)
    for one, other in zip(found, wanted, strict=True):
        assert_array_equal(one, np.take(other, range(k), axis))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype: str) -> None:
    for length in (1, GROUP + 1, 300):
        for largest in (0, 1):
            check(lines(dtype, 3, length), length, largest=largest)
            check(lines(dtype, 3, length), min(length, 5), largest=largest)


@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 255, 256, 257, 4097])
@pytest.mark.parametrize("open_sizes", [False, True])
def test_lengths(length: int, open_sizes: bool) -> None:
    x = lines("float32", 2, length)
    for k in {1, min(length, FEW), min(length, FEW + 1), length}:
        check(x, k, open_sizes=open_sizes)


@pytest.mark.parametrize("k", [1, 10, 1000])
def test_long_lines(k: int) -> None:
    check(lines("float32", 2, 100_000), k)
    check(lines("int64", 1, 100_000), k, largest=0)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_axes(axis: int) -> None:
    x = lines("float32", 4, 70 * 5).reshape(4, 70, 5)
    check(x, 4, axis)
    check(x, x.shape[axis], axis, largest=0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0])
def test_equal_elements(value: float) -> None:
    """The first ones come first, also where keys are the largest ones, as those are that fill up groups."""
    x = np.full((2, 130), value, np.float32)
    check(x, 3)
    check(x, 3, largest=0)
    check(x, 130)


def test_nothing() -> None:
    for x, k in ((np.zeros((0, 7), np.float32), 3), (np.zeros((2, 0), np.float32), 0), (np.ones((2, 4), "f4"), 0)):
        found, places = run("TopK", x, constants={1: np.array([k], np.int64)}, outputs=2)
        assert found.shape == places.shape == (len(x), k)


def test_one_plan_for_other_sizes() -> None:
    """Shorter lines run by the plan for longer ones; much longer ones have another plan."""
    x = lines("float32", 3, 200)
    made = session("TopK", [x], outputs=2, constants={1: np.array([4], np.int64)}, open_sizes=True)
    for length in (200, 199, 30, 64, 65, 5000, 130):
        x = lines("float32", 2, length)
        found = made.run(None, feeds(made, [x]))
        for one, other in zip(found, SORT.numpy(x, axis=1, descending=True), strict=True):
            assert_array_equal(one, other[:, :4])
    assert len(made.plans) <= 3


def test_in_a_loop() -> None:
    """Lines that grow from turn to turn."""
    text = """g (int64 n, float[P] x) => (float[Q] y, float[T, 3] s) {
        k = Constant <value = int64[1] {3}> ()
        y, s = Loop (n, , x) <body = body (int64 i, bool c, float[R] a) => (bool d, float[W] g, float[3] t) {
            d = Identity (c)
            t, j = TopK (a, k)
            m = Neg (a)
            g = Concat <axis = 0> (a, m)
        }>
    }"""
    x = np.random.default_rng(0).normal(size=5).astype(np.float32)
    made = InferenceSession(model(text), providers=[WEBGPU])
    grown, firsts = made.run(None, {"n": np.array(9), "x": x})
    for first in firsts:
        assert_array_equal(first, np.sort(x)[::-1][:3])
        x = np.concatenate([x, -x])
    assert_array_equal(grown, x)


@pytest.mark.parametrize("length", [0, 1, 5000, 100_000])
def test_unique(length: int, rng: np.random.Generator) -> None:
    x = rng.integers(0, max(1, length // 3), length).astype(np.float32)
    wanted = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    for one, other in zip(run("Unique", x, outputs=4), wanted, strict=True):
        assert_array_equal(one, other)
