"""Products with weights of few bits that BLAS does natively, against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from sardonyx import InferenceSession
from sardonyx_wasm.abi import HOSTED
from sardonyx_wasm.device import blas
from sardonyx_wasm.device.unpacked import Unpacked
from tests.support import require

require("wasm")
SIZES = pytest.mark.parametrize(("depth", "columns"), [(192, 400), (1536, 65), (4096, 40), (9000, 20), (16384, 17)])


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """BLAS takes products of any size."""
    monkeypatch.setattr(blas, "FEWEST", 0)


class Product:
    """x [rows, depth] times weights of 8 bits in blocks of 32, or of as many as divide the depth."""

    def __init__(self, depth: int, columns: int, threads: int = 1) -> None:
        rng = np.random.default_rng(depth + columns)
        block = 32 if depth % 32 == 0 else 8
        numbers = rng.integers(-128, 128, (depth, columns)).astype(np.int8)
        zeros = rng.integers(-9, 9, (depth // block, columns)).astype(np.int8)
        scales = rng.uniform(0.01, 0.1, zeros.shape).astype(np.float32)
        self.weights = (numbers - np.repeat(zeros, block, 0).astype(float)) * np.repeat(scales, block, 0)
        given = {"w": numbers, "s": scales, "z": zeros}
        nodes = [
            helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=0, block_size=block),
            helper.make_node("MatMul", ["x", "d"], ["y"]),
        ]
        x, y = (
            helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["rows", size])
            for name, size in (("x", depth), ("y", columns))
        )
        constants = [numpy_helper.from_array(array, name) for name, array in given.items()]
        graph = helper.make_graph(nodes, "product", [x], [y], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        providers = [("WasmExecutionProvider", {"intra_op_num_threads": str(threads)})]
        self._session = InferenceSession(model.SerializeToString(), providers=providers)

    def __call__(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        result: np.ndarray[Any, Any] = self._session.run(None, {"x": x})[0]
        return result

    @property
    def is_hosted(self) -> bool:
        """Whether the plan of the last run has a product that may be BLAS's."""
        return any(HOSTED in (code.get("attributes") or {}) for code in self._session.plans[0].codes)

    def check(self, rows: int) -> np.ndarray[Any, Any]:
        x = np.random.default_rng(rows).standard_normal((rows, len(self.weights))).astype(np.float32)
        found, wanted = self(x), x.astype(float) @ self.weights
        bound = np.abs(x).astype(float) @ np.abs(self.weights)
        assert (np.abs(found - wanted) <= 1e-6 * bound).all()
        return found


@SIZES
def test_sizes(depth: int, columns: int) -> None:
    product = Product(depth, columns)
    for rows in (37, 5, 1, 4, 130):
        product.check(rows)
        assert product.is_hosted


def test_few_rows_are_the_modules_where_others_were_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt has many rows, and each token after it one: the plan is the same, and the host is not asked."""
    product, asked, call = Product(192, 400), set[int](), Unpacked.__call__
    monkeypatch.setattr(
        Unpacked, "__call__", lambda self, *part: (asked.add(self.work // 192 // 400), call(self, *part))[1]
    )
    for rows in (37, 1, 4, 5, 2):
        product.check(rows)
    assert asked == {37, 5}


def test_few_rows_are_none_of_its_business() -> None:
    product = Product(192, 400)
    product.check(1)
    assert not product.is_hosted


@SIZES
def test_threads_give_the_same_bits(depth: int, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "SHARED", 0)
    one, three = (Product(depth, columns, threads) for threads in (1, 3))
    for rows in (20, 3):
        np.testing.assert_array_equal(one.check(rows), three.check(rows))


def test_infinities_and_nan() -> None:
    product = Product(192, 400)
    x = np.ones((9, 192), np.float32)
    x[3, 5], x[7, 9] = np.inf, np.nan
    found = product(x)
    assert np.isfinite(found[[0, 1, 2, 4, 5, 6, 8]]).all()
    assert not np.isfinite(found[[3, 7]]).any()
