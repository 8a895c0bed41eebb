"""Convolution and windows against loops over their definitions, borders cut and elements spread apart included."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from sardonyx import primitives as p
from sardonyx.common import dtypes

Index = tuple[int, ...]


def places(
    sizes: Sequence[int], counts: Sequence[int], window: Sequence[int], strides: Any, dilations: Any, low: Any
) -> Iterator[tuple[Index, Index, Index | None]]:
    """Every place of the window, element of the window, and what lies there (None is the border)."""
    for place in product(*map(range, counts)):
        for element in product(*map(range, window)):
            found = tuple(
                a * stride - before + b * dilation
                for a, stride, before, b, dilation in zip(place, strides, low, element, dilations, strict=True)
            )
            inside = all(0 <= at < size for at, size in zip(found, sizes, strict=True))
            yield place, element, found if inside else None


def cases(count: int, spread: bool) -> Iterator[tuple[random.Random, dict[str, list[int]]]]:
    """Random windows that fit: sizes, window, strides, dilations, spread, low, high and the number of places."""
    pick = random.Random(0)
    while count:
        rank = pick.choice([1, 2, 2, 3])
        ranges = {"sizes": (1, 5), "window": (1, 3), "strides": (1, 3), "dilations": (1, 2), "low": (-2, 3)}
        ranges |= {"high": (-2, 3), "spread": (1, 3 if spread else 1)}
        case = {name: [pick.randint(*limits) for _ in range(rank)] for name, limits in ranges.items()}
        if pick.random() < 0.5:
            case["strides"] = [1] * rank
        wide = [(size - 1) * step + 1 for size, step in zip(case["sizes"], case["spread"], strict=True)]
        border = list(zip(wide, case["low"], case["high"], strict=True))
        room = [size + low + high for size, low, high in border]
        span = [(size - 1) * step + 1 for size, step in zip(case["window"], case["dilations"], strict=True)]
        cut = any(size + min(low, 0) + min(high, 0) < 0 for size, low, high in border)
        if cut or any(a < b for a, b in zip(room, span, strict=True)):
            continue
        case["wide"] = wide
        case["counts"] = [(a - b) // stride + 1 for a, b, stride in zip(room, span, case["strides"], strict=True)]
        yield pick, case
        count -= 1


def steps(case: dict[str, list[int]]) -> dict[str, list[int]]:
    return {name: case[name] for name in ("strides", "dilations", "low")}


def test_conv_general() -> None:
    rng = np.random.default_rng(0)
    for pick, case in cases(80, spread=True):
        groups, inner, outer = pick.choice([1, 1, 2]), pick.randint(1, 2), pick.randint(1, 2)
        x = rng.normal(size=(2, groups, inner, *case["sizes"]))
        w = rng.normal(size=(groups, outer, inner, *case["window"]))
        wide = np.zeros((2, groups, inner, *case["wide"]))
        wide[(..., *(slice(None, None, step) for step in case["spread"]))] = x
        wanted = np.zeros((2, groups, outer, *case["counts"]))
        for place, element, found in places(case["wide"], case["counts"], case["window"], **steps(case)):
            if found is not None:
                wanted[(..., *place)] += np.einsum("ngi,goi->ngo", wide[(..., *found)], w[(..., *element)])
        result = p.conv_general(
            p.constant(x.reshape(2, groups * inner, *case["sizes"])),
            p.constant(w.reshape(groups * outer, inner, *case["window"])),
            high=case["high"],
            groups=groups,
            spread=case["spread"],
            **steps(case),
        )
        np.testing.assert_allclose(result.value, wanted.reshape(2, -1, *case["counts"]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("sizes", [(0, 6), (6, 0)])
@pytest.mark.parametrize("groups", [1, 2])
def test_an_image_that_is_all_border(sizes: tuple[int, int], groups: int) -> None:
    x, w = np.zeros((3, 2, *sizes)), np.ones((4, 2 // groups, 3, 3))
    result = p.conv_general(p.constant(x), p.constant(w), [1, 1], [1, 1], [2, 2], [2, 2], groups)
    np.testing.assert_array_equal(result.value, np.zeros((3, 4, sizes[0] + 2, sizes[1] + 2)))


@pytest.mark.parametrize("function", ["sum", "prod", "max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_reduce_window(function: str, dtype: type[np.generic]) -> None:
    rng = np.random.default_rng(1)
    combine: Callable[[np.ndarray], Any] = getattr(np, function)
    neutral = p.identity(function.removeprefix("arg"), dtypes.of(np.dtype(dtype)))
    for pick, case in cases(30, spread=False):
        x = rng.integers(-4, 5, (2, *case["sizes"])).astype(dtype)
        if dtype is np.float32 and pick.random() < 0.3:
            x[0].flat[[pick.randrange(x[0].size) for _ in range(2)]] = np.nan
        met = np.full((2, *case["counts"], *case["window"]), neutral, dtype)
        for place, element, found in places(case["sizes"], case["counts"], case["window"], **steps(case)):
            if found is not None:
                met[(slice(None), *place, *element)] = x[(slice(None), *found)]
        flat = met.reshape(-1, int(np.prod(case["window"])))
        wanted = np.array([combine(window) for window in flat]).reshape(2, *case["counts"])
        result = p.reduce_window(p.constant(x), function, case["window"], high=case["high"], **steps(case))
        np.testing.assert_array_equal(result.value, wanted)


def test_bands_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sardonyx.host.correlation.COLUMN_BYTES", 1)
    x, w = np.arange(36.0).reshape(1, 1, 6, 6), np.ones((1, 1, 3, 3))
    result = p.conv_general(p.constant(x), p.constant(w), [1, 1], [1, 1], [0, 0], [0, 0])
    np.testing.assert_array_equal(result.value[0, 0], 9 * x[0, 0, 1:-1, 1:-1])


@pytest.mark.parametrize("low", [-128, 0])
def test_integer_products_are_exact_and_wrap(low: int) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.integers(low, 127, (3, 700)).astype(np.int8), rng.integers(-128, 127, (700, 2)).astype(np.int8)
    wanted = a.astype(np.int64) @ b.astype(np.int64)
    np.testing.assert_array_equal(p.matmul(p.constant(a), p.constant(b), dtypes.int32).value, wanted)
    large = np.full((1, 4), 2**31 - 1, np.int32)
    assert p.matmul(p.constant(large), p.constant(large.T)).value.item() == 4


def test_a_window_that_does_not_fit() -> None:
    with pytest.raises(ValueError, match="a window of 3 elements, 2 apart, does not fit into 4"):
        p.reduce_window(p.constant(np.zeros(4)), "max", [3], [1], [2], [0], [0])
