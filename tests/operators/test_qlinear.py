"""Quantized products, convolutions and functions, of random tensors, step by step against onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.engine.providers import PROVIDERS, require_provider
from tests.support import eager
from tests.support.saturation import exact
from tests.support.single import judged, outputs_on, single

MICROSOFT = "com.microsoft"
TYPES = [np.uint8, np.int8]
Quantized = tuple[np.ndarray, np.ndarray, np.ndarray]


def scale(number: Any) -> np.ndarray:
    return np.array(number, np.float32)


class Tensors:
    """Random quantized tensors: elements, scale, zero point."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def __call__(self, dtype: Any, *shape: int, channels: int = 0) -> Quantized:
        info = np.iinfo(dtype)
        count = (channels,) if channels else ()
        elements = exact(self.rng.integers(info.min, info.max + 1, shape).astype(dtype))
        zeros = self.rng.integers(info.min // 4, info.max // 4, count).astype(dtype)
        return elements, self.rng.uniform(0.01, 0.1, count).astype(np.float32), zeros

    def result(self, dtype: Any, number: float) -> tuple[np.ndarray, np.ndarray]:
        return scale(number), np.array(self.rng.integers(0, 50), dtype)


def check(op_type: str, *arrays: np.ndarray | None, steps: int = 0, domain: str = MICROSOFT, **attributes: Any) -> None:
    """Assert that eager evaluation gives what onnxruntime gives, integers within so many steps."""
    model, feeds = single(op_type, *arrays, domain=domain, **attributes)
    (found,), (wanted,) = eager.evaluate(model, feeds), judged(model, feeds)
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())
    else:
        assert np.abs(found.astype(int) - wanted.astype(int)).max() <= steps


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("a_type", "b_type"), [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)])
def test_matmul(a_type: Any, b_type: Any, seed: int) -> None:
    make = Tensors(seed)
    stack = (2,) if seed % 2 else ()
    b = make(b_type, *stack, 9, 5, channels=5 * (seed > 1 and not stack))
    check("QLinearMatMul", *make(a_type, *stack, 4, 9), *b, *make.result(a_type, 3), domain="")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("w_type", TYPES)
def test_convolution(w_type: Any, seed: int) -> None:
    make, groups = Tensors(seed), 1 + seed % 2
    attributes = {"pads": [1, 0, 2, 1], "strides": [1 + seed % 3, 2], "dilations": [1, 1 + seed % 2], "group": groups}
    weights = make(w_type, 4, 4 // groups, 3, 2, channels=4 * (seed > 2))
    weights = weights if w_type == np.uint8 else (*weights[:2], np.zeros_like(weights[2]))
    bias = make.rng.integers(-9999, 9999, 4).astype(np.int32) if seed % 2 else None
    check(
        "QLinearConv", *make(np.uint8, 2, 4, 7, 8), *weights, *make.result(np.uint8, 1), bias, domain="", **attributes
    )


@pytest.mark.parametrize("seed", range(4))
def test_gemm(seed: int) -> None:
    make = Tensors(seed)
    a, b = make(np.uint8, 4, 7), make(np.int8, 7, 5, channels=5 * (seed % 2))
    c = make.rng.integers(-999, 999, 5).astype(np.int32) if seed > 1 else None
    check("QGemm", *a, *b, c, *make.result(np.uint8, 1.5), alpha=0.5 + seed)
    check("QGemm", *a, *b, c, alpha=2.0)
    check("QGemm", *(x.T for x in a), *(b[0].T, *b[1:]), c, *make.result(np.uint8, 2), transA=1, transB=1)


@pytest.mark.parametrize("dtype", TYPES)
def test_elementwise(dtype: Any) -> None:
    make = Tensors(1)
    a, b = make(dtype, 3, 4, 50), make(dtype, 4, 1)
    check("QLinearAdd", *a, *b, *make.result(dtype, 0.1), steps=1)
    check("QLinearMul", *a, *b, *make.result(dtype, 0.3))
    check("QLinearLeakyRelu", *a, *make.result(dtype, 0.05), alpha=0.2)
    check("QLinearSigmoid", *a, scale(1 / 256), np.array(0, dtype), steps=1)
    for axis in (-1, 1):
        check("QLinearSoftmax", *a, scale(1 / 256), np.array(0, dtype), axis=axis, opset=13, steps=1)
    check("QLinearSoftmax", *a, scale(1 / 256), np.array(0, dtype), axis=1, opset=11, steps=1)
    check("QLinearConcat", *make.result(dtype, 0.04), *a, *make(dtype, 3, 2, 50), axis=1)
    check("QLinearWhere", make.rng.random((3, 1, 50)) < 0.5, *a, *b, *make.result(dtype, 0.06))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("last", [0, 1])
def test_pools(dtype: Any, last: int) -> None:
    make = Tensors(2)
    x = make(dtype, 2, 5, 6, 7)
    check("QLinearGlobalAveragePool", *x, *make.result(dtype, 0.02), channels_last=last)
    for attributes in ({}, {"pads": [1, 1, 0, 1]}, {"pads": [1, 1, 0, 1], "count_include_pad": 1}, {"ceil_mode": 1}):
        check(
            "QLinearAveragePool",
            *x,
            *make.result(dtype, 0.02),
            steps=1,
            kernel_shape=[2, 3],
            strides=[2, 2],
            channels_last=last,
            **attributes,
        )
    check("NhwcMaxPool", x[0], kernel_shape=[2, 3], pads=[1, 0, 0, 1], strides=[1, 2])


@pytest.mark.parametrize("seed", range(4))
def test_products_as_floats(seed: int) -> None:
    make = Tensors(seed)
    a, b = make(np.uint8, 2, 4, 7), make(np.int8, 7, 5, channels=5 * (seed % 2))
    bias = make.rng.normal(size=5).astype(np.float32) if seed > 1 else None
    check("MatMulIntegerToFloat", a[0], b[0], a[1], b[1], a[2], b[2], bias)
    check("DynamicQuantizeMatMul", make.rng.normal(size=(3, 7)).astype(np.float32), *b, bias)


def test_mean() -> None:
    """onnxruntime declares this operator and lacks it."""
    make = Tensors(3)
    (x, step, zero), (y_step, y_zero) = make(np.uint8, 2, 3, 40), make.result(np.uint8, 0.03)
    mean = ((x.astype(np.float64) - zero) * step).mean((0, 2), keepdims=True)
    wanted = np.clip(np.rint(mean / y_step) + y_zero, 0, 255)
    model, feeds = single(
        "QLinearReduceMean", x, step, zero, y_step, y_zero, domain=MICROSOFT, axes=[0, -1], keepdims=1
    )
    (found,) = eager.evaluate(model, feeds)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, wanted)


