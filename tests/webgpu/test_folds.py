"""Folds: along rows, across them, their accuracy, and what they hand on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.webgpu.folds import INT64, SCHEDULES, apply, model, run, use

LENGTHS = [1, 3, 4, 7, 63, 64, 256, 257, 1000]
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceSum": np.sum,
    "ReduceMean": np.mean,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceProd": np.prod,
    "ReduceL1": lambda x, **options: np.abs(x).sum(**options),
    "ReduceL2": lambda x, **options: np.sqrt((x * x).sum(**options)),
    "ReduceSumSquare": lambda x, **options: (x * x).sum(**options),
}


@pytest.fixture(params=SCHEDULES, autouse=True)
def schedule(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    use(request, monkeypatch)


def reduced(operator: str, x: np.ndarray, axes: tuple[int, ...], **attributes: Any) -> np.ndarray:
    """A reduction without its axes."""
    inputs = {"x": (x.dtype, list(x.shape))}
    constant = helper.make_node("Constant", [], ["axes"], value_ints=axes)
    node = helper.make_node(operator, ["x", "axes"], ["y"], keepdims=0, **attributes)
    (y,), _ = run(model([constant, node], inputs, {"y": helper.np_dtype_to_tensor_dtype(x.dtype)}), x)
    return y


def close(found: np.ndarray, expected: np.ndarray, magnitude: np.ndarray | float, tolerance: float = 1e-5) -> None:
    """Errors are small against the sum of magnitudes."""
    assert found.shape == np.shape(expected)
    np.testing.assert_array_less(np.abs(found.astype(np.float64) - expected), tolerance * np.asarray(magnitude) + 1e-30)


@pytest.mark.parametrize("length", LENGTHS)
def test_sums_along_rows(rng: np.random.Generator, length: int) -> None:
    x = rng.standard_normal((5, length)).astype(np.float32)
    close(reduced("ReduceSum", x, (1,)), x.astype(np.float64).sum(1), np.abs(x).sum(1))


@pytest.mark.parametrize("length", [1, 3, 4, 8, 97])
@pytest.mark.parametrize("axes", [(0,), (0, 2), (1, 2), (2,), (0, 1, 2)])
def test_axes(rng: np.random.Generator, length: int, axes: tuple[int, ...]) -> None:
    x = rng.standard_normal((3, 6, length)).astype(np.float32)
    close(reduced("ReduceMean", x, axes), x.astype(np.float64).mean(axes), np.abs(x).mean(axes))
    np.testing.assert_array_equal(reduced("ReduceMax", x, axes), x.max(axes))


@pytest.mark.parametrize("operator", REDUCTIONS)
@pytest.mark.parametrize(("shape", "axis"), [((4, 130), 1), ((70, 12), 0)])
def test_functions(rng: np.random.Generator, operator: str, shape: tuple[int, int], axis: int) -> None:
    x = rng.uniform(0.9, 1.1, shape).astype(np.float32) * rng.choice(np.array([-1, 1], np.float32), shape)
    expected = REDUCTIONS[operator](x.astype(np.float64), axis=axis)
    magnitude = expected if operator == "ReduceProd" else REDUCTIONS[operator](np.abs(x).astype(np.float64), axis=axis)
    close(reduced(operator, x, (axis,)), expected, np.abs(magnitude))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.int8])
@pytest.mark.parametrize("axis", [0, 1])
def test_integers(rng: np.random.Generator, dtype: Any, axis: int) -> None:
    x = rng.integers(-100 if np.dtype(dtype).kind == "i" else 0, 100, (68, 132)).astype(dtype)
    np.testing.assert_array_equal(reduced("ReduceMax", x, (axis,)), x.max(axis))
    np.testing.assert_array_equal(reduced("ReduceMin", x, (axis,)), x.min(axis))
    if np.dtype(dtype).itemsize >= 4:
        large = x * np.array(1 << 40 if np.dtype(dtype).itemsize == 8 else 1, dtype)
        np.testing.assert_array_equal(reduced("ReduceSum", large, (axis,)), large.sum(axis))


@pytest.mark.parametrize("axis", [0, 1])
def test_booleans(rng: np.random.Generator, axis: int) -> None:
    x = rng.random((72, 132)) < 0.01
    np.testing.assert_array_equal(reduced("ReduceMax", x, (axis,)), x.any(axis))
    np.testing.assert_array_equal(reduced("ReduceMin", ~x, (axis,)), ~x.any(axis))


@pytest.mark.parametrize("axis", [0, 1])
def test_half_sums_in_float32(rng: np.random.Generator, axis: int) -> None:
    x = rng.uniform(0, 1, (4000, 128) if axis == 0 else (128, 4000)).astype(np.float16)
    expected = x.astype(np.float64).sum(axis)
    np.testing.assert_allclose(reduced("ReduceSum", x, (axis,)), expected, rtol=1e-3)


@pytest.mark.parametrize("operator", ["ReduceMax", "ReduceMin", "ReduceSum"])
@pytest.mark.parametrize("axis", [0, 1])
def test_nan_is_handed_on(rng: np.random.Generator, operator: str, axis: int) -> None:
    x = rng.standard_normal((80, 84)).astype(np.float32)
    x[3, 70] = np.nan
    np.testing.assert_allclose(reduced(operator, x, (axis,)), REDUCTIONS[operator](x, axis=axis), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("shape", [(5, 1), (5, 3), (3, 70), (6, 257), (2, 1024), (40, 64)])
@pytest.mark.parametrize("axis", [0, 1])
def test_places(rng: np.random.Generator, operator: str, shape: tuple[int, int], axis: int) -> None:
    function = {"ArgMax": np.argmax, "ArgMin": np.argmin}[operator]
    for x in (
        rng.integers(0, 5, shape).astype(np.float32),  # the first of equal ones
        np.full(shape, -np.inf, np.float32),
        np.where(rng.random(shape) < 0.02, np.nan, rng.standard_normal(shape)).astype(np.float32),
        rng.integers(-3, 3, shape).astype(np.int64),
    ):
        found, _ = apply(operator, x, result=INT64, axis=axis, keepdims=0)
        np.testing.assert_array_equal(found, function(x, axis=axis))


@pytest.mark.parametrize("operator", ["ReduceSum", "ReduceMax", "ReduceProd"])
@pytest.mark.parametrize(("shape", "axis"), [((3, 0), 1), ((0, 8), 0), ((0, 3), 1)])
def test_nothing(operator: str, shape: tuple[int, int], axis: int) -> None:
    start = {"ReduceSum": 0, "ReduceMax": -np.inf, "ReduceProd": 1}[operator]
    expected = np.full([size for k, size in enumerate(shape) if k != axis], start, np.float32)
    np.testing.assert_array_equal(reduced(operator, np.zeros(shape, np.float32), (axis,)), expected)


@pytest.mark.parametrize("length", [99_999, 100_000])
def test_long_rows(rng: np.random.Generator, length: int) -> None:
    x = rng.uniform(0, 1, (2, length)).astype(np.float32)
    close(reduced("ReduceSum", x, (1,)), x.astype(np.float64).sum(1), x.sum(1), 3e-6)
    np.testing.assert_array_equal(apply("ArgMax", x, result=INT64, axis=1, keepdims=0)[0], x.argmax(1))


def test_epilogues(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 16, 9, 11)).astype(np.float32)
    bias = rng.standard_normal((2, 16, 1, 1)).astype(np.float32)
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["mean"]),
        helper.make_node("Add", ["mean", "bias"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["y"]),
    ]
    data = model(nodes, {"x": ("f4", x.shape), "bias": ("f4", bias.shape)}, {"y": TensorProto.FLOAT})
    (y,), plan = run(data, x, bias)
    assert len(plan.steps) == 1
    close(y, np.maximum(x.astype(np.float64).mean((2, 3), keepdims=True) + bias, 0), 1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64])
@pytest.mark.parametrize("operator", ["ReduceSum", "ReduceMax", "ReduceMean"])
def test_long_lines_are_reduced_in_two_steps(rng: np.random.Generator, dtype: Any, operator: str) -> None:
    x = (rng.uniform(0, 8, (2, 300, 1000))).astype(dtype)
    inputs = {"x": (x.dtype, x.shape)}
    constant = helper.make_node("Constant", [], ["axes"], value_ints=[1, 2])
    data = model(
        [constant, helper.make_node(operator, ["x", "axes"], ["y"], keepdims=0)],
        inputs,
        {"y": helper.np_dtype_to_tensor_dtype(x.dtype)},
    )
    if operator == "ReduceSum" and dtype is np.float16:
        x /= 64
    (y,), plan = run(data, x)
    assert len(plan.steps) == 2
    if dtype is np.int64:
        expected = {"ReduceSum": x.sum, "ReduceMax": x.max, "ReduceMean": x.mean}[operator]((1, 2)).astype(np.int64)
        np.testing.assert_array_equal(y, expected)
    else:
        wide = x.astype(np.float64)
        expected = {"ReduceSum": wide.sum, "ReduceMax": wide.max, "ReduceMean": wide.mean}[operator]((1, 2))
        np.testing.assert_allclose(y, expected, rtol=1e-6 if dtype is np.float32 else 2e-3)
