"""Products that BLAS does in blocks and panels are those of float64, whatever the number of threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sardonyx.code.kernel import Routine
from sardonyx.common.threads import OneThread
from sardonyx.compiler.legalization.filtering import filters
from sardonyx.host.products import _HASWELL
from sardonyx_wasm.device import blas, calls, heights


def routine(primitive: str, shapes: Sequence[Sequence[int]], dtype: str = "float32", **attributes: Any) -> Routine:
    *inputs, output = (list(shape) for shape in shapes)
    return Routine(primitive, primitive, (dtype,) * 2, (dtype,), 0, attributes, tuple(inputs), (output,))


def panels(b: np.ndarray, nr: int) -> np.ndarray:
    *outer, k, n = b.shape
    count = -(-n // nr)
    wide = np.zeros((*outer, k, count * nr), b.dtype)
    wide[..., :n] = b
    return np.moveaxis(wide.reshape(*outer, k, count, nr), -2, -3)


class Memory:
    """Arrays one after another in bytes, each at an address."""

    def __init__(self, *arrays: np.ndarray) -> None:
        self.addresses = [int(at) for at in np.cumsum([256] + [array.nbytes for array in arrays])]
        self.dtype = arrays[0].dtype
        self.bytes = np.full(self.addresses[-1] // self.dtype.itemsize, np.nan, self.dtype)
        for address, array in zip(self.addresses, arrays, strict=False):
            self.array(address, array.shape)[...] = array

    def array(self, address: int, shape: Sequence[int], strides: Sequence[int] | None = None) -> np.ndarray:
        return np.ndarray(shape, self.dtype, self.bytes, address, strides)


def result(
    primitive: str, a: np.ndarray, b: np.ndarray, stored: np.ndarray, shape: Sequence[int], threads: int
) -> np.ndarray:
    attributes = {"n": b.shape[-1], "nr": stored.shape[-1]} if stored is not b else {}
    memory = Memory(a, stored, np.full(shape, np.nan, a.dtype))
    code = routine(primitive, [a.shape, stored.shape, shape], a.dtype.name, **attributes)
    call = calls.Call(blas.product(code, memory.addresses, ()), memory.array, threads)
    with OneThread():
        for number in range(len(call.parts)):
            call.do(number, number % threads)
    return memory.array(memory.addresses[2], shape)


def check(primitive: str, a: np.ndarray, b: np.ndarray, stored: np.ndarray, expected: np.ndarray, threads: int) -> None:
    found = result(primitive, a, b, stored, expected.shape, threads)
    near = 1e-4 if a.dtype == np.float32 else 1e-13
    np.testing.assert_allclose(found, expected, rtol=near, atol=near * max(1.0, np.abs(expected).max(initial=0.0)))


BLOCKS = pytest.mark.parametrize("in_blocks", [False, True])
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])
THREADS = pytest.mark.parametrize("threads", [1, 3])
SIZES = [
    (1, 1, 1),
    (7, 5, 3),
    (1, 576, 200),
    (1, 2000, 130),
    (37, 576, 100),
    (200, 300, 65),
    (130, 129, 128),
    (1000, 40, 70),
    (3, 7, 700),
    (1, 4608, 70),
    (33, 2304, 130),
    (29, 256, 100),
    (61, 2100, 70),
]


@pytest.fixture
def blocks(in_blocks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "in_blocks", lambda: in_blocks)
    monkeypatch.setattr(blas, "SHARED", 1)


@DTYPES
@BLOCKS
@THREADS
@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("nr", [0, 16, 64])
@pytest.mark.parametrize("again", [1 << 16, 1 << 20])
def test_products(
    sizes: tuple[int, int, int], nr: int, again: int, threads: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blas, "_AGAIN", again)
    m, k, n = sizes
    rng = np.random.default_rng(m)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n)))
    expected = a.astype(np.float64) @ b
    check("matmul_panels" if nr else "matmul", a, b, panels(b, nr) if nr else b, expected, threads)


@pytest.mark.skipif(not blas.in_blocks(), reason="OpenBLAS sums the last columns in another way without AVX-512")
@DTYPES
@THREADS
@pytest.mark.parametrize("sizes", [(1, 1024, 1000), (1, 4096, 1000), (1, 400, 200), (20, 500, 1000), (1, 100, 17)])
@pytest.mark.parametrize("nr", [0, 32, 64])
def test_equal_columns_have_equal_sums(sizes: tuple[int, int, int], nr: int, threads: int, dtype: str) -> None:
    """What a softmax of large numbers needs: the last columns are summed in the order of the others."""
    m, k, n = sizes
    rng = np.random.default_rng(k)
    a, column = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, 1)))
    b = np.ascontiguousarray(np.broadcast_to(column, (k, n)))
    found = result("matmul_panels" if nr else "matmul", a, b, panels(b, nr) if nr else b, (m, n), threads)
    np.testing.assert_array_equal(found, np.broadcast_to(found[:, :1], (m, n)))


@DTYPES
@pytest.mark.parametrize(
    "sizes",
    [
        (4001, 24, 1),
        (301, 672, 1),
        (641, 96, 18),
        (49, 4608, 130),
        (33, 64, 64),
        (169, 512, 100),
        (18, 2304, 50),
        (197, 200, 256),
        (73, 2000, 80),
        (85, 1500, 319),
    ],
)
@pytest.mark.parametrize("nr", [0, 32, 64])
def test_sums_do_not_depend_on_the_number_of_threads(
    sizes: tuple[int, int, int], nr: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blas, "SHARED", 1)
    monkeypatch.setattr(blas, "_AGAIN", 1 << 17)
    m, k, n = sizes
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n)))
    stored = panels(b, min(nr, n)) if nr else b
    primitive = "matmul_panels" if nr else "matmul"
    one, *others = (result(primitive, a, b, stored, (m, n), threads) for threads in (1, 2, 3, 5, 16))
    for other in others:
        np.testing.assert_array_equal(other, one)


def test_panels_have_few_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "in_blocks", lambda: True)
    widths = {columns: blas.panel_width(100, columns) for columns in (20, 64, 96, 100, 200, 1000)}
    assert widths == {20: 20, 64: 64, 96: 32, 100: 64, 200: 32, 1000: 64}
    narrow = {columns: blas.panel_width(256, columns, rows=172) for columns in (20, 36, 48, 64, 96, 1000)}
    doubles = {columns: blas.panel_width(100, columns, itemsize=8) for columns in (20, 32, 48, 100, 1000)}
    assert doubles == {20: 20, 32: 32, 48: 16, 100: 16, 1000: 32}
    assert narrow == {20: 20, 36: 36, 48: 48, 64: 32, 96: 32, 1000: 32}


def test_long_sums_are_made_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "in_blocks", lambda: True)
    assert blas.panel_width(4608, 512, rows=49) == blas.panel_width(4608, 512) == blas.WIDTH
    assert blas.panel_width(4621, 512, rows=49) == 0  # a prime number
    memory = Memory(*(np.zeros(shape, np.float32) for shape in ((49, 4608), (8, 4608, 64), (49, 512))))
    code = routine("matmul_panels", [(49, 4608), (8, 4608, 64), (49, 512)], n=512, nr=64)
    product = blas.product(code, memory.addresses, ())
    for a, b, c in product.calls(memory.array, range(49), range(8)):
        assert a.shape[0] == b.shape[0] == 4608 // a.shape[-1] == blas.pieces(4608)
        assert a.ndim == c.ndim + 1
        assert a.shape[-2] * a.shape[-1] * b.shape[-1] <= blas.SMALL


@pytest.mark.parametrize("most", [7, 8, 13, 30, 61, 244, 578])
@pytest.mark.parametrize("rows", [0, 1, 3, 5, 8, 9, 33, 49, 62, 169, 196, 784, 3136, 12321])
def test_blocks_of_rows(rows: int, most: int) -> None:
    """Sums of rows that OpenBLAS takes together have one order: no block begins between them, none has fewer."""
    blocks = heights.runs(rows, most)
    sizes = [size for _, count, size in blocks for _ in range(count)]
    starts = [first + k * size for first, count, size in blocks for k in range(count)]
    assert [*starts, rows] == [sum(sizes[:k]) for k in range(len(sizes) + 1)]
    assert all(start % 4 == 0 for start in starts)
    assert max(sizes, default=0) <= most
    assert min(sizes, default=rows) >= min(rows, 4)


@pytest.mark.parametrize(
    ("sizes", "bands"),
    [((49, 512, 1024), 1), ((196, 1024, 512), 1), ((7, 2048, 300), 1), ((400, 768, 3072), 2), ((50, 4608, 512), 1)],
)
def test_a_larger_right_side_is_read_once(
    sizes: tuple[int, int, int], bands: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For each band of rows: a panel is only read again where so little was read since that it is in the cache."""
    monkeypatch.setattr(blas, "in_blocks", lambda: True)
    m, k, n = sizes
    count = -(-n // 64)
    memory = Memory(*(np.zeros(shape, np.float32) for shape in ((m, k), (count, k, 64), (m, n))))
    code = routine("matmul_panels", [(m, k), (count, k, 64), (m, n)], n=n, nr=64)
    read: list[int] = []
    for a, b, c in blas.product(code, memory.addresses, ()).calls(memory.array, range(m), range(count)):
        products = [step for step in calls.steps(a, b, c, {}) if step.func is np.matmul]
        assert all(step.keywords["order"] == "C" for step in products)  # NumPy goes through them in this order
        panels = b if b.ndim == c.ndim else b[0]  # of a piece
        whole = np.broadcast_to(panels, (*c.shape[:-2], *panels.shape[-2:]))
        for place in np.ndindex(c.shape[:-2]):
            address = whole[place].__array_interface__["data"][0]
            if read[-1:] != [address]:
                read.append(address)
    between = 4 * 64 * k
    far = dict.fromkeys(read, 0)
    for number, place in enumerate(read):
        since = read[:number][::-1]
        far[place] += place not in since or between * (since.index(place) + 1) > max(blas._CACHED, between)
    assert len(far) == count
    assert max(far.values()) == bands


@DTYPES
@BLOCKS
@THREADS
@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("shape", [(3, 50, 64, 70), (2, 200, 100, 200), (4, 1, 30, 200), (2, 0, 3, 4), (0, 2, 3, 4)])
def test_stacks(shape: tuple[int, int, int, int], threads: int, dtype: str) -> None:
    count, m, k, n = shape
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((count, m, k), (count, k, n)))
    expected = a.astype(np.float64) @ b
    check("matmul", a, b, b, expected, threads)


