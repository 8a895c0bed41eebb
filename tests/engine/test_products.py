"""Threads of products: a session's own share large ones, and NumPy's BLAS has one thread within a run."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest

import sardonyx
from sardonyx.common import threads
from sardonyx.common.crew import Crew
from sardonyx.errors import EPFail
from sardonyx.host import products
from tests.engine.providers import NUMPY, WASM
from tests.support import require

SCRIPT = """
import threadpoolctl
import numpy
from sardonyx.common import threads

if {searching}:
    threads._libraries = lambda: []

def counts():
    return {{pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"}}

with threadpoolctl.threadpool_limits(3, "blas"):
    with threads.OneThread():
        with threads.OneThread():
            print(counts())
        print(counts())
    print(counts())
"""


@pytest.mark.parametrize("searching", [False, True])
def test_blas_has_one_thread_inside_and_what_it_had_outside(searching: bool) -> None:
    command = [sys.executable, "-c", SCRIPT.format(searching=searching)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["{1}", "{1}", "{3}"]


class Blas:
    """A library whose number of threads is written down."""

    def __init__(self, count: int) -> None:
        self.counts = [count]

    def settings(self) -> tuple[threads.Setting, ...]:
        return (threads.Setting(lambda: self.counts[-1], self.counts.append),)


def product(size: int, count: int = 0, provider: str = NUMPY) -> sardonyx.InferenceSession:
    """A session of one product of [N, size] with a matrix."""
    text = f"""<ir_version: 8, opset_import: ["": 18]>
    g (float[N, {size}] x, float[{size}, {size}] w) => (float[N, {size}] y) {{ y = MatMul (x, w) }}"""
    options = sardonyx.SessionOptions()
    options.intra_op_num_threads = count
    return sardonyx.InferenceSession(onnx.parser.parse_model(text).SerializeToString(), options, [provider])


def ones(rows: int, size: int) -> dict[str, np.ndarray]:
    return {"x": np.ones((rows, size), np.float32), "w": np.ones((size, size), np.float32)}


@pytest.mark.parametrize("provider", [NUMPY, WASM])
def test_a_run_has_one_thread_of_blas(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if provider == WASM:
        require("wasm")
    blas = Blas(5)
    monkeypatch.setattr(threads, "blas", blas.settings)
    session = product(256, provider=provider)
    assert blas.counts == [5]
    session.run(None, ones(256, 256))
    assert blas.counts == [5, 1, 5]


def test_runs_at_the_same_time_leave_blas_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    blas, inside = Blas(4), threading.Barrier(2)
    monkeypatch.setattr(threads, "blas", blas.settings)

    def enter(leaves_first: bool) -> None:
        with threads.OneThread():
            inside.wait(10)
            if not leaves_first:
                time.sleep(0.05)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(enter, [True, False]))
    assert blas.counts == [4, 1, 4]


def test_a_blas_that_tells_nothing_keeps_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session has none of its own then, and says so to who asked for some, at the line that asked."""
    monkeypatch.setattr(threads, "blas", lambda: ())
    text = "intra_op_num_threads=3 does not hold for NumPy's BLAS: threadpoolctl is not installed; pip install thread"
    with pytest.warns(UserWarning, match=text) as caught:
        product(8, 3)
    assert Path(caught[0].filename).name == Path(__file__).name
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session = product(8)
    np.testing.assert_array_equal(session.run(None, ones(2, 8))[0], np.full((2, 8), 8))


@pytest.mark.parametrize("count", ["two", "-1", "1.5", "", "5000"])
def test_what_is_no_number_of_threads(count: str) -> None:
    with pytest.raises(EPFail, match=f"NumpyExecutionProvider: intra_op_num_threads='{count}' .*; use 1, 2, ... or 0"):
        threads.number(NUMPY, {"intra_op_num_threads": count})
    with pytest.raises(EPFail, match="is more than"):  # Python refuses to read so many digits
        threads.number(NUMPY, {"intra_op_num_threads": "9" * 5000})


def by_columns(x: np.ndarray) -> np.ndarray:
    """The same elements, neighbours along the last axis but one."""
    return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("view", [np.asarray, by_columns])
@pytest.mark.parametrize("into", [False, True])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((200, 30), (30, 10)),
        ((10, 30), (30, 200)),
        ((1, 30), (30, 50)),
        ((6, 20, 30), (6, 30, 20)),
        ((6, 20, 30), (30, 20)),
        ((20, 30), (6, 30, 70)),
        ((2, 3, 5, 7), (3, 7, 40)),
        ((3, 1, 5, 7), (1, 6, 7, 4)),
        ((5, 0), (0, 5)),
        ((0, 5), (5, 3)),
    ],
)
def test_shared_products_are_those_of_numpy(
    left: tuple[int, ...],
    right: tuple[int, ...],
    into: bool,
    view: Callable[[np.ndarray], np.ndarray],
    dtype: type,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(products, "SHARE", 1)
    monkeypatch.setattr(products, "LEAST", 0)
    monkeypatch.setattr(products, "PACKED", 0)
    monkeypatch.setattr(products, "grain", lambda itemsize: products.Grain(1, 1, 1, 0))
    rng = np.random.default_rng(0)
    a, b = (view(rng.integers(-9, 9, shape).astype(dtype)) for shape in (left, right))
    expected = np.einsum("...ij,...jk->...ik", a, b)
    crew = Crew(3)
    seen: list[int] = []
    run = crew.run
    monkeypatch.setattr(crew, "run", lambda function, count: seen.append(count) or run(function, count))
    out = np.full(expected.shape, np.nan) if into else None
    with products.shared(crew):
        found = products.matmul(a, b, out)
    crew.dismiss()
    assert seen == ([3] if a.size and b.size and a.shape[-2] > 1 else [])
    assert found is out or not into
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    [
        (64, 1500, 384),
        (31, 800, 1111),
        (300, 90, 700),
        (1, 3000, 5000),
        (900, 4000, 3),
        (128, 250, 2000),
        (20, 900, 3000),
        (30_000, 70, 24),
    ],
)
def test_shared_products_have_the_same_bits(rows: int, depth: int, columns: int, dtype: type) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(rows, depth)).astype(dtype), rng.normal(size=(depth, columns)).astype(dtype)
    check_bits(a, b)


