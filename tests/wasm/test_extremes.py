"""The lowest and the highest of blocks of floats, against NumPy; and how models come to them, against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from numpy.testing import assert_array_equal

import sardonyx
from sardonyx_wasm.primitives import BLOCK_EXTREMES
from tests.engine.graphs import model
from tests.engine.providers import WASM
from tests.support import require
from tests.wasm.compiled import run

require("wasm")

BLOCK = BLOCK_EXTREMES.block
COUNTS = [1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 67, BLOCK - 1, BLOCK, BLOCK + 1, BLOCK + 4, 2 * BLOCK + 33]


def wanted(x: np.ndarray) -> list[np.ndarray]:
    blocks = [x[begin : begin + BLOCK] for begin in range(0, x.size, BLOCK)]
    return [np.array([function(block) for block in blocks]) for function in (np.min, np.max)]


@pytest.mark.parametrize("count", COUNTS)
def test_each_place_counts(count: int) -> None:
    x = np.random.default_rng(count).uniform(-1, 1, count).astype(np.float32)
    results = [("float32", (-(-count // BLOCK),))] * 2
    for place in {0, 1, count // 2, count // 2 + 1, count - 2, count - 1} & {*range(count)}:
        for number in (-9.0, 9.0, np.inf, -np.inf, np.nan):
            changed = x.copy()
            changed[place] = number
            for pieces, open_sizes in ((1, False), (3, True)):
                found = run("block_extremes", [changed], results, {}, pieces, open_sizes)
                for some, right in zip(found, wanted(changed), strict=True):
                    assert_array_equal(some, right)


def test_all_nan_and_all_infinite() -> None:
    for number in (np.nan, np.inf, -np.inf, 0.0):
        x = np.full(70, number, np.float32)
        for some in run("block_extremes", [x], [("float32", (1,))] * 2, {}):
            assert_array_equal(some, [number])


def test_nothing_has_no_blocks() -> None:
    for some in run("block_extremes", [np.empty(0, np.float32)], [("float32", (0,))] * 2, {}, open_sizes=True):
        assert some.shape == (0,)


def test_one_plan_finds_them_where_elements_lie() -> None:
    text = """
    g (float[N, M] x) => (uint8[M, N] y, float s, uint8 z)
    {
      turned = Transpose (x)
      y, s, z = DynamicQuantizeLinear (turned)
    }
    """
    session = sardonyx.InferenceSession(model(text), providers=[WASM])
    theirs = onnxruntime.InferenceSession(model(text), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    for shape in ((3, 5), (1, 1), (130, 260), (4, BLOCK)):
        feeds = {"x": rng.normal(size=shape).astype(np.float32)}
        for found, wanted in zip(session.run(None, feeds), theirs.run(None, feeds), strict=True):
            assert_array_equal(found, wanted, strict=True)
    (plan,) = session.plans
    assert [code["primitive"] for code in plan.codes if code["kind"] == "routine"] == ["block_extremes"]
    assert not any("transpose" in code["name"] for code in plan.codes)
