"""The lowest and the highest of blocks of floats, against NumPy; and what finds all of them on every provider."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sardonyx_wasm.primitives import BLOCK_EXTREMES
from tests.support import require
from tests.wasm.compiled import run

require("wasm")

BLOCK = BLOCK_EXTREMES.block
COUNTS = [1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 67, BLOCK - 1, BLOCK, BLOCK + 1, BLOCK + 4, 2 * BLOCK + 33]


def wanted(x: np.ndarray) -> list[np.ndarray]:
    blocks = [x[begin : begin + BLOCK] for begin in range(0, x.size, BLOCK)]
    return [np.array([function(block) for block in blocks]) for function in (np.min, np.max)]


@pytest.mark.parametrize("count", COUNTS)
def test_each_place_counts(count: int) -> None:
    x = np.random.default_rng(count).uniform(-1, 1, count).astype(np.float32)
    results = [("float32", (-(-count // BLOCK),))] * 2
    for place in {0, 1, count // 2, count // 2 + 1, count - 2, count - 1} & {*range(count)}:
        for number in (-9.0, 9.0, np.inf, -np.inf, np.nan):
            changed = x.copy()
            changed[place] = number
            for pieces, open_sizes in ((1, False), (3, True)):
                found = run("block_extremes", [changed], results, {}, pieces, open_sizes)
                for some, right in zip(found, wanted(changed), strict=True):
                    assert_array_equal(some, right)


def test_all_nan_and_all_infinite() -> None:
    for number in (np.nan, np.inf, -np.inf, 0.0):
        x = np.full(70, number, np.float32)
        for some in run("block_extremes", [x], [("float32", (1,))] * 2, {}):
            assert_array_equal(some, [number])


def test_nothing_has_no_blocks() -> None:
    for some in run("block_extremes", [np.empty(0, np.float32)], [("float32", (0,))] * 2, {}, open_sizes=True):
        assert some.shape == (0,)
