"""Attention in float64, and operands for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.numbers import random

Numbers = np.ndarray[Any, Any]
NEVER = float("-inf")


def reference(q: Numbers, k: Numbers, v: Numbers, bias: Any = None, causal: int | None = None) -> Numbers:
    """softmax(q @ k' + bias) @ v; query i sees keys up to i + causal. What sees none gives zeros."""
    q, k, v = q.astype(float), *(np.repeat(x, q.shape[1] // x.shape[1], 1).astype(float) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) + (0 if bias is None else bias)
    if causal is not None:
        scores[..., np.arange(k.shape[2]) > np.arange(q.shape[2])[:, None] + causal] = NEVER
    peak = scores.max(3, keepdims=True, initial=NEVER)
    powers = np.exp(scores - np.where(np.isneginf(peak), 0, peak))
    total = powers.sum(3, keepdims=True)
    return powers @ v / np.where(total == 0, 1, total)  # type: ignore[no-any-return]


def operands(sizes: tuple[int, ...], dtype: str = "f4") -> list[Numbers]:
    """q, k and v of sizes B, H, G, S, T, D, E."""
    batch, heads, groups, length, keys, depth, width = sizes
    shapes = (batch, heads, length, depth), (batch, groups, keys, depth), (batch, groups, keys, width)
    return [random(*shape, dtype=dtype) for shape in shapes]
