"""Normalisation of sums, as onnxruntime has it."""

from __future__ import annotations

import numpy as np
import pytest

from .microsoft import ON_ALL, Call, check

RNG = np.random.default_rng(0)
IDS = RNG.integers(0, 10, (2, 4)).astype(np.int32)
SEGMENTS = RNG.integers(0, 2, (2, 4)).astype(np.int32)
MASK = np.array([[1, 1, 0, 0], [0, 2, 1, 1]], np.int32)


def noise(*shape: int, dtype: type[np.floating] = np.float32) -> np.ndarray:
    return RNG.normal(size=shape).astype(dtype)


def half(*shape: int) -> np.ndarray:
    return noise(*shape, dtype=np.float16)


TABLES = [noise(10, 8), noise(6, 8), noise(2, 8), noise(8), noise(8)]
CASES = {
    "embedding": Call("EmbedLayerNormalization", [IDS, SEGMENTS, *TABLES, MASK], outputs=("y0", "y1", "y2")),
    "embedding without segments": Call(
        "EmbedLayerNormalization",
        [IDS, None, *TABLES[:2], None, *TABLES[3:], None, np.array([[3, 0, 5, 1]], np.int32)],
        {"epsilon": 0.1},
        ("y0", "y1"),
    ),
    "skip": Call(
        "SkipLayerNormalization",
        [noise(2, 3, 8), noise(3, 8), noise(8), noise(8), noise(8)],
        outputs=("y0", "y1", "y2", "y3"),
    ),
    "skip, half": Call("SkipLayerNormalization", [half(2, 3, 8), half(2, 3, 8), half(8)], {"epsilon": 1e-3}),
    "simplified skip": Call(
        "SkipSimplifiedLayerNormalization",
        [noise(2, 3, 8), noise(1, 3, 8), noise(8), noise(8)],
        outputs=("y0", "", "", "y3"),
    ),
    "simplified skip, half": Call(
        "SkipSimplifiedLayerNormalization", [half(5, 8), half(5, 8), half(8)], outputs=("y0", "", "", "y3")
    ),
    "simplified": Call("SimplifiedLayerNormalization", [noise(2, 3, 8), noise(8)], {}, ("y0", "y1"), ""),
    "simplified, axis": Call("SimplifiedLayerNormalization", [noise(2, 3, 8), noise(3, 8)], {"axis": 1}, domain=""),
    "simplified, half": Call("SimplifiedLayerNormalization", [half(2, 8) * 300, half(8)], {}, ("y0", "y1"), ""),
}


@ON_ALL
@pytest.mark.parametrize("name", CASES)
def test_like_onnxruntime(name: str, provider: str) -> None:
    check(CASES[name], provider)
