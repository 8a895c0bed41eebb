"""One row times BLAS's panels, and other light products: against float64, whatever the units, and whoever has more rows
in between."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest
from numpy.testing import assert_array_equal
from onnx import numpy_helper

import sardonyx
from sardonyx.common.trial import Trial
from sardonyx_wasm.abi import own_of
from sardonyx_wasm.device import blas, products, steps
from tests.engine.providers import WASM
from tests.support import require
from tests.wasm.compiled import PLAIN, RELAXED, Array, Product
from tests.wasm.test_blas import panels, routine

require("wasm")
pytestmark = pytest.mark.usefixtures("no_cache_on_disk")


def check(result: Array, a: Array, b: Array) -> None:
    """The error of a sum grows with what was added."""
    bound = np.abs(a).astype(float) @ np.abs(b).astype(float)
    error = np.abs(result - a.astype(float) @ b.astype(float))
    assert (error <= a.shape[-1] * np.finfo(a.dtype).eps * bound).all()


@pytest.mark.parametrize("features", [RELAXED, PLAIN], ids=["relaxed", "plain"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("nr", [4, 32, 64])
@pytest.mark.parametrize("depth", [1, 2, 7, 64])
@pytest.mark.parametrize("columns", [1, 3, 64, 200])
def test_routine(columns: int, depth: int, nr: int, dtype: str, features: frozenset[str]) -> None:
    rng = np.random.default_rng(depth * columns)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((1, depth), (depth, columns)))
    w = panels(b, nr).copy()
    shapes = ((1, depth), w.shape), ((1, columns),)
    kinds = (dtype, dtype), (dtype,)
    product = Product("matmul_row", kinds, *shapes, attributes={"n": columns, "nr": nr}, features=features)
    whole = product(a, w, (1, columns), splits=None)
    check(whole, a, b)
    for k in range(1, math.ceil(columns / nr)):
        assert_array_equal(product(a, w, (1, columns), splits=[(k, len(w)), (0, k)]), whole)


def test_what_is_no_number_stays_where_it_is() -> None:
    a, b = np.ones((1, 5), np.float32), np.ones((5, 70), np.float32)
    b[2, 3], b[4, 65] = np.inf, np.nan
    w = panels(b, 64).copy()
    kinds = ("float32", "float32"), ("float32",)
    product = Product("matmul_row", kinds, ((1, 5), w.shape), ((1, 70),), attributes={"nr": 64})
    found = product(a, w, (1, 70), splits=None)
    assert np.isposinf(found[0, 3])
    assert np.isnan(found[0, 65])
    assert np.isfinite(np.delete(found, [3, 65])).all()


def test_products_that_have_more_rows_have_none_alone() -> None:
    assert own_of(routine("matmul_panels", [(2, 64), (1, 64, 64), (2, 64)], nr=64)) is None
    assert own_of(routine("matmul_panels", [(1, 64), (5, 64, 13), (1, 65)], nr=13)) is None
    assert own_of(routine("conv_panels", [(1, 64), (1, 64, 64), (1, 64)], nr=64)) is None
    assert own_of(routine("matmul_panels", [(1, 64), (1, 64, 64), (1, 64)], nr=64)) is not None


def test_light_products_are_the_modules_whatever_the_plan_was_made_for(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """<ir_version: 8, opset_import: ["": 18]>
    g (float[B, N, D] x, float[B, D, K] w) => (float[B, N, K] y) { p = MatMul (x, w)  y = Tanh (p) }"""
    options = sardonyx.SessionOptions()
    options.intra_op_num_threads = 1
    session = sardonyx.InferenceSession(onnx.parser.parse_model(text).SerializeToString(), options, [WASM])
    calls: list[int] = []
    multiply = products.multiply
    monkeypatch.setattr(steps, "multiply", lambda *sides: (calls.append(1), multiply(*sides)))
    large = 2, 100, 64, 300
    for sizes in (large, (3, 3, 64, 42), (0, 100, 64, 300), (2, 3, 0, 4), (1, 1, 1, 1), large, (1, 7, 64, 90)):
        batch, rows, depth, columns = sizes
        rng = np.random.default_rng(rows)
        x, w = (rng.standard_normal(shape, np.float32) for shape in ((batch, rows, depth), (batch, depth, columns)))
        calls.clear()
        (found,) = session.run(None, {"x": x, "w": w})
        np.testing.assert_allclose(found, np.tanh(x.astype(float) @ w), rtol=0, atol=1e-5)
        assert bool(calls) == (math.prod(sizes) >= blas.FEWEST)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("in_blocks", [False, True])
def test_sessions_with_any_number_of_rows(in_blocks: bool, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module has one row of panels, BLAS the others, in any order of sizes and with any number of threads."""
    kind = {"float32": "float", "float64": "double"}[dtype]
    text = f"""<ir_version: 8, opset_import: ["": 18]>
    g ({kind}[N, 600] x) => ({kind}[N, 700] y) {{ h = MatMul (x, v)  z = Tanh (h)  y = MatMul (z, w) }}"""
    rng = np.random.default_rng(3)
    v, w = (rng.standard_normal(shape).astype(dtype) / 25 for shape in ((600, 900), (900, 700)))
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(map(numpy_helper.from_array, (v, w), ("v", "w")))
    monkeypatch.setattr(blas, "in_blocks", lambda: in_blocks)
    monkeypatch.setattr(Trial, "next", lambda self: 1)
    calls: list[int] = []
    multiply = products.multiply
    monkeypatch.setattr(steps, "multiply", lambda *sides: (calls.append(1), multiply(*sides)))
    known: dict[int, Array] = {}
    for threads in (1, 2, 3):
        options = sardonyx.SessionOptions()
        options.intra_op_num_threads = threads
        session = sardonyx.InferenceSession(model.SerializeToString(), options, providers=[WASM])
        for rows in (1, 5, 1, 0, 40, 2, 1000, 1, 3, 1):
            x = np.random.default_rng(rows).standard_normal((rows, 600)).astype(dtype)
            calls.clear()
            (found,) = session.run(None, {"x": x})
            expected = np.tanh(x.astype(float) @ v) @ w.astype(float)
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 if dtype == "float32" else 1e-12)
            if rows == 1 or not in_blocks:  # else the bits of blocks would be those of another BLAS
                assert_array_equal(found, known.setdefault(rows, found))
            assert rows != 1 or not in_blocks or not calls
