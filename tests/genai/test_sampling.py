"""Drawn tokens: as often as they are likely, the same for a seed, from numbers that are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sardonyx import genai
from sardonyx.genai import sampling
from sardonyx.genai.random import Random, exponential
from sardonyx.genai.search_options import SearchOptions
from tests.genai.sides import written

Pair = Callable[..., tuple[genai.Model, Any]]
DRAWS = 20_000
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"top_k": 0},
    "hot": {"top_k": 0, "temperature": 2.0},
    "cool": {"top_k": 0, "temperature": 0.5},
    "few": {"top_k": 5},
    "nucleus": {"top_k": 0, "top_p": 0.8},
    "everything": {"top_k": 12, "top_p": 0.7, "temperature": 1.5},
    "all-of-them": {"top_k": 400},
    "whole-nucleus": {"top_k": 0, "top_p": 1.0},
}


def likelihoods(logits: np.ndarray, top_k: int = 0, top_p: float = 0.0, temperature: float = 1.0) -> np.ndarray:
    """What top-k and top-p (Holtzman et al., 2020) leave, in float64, by sorting everything."""
    order = np.lexsort((np.arange(len(logits)), -logits))
    order = order[: top_k or None]
    weights = np.exp((logits[order].astype(np.float64) - logits.max()) / temperature)
    weights /= weights.sum()
    if 0 < top_p < 1:
        weights[np.cumsum(weights) - weights >= top_p] = 0
        weights /= weights.sum()
    found = np.zeros(len(logits))
    found[order] = weights
    return found


def logits_of(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 2, count).astype(np.float32)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_tokens_come_as_often_as_they_are_likely(options: dict[str, Any]) -> None:
    logits = logits_of(400)
    wanted = likelihoods(logits, **options)
    search = SearchOptions(do_sample=True, **options)
    random = Random(7)
    tokens, weights = sampling.candidates(logits, search)
    np.testing.assert_allclose(weights / weights.sum(), wanted[tokens], rtol=1e-9)
    counts = np.zeros(400)
    for token, count in Counter(sampling.draw(logits, search, random) for _ in range(DRAWS)).items():
        counts[token] = count
    assert (wanted[counts > 0] > 0).all()
    often = wanted * DRAWS >= 5
    assert often.sum() > 4
    square = ((counts - wanted * DRAWS)[often] ** 2 / (wanted * DRAWS)[often]).sum()
    freedom = often.sum()
    assert square < freedom + 5 * np.sqrt(2 * freedom)  # five deviations of chi squared
    assert square > freedom - 5 * np.sqrt(2 * freedom)


@pytest.mark.parametrize("count", [63, 64, 65, 700, 49152])
@pytest.mark.parametrize("top_p", [0.1, 0.5, 0.9, 0.999, 0.9999999])
def test_a_nucleus_of_any_size(top_p: float, count: int) -> None:
    logits = logits_of(count, seed=count) / 4
    tokens, weights = sampling.candidates(logits, SearchOptions(do_sample=True, top_k=0, top_p=top_p))
    wanted = likelihoods(logits, top_p=top_p)
    assert abs(len(tokens) - np.count_nonzero(wanted)) <= 1  # the sums of both differ in the last place
    np.testing.assert_allclose(weights / weights.sum(), wanted[tokens], rtol=1e-4)


@pytest.mark.parametrize("count", [1, 2, 5, 50, 299, 300])
def test_the_likeliest_are_those_of_a_full_sort(count: int) -> None:
    scores = np.random.default_rng(3).integers(0, 20, 300).astype(np.float32)
    wanted = np.lexsort((np.arange(300), -scores))[:count]
    assert sampling.likeliest(scores, count).tolist() == wanted.tolist()


def test_numbers_are_those_of_the_generators_paper() -> None:
    """The first ones of xoshiro128++ for the state 1, 2, 3, 4, by its authors' C."""
    random = Random(0)
    random._a, random._b, random._c, random._d = 1, 2, 3, 4
    wanted = [641, 1573767, 3222811527, 3517856514, 836907274, 4247214768, 3867114732, 1355841295, 495546011, 621204420]
    assert [random.bits() for _ in range(10)] == wanted


def test_numbers_are_spread_evenly() -> None:
    random = Random(11)
    numbers = np.array([random.next() for _ in range(50_000)])
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts = np.histogram(numbers, 100, (0, 1))[0]
    assert ((counts - 500) ** 2 / 500).sum() < 100 + 5 * np.sqrt(200)
    streams = [Random(3, stream).next() for stream in range(1000)] + [Random(seed).next() for seed in range(1000)]
    assert len(set(streams)) >= 1999  # Random(3, 0) is Random(3)
    assert 0.45 < np.mean(streams) < 0.55


def test_exponentials() -> None:
    x = -np.concatenate([np.linspace(0, 2, 10_001), np.linspace(0, 700, 10_001)])
    wanted = np.exp(x.astype(np.longdouble))
    assert (abs(exponential(x) - wanted) <= 2 * np.spacing(wanted.astype(np.float64))).all()
    assert exponential(np.array([-709.0, -1e30, -np.inf])).tolist() == [0, 0, 0]


def test_a_seed_decides_the_text(pair: Pair) -> None:
    model, _ = pair()
    options: dict[str, Any] = {"do_sample": True, "top_k": 20, "max_length": 40, "temperature": 1.5}
    one = written(model, [5, 6, 7], random_seed=4, **options)
    assert one == written(model, [5, 6, 7], random_seed=4, **options)
    others = [written(model, [5, 6, 7], random_seed=seed, **options) for seed in (5, 6, -1, -1)]
    assert len({str(each) for each in [one, *others]}) == 5


def test_rows_of_a_batch_are_drawn_apart(pair: Pair) -> None:
    model, _ = pair()
    options: dict[str, Any] = {"do_sample": True, "top_k": 30, "max_length": 30, "temperature": 2.0, "random_seed": 9}
    rows = written(model, [[5, 6, 7]] * 4, batch_size=4, **options)
    assert len({str(row) for row in rows}) == 4
    assert rows[0] == written(model, [[5, 6, 7]], **options)[0] or rows[0][: len(rows[0]) - 1]


def test_tokens_that_are_ruled_out_are_never_drawn(pair: Pair) -> None:
    model, _ = pair()
    row = written(model, [5, 6, 7], do_sample=True, temperature=50.0, top_k=0, min_length=200, max_length=200)[0]
    assert 2 not in row
    assert len(row) == 200
