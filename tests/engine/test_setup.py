"""What depends on weights alone is computed once for a session, and given back only if nobody else needs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

from sardonyx import InferenceSession, RunOptions
from sardonyx.errors import Fail
from sardonyx.model.ir import Model, Tensor, Value
from sardonyx.model.ir.text import parse_model
from sardonyx.model.serde.writer import write
from sardonyx.plans.plan import Plan
from sardonyx.providers.registry import load
from sardonyx.runtime import weights
from sardonyx.runtime.replay import replay
from sardonyx.runtime.weights import Weights
from tests.engine.providers import NUMPY, PROVIDERS

K, N = 400, 300
TEXT = """<ir_version: 10, opset_import: ["" : 21]>
main (float32[B,400] x) => (float32[B,300] y) {
  int8[1] w = {1}
  float32 scale = {0.01}
  float = DequantizeLinear (w, scale)
  y = MatMul (x, float)
}"""
PACKED = np.random.default_rng(0).integers(-127, 128, (K, N)).astype(np.int8)


def quantized() -> bytes:
    model: Model = parse_model(TEXT)
    (weight,) = (value for value in model.graph.initializers if value.name == "w")
    assert isinstance(weight, Value)
    weight.constant = Tensor.of(PACKED, weight.constant.dtype, "w")
    weight.type = None
    return write(model)


def expected(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) @ (PACKED.astype(np.float64) * np.float64(np.float32(0.01)))


def check(session: InferenceSession, rows: int) -> None:
    x = np.random.default_rng(rows).normal(size=(rows, K)).astype(np.float32)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], expected(x), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_runs_share_what_was_computed(provider: str) -> None:
    session = InferenceSession(quantized(), providers=[provider])
    for rows in (1, 5, 2):
        check(session, rows)
    if provider == NUMPY:  # others unpack inside of the product
        assert len(session.plans[0].setup) == 1
        report = session.memory()[0]
        assert 4 * K * N <= report.weights < 4 * K * N + 1000


@pytest.mark.parametrize(("most", "waits"), [(3, True), (5, False)])
def test_what_grows_waits_for_the_compiler(most: int, waits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of 8 bits become floats, four times as many bytes: before, the device has nothing left to compile."""
    order: list[str] = []
    run = Weights._run

    def recorded(*arguments: Any) -> None:
        order.append("run")
        run(*arguments)

    monkeypatch.setattr(weights, "_GROWN", most)
    monkeypatch.setattr(Weights, "_run", recorded)
    session = InferenceSession(quantized(), providers=[NUMPY])
    device = type(load(NUMPY).device({}))
    monkeypatch.setattr(device, "synchronize", lambda self: order.append("synchronize"))
    check(session, 2)
    assert order[: order.index("run")] == ["synchronize"] * waits


def test_a_run_that_is_ended_in_the_setup_leaves_nothing_half_made() -> None:
    session = InferenceSession(quantized(), providers=[NUMPY])
    with pytest.raises(Fail, match="terminate"):
        session.run(None, {"x": np.ones((2, K), np.float32)}, RunOptions(terminate=True))
    check(session, 2)


def test_a_plan_that_was_read_has_its_setup() -> None:
    session = InferenceSession(quantized(), providers=[NUMPY])
    x = np.ones((3, K), np.float32)
    (direct,) = session.run(None, {"x": x})
    (again,) = replay(Plan.from_json(session.plans[0].to_json()), {"x": x})
    np.testing.assert_array_equal(again, direct)


def test_weights_of_other_plans_are_not_given_back() -> None:
    session = InferenceSession(quantized(), providers=[NUMPY])
    check(session, 2)
    plan, other = session.plans[0], Plan.from_json(session.plans[0].to_json())
    (packed,) = (buffer.weight for buffer in plan.buffers if buffer.once and buffer.dtype == "int8")
    for buffer in other.buffers:
        buffer.once = False
    other.setup = []
    devices, weights = [load(NUMPY).device({})], Weights()
    places = weights.place(other, devices)
    weights.place(plan, devices)
    number = next(k for k, buffer in enumerate(other.buffers) if buffer.weight == packed)
    assert weights.place(other, devices)[number] is places[number]


def layered(layers: int) -> bytes:
    """A model with so many quantized weights, one after the other."""
    lines = [
        f"int8[1] w{k} = {{1}} float{k} = DequantizeLinear (w{k}, scale) x{k + 1} = MatMul (x{k}, float{k})"
        for k in range(layers)
    ]
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
    main (float32[B,{K}] x0) => (float32[B,{K}] x{layers}) {{ float32 scale = {{0.01}} {" ".join(lines)} }}"""
    model: Model = parse_model(text)
    for value in model.graph.initializers:
        if isinstance(value, Value) and value.name.startswith("w"):
            weight = np.random.default_rng(int(value.name[1:])).integers(-9, 9, (K, K)).astype(np.int8)
            value.constant, value.type = Tensor.of(weight, value.constant.dtype, value.name), None
    return write(model)


def test_what_a_setup_needs_meanwhile_is_one_weight_at_a_time() -> None:
    session = InferenceSession(layered(3), providers=[NUMPY])
    session.run(None, {"x0": np.ones((2, K), np.float32)})
    (plan,), devices = session.plans, [load(NUMPY).device({})]
    stays, meanwhile = Weights().wanted(plan, devices)
    assert 3 * 4 * K * K <= stays < 3 * 4 * K * K + 1000
    assert K * K <= meanwhile < K * K + 1000
    weights = Weights()
    weights.place(plan, devices)
    assert weights.wanted(plan, devices) == (0, 0)


BLOCKS = """<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
main (float[B, 768] x, float[C, 768] z) => (float[B, 768] y) {
  sum = Add (x, z)
  y = com.microsoft.MatMulNBits <K = 768, N = 768, bits = 4, block_size = 32> (sum, b, scales, zeros)
}"""


@pytest.mark.parametrize("provider", PROVIDERS)
def test_plans_share_what_they_make_of_large_constants(provider: str, tmp_path: Path, rng: np.random.Generator) -> None:
    """Scales and zero points of 74 kB, which each trace takes for new arrays; from a file, and from bytes."""
    model = onnx.parser.parse_model(BLOCKS)
    parts = {
        "b": rng.integers(0, 256, (768, 24, 16)).astype(np.uint8),
        "scales": rng.normal(size=768 * 24).astype(np.float32),
        "zeros": rng.integers(0, 256, 768 * 12).astype(np.uint8),
    }
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in parts.items())
    onnx.save(model, tmp_path / "model.onnx")
    for source in (tmp_path / "model.onnx", (tmp_path / "model.onnx").read_bytes()):
        session = InferenceSession(source, providers=[provider])
        held = []
        for rows in (1, 5):  # one row is for all, others are row by row: two plans
            session.run(None, {"x": np.ones((5, 768), np.float32), "z": np.ones((rows, 768), np.float32)})
            held.append(session.memory()[0].weights)
        assert session.compiled == 2
        assert held[1] < 1.1 * held[0]
