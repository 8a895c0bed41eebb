"""Products of bytes, against int64 NumPy."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sardonyx.primitives.binding import constant
from sardonyx.primitives.evaluation import evaluate
from sardonyx_wasm.legalization import quads
from sardonyx_wasm.legalization.quads import Quads, further, in_quads
from sardonyx_wasm.routines.quads import WIDTH
from tests.support import require
from tests.wasm.compiled import PLAIN, RELAXED, Array, Compiled

require("wasm")
on_all_targets = pytest.mark.parametrize(
    ("target", "features"),
    [("v8", RELAXED), ("wasmtime", RELAXED), ("v8", PLAIN)],
    ids=["v8", "wasmtime", "plain"],
)


def weights(k: int, n: int, spread: float, seed: int = 0) -> Array:
    """Integers of about this spread; some are as large as int8 has them."""
    drawn = np.rint(np.random.default_rng(seed).normal(0, spread, (k, n)))
    drawn.flat[:: max(1, drawn.size // 3)] = -128
    return np.clip(drawn, -128, 127).astype(np.int8)


def multiplied(
    x: Array, w: Array, zero: int, features: frozenset[str] = RELAXED, split: bool = False, target: str = "v8"
) -> Array:
    found = in_quads(constant(w))
    assert found is not None
    panels, sums, starts, elements = (array for array in map(evaluate, found) if array is not None)
    depth = 4 * panels.shape[-3]
    padded = np.full((len(x), depth), 77, np.uint8)  # behind the rows of w there are zeros
    padded[:, : x.shape[1]] = x
    operands = [padded, panels, sums, np.array(zero, np.int32), starts, elements]
    reads = [array.dtype.name for array in operands]
    shapes = [array.shape for array in operands]
    result = (len(x), w.shape[1])
    product = Compiled("matmul_quads", (reads, ["int32"]), shapes, [result], features=features, target=target)
    units = product.code.units
    assert units == -(-w.shape[1] // WIDTH)
    return product.run(operands, [result], splits=[*pairwise(range(units + 1))][::-1] if split else None)[0]


@on_all_targets
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 8])
@pytest.mark.parametrize(("depth", "columns"), [(1, 1), (4, 16), (6, 15), (12, 33), (129, 50), (256, 64)])
def test_sizes(rows: int, depth: int, columns: int, target: str, features: frozenset[str]) -> None:
    x = np.random.default_rng(1).integers(0, 256, (rows, depth)).astype(np.uint8)
    w = weights(depth, columns, 20)
    if further(lambda begin, end: w[:, begin:end], w.shape) is None:
        w = np.clip(w, -64, 64)
    wanted = (x.astype(np.int64) - 131) @ w.astype(np.int64)
    assert_array_equal(multiplied(x, w, 131, features, split=True, target=target), wanted)


@on_all_targets
@pytest.mark.parametrize("zero", [0, 255])
def test_extremes(target: str, features: frozenset[str], zero: int) -> None:
    """The largest bytes meet the largest weights that go without a list, and some that do not."""
    x = np.full((2, 400), 255, np.uint8)
    for number in (64, -64):
        w = np.full((400, 40), number, np.int64)
        w[::2, 3] = np.clip(2 * number, -128, 127)
        w[1::2, 3] = 0
        w[7, 5], w[9, 39], w[10, 20] = 127, -128, 1
        product = multiplied(x, w.astype(np.int8), zero, features, target=target)
        assert_array_equal(product, (x.astype(np.int64) - zero) @ w)


def test_more_than_bytes() -> None:
    """Weights whose zero point was subtracted may have nine bits."""
    w = weights(64, 32, 15).astype(np.int16)
    w[5, 6], w[8, 9] = 255, -255
    x = np.random.default_rng(1).integers(0, 256, (3, 64)).astype(np.uint8)
    assert_array_equal(multiplied(x, w, 9), (x.astype(np.int64) - 9) @ w.astype(np.int64))


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.float32])
@pytest.mark.parametrize("order", ["C", "F"])
def test_stored_otherwise(dtype: type[np.generic], order: Literal["C", "F"]) -> None:
    w = weights(33, 70, 22)
    x = np.random.default_rng(1).integers(0, 256, (3, 33)).astype(np.uint8)
    wanted = (x.astype(np.int64) - 9) @ w.astype(np.int64)
    assert_array_equal(multiplied(x, np.asarray(w, dtype, order=order), 9), wanted)


def test_too_many_elements_are_left_alone() -> None:
    w = np.random.default_rng(0).integers(-128, 128, (64, 64)).astype(np.int8)
    assert in_quads(constant(w)) is None


@pytest.mark.parametrize("block", [quads.BLOCK, 1])
def test_matrices_in_a_stack(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(quads, "BLOCK", block)
    w = np.stack([weights(20, 40, 18, seed) for seed in range(3)])
    found = in_quads(constant(w))
    assert isinstance(found, Quads)
    starts, elements = evaluate(found.starts), evaluate(found.elements)
    assert starts is not None
    assert elements is not None
    assert starts.shape == (10,)
    assert starts[-1] == len(elements) > 3
    panels = evaluate(found.panels)
    assert panels is not None
    rebuilt = np.moveaxis(panels.astype(np.int64), (2, 4), (1, 2)).reshape(3, 20, 48)
    for place, (begin, end) in enumerate(pairwise(starts)):
        for word in elements[begin:end].tolist():
            matrix, panel = divmod(place, 3)
            rebuilt[matrix, word & 0xFFFF, 16 * panel + (word >> 16 & 15)] += word >> 20
    assert_array_equal(rebuilt[:, :, :40], w)
