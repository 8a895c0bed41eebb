"""CumSum and NonZero, which go along lines in blocks, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sardonyx_webgpu.legalization.scanning import LONG
from tests.webgpu.nodes import Array, feeds, on_device, run, session

__all__ = ["on_device"]

LENGTHS = [0, 1, 63, 64, 65, LONG - 1, LONG, LONG + 1, 4097, 100_000]


def summed(x: Array, axis: int, exclusive: int, reverse: int) -> Array:
    """In float64, or in the integers' own arithmetic."""
    line = np.moveaxis(x.astype(np.float64) if x.dtype.kind == "f" else x, axis, -1)
    line = line[..., ::-1] if reverse else line
    total = np.cumsum(line, -1, dtype=line.dtype)
    if exclusive:
        total = np.concatenate([np.zeros_like(total[..., :1]), total[..., :-1]], -1)[..., : line.shape[-1]]
    return np.moveaxis(total[..., ::-1] if reverse else total, -1, axis)


def check(x: Array, axis: int = -1, **details: Any) -> None:
    details = {"exclusive": 0, "reverse": 0} | details
    (found,) = run("CumSum", x, constants={1: np.array(axis, np.int64)}, **details)
    details.pop("open_sizes", None)
    wanted = summed(x, axis, **details)
    assert (found.dtype, found.shape) == (x.dtype, x.shape)
    if x.dtype.kind != "f":
        assert_array_equal(found, wanted)
        return
    near = {"float32": 1e-5, "float16": 2e-3}[x.dtype.name]
    assert np.all(np.abs(found - wanted) <= near * summed(np.abs(x), axis, **details))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_running_sums(length: int, exclusive: int, reverse: int, rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, length)).astype(np.float32)
    for open_sizes in (False, True):
        check(x, exclusive=exclusive, reverse=reverse, open_sizes=open_sizes)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64", "float16"])
def test_dtypes(dtype: str, rng: np.random.Generator) -> None:
    """Integers wrap."""
    x = rng.normal(size=(2, 700)) / 20
    if dtype != "float16":
        x = rng.integers(0, np.iinfo(dtype).max, (2, 700), dtype)
    check(x.astype(dtype))
    check(x.astype(dtype), reverse=1)


@pytest.mark.parametrize(("shape", "axis"), [((300, 7), 0), ((2, 400, 3), 1), ((5000, 300), 1), ((300, 5000), 0)])
def test_axes(shape: tuple[int, ...], axis: int, rng: np.random.Generator) -> None:
    check(rng.normal(size=shape).astype(np.float32), axis)


def test_what_is_no_number_stays() -> None:
    x = np.ones((2, 600), np.float32)
    x[0, 100], x[1, 500] = np.nan, np.inf
    (found,) = run("CumSum", x, constants={1: np.array(1, np.int64)})
    with np.errstate(invalid="ignore"):
        assert_array_equal(found, np.cumsum(x, 1))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "float16", "float32", "int32", "int64", "uint64"])
@pytest.mark.parametrize("length", LENGTHS)
def test_nonzero(dtype: str, length: int, rng: np.random.Generator) -> None:
    for share in (0.0, 0.02, 0.6, 1.0):
        x = (rng.random(length) < share).astype(dtype)
        if dtype == "int64":
            x <<= 40
        (found,) = run("NonZero", x)
        assert_array_equal(found, np.stack(np.nonzero(x)))


@pytest.mark.parametrize("shape", [(3, 0, 5), (1, 1, 1), (7, 9, 11), (2, 3, 4, 5, 6), (100, 130), ()])
def test_coordinates(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    x = np.asarray(np.where(rng.random(shape) < 0.5, rng.normal(size=shape), 0), np.float32)
    wanted = np.stack(np.nonzero(x)) if shape else np.zeros((0, int(x != 0)))
    for open_sizes in (False, True):
        (found,) = run("NonZero", x, open_sizes=open_sizes)
        assert_array_equal(found, wanted)


def test_nan_is_not_zero() -> None:
    x = np.array([0.0, np.nan, -0.0, np.inf, -np.inf], np.float32)
    assert run("NonZero", x)[0].tolist() == [[1, 3, 4]]


def test_one_plan_for_other_sizes(rng: np.random.Generator) -> None:
    x = rng.integers(0, 2, (5, 70))
    made = session("NonZero", [x], open_sizes=True)
    for shape in ((5, 70), (1, 1), (130, 40), (0, 4), (64, 64)):
        x = rng.integers(0, 2, shape)
        (found,) = made.run(None, feeds(made, [x]))
        assert_array_equal(found, np.stack(np.nonzero(x)))
