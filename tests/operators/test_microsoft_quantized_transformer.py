"""Quantized parts of transformers, as onnxruntime has them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.saturation import exact

from .microsoft import ON_ALL, Call, check

RNG = np.random.default_rng(0)
HEADS, SIZE = 2, 4
HIDDEN = HEADS * SIZE


def noise(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def ints(*items: int) -> np.ndarray:
    return np.array(items, np.int32)


def code(dtype: type[np.generic], *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def attention(
    mask: np.ndarray | None = None,
    past: int = 0,
    dtype: type[np.generic] = np.int8,
    columns: bool = False,
    **attributes: float,
) -> Call:
    """A QAttention of two lines of three tokens."""
    count = 3 * HIDDEN if columns else 1
    scales = np.array(0.01, np.float32), np.abs(noise(count)) * 0.01 + 0.005
    zeros = [np.array(120, np.uint8), code(dtype, count) // 32]
    cache = noise(2, 2, HEADS, past, SIZE) if past else None
    inputs = [
        code(np.uint8, 2, 3, 6),
        exact(code(dtype, 6, 3 * HIDDEN)),
        noise(3 * HIDDEN),
        *scales,
        mask,
        *zeros,
        cache,
    ]
    outputs = ("y0", "y1") if past else ("y0",)
    return Call("QAttention", inputs, {"num_heads": HEADS, **attributes}, outputs, constant=(1, 4, 7))


def bare() -> Call:
    call = attention()
    call.inputs[6:] = []
    return call


def embedding(
    segments: bool = True, mask: bool = True, dtype: type[np.generic] = np.uint8, **attributes: float
) -> Call:
    """A QEmbedLayerNormalization of two lines of three words."""
    ids = RNG.integers(0, 5, (2, 3)).astype(np.int32)
    kinds = RNG.integers(0, 2, (2, 3)).astype(np.int32)
    told = [True, True, segments, True, True]
    tables = [code(dtype, *shape) for shape in ((5, 8), (3, 8), (2, 8), (8,), (8,))]
    scales = [np.array(scale, np.float32) for scale in (0.02, 0.01, 0.03, 0.02, 0.01)]
    zeros = [code(dtype, 1).reshape(()) for _ in told]
    kept = [[x if given else None for x, given in zip(group, told, strict=True)] for group in (tables, scales, zeros)]
    masked = RNG.integers(0, 2, (2, 3)).astype(np.int32) if mask else None
    inputs = [ids, kinds if segments else None, *kept[0], masked, *kept[1], *kept[2]]
    constant = tuple(k for k in range(2, 18) if k != 7)
    return Call("QEmbedLayerNormalization", inputs, attributes, ("y0", "y1"), constant=constant)


CASES = {
    "attention": attention(),
    "attention, no zero points": bare(),
    "attention, bytes": attention(dtype=np.uint8, scale=0.3),
    "attention, columns": attention(columns=True, unidirectional=1),
    "attention, bytes by column": attention(dtype=np.uint8, columns=True),
    "attention, counts": attention(ints(2, 3)),
    "attention, keys": attention(np.array([[1, 0, 1], [1, 1, 0]], np.int32), mask_filter_value=-7.0),
    "attention, cache": attention(past=4, unidirectional=1),
    "attention, cache and mask": attention(np.ones((2, 7), np.int32) - np.eye(7, dtype=np.int32)[2:4], past=4),
    "embedding": embedding(),
    "embedding, signed": embedding(dtype=np.int8, epsilon=0.1),
    "embedding, words alone": embedding(segments=False, mask=False),
}


@ON_ALL
@pytest.mark.parametrize("name", CASES)
def test_like_onnxruntime(name: str, provider: str) -> None:
    check(CASES[name], provider)
