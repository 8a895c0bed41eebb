"""Operators in Python: spelled in primitives, or functions and reference classes on the host."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

import sardonyx
from sardonyx import errors, ops
from sardonyx import primitives as p
from tests.engine.providers import NUMPY, PROVIDERS, WASM, WEBGPU, require_provider

ON_ALL = pytest.mark.parametrize("provider", PROVIDERS)
X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True, scope="module")
def all_operators() -> None:
    """One that a test replaces is there already."""
    ops.load()


def model(graph: str) -> bytes:
    text = f'<ir_version: 10, opset_import: ["" : 21, "my" : 1]>\n{graph}'
    return bytes(onnx.parser.parse_model(text).SerializeToString())


def run(graph: str, provider: str, **feeds: np.ndarray) -> list[Any]:
    require_provider(provider)
    session = sardonyx.InferenceSession(model(graph), providers=[provider])
    return list(session.run(None, feeds))


def declare_mish() -> None:
    @sardonyx.custom_op("my", "Mish")
    def mish(x: p.Array, bias: p.Array | None = None, *, beta: float = 1.0) -> p.Array:
        """x * tanh(log(1 + exp(beta * x)))"""
        x = x if bias is None else x + bias
        return x * p.tanh(p.log(1.0 + p.exp(beta * x)))


def mish(x: np.ndarray, beta: float) -> np.ndarray:
    return np.asarray(x * np.tanh(np.log1p(np.exp(beta * x))), np.float32)


@ON_ALL
def test_primitives_become_one_kernel(provider: str) -> None:
    declare_mish()
    graph = "g (float[N,3] x) => (float[N,3] y) { t = Mul (x, x)  z = my.Mish <beta = 2.0> (t)  y = Add (z, x) }"
    require_provider(provider)
    session = sardonyx.InferenceSession(model(graph), providers=[provider])
    (y,) = session.run(None, {"x": X})
    np.testing.assert_allclose(y, mish(X * X, 2) + X, rtol=1e-5)
    (plan,) = session.plans
    assert len(plan.steps) == 1
    assert plan.devices[plan.placement[1]] == provider


def test_inputs_that_are_left_out() -> None:
    declare_mish()
    (y,) = run("g (float[N,3] x) => (float[N,3] y) { y = my.Mish (x) }", NUMPY, x=X)
    np.testing.assert_allclose(y, mish(X, 1), rtol=1e-5)
    (y,) = run("g (float[N,3] x, float[3] b) => (float[N,3] y) { y = my.Mish (x, b) }", NUMPY, x=X, b=X[0])
    np.testing.assert_allclose(y, mish(X + X[0], 1), rtol=1e-5)


@ON_ALL
@pytest.mark.parametrize("told", ["types", "infer", "trial"])
def test_the_host(provider: str, told: str) -> None:
    telling: dict[str, Any] = {
        "types": {"types": ["float32[?,3]", "int64[2]"]},
        "infer": {"infer": lambda x, **_: [(x.dtype, x.shape), ("int64", (2,))]},
        "trial": {},
    }[told]

    @sardonyx.custom_op("my", "Snap", host=True, **telling)
    def snap(x: np.ndarray, *, step: float = 1.0, modes: tuple[int, ...] = (0,)) -> list[np.ndarray]:
        assert modes == (1, 2)
        return [(np.round(x / step) * step).astype(x.dtype), np.array(x.shape)]

    graph = """g (float[N,3] x) => (float[N,3] y, int64[2] s) {
      t = Mul (x, x)  z, s = my.Snap <step = 0.5, modes = [1, 2]> (t)  y = Add (z, x)
    }"""
    for rows in (2, 5):
        x = np.resize(X, (rows, 3))
        y, s = run(graph, provider, x=x)
        np.testing.assert_allclose(y, np.round(x * x / 0.5) * 0.5 + x, rtol=1e-6)
        assert s.tolist() == [rows, 3]


@ON_ALL
def test_sizes_that_the_run_tells(provider: str) -> None:
    @sardonyx.custom_op("my", "Positive", host=True)
    def positive(x: np.ndarray) -> np.ndarray:
        return x[x > 0]

    graph = "g (float[N] x) => (float[M] y) { t = Neg (x)  z = my.Positive (t)  y = Neg (z) }"
    for x in ([1, -2, 3, -4], [1, 2], [-1, -2, -3]):
        (y,) = run(graph, provider, x=np.array(x, np.float32))
        assert y.tolist() == [each for each in x if each < 0]


def test_one_session_sees_different_sizes() -> None:
    @sardonyx.custom_op("my", "Positive", host=True, types=["float[?]"])
    def positive(x: np.ndarray) -> np.ndarray:
        return x[x > 0]

    graph = "g (float[N] x) => (float[M] y) { z = my.Positive (x)  y = Neg (z) }"
    session = sardonyx.InferenceSession(model(graph), providers=[WASM])
    for x in ([1, -2, 3, -4], [1, 2], [-1, -2, -3], [5]):
        (y,) = session.run(None, {"x": np.array(x, np.float32)})
        assert y.tolist() == [-each for each in x if each > 0]


def test_strings_and_types_that_numpy_lacks() -> None:
    @sardonyx.custom_op("my", "Shout", host=True, infer=lambda x: (x.dtype, x.shape))
    def shout(x: np.ndarray) -> np.ndarray:
        return np.array([each.upper() for each in x.tolist()], object)

    (y,) = run("g (string[N] x) => (string[N] y) { y = my.Shout (x) }", NUMPY, x=np.array(["a", "b"], object))
    assert y.tolist() == ["A", "B"]

    @sardonyx.custom_op("my", "Half", host=True)
    def half(x: np.ndarray) -> np.ndarray:
        assert x.dtype == ml_dtypes.bfloat16
        return (x.astype(np.float32) / 2).astype(ml_dtypes.bfloat16)

    x = np.array([1, 3], ml_dtypes.bfloat16)
    (y,) = run("g (bfloat16[N] x) => (bfloat16[N] y) { y = my.Half (x) }", NUMPY, x=x)
    assert y.dtype == ml_dtypes.bfloat16
    assert y.astype(np.float32).tolist() == [0.5, 1.5]


def test_constants_are_computed_once_by_pure_functions() -> None:
    calls = []
    for pure, expected in ((True, 0), (False, 3)):

        @sardonyx.custom_op("my", "Noted", host=True, infer=lambda x: (x.dtype, x.shape), pure=pure)
        def noted(x: np.ndarray) -> np.ndarray:
            calls.append(1)
            return x

        graph = "g (float[2] x) => (float[2] y) <float[2] c = {1, 2}> { t = my.Noted (c)  y = Add (x, t) }"
        session = sardonyx.InferenceSession(model(graph), providers=[NUMPY])
        calls.clear()
        for _ in range(3):
            session.run(None, {"x": np.ones(2, np.float32)})
        assert len(calls) == expected


def test_an_operator_of_onnx_is_replaced() -> None:
    sardonyx.custom_op("", "Relu")(lambda x: x + 1.0)
    (y,) = run("g (float[N,3] x) => (float[N,3] y) { y = Relu (x) }", NUMPY, x=X)
    np.testing.assert_array_equal(y, X + 1)


def test_inside_a_loop() -> None:
    declare_mish()
    graph = """g (float[2,3] x) => (float[2,3] y) {
      n = Constant <value = int64 {3}> ()
      y = Loop (n, , x) <body = body (int64 i, bool going, float[2,3] a) => (bool on, float[2,3] b) {
        on = Identity (going)
        b = my.Mish (a)
      }>
    }"""
    (y,) = run(graph, NUMPY, x=X)
    np.testing.assert_allclose(y, mish(mish(mish(X, 1), 1), 1), rtol=1e-5)


class Shifted(OpRun):
    """1 / (x + alpha)"""

    op_domain = "my"

    def _run(self, x: np.ndarray, y: Any = None, alpha: Any = None, axes: Any = None) -> tuple[np.ndarray, ...]:
        assert axes is None or list(axes) == [1, 2]
        return (1 / (x + (alpha or 5.5) + (0 if y is None else y)), np.array(x.shape))


@pytest.mark.parametrize(
    "call", ["my.Shifted (x)", "my.Shifted <alpha = 5.0> (x)", "my.Shifted <axes = [1, 2]> (x, x)"], ids=str
)
def test_classes_of_the_reference(call: str) -> None:
    assert sardonyx.register(Shifted) is Shifted
    graph = f"g (float[N,3] x) => (float[N,3] y, int64[2] s) {{ y, s = {call} }}"
    wanted = ReferenceEvaluator(onnx.load_from_string(model(graph)), new_ops=[Shifted]).run(None, {"x": X})
    for mine, other in zip(run(graph, WASM, x=X), wanted, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_types_of_reference_classes() -> None:
    sardonyx.register(Shifted, infer=lambda x, y=None, alpha=None: [(x.dtype, x.shape), ("int64", (2,))])
    graph = "g (float[N,3] x) => (float[N,3] y) { t, s = my.Shifted <alpha = 5.0> (x)  y = Neg (t) }"
    (y,) = run(graph, WASM, x=X)
    np.testing.assert_allclose(y, -1 / (X + 5), rtol=1e-6)


# ---- what goes wrong


def test_a_missing_operator_shows_what_to_write() -> None:
    graph = 'g (float[N] x) => (float[N] y) { y = my.SoftSnap <alpha = 0.5, axes = [1, 2], mode = "a"> (x, , x) }'
    with pytest.raises(errors.Fail) as caught:
        run(graph, NUMPY, x=X[0])
    message = str(caught.value)
    assert "my.SoftSnap 'y': no operator 'SoftSnap' is known in domain 'my'; declare it" in message
    lines = message.partition("\n\n")[2]
    source = "\n".join(line.removeprefix("    ") for line in lines.splitlines())
    exec(source.replace("return ...", "return x0 + x2"), {"sardonyx": sardonyx})
    (y,) = run(graph, NUMPY, x=X[0])
    np.testing.assert_array_equal(y, X[0] * 2)


@pytest.mark.parametrize("domain", ["com.microsoft.nchwc", "com.ms.internal.nhwc"])
def test_a_layout_of_another_machine(domain: str) -> None:
    """A file that onnxruntime saved at its highest level is none that somebody could declare operators for."""
    graph = f"g (float[N,8,H,W] x) => (float[N,8,H,W] y) {{ y = {domain}.MaxPool <kernel_shape = [1, 1]> (x) }}"
    with pytest.raises(errors.Fail, match=r"MaxPool 'y': onnxruntime saved .* ORT_ENABLE_EXTENDED, or take the model"):
        run(graph, NUMPY, x=np.ones((1, 8, 2, 2), np.float32))


def test_a_trial_that_fails() -> None:
    @sardonyx.custom_op("my", "Inverse", host=True)
    def inverse(x: np.ndarray) -> np.ndarray:
        return np.linalg.inv(x)

    graph = "g (float[2,2] x) => (float[2,2] y) { y = my.Inverse (x) }"
    with pytest.raises(errors.NotImplemented, match=r"Inverse 'y': a trial on zeros.*LinAlgError.*infer="):
        run(graph, NUMPY, x=np.zeros((2, 2), np.float32))
    (y,) = run(graph, NUMPY, x=np.eye(2, dtype=np.float32))
    np.testing.assert_array_equal(y, np.eye(2))


def test_a_result_of_another_shape() -> None:
    @sardonyx.custom_op("my", "Wrong", host=True, types=["float32[2]"])
    def wrong(x: np.ndarray) -> np.ndarray:
        return x

    with pytest.raises(errors.RuntimeException, match=r"Wrong 'y': result 0 of .* is \[3\], not \[2\]"):
        run("g (float[N] x) => (float[2] y) { y = my.Wrong (x) }", NUMPY, x=X[0])


def test_attributes() -> None:
    with pytest.raises(TypeError, match=r"not \*\*options"):
        sardonyx.custom_op("my", "A")(lambda x, **options: x)
    with pytest.raises(TypeError, match="types, infer and wgsl are for host=True"):
        sardonyx.custom_op("my", "A", types=["float32[2]"])(lambda x: x)

    def odd(x: Any, *, when: complex = 1j) -> Any: ...

    with pytest.raises(TypeError, match="attribute 'when' is complex; ONNX has int"):
        sardonyx.custom_op("my", "A")(odd)
    with pytest.raises(TypeError, match=r"'float32\[...\]' is no type of a tensor with its rank; write float32"):
        sardonyx.custom_op("my", "B", host=True, types=["float32[...]"])(lambda x: x)

    @sardonyx.custom_op("my", "Needs")
    def needs(x: p.Array, *, alpha: float) -> p.Array:
        return x * alpha

    with pytest.raises(errors.InvalidGraph, match="lacks the attribute 'alpha'"):
        run("g (float[N] x) => (float[N] y) { y = my.Needs (x) }", NUMPY, x=X[0])
    with pytest.raises(errors.InvalidGraph, match="attribute 'alpha' is string, not float"):
        run('g (float[N] x) => (float[N] y) { y = my.Needs <alpha = "a"> (x) }', NUMPY, x=X[0])


def test_tensors_as_attributes() -> None:
    @sardonyx.custom_op("my", "Table")
    def table(x: p.Array, *, values: np.ndarray | None = None) -> p.Array:
        return x + p.constant(values)

    (y,) = run("g (float[2] x) => (float[2] y) { y = my.Table <values = float[2] {1, 2}> (x) }", NUMPY, x=X[0, :2])
    np.testing.assert_array_equal(y, X[0, :2] + np.float32([1, 2]))

    @sardonyx.custom_op("my", "Refused", host=True)
    def refused(x: np.ndarray, *, values: np.ndarray | None = None) -> np.ndarray:
        return x

    graph = "g (int64[N] x) => (float[N] y) { y = my.Refused <values = float[2] {1, 2}> (x) }"
    with pytest.raises(errors.NotImplemented, match=r"attribute 'values' cannot be given .*; use an input"):
        run(graph, NUMPY, x=np.array([1, 0]))


def declare_soft(wgsl: str) -> list[int]:
    """An operator of the host that comes with a function of WGSL; the list grows when the host is called."""
    calls = []

    @sardonyx.custom_op("my", "Soft", host=True, wgsl=wgsl)
    def soft(x: np.ndarray, y: np.ndarray, *, beta: float = 1.0, sign: int = 1) -> np.ndarray:
        calls.append(1)
        return np.asarray(sign * x / (np.float32(beta) + np.abs(x)) + y, x.dtype)

    return calls


SOFT = "g (float[N,M] x, float[N,1] y) => (float[N,M] z) { a = my.Soft <beta = 2.0, sign = -1> (x, y)  z = Abs (a) }"


@ON_ALL
@pytest.mark.parametrize(
    "wgsl", ["f32(sign) * x / (beta + abs(x)) + y", "let t = abs(x);\nreturn f32(sign) * x / (beta + t) + y;"]
)
def test_wgsl_that_comes_with_an_operator(provider: str, wgsl: str) -> None:
    calls = declare_soft(wgsl)
    y = np.float32([[1], [-3]])
    for x in (X, X[:, :1], X[:, :0]):
        (found,) = run(SOFT, provider, x=x, y=y)
        np.testing.assert_allclose(found, np.abs(-x / (2 + np.abs(x)) + y), rtol=1e-6)
    assert bool(calls) == (provider != WEBGPU)


def test_wgsl_of_halves_scalars_and_other_types() -> None:
    calls = declare_soft("f32(sign) * x / (beta + abs(x)) + y")
    half = "g (float16[3] x, float16 y) => (float16[3] z) { z = my.Soft (x, y) }"
    x = np.float16([0.5, -2, 8])
    (found,) = run(half, WEBGPU, x=x, y=np.float16(1))
    np.testing.assert_allclose(found, x / (1 + np.abs(x)) + 1, rtol=2e-3)
    assert not calls
    double = "g (double[3] x, double y) => (double[3] z) { z = my.Soft (x, y) }"
    (found,) = run(double, WEBGPU, x=x.astype(np.float64), y=np.float64(1))
    assert found.dtype == np.float64
    assert calls

    @sardonyx.custom_op("my", "Positive", host=True, wgsl="x > 0.0", types=["bool[?]"])
    def positive(x: np.ndarray) -> np.ndarray:
        raise AssertionError("not here")

    (found,) = run("g (float[3] x) => (bool[3] z) { z = my.Positive (x) }", WEBGPU, x=np.float32([1, -1, 0]))
    assert found.tolist() == [True, False, False]


def test_wgsl_that_is_wrong() -> None:
    declare_soft("no_such_function(x)")
    with pytest.raises(errors.EngineError, match=r"(?s)custom\.my\.Soft.*no_such_function"):
        run(SOFT, WEBGPU, x=X, y=X[:, :1])
    takes_any, takes_none = (lambda *xs: xs[0]), (lambda *, k=1: k)
    for function, pure in ((takes_any, True), (takes_none, True), (lambda x: x, False)):
        with pytest.raises(TypeError, match="wgsl is pure, and has inputs with names"):
            sardonyx.custom_op("my", "Soft", host=True, wgsl="x", pure=pure)(function)
