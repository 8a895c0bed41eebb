"""Sorting and selecting lines, against NumPy's stable sort; any split of the units gives the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest
from numpy.testing import assert_array_equal

import sardonyx
from sardonyx.primitives.reduction import SORT
from sardonyx.primitives.selection import TOP_K
from sardonyx_wasm.routines import sorting
from tests.support import require
from tests.wasm.compiled import run

Array = np.ndarray[Any, Any]
DTYPES = ["float32", "float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
NAMES = {"float64": "double", "int64": "int64"}
LENGTHS = [1, 2, 3, 7, sorting.FEW, sorting.FEW + 1, 300]

require("wasm")


def lines(dtype: str, count: int, length: int) -> Array:
    """With equal elements, the extremes of the dtype, and, of floats, zeros of both signs, NaN and infinities."""
    rng = np.random.default_rng(length)
    if dtype.startswith("float"):
        odd = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -1.5, 5e-8]
        return np.where(
            rng.random((count, length)) < 0.5, rng.choice(odd, (count, length)), rng.normal(size=length)
        ).astype(dtype)
    limits = np.iinfo(dtype)
    values = [limits.min, limits.max, 0, 1, 2, limits.max // 3]
    return rng.choice(np.array(values, dtype), (count, length))


def same(found: list[Array], wanted: Any) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert_array_equal(one, other)
        if one.dtype.kind == "f":
            assert_array_equal(np.signbit(one), np.signbit(other))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sorted(dtype: str, descending: bool) -> None:
    for length in LENGTHS:
        x = lines(dtype, 3, length)
        wanted = SORT.numpy(x, axis=1, descending=descending)
        results = [(dtype, x.shape), ("int64", x.shape)]
        same(run("sort_lines", [x], results, {"descending": descending}), wanted)
        work = [("uint8", (3, sorting.work(dtype, length)))]
        found = run("sort_lines", [x], results + work, {"descending": descending}, pieces=2, open_sizes=True)
        same(found[:2], wanted)


@pytest.mark.parametrize("values", [[7], range(100, -1, -1), range(100)])
def test_lines_in_order(values: Any) -> None:
    x = np.resize(np.array(values, np.int64), (1, 120))
    same(
        run("sort_lines", [x], [("int64", x.shape)] * 2, {"descending": False}), SORT.numpy(x, axis=1, descending=False)
    )


def test_nothing_to_sort() -> None:
    x = np.empty((2, 0), np.float32)
    run("sort_lines", [x], [("float32", x.shape), ("int64", x.shape)], {"descending": True})


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_selected(dtype: str, largest: bool) -> None:
    for k, length in ((1, 1), (1, 5), (2, 16), (5, 17), (7, 100), (40, 300), (300, 300)):
        x = lines(dtype, 3, length)
        wanted = TOP_K.numpy(x, k=k, axis=1, largest=largest)
        results = [(dtype, (3, k)), ("int64", (3, k))]
        same(run("select", [x], results, {"largest": largest}), wanted)
        same(run("select", [x], results, {"largest": largest}, pieces=3), wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_selected_of_lines_in_order(dtype: str) -> None:
    for x in (np.arange(200, dtype=dtype)[None], np.arange(200, 0, -1, dtype=dtype)[None], np.zeros((1, 200), dtype)):
        for largest in (False, True):
            results = [(dtype, (1, 9)), ("int64", (1, 9))]
            same(run("select", [x], results, {"largest": largest}), TOP_K.numpy(x, k=9, axis=1, largest=largest))


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_selects_what_comes_first_when_sorted(dtype: str) -> None:
    for axis, largest in ((0, True), (1, False), (1, True), (2, False)):
        x = lines(dtype, 30, 40).reshape(20, 3, 20).swapaxes(1, 2)
        values, places = TOP_K.numpy(x, k=2, axis=axis, largest=largest)
        exact = SORT.numpy(x, axis=axis, descending=largest)
        assert_array_equal(places, np.take(exact[1], [0, 1], axis))
        assert_array_equal(values, np.take(exact[0], [0, 1], axis))


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_few_of_many_wide_elements_are_selected(dtype: str) -> None:
    data = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g ({NAMES[dtype]}[N, M] x) => ({NAMES[dtype]}[N, 5] y, int64[N, 5] at) {{
            k = Constant <value_ints = [5]> ()
            y, at = TopK (x, k)
        }}"""
    ).SerializeToString()
    session = sardonyx.InferenceSession(data, providers=["WasmExecutionProvider"])
    x = lines(dtype, 4, 300)
    same(session.run(None, {"x": x}), TOP_K.numpy(x, k=5, axis=1, largest=True))
    assert [code["name"] for code in session.plans[0].codes] == ["select"]
