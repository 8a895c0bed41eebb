"""Products of float16 on NumPy: float32 multiplies them, and weights are widened once."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import sardonyx
from tests.engine.providers import NUMPY

PRODUCTS = {
    "MatMul": ("float16[N, 96] x", (96, 40), lambda x, w: x @ w),
    "Gemm": ("float16[N, 96] x", (96, 40), lambda x, w: x @ w),
    "Conv": ("float16[N, 3, 9, 9] x", (4, 3, 9, 9), lambda x, w: np.einsum("nchw,mchw->nm", x, w)[..., None, None]),
}


def session(operator: str, w: np.ndarray) -> sardonyx.InferenceSession:
    declared, _, _ = PRODUCTS[operator]
    text = f'<ir_version: 8, opset_import: ["": 18]> g ({declared}) => (float16[] y) {{ y = {operator} (x, w) }}'
    model = onnx.parser.parse_model(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    return sardonyx.InferenceSession(model.SerializeToString(), providers=[NUMPY])


@pytest.mark.parametrize("rows", [0, 1, 7])
@pytest.mark.parametrize("operator", PRODUCTS)
def test_products_are_rounded_once(operator: str, rows: int) -> None:
    _, shape, product = PRODUCTS[operator]
    rng = np.random.default_rng(rows)
    w = rng.standard_normal(shape).astype(np.float16)
    sizes = (rows, *(shape[1:] if operator == "Conv" else shape[:1]))
    x = rng.standard_normal(sizes).astype(np.float16)
    (found,) = session(operator, w).run(None, {"x": x})
    expected = product(x.astype(np.float64), w.astype(np.float64))
    assert found.dtype == np.float16
    assert found.shape == expected.shape
    near = np.spacing(np.abs(expected).astype(np.float16)).astype(float)
    assert (np.abs(found - expected) <= 0.51 * near + 1e-5).all()


def test_what_is_too_large_is_infinite() -> None:
    x, w = np.full((2, 96), 60000, np.float16), np.ones((96, 40), np.float16)
    (found,) = session("MatMul", w).run(None, {"x": x})
    assert np.isposinf(found).all()


@pytest.mark.parametrize("columns", [40, 30000])
def test_weights_are_widened_once(columns: int) -> None:
    """Before the plan is made where they are small, else by what runs once: no step of a run writes them."""
    made = session("MatMul", np.ones((96, columns), np.float16))
    made.run(None, {"x": np.ones((2, 96), np.float16)})
    (plan,) = made.plans
    steps = [(plan.codes[step.code], step.buffers) for step in plan.steps]
    written = {number for code, buffers in steps for number in buffers[len(code["reads"]) :]}
    ((product, (_, weight, _)),) = [step for step in steps if step[0].get("primitive") == "dot_general"]
    assert [*product["reads"], *product["writes"]] == 3 * ["float32"]
    assert weight not in written
