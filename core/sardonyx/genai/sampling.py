"""Drawing a token by its likelihood, among the likeliest ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sardonyx.genai.random import Random, exponential
from sardonyx.genai.search_options import SearchOptions

Array = npt.NDArray[Any]
FEW = 64
"""How many tokens a nucleus is first looked for among."""


def candidates(logits: Array, options: SearchOptions) -> tuple[Array, Array]:
    """The tokens that may be drawn, and their weights, which are in proportion to their likelihoods.

    Those of `top_k` are the likeliest ones, and of likeliness alike those of smaller number. `top_p` leaves of these as
    few as have so much of their likelihood together. Likelihoods are added up in float64, one after another.

    >>> options = SearchOptions(do_sample=True, top_k=3, top_p=0.6)
    >>> tokens, weights = candidates(np.log(np.array([0.1, 0.5, 0.3, 0.1], np.float32)), options)
    >>> tokens.tolist(), (weights / weights.sum()).round(3).tolist()
    ([1, 2], [0.625, 0.375])
    """
    limited = 1 < options.top_k < len(logits)
    nucleus = 0 < options.top_p < 1
    if limited:
        tokens = likeliest(logits, options.top_k)
        weights = _weights(logits[tokens], logits.max(), options.temperature)
        return _nucleus(tokens, weights, options.top_p * np.cumsum(weights)[-1]) if nucleus else (tokens, weights)
    everything = _weights(logits, logits.max(), options.temperature)
    if not nucleus:
        return np.arange(len(logits)), everything
    enough = options.top_p * np.cumsum(everything)[-1]
    count = FEW
    while count < len(logits):
        tokens = likeliest(logits, count)
        if np.cumsum(everything[tokens])[-1] >= enough:
            break
        count *= 8
    else:
        tokens = np.argsort(-logits, kind="stable")
    return _nucleus(tokens, everything[tokens], enough)


def draw(logits: Array, options: SearchOptions, random: Random) -> int:
    """One token."""
    tokens, weights = candidates(logits, options)
    reached = np.cumsum(weights)
    place = np.searchsorted(reached, random.next() * reached[-1], side="right")
    return int(tokens[min(int(place), len(tokens) - 1)])


def likeliest(scores: Array, count: int) -> Array:
    """Where the highest scores are, from the highest on; of those alike the first ones. Sorts no others.

    >>> likeliest(np.array([1.0, 3.0, 2.0, 3.0, 2.0]), 3).tolist()
    [1, 3, 2]
    """
    least = np.partition(scores, len(scores) - count)[len(scores) - count]
    above = np.flatnonzero(scores > least)
    found = np.concatenate([above, np.flatnonzero(scores == least)[: count - len(above)]])
    found.sort()
    return found[np.argsort(-scores[found], kind="stable")]


def _weights(logits: Array, highest: float, temperature: float) -> Array:
    return exponential((logits.astype(np.float64) - float(highest)) / temperature)


def _nucleus(tokens: Array, weights: Array, enough: float) -> tuple[Array, Array]:
    """The first tokens that have so much weight together."""
    count = int(np.searchsorted(np.cumsum(weights), enough, side="left")) + 1
    return tokens[:count], weights[:count]
