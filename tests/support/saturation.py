"""Where onnxruntime adds products of bytes in 16 bits: on x64 without VNNI, where sums of two may saturate."""

from __future__ import annotations

from functools import cache

import numpy as np

from tests.support.single import judged, single


@cache
def saturates() -> bool:
    """Whether it does so on this processor."""
    a, b = np.full((4, 64), 255, np.uint8), np.full((64, 16), 127, np.int8)
    model, feeds = single("MatMulInteger", a, b, constants=[1])
    return bool((judged(model, feeds)[0] != 64 * 255 * 127).any())


def exact(weights: np.ndarray) -> np.ndarray:
    """Weights whose products onnxruntime adds exactly: int8 has 7 bits where it would saturate."""
    return weights // 2 if weights.dtype == np.int8 and saturates() else weights
