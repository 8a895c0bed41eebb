"""Running sums and products, and the places of what is not zero, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sardonyx.primitives.reduction import CUMULATIVE
from sardonyx_wasm.routines.cumulative import COLUMNS
from tests.support import require
from tests.wasm.compiled import run

Array = np.ndarray[Any, Any]
SHAPES = [((7,), 0), ((9, 5), 1), ((9, 5), 0), ((3, 4, 1), 1), ((2, 3, 17), 1), ((3, COLUMNS + 5), 0), ((1, 1), 1)]
TYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "float16", "float32", "float64"]

require("wasm")


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64", "uint8"])
def test_running_sums_and_products(dtype: str, exclusive: bool, reverse: bool) -> None:
    for function in ("sum", "prod"):
        for shape, axis in SHAPES:
            x = np.random.default_rng(axis).uniform(0.5, 2.5, shape).astype(dtype)
            params = {"function": function, "axis": axis, "exclusive": exclusive, "reverse": reverse}
            with np.errstate(over="ignore"):
                (wanted,) = CUMULATIVE.numpy(x, **params)
            for pieces, open_sizes in ((1, False), (3, True)):
                (found,) = run("accumulate", [x], [(dtype, shape)], params, pieces, open_sizes)
                assert_array_equal(found, wanted)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_nothing_to_sum(shape: tuple[int, ...]) -> None:
    for axis in (0, 1):
        params = {"function": "sum", "axis": axis, "exclusive": False, "reverse": False}
        run("accumulate", [np.empty(shape, np.float32)], [("float32", shape)], params)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (1,), (15,), (16,), (33,), (5, 7), (40, 1), (3, 4, 5, 6), (2, 0)])
def test_places_of_what_is_not_zero(shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(3)
    for chance in (0.0, 0.05, 0.5, 1.0):
        x = np.where(rng.random(shape) < chance, rng.choice([1, 3, 100], shape), 0).astype(dtype)
        if dtype.startswith("float"):
            x = np.where(rng.random(shape) < 0.2, rng.choice([np.nan, -0.0, -2.0, 6e-8], shape), x).astype(dtype)
        wanted = np.nonzero(x) if x.ndim else np.zeros((0, int(x != 0)), np.int64)
        amount = len(wanted[0]) if x.ndim else int(x != 0)
        for open_sizes in (False, True):
            results = [("int64", (1,)), ("int64", (x.size * x.ndim,))]
            count, room = run("nonzero", [x], results, {}, open_sizes=open_sizes)
            assert count == amount
            assert_array_equal(room[: amount * x.ndim].reshape(x.ndim, amount), wanted)