@BLOCKS
@THREADS
@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize(
    ("tile", "kernel", "strides"),
    [((4, 4), (3, 3), (1, 1)), ((2, 2), (3, 3), (2, 2)), ((4, 1), (3, 1), (2, 1)), ((4, 4), (3, 3), (1, 2))],
)
def test_planes(tile: tuple[int, int], kernel: tuple[int, int], strides: tuple[int, int], threads: int) -> None:
    """The products of Winograd's algorithm, where equal weights are there once."""
    attributes: dict[str, Any] = {"tile": tile, "kernel": kernel, "strides": strides, "dilations": (1, 1)}
    down, across = filters(attributes)
    rng = np.random.default_rng(0)
    count = 2 * down.tiles(9) * across.tiles(13)
    a = rng.standard_normal((count, down.places, across.places, 20)).astype(np.float32)
    b = rng.standard_normal((down.weights, across.weights, 20, 70)).astype(np.float32)
    which = [np.minimum(np.arange(line.places), line.weights - 1) for line in (down, across)]
    expected = np.einsum("tpqk,pqkn->tpqn", a.astype(np.float64), b[np.ix_(*which)])
    stored = panels(b.reshape(-1, 20, 70), 32)
    memory = Memory(a, stored, np.full(expected.shape, np.nan, np.float32))
    shapes = [[2, 0, 0, 20], stored.shape, [2, 9, 13, 70]]
    code = routine("conv_winograd", shapes, n=70, nr=32, **attributes)
    call = calls.Call(blas.product(code, memory.addresses, ()), memory.array, threads)
    for number in range(len(call.parts)):
        call.do(number, number % threads)
    found = memory.array(memory.addresses[2], expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize(("threads", "parts"), [(1, 1), (2, 4), (3, 4)])
def test_planes_that_share_weights_are_divided_where_rows_are_few(
    threads: int, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The matrices of a stride of two: nine on an axis, the last four of which have one weight."""
    monkeypatch.setattr(blas, "in_blocks", lambda: False)
    monkeypatch.setattr(blas, "SHARED", 1)
    attributes: dict[str, Any] = {"tile": (4, 4), "kernel": (3, 3), "strides": (2, 2), "dilations": (1, 1)}
    down, across = filters(attributes)
    rng = np.random.default_rng(0)
    a = rng.standard_normal((7 * 7, down.places, across.places, 20)).astype(np.float32)
    b = rng.standard_normal((down.weights * across.weights, 20, 70)).astype(np.float32)
    memory = Memory(b, np.full(1 << 21, np.nan, np.float32))
    matrices, room, _ = memory.addresses
    code = routine("conv_winograd", [[1, 0, 0, 20], b.shape, [1, 28, 28, 70]], n=70, **attributes)
    call = calls.Call(blas.product(code, [0, matrices, 0], ()), memory.array, threads, ("before", "after"))
    assert call.layout
    assert call.room <= 1 << 23
    call.use(room)
    memory.array(room, a.shape)[...] = a
    with OneThread():
        for number in range(len(call.parts)):
            call.do(number, number % threads)
    which = [np.minimum(np.arange(line.places), line.weights - 1) for line in (down, across)]
    planes = b.reshape(down.weights, across.weights, 20, 70)[np.ix_(*which)]
    expected = np.einsum("tpqk,pqkn->tpqn", a.astype(np.float64), planes)
    np.testing.assert_allclose(memory.array(room + call.layout.left, expected.shape), expected, 1e-4, 1e-4)
    assert len(call.parts) == parts
    assert call.layout.is_common == (threads > 1)
    assert sum(each.work for each, *_ in call.parts) == call.work


def test_whoever_comes_first_does_what_is_for_one_thread() -> None:
    """A small convolution in a run that threads share: each of them has memory for it."""
    attributes: dict[str, Any] = {"kernel": (3, 3), "strides": (1, 1), "dilations": (1, 1), "pads": (1, 1, 1, 1)}
    rng = np.random.default_rng(0)
    a = rng.standard_normal((49, 72)).astype(np.float32)
    b = rng.standard_normal((72, 16)).astype(np.float32)
    memory = Memory(b, np.zeros(1 << 21, np.float32))
    matrix, room, _ = memory.addresses
    code = routine("conv_panels", [[1, 7, 7, 8], b.shape, [1, 7, 7, 16]], n=16, nr=0, **attributes)
    product = blas.product(code, [0, matrix, 0], ())
    assert product.work < blas.SHARED
    call = calls.Call(product, memory.array, 3, ("before", "after"))
    assert call.layout
    assert not call.layout.is_common
    call.use(room)
    for thread in range(3):
        place = room + call.layout.room * thread
        assert place + call.layout.room <= room + call.room
        memory.array(place, a.shape)[...] = a
        with OneThread():
            for number in range(len(call.parts)):
                call.do(number, thread)
        np.testing.assert_allclose(memory.array(place + call.layout.left, (49, 16)), a @ b, 1e-4, 1e-4)


def test_only_large_products_of_floats_are_taken() -> None:
    assert blas.takes(routine("matmul", [[64, 64], [64, 64], [64, 64]]))
    assert blas.takes(routine("matmul", [["p0", 64], [64, 64], ["p0", 64]]))
    assert blas.takes(routine("matmul", [["p0", 32], [32, 32], ["p0", 32]]))
    assert not blas.takes(routine("matmul", [["p0", 16], [16, 16], ["p0", 16]]))
    assert blas.takes(routine("matmul", [[64, 64], [64, 64], [64, 64]], "float64"))
    assert not blas.takes(routine("matmul", [[8, 64], [64, 64], [8, 64]]))
    assert not blas.takes(routine("depthwise", [[1, 9, 9, 64], [9, 64], [1, 7, 7, 64]]))
    assert blas.takes(routine("conv_panels", [[1, 9, 9, 4], [1, 36, 8], [1, 7, 7, 8]]))


@pytest.mark.parametrize("batch", [(), (5,)])
def test_few_rows_are_multiplied_one_by_one(batch: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where BLAS would copy the matrix for them."""
    monkeypatch.setattr(blas, "in_blocks", lambda: False)
    monkeypatch.setattr("sardonyx.host.products.grain", lambda itemsize: _HASWELL)
    for rows in range(1, 6):
        code = routine("matmul", [(*batch, rows, 300), (*batch, 300, 64), (*batch, rows, 64)])
        product = blas.product(code, (0, 0, 0), ())
        views, _ = product.views(rows, product.panels)
        assert {sizes[-2] for _, sizes, _ in views} == {1 if 1 < rows <= 3 else rows}


@THREADS
@pytest.mark.parametrize("rows", [2, 4, 12, 40, 300])
def test_threads_divide_the_columns_of_what_blas_copies(
    rows: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A matrix that is large beside the rows is copied once by all of them, and not by each."""
    monkeypatch.setattr(blas, "in_blocks", lambda: False)
    monkeypatch.setattr(blas, "SHARED", 1)
    code = routine("matmul", [(rows, 300), (300, 600), (rows, 600)])
    product = blas.product(code, (0, 0, 0), ())
    parts = calls.Call(product, lambda *_: np.empty(0), threads).parts
    columns = [list(panels) for _, _, panels in parts]
    if threads > 1 and 3 < rows < 100:
        assert len(columns) == threads
        assert sorted(k for some in columns for k in some) == list(product.panels)
    else:
        assert {tuple(some) for some in columns} == {tuple(product.panels)}
