"""What sorts, against Python's own sorting, which keeps the order of equal elements."""

from __future__ import annotations

import numpy as np
import pytest

from sardonyx import primitives as p

X = np.random.default_rng(0).integers(-3, 4, (4, 50, 3)).astype(np.float32)
"""Many equal elements."""


def places(line: np.ndarray, descending: bool) -> list[int]:
    return sorted(range(len(line)), key=lambda place: -line[place] if descending else line[place])


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_equal_elements_keep_their_order(axis: int, descending: bool) -> None:
    values, found = (array.value for array in p.sort(p.constant(X), axis, descending=descending))
    wanted = np.apply_along_axis(places, axis, X, descending)
    np.testing.assert_array_equal(found, wanted, strict=True)
    np.testing.assert_array_equal(values, np.take_along_axis(X, wanted, axis), strict=True)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("k", [0, 1, 5, 40, 50])
def test_the_first_of_equal_elements_are_taken(k: int, largest: bool) -> None:
    _, found = (array.value for array in p.top_k(p.constant(X), k, 1, largest=largest))
    np.testing.assert_array_equal(found, np.apply_along_axis(places, 1, X, largest)[:, :k])
