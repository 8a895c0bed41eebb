"""Operators that draw: alike on all providers under a seed, anew in each run without, and distributed as they say."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import sardonyx
from sardonyx.errors import SardonyxError
from tests.engine.providers import NUMPY, PROVIDERS, require_provider

COUNT = 40_000


def session(provider: str, name: str, operand: np.ndarray | None = None, **attributes: Any) -> Any:
    """A function that runs a model of one node."""
    require_provider(provider)
    inputs = []
    if operand is not None:
        kind = helper.np_dtype_to_tensor_dtype(operand.dtype)
        inputs = [helper.make_tensor_value_info("x", kind, [f"n{k}" for k in range(operand.ndim)])]
    node = helper.make_node(name, ["x"] if inputs else [], ["y"], **attributes)
    graph = helper.make_graph([node], "random", inputs, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    made = sardonyx.InferenceSession(model.SerializeToString(), providers=[provider])
    return lambda: made.run(None, {} if operand is None else {"x": operand})[0]


def distance(draws: np.ndarray, distribution: np.ndarray) -> float:
    """How far the share of draws below each is from its probability (Kolmogorov and Smirnov), times sqrt(n)."""
    order = np.sort(distribution.astype(np.float64).reshape(-1))
    steps = np.arange(len(order)) / len(order)
    return float(np.abs(order - steps).max() * np.sqrt(draws.size))


def normal_probability(x: np.ndarray) -> np.ndarray:
    from math import erf

    return np.array([0.5 * (1 + erf(each / 2**0.5)) for each in x.reshape(-1).tolist()])


CASES = {
    "uniform": ("RandomUniform", None, {"shape": [3, 50], "low": -2.0, "high": 5.0}),
    "normal": ("RandomNormal", None, {"shape": [7, 3, 5], "mean": 1.0, "scale": 0.5}),
    "uniform like": ("RandomUniformLike", np.zeros((4, 5), np.float32), {}),
    "normal like": ("RandomNormalLike", np.zeros((4, 5), np.int64), {"dtype": TensorProto.FLOAT}),
    "bernoulli": ("Bernoulli", np.linspace(0, 1, 30, dtype=np.float32), {"dtype": TensorProto.INT32}),
    "multinomial": ("Multinomial", np.log(np.array([[1, 2, 3], [9, 1, 0.5]], np.float32)), {"sample_size": 50}),
    "scalar": ("RandomUniformLike", np.array(0, np.float32), {}),
    "nothing": ("RandomNormal", None, {"shape": [0, 3]}),
}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("case", CASES)
def test_a_seed_gives_the_same_everywhere(case, provider):
    name, operand, attributes = CASES[case]
    run = session(provider, name, operand, seed=3.5, **attributes)
    first = run()
    assert np.array_equal(first, run())
    reference = session(NUMPY, name, operand, seed=3.5, **attributes)()
    assert first.shape == reference.shape
    assert first.dtype == reference.dtype
    np.testing.assert_allclose(first, reference, rtol=2e-5, atol=2e-6)
    other = session(provider, name, operand, seed=4.5, **attributes)()
    assert first.size < 2 or not np.array_equal(first, other)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_without_a_seed_each_run_draws_anew(provider):
    run = session(provider, "RandomUniform", shape=[20])
    assert not np.array_equal(run(), run())
    sardonyx.set_seed(5)
    first, second = run(), run()
    sardonyx.set_seed(5)
    assert np.array_equal(first, run())
    assert np.array_equal(second, run())


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_uniform_numbers(dtype):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    draws = session(NUMPY, "RandomUniform", shape=[COUNT], seed=1.0, dtype=kind)()
    assert draws.dtype == dtype
    wide = draws.astype(np.float64)
    assert wide.min() >= 0
    assert wide.max() < 1
    assert distance(wide, wide) < 2 + np.sqrt(COUNT) * float(ml_dtypes.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normal_numbers(dtype):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    draws = session(NUMPY, "RandomNormal", shape=[COUNT], seed=2.0, dtype=kind, mean=-3.0, scale=2.0)()
    assert distance(draws, normal_probability((draws + 3) / 2)) < 2
    pairs = draws.reshape(-1, 2)
    assert abs(np.corrcoef(pairs.T)[0, 1]) < 0.03


def test_bernoulli_shares():
    chances = np.repeat(np.array([0, 0.1, 0.5, 0.9, 1], np.float32)[:, None], 10_000, 1)
    shares = session(NUMPY, "Bernoulli", chances, seed=1.0)().mean(1)
    np.testing.assert_allclose(shares, chances[:, 0], atol=0.02)
    assert shares[0] == 0
    assert shares[-1] == 1


def test_multinomial_shares():
    weights = np.array([[1, 2, 3, 0], [5, 1, 0, 4]], np.float32)
    with np.errstate(divide="ignore"):
        draws = session(NUMPY, "Multinomial", np.log(weights), sample_size=COUNT, seed=1.0, dtype=7)()
    assert draws.dtype == np.int64
    shares = np.stack([np.bincount(row, minlength=4) for row in draws]) / COUNT
    np.testing.assert_allclose(shares, weights / weights.sum(1, keepdims=True), atol=0.02)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_dropout_in_training(provider):
    require_provider(provider)
    x = np.full((100, 100), 2, np.float32)
    node = helper.make_node("Dropout", ["x", "ratio", "training"], ["y", "mask"])
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "m"]),
        helper.make_tensor_value_info("ratio", TensorProto.FLOAT, []),
        helper.make_tensor_value_info("training", TensorProto.BOOL, []),
    ]
    graph = helper.make_graph([node], "dropout", inputs, [onnx.ValueInfoProto(name=name) for name in ("y", "mask")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    made = sardonyx.InferenceSession(model.SerializeToString(), providers=[provider])
    feeds = {"x": x, "ratio": np.float32(0.25), "training": np.array(True)}
    y, mask = made.run(None, feeds)
    assert abs(mask.mean() - 0.75) < 0.03
    np.testing.assert_allclose(y, np.where(mask, x / 0.75, 0), rtol=1e-6)
    y, mask = made.run(None, {**feeds, "training": np.array(False)})
    assert mask.all()
    assert np.array_equal(y, x)


def test_types_that_cannot_be_drawn_are_named():
    with pytest.raises(SardonyxError, match="give a dtype of floats"):
        session(NUMPY, "RandomUniformLike", np.zeros(3, np.int64))()
