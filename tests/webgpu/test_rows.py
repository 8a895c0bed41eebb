"""Rows: what becomes one launch, and that it is right on both schedules."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import sardonyx
from sardonyx.plans.epochs import code_of
from sardonyx.plans.plan import Plan
from sardonyx.providers import registry
from sardonyx.providers.contract import SegmentLaunch
from sardonyx_webgpu.runtime.device import WebGpuDevice
from tests.support.launches import verify
from tests.webgpu.folds import SCHEDULES, apply, model, run, use
from tests.webgpu.harness import put

SIZES = [(1, 1), (3, 1), (2, 3), (5, 4), (7, 64), (3, 197), (2, 256), (70, 65), (1, 5000)]


@pytest.fixture(params=SCHEDULES, autouse=True)
def schedule(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    use(request, monkeypatch)


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    wide = x.astype(np.float64)
    powers = np.exp(wide - wide.max(axis, keepdims=True, initial=-np.inf))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


def standardized(x: np.ndarray, axes: tuple[int, ...], epsilon: float = 1e-5) -> np.ndarray:
    centred = x.astype(np.float64) - x.astype(np.float64).mean(axes, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(axes, keepdims=True) + epsilon))


def close(found: np.ndarray, expected: np.ndarray, tolerance: float = 1e-5) -> None:
    assert found.shape == expected.shape
    if found.size:
        limit = tolerance * np.abs(expected) + 0.1 * tolerance * np.abs(expected).max()
        np.testing.assert_array_less(np.abs(found - expected), limit + 1e-30)


def kinds(plan: Plan) -> list[str]:
    """The kinds of code that a plan launches."""
    return [plan.codes[step.code].get("kind", "program") for step in plan.steps if step.do == "launch"]


@pytest.mark.parametrize("shape", SIZES)
def test_softmax(rng: np.random.Generator, shape: tuple[int, int]) -> None:
    x = rng.uniform(-30, 30, shape).astype(np.float32)
    y, plan = apply("Softmax", x)
    close(y, softmax(x), 3e-5)
    assert len(plan.steps) == 1


@pytest.mark.parametrize("shape", [(2, 3, 5), (1, 70, 8), (3, 64, 1), (2, 128, 3)])
def test_softmax_down_columns(rng: np.random.Generator, shape: tuple[int, ...]) -> None:
    x = rng.uniform(-30, 30, shape).astype(np.float32)
    y, plan = apply("Softmax", x, axis=1)
    close(y, softmax(x, 1), 3e-5)
    assert kinds(plan) == ["rows"]


def test_softmax_of_infinities_and_nan(rng: np.random.Generator) -> None:
    x = rng.standard_normal((6, 80)).astype(np.float32)
    x[1, 5:70] = -np.inf
    x[2, 9] = np.nan
    x[3] = -np.inf
    x[3, 40] = 0
    y, _ = apply("Softmax", x)
    expected = softmax(x)
    close(y[[0, 1, 3, 4, 5]], expected[[0, 1, 3, 4, 5]])
    assert np.isnan(y[2]).all()


@pytest.mark.parametrize("length", [3, 64, 197, 256])
def test_half(rng: np.random.Generator, length: int) -> None:
    x = rng.uniform(-5, 5, (9, length)).astype(np.float16)
    np.testing.assert_allclose(apply("Softmax", x)[0], softmax(x), rtol=2e-3, atol=1e-6)
    scale = rng.uniform(0.5, 2, length).astype(np.float16)
    y, plan = apply("LayerNormalization", x, scale, scale)
    np.testing.assert_allclose(y, standardized(x, (1,)) * scale + scale, rtol=2e-3, atol=4e-3)
    assert kinds(plan) == ["rows"]


@pytest.mark.parametrize("shape", SIZES)
def test_layer_normalization(rng: np.random.Generator, shape: tuple[int, int]) -> None:
    x = (rng.standard_normal(shape) + 3).astype(np.float32)
    scale, bias = rng.standard_normal((2, shape[1])).astype(np.float32)
    y, plan = apply("LayerNormalization", x, scale, bias)
    close(y, standardized(x, (1,)) * scale + bias, 3e-5)
    assert len(plan.steps) == 1


def test_statistics_are_stored_where_they_are_wanted(rng: np.random.Generator) -> None:
    x = rng.standard_normal((6, 130)).astype(np.float32)
    node = helper.make_node("LayerNormalization", ["x", "scale"], ["y", "mean", "inverse"])
    inputs = {"x": ("f4", x.shape), "scale": ("f4", (130,))}
    data = model([node], inputs, dict.fromkeys(["y", "mean", "inverse"], TensorProto.FLOAT))
    (y, mean, inverse), plan = run(data, x, np.ones(130, np.float32))
    wide = x.astype(np.float64)
    close(y, standardized(x, (1,)))
    np.testing.assert_allclose(mean, wide.mean(1, keepdims=True), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(inverse, 1 / np.sqrt(wide.var(1, keepdims=True) + 1e-5), rtol=1e-5)
    assert kinds(plan) == ["rows"]


@pytest.mark.parametrize("shape", [(2, 6, 4, 5), (1, 6, 16, 16), (3, 6, 1, 3)])
@pytest.mark.parametrize("operator", ["GroupNormalization", "InstanceNormalization"])
def test_groups_and_instances(rng: np.random.Generator, shape: tuple[int, ...], operator: str) -> None:
    x = rng.standard_normal(shape).astype(np.float32)
    scale, bias = rng.standard_normal((2, 6)).astype(np.float32)
    attributes = {"num_groups": 2} if operator == "GroupNormalization" else {}
    y, plan = apply(operator, x, scale, bias, **attributes)
    grouped = x.reshape(shape[0], 2, -1) if attributes else x.reshape(shape[0], 6, -1)
    normal = standardized(grouped, (2,)).reshape(shape)
    close(y, normal * scale.reshape(6, 1, 1) + bias.reshape(6, 1, 1), 3e-5)
    assert len(plan.steps) == 1


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [("LogSoftmax", {}), ("Hardmax", {}), ("LpNormalization", {"p": 2}), ("LpNormalization", {"p": 1})],
)
@pytest.mark.parametrize("length", [5, 64, 197])
def test_other_operators(rng: np.random.Generator, operator: str, attributes: dict[str, Any], length: int) -> None:
    x = rng.standard_normal((11, length)).astype(np.float32)
    y, plan = apply(operator, x, **attributes)
    wide = x.astype(np.float64)
    expected = {
        "LogSoftmax": lambda: (
            wide - wide.max(1, keepdims=True) - np.log(np.exp(wide - wide.max(1, keepdims=True)).sum(1, keepdims=True))
        ),
        "Hardmax": lambda: (np.arange(length) == wide.argmax(1)[:, None]).astype(np.float64),
        "LpNormalization": lambda: wide / np.linalg.norm(wide, attributes.get("p", 2), 1, keepdims=True),
    }[operator]()
    close(y, expected, 3e-5)
    assert kinds(plan) == ["rows"]


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0), (0, 100)])
def test_nothing(shape: tuple[int, int]) -> None:
    y, _ = apply("Softmax", np.zeros(shape, np.float32))
    assert y.shape == shape


def test_sizes_that_runs_choose(rng: np.random.Generator) -> None:
    node = helper.make_node("Softmax", ["x"], ["y"])
    data = model([node], {"x": ("f4", ["a", "b"])}, {"y": TensorProto.FLOAT})
    session = sardonyx.InferenceSession(data, providers=["WebGpuExecutionProvider"])
    for shape in [(3, 5), (7, 100), (1, 1), (2, 0), (100, 64), (5, 3)]:
        x = rng.standard_normal(shape).astype(np.float32)
        (y,) = session.run(None, {"x": x})
        close(y, softmax(x), 3e-5)


def test_elements_that_others_read_are_stored_on_the_way(rng: np.random.Generator) -> None:
    """A sum that is normalized and needed afterwards: it is computed and stored where the mean is taken."""
    a, b = rng.standard_normal((2, 10, 128)).astype(np.float32)
    nodes = [
        helper.make_node("Sigmoid", ["a"], ["s"]),
        helper.make_node("Add", ["s", "b"], ["sum"]),
        helper.make_node("LayerNormalization", ["sum", "scale"], ["y"]),
    ]
    inputs = {"a": ("f4", a.shape), "b": ("f4", b.shape), "scale": ("f4", (128,))}
    data = model(nodes, inputs, {"y": TensorProto.FLOAT, "sum": TensorProto.FLOAT})
    (y, total), plan = run(data, a, b, np.ones(128, np.float32))
    expected = 1 / (1 + np.exp(-a.astype(np.float64))) + b
    close(total, expected)
    close(y, standardized(expected, (1,)))
    assert kinds(plan) == ["rows"]
    assert any(kernel[2] and kernel[4] for kernel in plan.codes[0]["kernels"])


def test_dear_elements_are_stored_and_loaded(rng: np.random.Generator) -> None:
    x = rng.standard_normal((9, 130)).astype(np.float32)
    words = ["Sin", "Exp", "Sqrt", "Erf", "Tanh"]
    names = ["x", *(f"t{k}" for k in range(len(words)))]
    nodes = [helper.make_node(word, [names[k]], [names[k + 1]]) for k, word in enumerate(words)]
    data = model([*nodes, helper.make_node("Softmax", [names[-1]], ["y"])], {"x": ("f4", x.shape)}, {"y": 1})
    proto = onnx.load_from_string(data)
    (y,), plan = run(data, x)
    (expected,) = ReferenceEvaluator(proto).run(None, {"x": x})
    close(y, expected, 1e-4)
    assert kinds(plan) == ["rows"]


def test_what_reaches_into_other_rows_is_a_launch_of_its_own(rng: np.random.Generator) -> None:
    x = rng.standard_normal((70, 70)).astype(np.float32)
    nodes = [
        helper.make_node("Softmax", ["x"], ["s"]),
        helper.make_node("Transpose", ["s"], ["t"], perm=[1, 0]),
        helper.make_node("Softmax", ["t"], ["y"]),
    ]
    (y,), plan = run(model(nodes, {"x": ("f4", x.shape)}, {"y": TensorProto.FLOAT}), x)
    close(y, softmax(softmax(x).T), 3e-5)
    assert len(plan.steps) > 1


def test_few_long_rows_are_no_work_for_few_threads(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 100_000)).astype(np.float32)
    y, plan = apply("Softmax", x)
    close(y, softmax(x), 3e-5)
    assert len(plan.steps) > 1


def test_masked_scores(rng: np.random.Generator) -> None:
    """Softmax of scaled scores and a mask that is the same for all heads, as attention has them."""
    scores = rng.standard_normal((2, 3, 9, 66)).astype(np.float32)
    mask = np.where(rng.random((2, 1, 1, 66)) < 0.3, -10000, 0).astype(np.float32)
    nodes = [
        helper.make_node("Constant", [], ["scale"], value_float=0.125),
        helper.make_node("Mul", ["scores", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "mask"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["y"]),
    ]
    inputs = {"scores": ("f4", scores.shape), "mask": ("f4", mask.shape)}
    (y,), plan = run(model(nodes, inputs, {"y": TensorProto.FLOAT}), scores, mask)
    close(y, softmax(scores * 0.125 + mask), 3e-5)
    assert kinds(plan) == ["rows"]


def test_verification_runs_them_elsewhere(rng: np.random.Generator) -> None:
    x = rng.standard_normal((6, 130)).astype(np.float32)
    _, plan = apply("LayerNormalization", x, x[0], x[1])
    devices = [registry.load(name).device({}) for name in plan.devices]
    feeds = dict(zip((port.name for port in plan.inputs), (x, x[0], x[1]), strict=True))
    assert verify(plan, feeds, devices, registry.load("WasmExecutionProvider").device({})) == []


@pytest.mark.parametrize("length", [130, 197, 256])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_rows_may_be_overwritten(native: WebGpuDevice, rng: np.random.Generator, length: int, dtype: Any) -> None:
    x = rng.standard_normal((5, length)).astype(dtype)
    _, plan = apply("Softmax", x)
    for software in (True, False):
        device = WebGpuDevice(native.gpu)
        device.is_software = software
        address = put(device, x)
        executable = device.load([code_of(plan.codes[0])], [[SegmentLaunch(0)]])
        executable.bind(0, [[address, address]], [plan.steps[0].params])()
        close(device.download(address, x.dtype, x.shape), softmax(x), 3e-5 if dtype is np.float32 else 4e-3)


def test_what_is_the_same_along_a_row_is_stored_by_its_own_loop(rng: np.random.Generator) -> None:
    x = rng.standard_normal((6, 70)).astype(np.float32)
    shape = onnx.numpy_helper.from_array(np.array([6, 70]), "shape")
    axes = onnx.numpy_helper.from_array(np.array([1]), "axes")
    nodes = [
        helper.make_node("Constant", [], ["shape"], value=shape),
        helper.make_node("Constant", [], ["axes"], value=axes),
        helper.make_node("ReduceMean", ["x", "axes"], ["mean"]),
        helper.make_node("Exp", ["mean"], ["power"]),
        helper.make_node("Expand", ["power", "shape"], ["wide"]),
        helper.make_node("Sin", ["wide"], ["sine"]),
        helper.make_node("ReduceSum", ["sine", "axes"], ["y"]),
    ]
    data = model(nodes, {"x": ("f4", x.shape)}, {"y": TensorProto.FLOAT, "sine": TensorProto.FLOAT})
    (y, sine), _ = run(data, x)
    expected = np.broadcast_to(np.sin(np.exp(x.astype(np.float64).mean(1, keepdims=True))), x.shape)
    close(sine, expected, 3e-5)
    close(y, expected.sum(1, keepdims=True), 3e-5)