def test_halves_round_to_even() -> None:
    x = np.array([[1, 3, 5, 255, 0]], np.uint8)
    one, zero = np.ones((1, 1), np.uint8), np.array(0, np.uint8)
    model, feeds = single("QLinearMatMul", x.T, scale(0.5), zero, one, scale(1), zero, scale(1), zero)
    np.testing.assert_array_equal(eager.evaluate(model, feeds)[0][:, 0], [0, 2, 2, 128, 0])


def test_rows_and_columns_have_scales() -> None:
    """As ONNX has it; onnxruntime takes no scales of rows."""
    rng = np.random.default_rng(5)
    a, b = rng.integers(-99, 99, (2, 3, 4)).astype(np.int8), rng.integers(-99, 99, (2, 4, 5)).astype(np.int8)
    rows, columns = rng.uniform(0.1, 0.2, (2, 3, 1)).astype(np.float32), rng.uniform(0.1, 0.2, (2, 1, 5)).astype("f4")
    zero = np.array(0, np.int8)
    a_zero, b_zero = np.full((2, 3, 1), 4, np.int8), np.full((2, 1, 5), -6, np.int8)
    model, feeds = single("QLinearMatMul", a, rows, a_zero, b, columns, b_zero, scale(2), zero)
    wanted = (rows.astype(float) * (a.astype(float) - 4)) @ (columns.astype(float) * (b.astype(float) + 6)) / 2
    np.testing.assert_allclose(eager.evaluate(model, feeds)[0], np.clip(np.rint(wanted), -128, 127), atol=1)


@pytest.mark.parametrize("domain", ["", MICROSOFT])
def test_floats_of_8_bits(domain: str) -> None:
    """onnxruntime's quantizer writes them in its own domain."""
    rng = np.random.default_rng(6)
    a, b = (rng.normal(size=shape).astype(ml_dtypes.float8_e4m3fn) for shape in ((3, 4), (4, 2)))
    zero = np.zeros((), ml_dtypes.float8_e4m3fn)
    model, feeds = single("QLinearMatMul", a, scale(2), zero, b, scale(0.5), zero, scale(0.25), zero, domain=domain)
    (found,) = eager.evaluate(model, feeds)
    wanted = (a.astype(np.float32) @ b.astype(np.float32) * 4).astype(ml_dtypes.float8_e4m3fn)
    np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


def _matmul(make: Tensors) -> tuple[Any, ...]:
    return "QLinearMatMul", "", (*make(np.uint8, 3, 70), *make(np.int8, 70, 6), *make.result(np.uint8, 9))


def _conv(make: Tensors) -> tuple[Any, ...]:
    weights = (*make(np.int8, 6, 3, 3, 3, channels=6)[:2], np.zeros(6, np.int8))
    return "QLinearConv", "", (*make(np.uint8, 1, 3, 9, 8), *weights, *make.result(np.uint8, 2))


def _gemm(make: Tensors) -> tuple[Any, ...]:
    a, b = make(np.uint8, 4, 33), make(np.int8, 33, 5)
    return "QGemm", MICROSOFT, (*a, *b, np.arange(5, dtype=np.int32), *make.result(np.uint8, 3))


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("case", [_matmul, _conv, _gemm])
def test_providers_agree_to_the_step(provider: str, case: Callable[[Tensors], tuple[Any, ...]]) -> None:
    require_provider(provider)
    op_type, domain, arrays = case(Tensors(7))
    model, feeds = single(op_type, *arrays, domain=domain)
    np.testing.assert_array_equal(outputs_on(provider, model, feeds)[0], judged(model, feeds)[0])
