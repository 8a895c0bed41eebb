"""A product has the same bits on one, two, three and four threads, on NumPy and on WebAssembly."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.numpy_helper
import pytest

import sardonyx
from sardonyx.common import crew
from sardonyx.common.trial import Trial
from sardonyx.host import products
from sardonyx.numpy_backend import executable, sharing
from tests.engine.providers import NUMPY, WASM
from tests.support import require

RUNS = executable.FIRST + 1
ROWS = (1, 2, 3, 4, 20, 23, 24, 25, 47, 48, 49, 196)
SIZES = [(rows, 100, columns) for columns in (2, 319, 320, 321, 640, 700, 1111) for rows in ROWS]
SIZES += [(30_000, 40, 17), (30_000, 20, 321), (4001, 24, 1), (301, 672, 1)]


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that can be divided is, however short, and however long a thread is waited for."""
    monkeypatch.setattr(Trial, "next", lambda self: 1)
    monkeypatch.setattr(crew, "LATE", 60.0)
    monkeypatch.setattr(executable, "SHARED", 0)
    monkeypatch.setattr(sharing, "LARGE", 0.0)
    monkeypatch.setattr(products, "SHARE", 1 << 16)
    if products.grain().small == 0:
        monkeypatch.setattr(products, "LEAST", 1 << 10)
        monkeypatch.setattr("sardonyx.numpy_backend.splits.LEAST", 1 << 10)


def session(
    provider: str, depth: int, columns: int, constant: np.ndarray | None, count: int, kind: str
) -> sardonyx.InferenceSession:
    """A product of [N, depth] with a matrix, which may be constant,."""
    right = "" if constant is not None else f", {kind}[{depth}, {columns}] w"
    text = f"""<ir_version: 8, opset_import: ["": 18]>
    g ({kind}[N, {depth}] x{right}) => ({kind}[N, {columns}] y) {{ y = MatMul (x, w) }}"""
    model = onnx.parser.parse_model(text)
    if constant is not None:
        model.graph.initializer.append(onnx.numpy_helper.from_array(constant, "w"))
    options = sardonyx.SessionOptions()
    options.intra_op_num_threads = count
    return sardonyx.InferenceSession(model.SerializeToString(), options, [provider])


@pytest.mark.usefixtures("together")
@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize(("provider", "is_constant"), [(NUMPY, False), (WASM, False), (WASM, True)])
def test_products(provider: str, is_constant: bool, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if provider == WASM:
        require("wasm")
        monkeypatch.setattr("sardonyx_wasm.device.blas.SHARED", 1)
    rng, dtype = np.random.default_rng(0), np.dtype(np.float32 if kind == "float" else np.float64)
    near = {"rtol": 1e-4, "atol": 1e-3} if kind == "float" else {"rtol": 1e-12, "atol": 1e-12}
    sessions: dict[tuple[int, int], list[sardonyx.InferenceSession]] = {}
    for rows, depth, columns in SIZES if kind == "float" else SIZES[1::2]:
        x, w = rng.standard_normal((rows, depth), dtype), rng.standard_normal((depth, columns), dtype)
        if (depth, columns) not in sessions:
            constant = w if is_constant else None
            made = [session(provider, depth, columns, constant, count, kind) for count in (1, 2, 3, 4)]
            sessions[depth, columns] = made
            fixed = w
        feeds = {"x": x} if is_constant else {"x": x, "w": w}
        one, *others = sessions[depth, columns]
        (expected,) = one.run(None, feeds)
        exact = x.astype(np.float64) @ (fixed if is_constant else w)
        np.testing.assert_allclose(expected, exact, **near)
        for number, other in enumerate(others, 2):
            for _ in range(RUNS if provider == NUMPY else 1):
                (found,) = other.run(None, feeds)
                what = f"{rows} x {depth} x {columns} on {number} threads"
                np.testing.assert_array_equal(found, expected, what)


SQUARE = """<ir_version: 8, opset_import: ["": 18]>
g (float[130, 260] x) => (float[130, 130] y) {
    z = Transpose <perm = [1, 0]> (x)
    y = MatMul (x, z)
}"""


@pytest.mark.usefixtures("together")
@pytest.mark.parametrize("provider", [NUMPY, WASM])
def test_products_by_the_transpose(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy multiplies a matrix by its transpose with a function of BLAS that makes one half of the result."""
    if provider == WASM:
        require("wasm")
        monkeypatch.setattr("sardonyx_wasm.device.blas.SHARED", 1)
    x = np.random.default_rng(0).standard_normal((130, 260), np.float32)
    model = onnx.parser.parse_model(SQUARE).SerializeToString()
    results = []
    for count in (1, 2, 3, 4):
        options = sardonyx.SessionOptions()
        options.intra_op_num_threads = count
        made = sardonyx.InferenceSession(model, options, [provider])
        results += [made.run(None, {"x": x})[0] for _ in range(RUNS)]
    np.testing.assert_allclose(results[0], x.astype(np.float64) @ x.T, rtol=1e-4, atol=1e-3)
    for other in results:
        np.testing.assert_array_equal(other, results[0])