@pytest.mark.parametrize(("core", "wide"), [("haswell", 1), ("neoversen1", 1), ("skylakex", 1_000_000), ("", 1)])
@pytest.mark.parametrize("batch", [(), (2, 4)])
@pytest.mark.parametrize("into", [False, True])
def test_few_rows_are_multiplied_one_by_one(
    into: bool, batch: tuple[int, ...], core: str, wide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BLAS copies the matrix for more than a vector; with AVX-512 it does so for large products alone."""
    known = products._GRAINS.get(core, products._ANY)
    monkeypatch.setattr(products, "grain", lambda itemsize: known)
    rng, matmul = np.random.default_rng(0), np.matmul
    heights: list[int] = []
    monkeypatch.setattr(np, "matmul", lambda a, b, **into: (heights.append(a.shape[-2]), matmul(a, b, **into))[1])
    for rows in range(1, 6):
        for depth in (1 + wide // 3000, 1 + wide // 10):
            a, b = rng.standard_normal((*batch, rows, depth)), rng.standard_normal((*batch[1:], depth, 7))
            out = np.full((*batch, rows, 7), np.nan) if into else None
            heights.clear()
            found = products.matmul(a, b, out)
            is_few = 1 < rows <= 3 and (wide == 1 or depth > 10_000)
            assert heights == [1 if is_few else rows]
            assert found is out or not into
            np.testing.assert_allclose(found, np.einsum("...ij,...jk->...ik", a, b), rtol=0, atol=1e-9)


@pytest.mark.parametrize("rows", [300, 1000])
def test_a_product_by_the_transpose_has_the_same_bits(rows: int) -> None:
    """NumPy has BLAS make one half of it."""
    a = np.random.default_rng(0).standard_normal((rows, 260), np.float32)
    check_bits(a, a.T)


def check_bits(a: np.ndarray, b: np.ndarray) -> None:
    """Compare a product by several threads with NumPy's own."""
    with threads.OneThread():
        expected = np.matmul(a, b)
        for count in (2, 3, 4):
            crew = Crew(count)
            with products.shared(crew):
                found = products.matmul(a, b)
            crew.dismiss()
            np.testing.assert_array_equal(found, expected)


def test_large_products_of_a_session_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(Crew, "run", lambda self, function, count: seen.append(count) or function(0, 1))
    two, one = product(256, 2), product(256, 1)
    for session, rows, expected in ((two, 256, [2]), (two, 2, []), (one, 256, [])):
        seen.clear()
        session.run(None, ones(rows, 256))
        assert seen == expected
