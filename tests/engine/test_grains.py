"""Where products may be divided: NumPy's own, bit by bit, for all code of OpenBLAS that this processor can run."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product

import numpy as np
import pytest

from sardonyx.common import threads
from sardonyx.host import products

ROWS = (2, 3, 4, 20, 23, 24, 25, 47, 48, 49, 92, 128, 196)
COLUMNS = (2, 3, 64, 319, 320, 321, 640, 700, 1111)
DEPTHS = (7, 330, 700)


def differing(dtype: type[np.floating]) -> list[tuple[str, int, int, int, int]]:
    """The sizes of products, and where they were cut, whose parts have other bits than the whole."""
    rng = np.random.default_rng(0)
    known = products.grain(np.dtype(dtype).itemsize)
    found = []
    for rows, depth, columns in product(ROWS, DEPTHS, COLUMNS):
        a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((rows, depth), (depth, columns)))
        places = {("rows", end) for count in (2, 3, 4) for end in products.cuts(rows, count, known.rows)[:-1]}
        for count in (2, 3, 4):
            places |= {("columns", end) for end in products.cuts(columns, count, known.across(rows))[:-1]}
        whole = np.matmul(a, b)
        for axis, end in places:
            least = min(end, (rows if axis == "rows" else columns) - end) * whole.size * depth
            if least // (rows if axis == "rows" else columns) < (products.LEAST if known.small else 0):
                continue
            first = (a[:end], b) if axis == "rows" else (a, b[:, :end])
            last = (a[end:], b) if axis == "rows" else (a, b[:, end:])
            parts = np.concatenate([np.matmul(*first), np.matmul(*last)], 0 if axis == "rows" else 1)
            if not np.array_equal(parts, whole):
                found.append((axis, rows, depth, columns, end))
    return found


def main() -> None:
    """Print the name of the code, and what differs."""
    with threads.OneThread():
        print(threads.corename(), differing(np.float32) + differing(np.float64))


CORES = ["", "Haswell", "Sandybridge", "Nehalem", "Prescott"]


@pytest.mark.skipif(not threads.corename(), reason="NumPy's BLAS is none that tells its code, as OpenBLAS does")
@pytest.mark.parametrize("core", CORES, ids=lambda core: core or "own")
def test_parts_have_the_bits_of_the_whole(core: str) -> None:
    """OpenBLAS takes the code that a variable names, or its own choice where it has none of that name."""
    environment = {**os.environ, **({"OPENBLAS_CORETYPE": core} if core else {})}
    command = [sys.executable, "-m", "tests.engine.test_grains"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    name, _, found = done.stdout.strip().partition(" ")
    assert name
    assert found == "[]"


def test_code_is_known_by_its_name() -> None:
    names = [*products._GRAINS]
    assert all(name == name.lower() for name in names)
    for known in (*products._GRAINS.values(), products._ANY):
        assert known.rows % 4 == 0
        assert known.small < products.LEAST


@pytest.mark.parametrize("size", [0, 1, 11, 12, 23, 24, 25, 100, 30_000])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 16])
def test_cuts_are_multiples(size: int, count: int) -> None:
    ends = products.cuts(size, count, 12)
    sizes = np.diff([0, *ends])
    assert ends[-1] == size
    assert len(ends) <= count
    assert all(end % 12 == 0 for end in ends[:-1])
    assert sizes.min() >= min(size, 12)
    if size >= 24 * count:
        assert len(ends) == count
        assert sizes.max() <= size / count + 12


if __name__ == "__main__":
    main()
